// qlinear for many rows on matrix units: tiles as in matmul_mma.hip, with steps of 32 values along k. The operands are
// the weight's codes, which every 16-bit type represents exactly, and the sums of a group of one scale are multiplied
// by it in f32. Minima are multiplied by the sums of x in the group. So the weight is not rounded at all, and neither is
// x in a 16-bit type. x in f32 is multiplied as two parts of bf16, which keep 16 bits of it.
// If a group is half a step, k is permuted in LDS so that each of two instructions multiplies one group.
#include "ops_mma_parts.h"
#include "ops_blocks.h"
#include "ops_qlinear.h"
#include "ops_reduce.h"

namespace ops {

static_assert(MMA_DEPTH == STEP_VALUES, "a tile is one step deep");

// Stores eight elements of a line at `part` of four; if PERMUTED, at the places that instructions take in order.
template <bool PERMUTED, typename H> OPS_DEVICE void store_eight(H* line, u32 part, const Pack<H, 8>& pack) {
    using Piece = MmaPiece<H>;
    constexpr u32 RUN = PERMUTED && Piece::HELD < 8 ? Piece::HELD : 8;
    OPS_UNROLL
    for (u32 at = 0; at < 8; at += RUN) {
        Pack<H, RUN> run;
        OPS_UNROLL
        for (u32 i = 0; i < RUN; i++) run.v[i] = pack.v[at + i];
        u32 k = part * 8 + at;
        store_pack(line + (PERMUTED ? Piece::place(k) : k), run);
    }
}

// The type in which x is multiplied, and the number of parts.
template <typename T> struct RowParts {
    using Half = T;
    static constexpr u32 COUNT = 1;
    static OPS_METHOD void split(Half (&out)[COUNT], T x) { out[0] = x; }
};
template <> struct RowParts<f32> {
    using Half = bf16;
    static constexpr u32 COUNT = 2;
    static OPS_METHOD void split(Half (&out)[COUNT], f32 x) {
        MmaSplit<bf16> parts = MmaParts<bf16>::split(x, 1.0f);
        out[0] = parts.high;
        out[1] = parts.low;
    }
};

// What a tile has besides its elements, in LDS: for each group of the step, the factors of the weight's lines, their
// minima and the sums of x in the group.
template <typename B, u32 TILE> struct TileScales {
    static constexpr u32 GROUPS = Step<B>::GROUPS, SIZE = GROUPS * TILE * (B::MIN ? 3 : 1);
    f32* at;
    OPS_METHOD f32* factors(u32 group) const { return at + group * TILE; }
    OPS_METHOD f32* minima(u32 group) const { return at + (GROUPS + group) * TILE; }
    OPS_METHOD f32* sums(u32 group) const { return at + (2 * GROUPS + group) * TILE; }
};

// One thread's part of the weight tile, and the scales of its lines.
template <typename B, typename H, u32 TILE> struct MmaStageBlocks {
    static constexpr u32 PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8, STEPS = B::VALUES / STEP_VALUES;
    using Scales = TileScales<B, TILE>;
    const QLinearArgs& args;
    u64 n0;
    typename B::Eight held[PACKS];
    u32 first;  // part of the block that the step starts with

    OPS_METHOD MmaStageBlocks(const QLinearArgs& a, u64 first_line) : args(a), n0(first_line), first(0) {}
    OPS_METHOD void load(u64 step, u64 steps) {
        u32 thread = opaque(thread_x());
        // What is loaded past the last step is not used.
        if (step >= steps) step = steps - 1;
        first = u32(step % STEPS) * 4;
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u64 line = n0 + thread / 4 + p * (MATMUL_BLOCK / 4);
            // Lines past the end repeat the last one and are not stored.
            if (line >= args.n) line = args.n - 1;
            const B* block = static_cast<const B*>(args.weight) + i64(line) * args.weight_row +
                             i64(step / STEPS) * args.weight_block;
            held[p].load(block, first + thread % 4);
        }
    }
    OPS_METHOD void store(H* tile, const Scales& scales) const {
        u32 thread = opaque(thread_x());
        u32 part = thread % 4, group = part / (B::GROUP / 8);
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u32 line = thread / 4 + p * (MATMUL_BLOCK / 4), words[2];
            held[p].codes(words, first + part);
            Pack<H, 8> pack;
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) {
                pack.v[i] = narrow<H>(code_of<B, f32>(words[i / 4], i % 4) - f32(B::OFFSET));
            }
            store_eight<Scales::GROUPS != 1>(tile + line * MMA_PITCH, part, pack);
            if (part % (B::GROUP / 8) != 0) continue;
            Scale scale = held[p].scale(first + part);
            scales.factors(group)[line] = scale.d;
            if (B::MIN) scales.minima(group)[line] = scale.m;
        }
    }
};

