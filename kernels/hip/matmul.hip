// c[.., m, n] = a[.., m, k] b[.., k, n] (+ bias[n]), any strides: matmul, and linear with b as the
// transposed weight. a and c have type T, b has type W; sums are f64 if T or W is, otherwise f32.
// tile: square tiles through LDS.
// matvec: few rows of a, b contiguous along k; each wave computes some columns.
#include "ops_matmul.h"
#include "ops_paired.h"
#include "ops_projected.h"

namespace ops {

// ---- tiles ----------------------------------------------------------------------

template <u32 GROUPS, typename T, typename W> OPS_DEVICE void matmul_tile(const MatmulArgs& args) {
    using A = typename SumOf<T, W>::type;
    constexpr u32 SIZE = GROUPS * 64, DEPTH = MATMUL_BLOCK * STAGED / SIZE;
    using StageA = Stage<T, A, SIZE, DEPTH>;
    using StageB = Stage<W, A, SIZE, DEPTH>;
    OPS_LDS(A, tile_a, DEPTH * StageA::PITCH);
    OPS_LDS(A, tile_b, DEPTH * StageB::PITCH);
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const MatmulArgs& now = reread(args);
        u64 tiles_m = (now.m + SIZE - 1) / SIZE, tiles_n = (now.n + SIZE - 1) / SIZE;
        if (tile >= tiles_m * tiles_n * now.batches.count) break;
        u64 batch = tile / (tiles_m * tiles_n), in_batch = tile % (tiles_m * tiles_n);
        u64 m0 = in_batch % tiles_m * SIZE, n0 = in_batch / tiles_m * SIZE;
        StageA a(matrix_at<const T>(now.batches, now.a, batch), now.a.row, now.a.column, now.m, now.k);
        StageB b(matrix_at<const W>(now.batches, now.b, batch), now.b.column, now.b.row, now.n, now.k);
        T* c = matrix_at<T>(now.batches, now.c, batch);
        auto row = [&](u64 m) OPS_INLINE { return c + i64(m) * reread(now).c.row; };
        auto bias = [&](u64 n) OPS_INLINE { return bias_at<T, A>(reread(now), n); };
        auto extent = [&]() OPS_INLINE {
            const MatmulArgs& again = reread(now);
            return Extent{again.m, again.n, again.k, again.c.column};
        };
        multiply_tile<GROUPS>(tile_a, tile_b, a, b, m0, n0, extent, row, bias);
    }
}

// ---- few rows ---------------------------------------------------------------------

// Columns that a wave computes together.
constexpr u32 ROW_COLUMNS = 2;

// A product whose pairs of columns are rotated together; `n` counts pairs.
struct ProjectedMatmulArgs {
    MatmulArgs product;
    ProjectedTarget target;
};
OPS_DEVICE const MatmulArgs& product_of(const MatmulArgs& args) { return args; }
OPS_DEVICE const MatmulArgs& product_of(const ProjectedMatmulArgs& args) { return args.product; }
template <typename Args> OPS_DEVICE constexpr bool is_projected() { return same<Args, ProjectedMatmulArgs>::value; }

// Step s along k: N consecutive elements, or one element at any stride.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_step(const T* from, i64 stride, u64 s) {
    if constexpr (N == 1) {
        return Pack<T, N>{{from[i64(s) * stride]}};
    } else {
        return load_parts<N>(from + s * N);
    }
}

// Sums of this lane: products, and for a norm of the rows their squares. The norm's weight multiplies the rows, and its root divides
// the sums at the end.
template <bool NORM, u32 ROWS, u32 COLUMNS, typename A> struct RowSums {
    A sum[ROWS][COLUMNS] = {};
    A squares[NORM ? ROWS : 1] = {};
    static constexpr u32 COUNT = ROWS * COLUMNS + (NORM ? ROWS : 0);
    // Adds up the lanes of a wave, and the `sharing` waves that have parts of the same sums. All waves of the block take part; `scratch` has
    // room for the sums of each.
    OPS_METHOD void reduce(u32 sharing, A* scratch) {
        OPS_UNROLL
        for (u32 i = 0; i < COUNT; i++) at(i) = reduce_lanes(at(i), OPS_WAVE, Sum());
        if (sharing == 1) return;
        u32 wave = wave_id(), first = wave & ~(sharing - 1);
        barrier();
        if (lane_id() == 0) {
            OPS_UNROLL
            for (u32 i = 0; i < COUNT; i++) scratch[wave * COUNT + i] = at(i);
        }
        barrier();
        OPS_UNROLL
        for (u32 i = 0; i < COUNT; i++) {
            A total = 0;
            OPS_NO_UNROLL
            for (u32 w = 0; w < sharing; w++) total += scratch[(first + w) * COUNT + i];
            at(i) = total;
        }
    }
    OPS_METHOD A& at(u32 i) { return i < ROWS * COLUMNS ? sum[i / COLUMNS][i % COLUMNS] : squares[i - ROWS * COLUMNS]; }
    OPS_METHOD A inverse(u32 r, const MatmulArgs& args) const {
        return NORM ? A(1) / sqrt(squares[NORM ? r : 0] / A(args.k) + A(args.eps)) : A(1);
    }
};

