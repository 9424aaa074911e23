// c[.., m, n] = a[.., m, k] b[.., k, n] (+ bias[n]), any strides: matmul, and linear with b the
// transposed weight. a is T, b is W, c is T; sums are f32, or f64 when T or W is.
// tile: square tiles through LDS. matvec: few rows of a, b contiguous along k, a wave to some columns.
#include "ops_row.h"

namespace ops {

// A batch of matrices: the batch's strides, then those of the matrix.
struct Matrix {
    Operand batch;
    i64 row;
    i64 column;
};

struct MatmulArgs {
    Shape batches;
    Matrix a;
    Matrix b;
    Matrix c;
    u64 m;
    u64 n;
    u64 k;
    const void* bias;  // null when absent
    i64 bias_stride;
    u64 bias_is_f32;  // else of type T
};

constexpr u32 MATMUL_BLOCK = 256;
constexpr u32 STAGED = 8;  // elements of a tile that one thread brings to LDS

template <typename T, typename W> struct SumOf {
    using type = typename choose<same<T, f64>::value || same<W, f64>::value, f64, f32>::type;
};

template <typename T, typename A> OPS_DEVICE A bias_at(const MatmulArgs& args, u64 n) {
    if (args.bias == nullptr) return A(0);
    i64 at = i64(n) * args.bias_stride;
    if (args.bias_is_f32 != 0) return A(static_cast<const f32*>(args.bias)[at]);
    return A(widen(static_cast<const T*>(args.bias)[at]));
}

template <typename T> OPS_DEVICE T* matrix_at(const Shape& batches, const Matrix& matrix, u64 batch) {
    return static_cast<T*>(matrix.batch.data) + offset_of<5>(batches, matrix.batch, batch);
}

// N elements in accesses of at most 16 bytes; the address is aligned for them.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_parts(const T* from) {
    constexpr u32 PART = sizeof(T) * N > PACK_BYTES ? PACK_BYTES / sizeof(T) : N;
    Pack<T, N> out;
    OPS_UNROLL
    for (u32 p = 0; p < N; p += PART) {
        Pack<T, PART> part = load_pack<PART>(from + p);
        OPS_UNROLL
        for (u32 i = 0; i < PART; i++) out.v[p + i] = part.v[i];
    }
    return out;
}

// ---- tiles ----------------------------------------------------------------------

// One operand's share of a tile: SIZE lines (rows of a, columns of b) by DEPTH along k, kept in LDS as
// [DEPTH][SIZE + 4] in the accumulator type. A thread stages STAGED neighbours along whichever
// direction is contiguous in memory.
template <typename T, typename A, u32 SIZE, u32 DEPTH> struct Stage {
    static constexpr u32 PITCH = SIZE + 4;
    const T* from;
    i64 line_stride, k_stride;
    u64 lines, depth;  // in range
    bool along_k, packs;
    u32 line, k;  // of this thread's first element
    Pack<T, STAGED> held;

    OPS_METHOD Stage(const T* data, i64 by_line, i64 by_k, u64 line_count, u64 k_count)
        : from(data), line_stride(by_line), k_stride(by_k), lines(line_count), depth(k_count) {
        along_k = by_k == 1 || by_line != 1;
        i64 along = along_k ? by_k : by_line, across = along_k ? by_line : by_k;
        packs = along == 1 && across % i64(PACK_BYTES / sizeof(T)) == 0 && is_aligned(data, PACK_BYTES);
        u32 at = thread_x() * STAGED;
        line = along_k ? at / DEPTH : at % SIZE;
        k = along_k ? at % DEPTH : at / SIZE;
    }
    // Reads this thread's elements of the tile at (first_line, first_k); zeros out of range.
    OPS_METHOD void load(u64 first_line, u64 first_k) {
        u64 l = first_line + line, d = first_k + k;
        u64 last_l = along_k ? l : l + STAGED - 1, last_d = along_k ? d + STAGED - 1 : d;
        i64 step = along_k ? k_stride : line_stride;
        const T* at = from + i64(l) * line_stride + i64(d) * k_stride;
        if (packs && last_l < lines && last_d < depth) {
            held = load_parts<STAGED>(at);
            return;
        }
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) {
            bool inside = along_k ? l < lines && d + i < depth : l + i < lines && d < depth;
            T value{};
            if (inside) value = at[i64(i) * step];
            held.v[i] = value;
        }
    }
    OPS_METHOD void store(A* tile) const {
        u32 pitch = along_k ? PITCH : 1;
        A* to = tile + k * PITCH + line;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[i * pitch] = A(widen(held.v[i]));
    }
};

