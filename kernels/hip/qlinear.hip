// y[.., n] = sum over k of x[.., k] weight[n, k], where the weight has blocks along k.
// rows*: few rows of x. A group of lanes computes a few rows of the weight, one step of 32 values per lane at a time.
// tile*: square tiles. The weight is dequantized on its way to LDS.
#include "ops_blocks.h"
#include "ops_qlinear.h"
#include "ops_stage_blocks.h"

namespace ops {

// ---- few rows ---------------------------------------------------------------------

template <typename T> OPS_DEVICE Pack<T, 4> load_four(const T* from, i64 stride, u64 at, bool packs) {
    if (packs) return load_parts<4>(from + at);
    Pack<T, 4> out;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) out.v[i] = from[i64(at + i) * stride];
    return out;
}

// ROWS rows of x times COLUMNS rows of the weight. A group is summed over the stored codes, and what is the same for all
// of its values is added once: d (sum q x - OFFSET sum x) + m sum x.
template <u32 ROWS, u32 COLUMNS, typename B, typename T>
OPS_DEVICE void qlinear_columns(const QLinearArgs& args, u64 m0, u64 n0) {
    using A = acc_t<T>;
    u32 lanes = u32(args.lanes);
    const T* row[ROWS];
    const B* column[COLUMNS];
    bool packs = args.x.stride[5] == 1;
    // Rows and columns past the end repeat the last one; their results are not stored.
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        row[r] = row_at<const T>(args.shape, args.x, m0 + r < args.rows ? m0 + r : args.rows - 1);
        packs = packs && is_aligned(row[r], sizeof(T) == 8 ? 16 : sizeof(T) * 4);
    }
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        column[j] = static_cast<const B*>(args.weight) + i64(n0 + j < args.n ? n0 + j : args.n - 1) * args.weight_row;
    }
    constexpr u32 GROUPS = Step<B>::GROUPS;
    // A value with a minimum is rounded to f32 by definition, which f64 would show.
    constexpr bool DECODED = sizeof(A) == 8 && B::MIN, PLAIN = !DECODED && (B::OFFSET != 0 || B::MIN);
    A sum[ROWS][COLUMNS] = {};
    u32 steps = u32(args.k / STEP_VALUES);
    OPS_NO_UNROLL
    for (u32 b = opaque(lane_id()) & (lanes - 1); b < steps; b += lanes) {
        Step<B> step[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) step[j].load(column[j], args.weight_block, b);
        OPS_UNROLL
        for (u32 h = 0; h < GROUPS; h++) {
            A part[ROWS][COLUMNS] = {}, plain[ROWS] = {};
            OPS_NO_UNROLL
            for (u32 g = 0; g < B::GROUP / 8; g++) {  // words are shifted each time, so that no register is indexed by g
                // Opaque, or the compiler keeps a separate pointer for every element of every row.
                u32 at = opaque(b * STEP_VALUES + h * B::GROUP + 8 * g);
                A q[COLUMNS][8];
                OPS_UNROLL
                for (u32 j = 0; j < COLUMNS; j++) {
                    OPS_UNROLL
                    for (u32 i = 0; i < 8; i++) {
                        u32 word = step[j].words[i / 4];
                        Scale scale = step[j].scale[h];
                        q[j][i] = DECODED ? A(scale.d * code_of<B, f32>(word, i % 4) + scale.m) : code_of<B, A>(word, i % 4);
                    }
                    OPS_UNROLL
                    for (u32 w = 0; w + 2 < 8; w++) step[j].words[w] = step[j].words[w + 2];
                }
                OPS_UNROLL
                for (u32 r = 0; r < ROWS; r++) {
                    Pack<T, 4> first = load_four(row[r], args.x.stride[5], at, packs);
                    Pack<T, 4> second = load_four(row[r], args.x.stride[5], at + 4, packs);
                    OPS_UNROLL
                    for (u32 i = 0; i < 8; i++) {
                        A x = widen(i < 4 ? first.v[i % 4] : second.v[i % 4]);
                        if (PLAIN) plain[r] += x;
                        OPS_UNROLL
                        for (u32 j = 0; j < COLUMNS; j++) part[r][j] = mad(q[j][i], x, part[r][j]);
                    }
                }
            }
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                OPS_UNROLL
                for (u32 j = 0; j < COLUMNS; j++) {
                    Scale scale = step[j].scale[h];
                    if (DECODED) {
                        sum[r][j] += part[r][j];
                        continue;
                    }
                    sum[r][j] = mad(A(scale.d), mad(A(-B::OFFSET), plain[r], part[r][j]), sum[r][j]);
                    if (B::MIN) sum[r][j] = mad(A(scale.m), plain[r], sum[r][j]);
                }
            }
        }
    }
    bool first_lane = (lane_id() & (lanes - 1)) == 0;
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        u64 m = m0 + r;
        T* to = row_at<T>(args.shape, args.y, m < args.rows ? m : 0) + i64(n0) * args.y.stride[5];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            A value = reduce_lanes(sum[r][j], lanes, Sum());
            if (first_lane && m < args.rows && n0 + j < args.n) to[i64(j) * args.y.stride[5]] = narrow<T>(value);
        }
    }
}