// Adds the products of DEPTH steps of this lane, from step `s` on. All their weights are in flight at once.
template <u32 DEPTH, u32 N, bool NORM, u32 ROWS, u32 COLUMNS, typename A, typename T, typename W>
OPS_DEVICE void add_steps(RowSums<NORM, ROWS, COLUMNS, A>& to, const T* const (&row)[ROWS], const W* const (&column)[COLUMNS],
                          const f32* norm, i64 along_a, i64 along_b, u64 s) {
    Pack<W, N> weights[DEPTH][COLUMNS];
    Pack<T, N> first[DEPTH];
    OPS_UNROLL
    for (u32 d = 0; d < DEPTH; d++) {
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) weights[d][j] = load_step<N>(column[j], along_b, s + d * OPS_WAVE);
    }
    OPS_UNROLL
    for (u32 d = 0; d < DEPTH; d++) first[d] = load_step<N>(row[0], along_a, s + d * OPS_WAVE);
    OPS_UNROLL
    for (u32 d = 0; d < DEPTH; d++) {
        Pack<f32, N> scale;
        if (NORM) scale = load_step<N>(norm, 1, s + d * OPS_WAVE);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            Pack<T, N> x = r == 0 ? first[d] : load_step<N>(row[r], along_a, s + d * OPS_WAVE);
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) {
                A value = A(widen(x.v[i]));
                if (NORM) {
                    to.squares[r] = mad(value, value, to.squares[r]);
                    value *= A(scale.v[i]);
                }
                OPS_UNROLL
                for (u32 j = 0; j < COLUMNS; j++) to.sum[r][j] = mad(value, A(widen(weights[d][j].v[i])), to.sum[r][j]);
            }
        }
    }
}

// The FloatKind of T.
template <typename T> OPS_DEVICE constexpr u32 kind_of() {
    return sizeof(T) == 4 ? FLOAT_F32 : same<T, f16>::value ? FLOAT_F16 : FLOAT_BF16;
}

// Adds the bias to pair `n` of a row, and stores it.
template <typename T> OPS_DEVICE void store_projected(const ProjectedMatmulArgs& args, u64 n, u64 row, f32 first, f32 second) {
    ColumnPair pair(args.target, n);
    PairPlace place = pair_place(args.target, pair, kind_of<T>(), row);
    first += bias_at<T, f32>(args.product, pair.column);
    second += bias_at<T, f32>(args.product, pair.column + pair.apart);
    store_pair(reread(args).target, pair, place, kind_of<T>(), row, first, second);
}

// Computes ROWS rows of a times COLUMNS columns of b, with lanes along k and N elements per step. If PAIRED, each output
// takes two columns: one of b and one of `up`, or, in a projected product, the two columns of a pair of b. DEPTH does not change the order of
// the sums. `live` is false if there is nothing to store.
template <u32 ROWS, u32 COLUMNS, u32 N, u32 DEPTH, bool PAIRED, bool NORM, typename T, typename W, typename Args>
OPS_DEVICE void matvec_columns(const Args& all, const T* a, const W* b, T* c, u64 m0, u64 n0, bool live, sum_t<T, W>* scratch) {
    using A = sum_t<T, W>;
    const MatmulArgs& args = product_of(all);
    constexpr u32 OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    constexpr bool SHARED = !PAIRED && !NORM;  // the others need the registers
    RowSums<NORM, ROWS, COLUMNS, A> sums;
    // Rows and columns past the end repeat the last one; their results are not stored.
    const T* row[ROWS];
    const W* column[COLUMNS];
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) row[r] = a + i64(m0 + r < args.m ? m0 + r : args.m - 1) * args.a.row;
    if constexpr (is_projected<Args>()) {
        static_assert(COLUMNS == 2, "a wave computes one pair");
        ColumnPair pair(all.target, n0);
        OPS_UNROLL
        for (u32 j = 0; j < 2; j++) column[j] = b + i64(pair.column + j * pair.apart) * args.b.column;
    } else {
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u64 n = n0 + j % OUTPUTS;
            const W* of = PAIRED && j >= OUTPUTS ? static_cast<const W*>(args.up) : b;
            column[j] = of + i64(n < args.n ? n : args.n - 1) * args.b.column;
        }
    }
    u32 sharing = SHARED ? u32(args.sharing) : 1, part = SHARED ? wave_id() & (sharing - 1) : 0;
    u64 steps = args.k / N, s = opaque(lane_id());
    if (SHARED) {
        u64 own = args.share / N;
        s += part * own;
        if ((part + 1) * own < steps) steps = (part + 1) * own;
    }
    OPS_NO_UNROLL
    for (; DEPTH > 1 && s + (DEPTH - 1) * OPS_WAVE < steps; s += DEPTH * OPS_WAVE) {
        add_steps<DEPTH, N>(sums, row, column, args.norm, args.a.column, args.b.row, s);
    }
    OPS_NO_UNROLL
    for (; s < steps; s += OPS_WAVE) add_steps<1, N>(sums, row, column, args.norm, args.a.column, args.b.row, s);
    sums.reduce(sharing, scratch);
    live = live && part == 0 && lane_id() == 0;
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        A inverse = sums.inverse(r, args);
        auto total = [&](u32 j) OPS_INLINE { return NORM ? sums.sum[r][j] * inverse : sums.sum[r][j]; };
        if constexpr (is_projected<Args>()) {
            if (live && m0 + r < args.m) store_projected<T>(reread(all), n0, m0 + r, total(0), total(1));
            continue;
        }
        OPS_UNROLL
        for (u32 j = 0; j < OUTPUTS; j++) {
            A value = total(j);
            if (PAIRED) value = gated(value, total((j + OUTPUTS) % COLUMNS));
            u64 m = m0 + r, n = n0 + j;
            if (live && m < args.m && n < args.n) {
                c[i64(m) * args.c.row + i64(n) * args.c.column] = narrow<T>(value + bias_at<T, A>(args, n, m));
            }
        }
    }
}