// Lines a thread computes, in groups of 4 that lie 64 apart.
OPS_DEVICE u32 line_of(u32 thread, u32 i) { return (i / 4) * 64 + thread * 4 + i % 4; }

template <u32 GROUPS, typename A> OPS_DEVICE void read_lines(A (&out)[GROUPS * 4], const A* row, u32 thread) {
    OPS_UNROLL
    for (u32 g = 0; g < GROUPS; g++) {
        Pack<A, 4> four = load_parts<4>(row + g * 64 + thread * 4);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) out[g * 4 + i] = four.v[i];
    }
}

// SIZE x SIZE outputs a block, 256 threads as 16 x 16, each GROUPS * 4 squared of them.
template <u32 GROUPS, typename T, typename W> OPS_DEVICE void matmul_tile(const MatmulArgs& args) {
    using A = typename SumOf<T, W>::type;
    constexpr u32 SIZE = GROUPS * 64, DEPTH = MATMUL_BLOCK * STAGED / SIZE, LINES = GROUPS * 4;
    using StageA = Stage<T, A, SIZE, DEPTH>;
    using StageB = Stage<W, A, SIZE, DEPTH>;
    OPS_LDS(A, tile_a, DEPTH * StageA::PITCH);
    OPS_LDS(A, tile_b, DEPTH * StageB::PITCH);
    u32 tx = thread_x() % 16, ty = thread_x() / 16;
    u64 tiles_m = (args.m + SIZE - 1) / SIZE, tiles_n = (args.n + SIZE - 1) / SIZE;
    u64 tiles = tiles_m * tiles_n * args.batches.count;
    for (u64 tile = block_x(); tile < tiles; tile += grid_x()) {
        u64 batch = tile / (tiles_m * tiles_n), in_batch = tile % (tiles_m * tiles_n);
        u64 m0 = in_batch % tiles_m * SIZE, n0 = in_batch / tiles_m * SIZE;
        StageA a(matrix_at<const T>(args.batches, args.a, batch), args.a.row, args.a.column, args.m, args.k);
        StageB b(matrix_at<const W>(args.batches, args.b, batch), args.b.column, args.b.row, args.n, args.k);
        A total[LINES][LINES] = {};
        a.load(m0, 0);
        b.load(n0, 0);
        for (u64 k0 = 0; k0 < args.k; k0 += DEPTH) {
            barrier();
            a.store(tile_a);
            b.store(tile_b);
            barrier();
            if (k0 + DEPTH < args.k) {  // the next tile's elements travel while this one is used
                a.load(m0, k0 + DEPTH);
                b.load(n0, k0 + DEPTH);
            }
            A part[LINES][LINES] = {};  // sums of sums: rounding grows with the root of either length
            OPS_NO_UNROLL
            for (u32 k = 0; k < DEPTH; k++) {
                A left[LINES], right[LINES];
                read_lines<GROUPS>(left, tile_a + k * StageA::PITCH, ty);
                read_lines<GROUPS>(right, tile_b + k * StageB::PITCH, tx);
                OPS_UNROLL
                for (u32 i = 0; i < LINES; i++) {
                    OPS_UNROLL
                    for (u32 j = 0; j < LINES; j++) part[i][j] = mad(left[i], right[j], part[i][j]);
                }
            }
            OPS_UNROLL
            for (u32 i = 0; i < LINES; i++) {
                OPS_UNROLL
                for (u32 j = 0; j < LINES; j++) total[i][j] += part[i][j];
            }
        }
        T* c = matrix_at<T>(args.batches, args.c, batch);
        OPS_UNROLL
        for (u32 j = 0; j < LINES; j++) {
            u64 n = n0 + line_of(tx, j);
            if (n >= args.n) continue;
            A bias = bias_at<T, A>(args, n);
            OPS_UNROLL
            for (u32 i = 0; i < LINES; i++) {
                u64 m = m0 + line_of(ty, i);
                if (m < args.m) c[i64(m) * args.c.row + i64(n) * args.c.column] = narrow<T>(total[i][j] + bias);
            }
        }
    }
}