template <u32 ROWS, typename B, typename T> OPS_DEVICE void qlinear_rows(const QLinearArgs& args) {
    constexpr u32 COLUMNS = ROWS == 1 ? 4 : 2;
    u64 groups_m = (args.rows + ROWS - 1) / ROWS, groups_n = (args.n + COLUMNS - 1) / COLUMNS;
    u64 groups = groups_m * groups_n;
    u32 per_wave = OPS_WAVE / u32(args.lanes);
    u64 first = (u64(block_x()) * (MATMUL_BLOCK / OPS_WAVE) + wave_id()) * per_wave;
    u64 step = u64(grid_x()) * (MATMUL_BLOCK / OPS_WAVE) * per_wave;
    for (; first < groups; first += step) {
        // A group past the end computes columns past the end, which are not stored.
        u64 at = first + lane_id() / u32(args.lanes);
        qlinear_columns<ROWS, COLUMNS, B, T>(reread(args), at % groups_m * ROWS, at / groups_m * COLUMNS);
    }
}

// ---- tiles --------------------------------------------------------------------------

// The part of x: each thread looks up its row through the shape.
template <typename T, typename A, u32 SIZE, u32 DEPTH> struct StageRows {
    static constexpr u32 PITCH = SIZE + 4;
    const QLinearArgs& args;
    const T* row;
    bool live, packs;
    u32 line, k;
    Pack<T, STAGED> held;

    OPS_METHOD StageRows(const QLinearArgs& a, u64 m0) : args(a) {
        u32 at = thread_x() * STAGED;
        line = at / DEPTH;
        k = at % DEPTH;
        live = m0 + line < args.rows;
        row = row_at<const T>(args.shape, args.x, live ? m0 + line : 0);
        packs = args.x.stride[5] == 1 && is_aligned(row, PACK_BYTES);
    }
    OPS_METHOD void load(u64, u64 first_k) {
        u64 e = first_k + k;
        if (packs && live && e < args.k) {
            held = load_parts<STAGED>(row + e);
            return;
        }
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) {
            T value{};
            if (live && e < args.k) value = row[i64(e + i) * args.x.stride[5]];
            held.v[i] = value;
        }
    }
    OPS_METHOD void store(A* tile) const {
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) tile[(k + i) * PITCH + line] = A(widen(held.v[i]));
    }
};

template <u32 GROUPS, typename B, typename T> OPS_DEVICE void qlinear_tile(const QLinearArgs& args) {
    using A = acc_t<T>;
    constexpr u32 SIZE = GROUPS * 64, DEPTH = MATMUL_BLOCK * STAGED / SIZE;
    using StageX = StageRows<T, A, SIZE, DEPTH>;
    using StageW = StageBlocks<B, A, SIZE, DEPTH, const QLinearArgs&>;
    OPS_LDS(A, tile_x, DEPTH * StageX::PITCH);
    OPS_LDS(A, tile_w, DEPTH * StageW::PITCH);
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const QLinearArgs& now = reread(args);
        u64 tiles_m = (now.rows + SIZE - 1) / SIZE;
        if (tile >= tiles_m * ((now.n + SIZE - 1) / SIZE)) break;
        u64 m0 = tile % tiles_m * SIZE, n0 = tile / tiles_m * SIZE;
        StageX x(now, m0);
        StageW weight(now);
        auto row = [&](u64 m) OPS_INLINE { return row_at<T>(now.shape, now.y, m); };
        auto bias = [](u64) OPS_INLINE { return A(0); };
        auto extent = [&]() OPS_INLINE {
            const QLinearArgs& again = reread(now);
            return Extent{again.rows, again.n, again.k, again.y.stride[5]};
        };
        multiply_tile<GROUPS>(tile_x, tile_w, x, weight, m0, n0, extent, row, bias);
    }
}

}  // namespace ops
