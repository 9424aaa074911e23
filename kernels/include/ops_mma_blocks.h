// Rows times blocks on matrix units, 32 values along k at a time. The operands are the weight's codes, which every 16-bit type
// represents exactly, and the sums of a group of one scale are multiplied by it in f32. Minima are multiplied by the sums of x in the
// group. So the weight is not rounded at all, and neither is x in a 16-bit type. x in f32 is multiplied as two parts of bf16, which
// keep 16 bits of it.
// If a group is half a step, k is permuted in LDS so that each of two instructions multiplies one group.
#pragma once
#include "ops_mma_parts.h"
#include "ops_blocks.h"
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

// One thread's part of the weight tile, and the scales of its lines. M says where the blocks are: a kernel's arguments, or the
// matrix of an expert.
template <typename B, typename H, u32 TILE, typename M> struct MmaStageBlocks {
    static constexpr u32 PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8, STEPS = B::VALUES / STEP_VALUES;
    using Scales = TileScales<B, TILE>;
    M matrix;
    u64 n0;
    typename B::Eight held[PACKS];
    u32 first;  // part of the block that the step starts with

    OPS_METHOD MmaStageBlocks(M m, u64 first_line) : matrix(m), n0(first_line), first(0) {}
    OPS_METHOD void load(u64 step, u64 steps) {
        u32 thread = opaque(thread_x());
        // What is loaded past the last step is not used.
        if (step >= steps) step = steps - 1;
        first = u32(step % STEPS) * 4;
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u64 line = n0 + thread / 4 + p * (MATMUL_BLOCK / 4);
            // Lines past the end repeat the last one and are not stored.
            if (line >= matrix.n) line = matrix.n - 1;
            const B* block = static_cast<const B*>(matrix.weight) + i64(line) * matrix.weight_row +
                             i64(step / STEPS) * matrix.weight_block;
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

// One thread's part of the x tile: row_of(m) is row m, whose elements are `apart`, and `first` is the tile's first row.
template <typename B, typename T, u32 TILE> struct MmaStageRows {
    static constexpr u32 LINES = TILE, PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8;
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
    using Scales = TileScales<B, TILE>;
    const T* row[PACKS];
    i64 step;
    bool packs;
    Pack<T, 8> held[PACKS];

    template <typename R> OPS_METHOD MmaStageRows(R row_of, u64 first, i64 apart) : step(apart), packs(apart == 1) {
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            row[p] = row_of(first + thread_x() / 4 + p * (MATMUL_BLOCK / 4));
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

// Adds the product of x and the weight, `steps` steps deep, to the sums of `share`.
template <typename B, typename X, typename W, typename Share, typename H, typename S>
OPS_DEVICE void multiply_blocks(Share& share, X& x, W& weight, H* tile_x, H* tile_w, const S& scales, u64 steps) {
    constexpr u32 APART = X::LINES * MMA_PITCH;
    if (steps > 0) {
        x.load(0, steps);
        weight.load(0, steps);
    }
    OPS_NO_UNROLL
    for (u64 b = 0; b < steps; b++) {
        barrier();
        x.store(tile_x, APART, scales);
        weight.store(tile_w, scales);
        barrier();
        x.load(b + 1, steps);
        weight.load(b + 1, steps);
        share.template multiply_scaled<X::Parts::COUNT, B::MIN>(tile_x, APART, tile_w, scales);
    }
}

}  // namespace ops