// ---- few rows ---------------------------------------------------------------------

// Step s along k: N neighbours, or one element at any stride.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_step(const T* from, i64 stride, u64 s) {
    if constexpr (N == 1) {
        return Pack<T, N>{{from[i64(s) * stride]}};
    } else {
        return load_parts<N>(from + s * N);
    }
}

// ROWS rows of a by COLUMNS columns of b at a time, lanes along k, N elements a step.
template <u32 ROWS, u32 COLUMNS, u32 N, typename T, typename W>
OPS_DEVICE void matvec_columns(const MatmulArgs& args, const T* a, const W* b, T* c, u64 m0, u64 n0) {
    using A = typename SumOf<T, W>::type;
    A sum[ROWS][COLUMNS] = {};
    // Rows and columns past the end repeat the last one, and are not stored.
    const T* row[ROWS];
    const W* column[COLUMNS];
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) row[r] = a + i64(m0 + r < args.m ? m0 + r : args.m - 1) * args.a.row;
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) column[j] = b + i64(n0 + j < args.n ? n0 + j : args.n - 1) * args.b.column;
    u64 steps = args.k / N;
    OPS_NO_UNROLL
    for (u64 s = opaque(lane_id()); s < steps; s += OPS_WAVE) {
        Pack<W, N> weights[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) weights[j] = load_step<N>(column[j], args.b.row, s);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            Pack<T, N> x = load_step<N>(row[r], args.a.column, s);
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) {
                OPS_UNROLL
                for (u32 j = 0; j < COLUMNS; j++) {
                    sum[r][j] = mad(A(widen(x.v[i])), A(widen(weights[j].v[i])), sum[r][j]);
                }
            }
        }
    }
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            A value = reduce_lanes(sum[r][j], OPS_WAVE, Sum());
            u64 m = m0 + r, n = n0 + j;
            if (lane_id() == 0 && m < args.m && n < args.n) {
                c[i64(m) * args.c.row + i64(n) * args.c.column] = narrow<T>(value + bias_at<T, A>(args, n));
            }
        }
    }
}

template <u32 ROWS, typename T, typename W> OPS_DEVICE void matvec(const MatmulArgs& args) {
    constexpr u32 COLUMNS = ROWS == 1 ? 4 : 2, N = PACK_BYTES / sizeof(W), WAVES = MATMUL_BLOCK / OPS_WAVE;
    u64 groups_n = (args.n + COLUMNS - 1) / COLUMNS, groups_m = (args.m + ROWS - 1) / ROWS;
    u64 groups = groups_n * groups_m * args.batches.count;
    for (u64 g = u64(block_x()) * WAVES + wave_id(); g < groups; g += u64(grid_x()) * WAVES) {
        u64 batch = g / (groups_n * groups_m), in_batch = g % (groups_n * groups_m);
        // Rows of a vary fastest: waves side by side read the same columns of b.
        u64 m0 = in_batch % groups_m * ROWS, n0 = in_batch / groups_m * COLUMNS;
        const T* a = matrix_at<const T>(args.batches, args.a, batch);
        const W* b = matrix_at<const W>(args.batches, args.b, batch);
        T* c = matrix_at<T>(args.batches, args.c, batch);
        bool packs = args.a.column == 1 && args.b.row == 1 && args.k % N == 0 && args.a.row % i64(N) == 0 &&
                     args.b.column % i64(N) == 0 && is_aligned(a, PACK_BYTES) && is_aligned(b, PACK_BYTES);
        if (packs) {
            matvec_columns<ROWS, COLUMNS, N>(args, a, b, c, m0, n0);
        } else {
            matvec_columns<ROWS, COLUMNS, 1>(args, a, b, c, m0, n0);
        }
    }
}

}  // namespace ops