// Adds up what the lanes of a group hold of a line of x.
template <typename B, typename T, u32 TILE>
OPS_DEVICE void store_sum(const TileScales<B, TILE>& scales, u32 line, u32 part, const Pack<T, 8>& x) {
    constexpr u32 LANES = B::GROUP / 8;
    f32 sum = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) sum += f32(widen(x.v[i]));
    sum = reduce_lanes(sum, LANES, Sum());
    if (part % LANES == 0) scales.sums(part / LANES)[line] = sum;
}

// One thread's part of the x tile. Its rows are looked up through the shape.
template <typename B, typename T, u32 TILE> struct MmaStageRows {
    static constexpr u32 PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8;
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
    using Scales = TileScales<B, TILE>;
    const T* row[PACKS];
    i64 step;
    bool packs;
    Pack<T, 8> held[PACKS];

    OPS_METHOD MmaStageRows(const QLinearArgs& args, u64 m0) : step(args.x.stride[5]), packs(step == 1) {
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u64 m = m0 + thread_x() / 4 + p * (MATMUL_BLOCK / 4);
            // Rows past the end repeat the last one; their results are not stored.
            row[p] = row_at<const T>(args.shape, args.x, m < args.rows ? m : args.rows - 1);
            packs = packs && is_aligned(row[p], PACK_BYTES);
        }
    }
    OPS_METHOD void load(u64 b, u64 steps) {
        u32 thread = opaque(thread_x());
        u64 k = (b < steps ? b : steps - 1) * STEP_VALUES + thread % 4 * 8;
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            if (packs) {
                held[p] = load_parts<8>(row[p] + k);
                continue;
            }
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) held[p].v[i] = row[p][i64(k + i) * step];
        }
    }
    // Writes one tile per part, `apart` elements apart, and the sums of x if minima need them.
    OPS_METHOD void store(H* tile, u32 apart, const Scales& scales) const {
        u32 thread = opaque(thread_x());
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            Pack<H, 8> pack[Parts::COUNT];
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) {
                H parts[Parts::COUNT];
                Parts::split(parts, held[p].v[i]);
                OPS_UNROLL
                for (u32 c = 0; c < Parts::COUNT; c++) pack[c].v[i] = parts[c];
            }
            OPS_UNROLL
            for (u32 c = 0; c < Parts::COUNT; c++) {
                H* line = tile + c * apart + (thread / 4 + p * (MATMUL_BLOCK / 4)) * MMA_PITCH;
                store_eight<Scales::GROUPS != 1>(line, thread % 4, pack[c]);
            }
            if constexpr (B::MIN) store_sum(scales, thread / 4 + p * (MATMUL_BLOCK / 4), thread % 4, held[p]);
        }
    }
};

template <u32 TILE, typename B, typename T> OPS_DEVICE void qlinear_mma(const QLinearArgs& args) {
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
    using Share = MmaShare<TILE, H>;
    OPS_LDS(H, tile_x, Parts::COUNT * TILE * MMA_PITCH);
    OPS_LDS(H, tile_w, TILE * MMA_PITCH);
    OPS_LDS(f32, scale_memory, (TileScales<B, TILE>::SIZE));
    TileScales<B, TILE> scales{scale_memory};
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const QLinearArgs& now = reread(args);
        u64 tiles_m = (now.rows + TILE - 1) / TILE, tiles_n = (now.n + TILE - 1) / TILE;
        if (tile >= tiles_m * tiles_n) break;
        u64 m0 = tile % tiles_m * TILE, n0 = tile / tiles_m * TILE;
        MmaStageRows<B, T, TILE> x(now, m0);
        MmaStageBlocks<B, H, TILE> weight(now, n0);
        Share share;
        u64 steps = now.k / STEP_VALUES;
        if (steps > 0) {
            x.load(0, steps);
            weight.load(0, steps);
        }
        OPS_NO_UNROLL
        for (u64 b = 0; b < steps; b++) {
            barrier();
            x.store(tile_x, TILE * MMA_PITCH, scales);
            weight.store(tile_w, scales);
            barrier();
            x.load(b + 1, steps);
            weight.load(b + 1, steps);
            share.template multiply_scaled<Parts::COUNT, B::MIN>(tile_x, TILE * MMA_PITCH, tile_w, scales);
        }
        const QLinearArgs& again = reread(now);
        i64 by_column = again.y.stride[5];
        u64 rows = again.rows - m0, columns = again.n - n0;
        auto begin = [&](u32 m) OPS_INLINE {
            T* row = row_at<T>(again.shape, again.y, m < rows ? m0 + m : 0) + i64(n0) * by_column;
            return m < rows ? row : nullptr;
        };
        share.each(begin, [&](T* row, u32 n, f32 sum) OPS_INLINE {
            if (row != nullptr && n < columns) row[i64(n) * by_column] = narrow<T>(sum);
        });
    }
}

}  // namespace ops