template <u32 ROWS, bool PAIRED, bool NORM, typename T, typename W, typename Args>
OPS_DEVICE void matvec_groups(const Args& args, sum_t<T, W>* scratch) {
    // Few columns for a wave, so that a narrow weight has work for the whole device; for one row, each lane has eight packs of weights in flight.
    constexpr u32 COLUMNS = ROW_COLUMNS, DEPTH = ROWS == 1 ? 4 : 1;
    constexpr u32 N = PACK_BYTES / sizeof(W), WAVES = MATMUL_BLOCK / OPS_WAVE;
    constexpr u32 OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    OPS_NO_UNROLL
    for (u64 first = block_x();; first += grid_x()) {
        const Args& all = reread(args);
        const MatmulArgs& now = product_of(all);
        u32 sharing = PAIRED || NORM ? 1 : u32(now.sharing), of_block = WAVES / sharing;
        u64 groups_n = (now.n + OUTPUTS - 1) / OUTPUTS, groups_m = (now.m + ROWS - 1) / ROWS;
        u64 groups = groups_n * groups_m * now.batches.count;
        if (first * of_block >= groups) break;
        // Waves beyond the last group compute it again, because all waves of the block meet at barriers.
        u64 g = first * of_block + same_in_wave(wave_id() / sharing);
        bool live = g < groups;
        if (!live) g = groups - 1;
        u64 batch = g / (groups_n * groups_m), in_batch = g % (groups_n * groups_m);
        // Rows of a vary fastest, so that neighbouring waves read the same columns of b.
        u64 m0 = in_batch % groups_m * ROWS, n0 = in_batch / groups_m * OUTPUTS;
        const T* a = matrix_at<const T>(now.batches, now.a, batch);
        const W* b = matrix_at<const W>(now.batches, now.b, batch);
        T* c = matrix_at<T>(now.batches, now.c, batch);
        bool packs = now.a.column == 1 && now.b.row == 1 && now.k % N == 0 && now.a.row % i64(N) == 0 &&
                     now.b.column % i64(N) == 0 && is_aligned(a, PACK_BYTES) && is_aligned(b, PACK_BYTES);
        if (PAIRED && !is_projected<Args>()) packs = packs && is_aligned(now.up, PACK_BYTES);
        if (NORM) packs = packs && is_aligned(now.norm, PACK_BYTES);
        if (packs) {
            matvec_columns<ROWS, COLUMNS, N, DEPTH, PAIRED, NORM>(all, a, b, c, m0, n0, live, scratch);
        } else {
            matvec_columns<ROWS, COLUMNS, 1, 1, PAIRED, NORM>(all, a, b, c, m0, n0, live, scratch);
        }
    }
}

template <u32 ROWS, typename T, typename W> OPS_DEVICE void matvec(const MatmulArgs& args) {
    using A = sum_t<T, W>;
    OPS_LDS(A, scratch, (MATMUL_BLOCK / 32 * ROWS * ROW_COLUMNS));
    matvec_groups<ROWS, false, false, T, W>(args, scratch);
}

// silu(a b) * (a up), for few rows of a.
template <u32 ROWS, typename T, typename W> OPS_DEVICE void swiglu_rows(const MatmulArgs& args) {
    matvec_groups<ROWS, true, false, T, W>(args, nullptr);
}

// norm(a) b, for few rows of a. norm_swiglu_rows: silu(norm(a) b) * (norm(a) up).
template <u32 ROWS, typename T, typename W> OPS_DEVICE void norm_rows(const MatmulArgs& args) {
    matvec_groups<ROWS, false, true, T, W>(args, nullptr);
}
template <u32 ROWS, typename T, typename W> OPS_DEVICE void norm_swiglu_rows(const MatmulArgs& args) {
    matvec_groups<ROWS, true, true, T, W>(args, nullptr);
}

// norm(a) b, whose heads are rotated and written to caches.
template <u32 ROWS, typename T, typename W> OPS_DEVICE void norm_rope_rows(const ProjectedMatmulArgs& args) {
    matvec_groups<ROWS, true, true, T, W>(args, nullptr);
}

}  // namespace ops
