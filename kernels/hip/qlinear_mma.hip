// qlinear for many rows on matrix units: tiles as in matmul_mma.hip, where one step along k is one block of
// the weight. The operands are the weight's stored integers, which every 16-bit type represents exactly,
// and the sums of a block are multiplied by its scale in f32. So the weight is not rounded at all, and
// neither is x in a 16-bit type. x in f32 is multiplied as two parts of bf16, which keep 16 bits of it.
#include "ops_mma_parts.h"
#include "ops_blocks.h"
#include "ops_qlinear.h"

namespace ops {

static_assert(MMA_DEPTH == BLOCK_ELEMENTS, "one step along k is one block");

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

// Eight elements of a block in their stored form, and as numbers with the offset subtracted.
template <typename B> struct Eight;
template <> struct Eight<Q8_0> {
    u32 words[2];
    OPS_METHOD void load(const Q8_0* block, u32 part) { load_words(words, block->qs + part * 4); }
    OPS_METHOD i32 element(u32 i, u32) const { return i32(i8(byte_of(words[i / 4], i % 4))); }
};
template <> struct Eight<Q4_0> {
    u32 words[2];
    OPS_METHOD void load(const Q4_0* block, u32 part) { load_words(words, block->qs + part % 2 * 4); }
    OPS_METHOD i32 element(u32 i, u32 part) const {
        return i32(byte_of(words[i / 4] >> (part / 2 * 4), i % 4) & 15) - Q4_0::OFFSET;
    }
};

// One thread's part of the weight tile, and the scales of its lines.
template <typename B, typename H, u32 TILE> struct MmaStageBlocks {
    static constexpr u32 PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8;
    const QLinearArgs& args;
    u64 n0;
    Eight<B> held[PACKS];
    u16 scale[PACKS];

    OPS_METHOD MmaStageBlocks(const QLinearArgs& a, u64 first) : args(a), n0(first) {}
    OPS_METHOD void load(u64 b, u64 blocks) {
        u32 thread = opaque(thread_x());
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u64 line = n0 + thread / 4 + p * (MATMUL_BLOCK / 4);
            // Lines past the end repeat the last one and are not stored. What is loaded past the last
            // block is not used.
            if (line >= args.n) line = args.n - 1;
            const B* block = static_cast<const B*>(args.weight) + i64(line) * args.weight_row +
                             i64(b < blocks ? b : blocks - 1) * args.weight_block;
            held[p].load(block, thread % 4);
            scale[p] = block->d;
        }
    }
    OPS_METHOD void store(H* tile, f32* scales) const {
        u32 thread = opaque(thread_x());
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            u32 line = thread / 4 + p * (MATMUL_BLOCK / 4), part = thread % 4;
            Pack<H, 8> pack;
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) pack.v[i] = narrow<H>(f32(held[p].element(i, part)));
            store_pack(tile + line * MMA_PITCH + part * 8, pack);
            if (part == 0) scales[line] = to_f32(f16{scale[p]});
        }
    }
};

// One thread's part of the x tile. Its rows are looked up through the shape.
template <typename T, u32 TILE> struct MmaStageRows {
    static constexpr u32 PACKS = TILE * MMA_DEPTH / MATMUL_BLOCK / 8;
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
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
    OPS_METHOD void load(u64 b, u64 blocks) {
        u32 thread = opaque(thread_x());
        u64 k = (b < blocks ? b : blocks - 1) * BLOCK_ELEMENTS + thread % 4 * 8;
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
    // Writes one tile per part, `apart` elements apart.
    OPS_METHOD void store(H* tile, u32 apart) const {
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
                store_pack(tile + c * apart + (thread / 4 + p * (MATMUL_BLOCK / 4)) * MMA_PITCH + thread % 4 * 8, pack[c]);
            }
        }
    }
};

template <u32 TILE, typename B, typename T> OPS_DEVICE void qlinear_mma(const QLinearArgs& args) {
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
    using Share = MmaShare<TILE, H>;
    OPS_LDS(H, tile_x, Parts::COUNT * TILE * MMA_PITCH);
    OPS_LDS(H, tile_w, TILE * MMA_PITCH);
    OPS_LDS(f32, scales, TILE);
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const QLinearArgs& now = reread(args);
        u64 tiles_m = (now.rows + TILE - 1) / TILE, tiles_n = (now.n + TILE - 1) / TILE;
        if (tile >= tiles_m * tiles_n) break;
        u64 m0 = tile % tiles_m * TILE, n0 = tile / tiles_m * TILE;
        MmaStageRows<T, TILE> x(now, m0);
        MmaStageBlocks<B, H, TILE> weight(now, n0);
        Share share;
        u64 blocks = now.k / BLOCK_ELEMENTS;
        if (blocks > 0) {
            x.load(0, blocks);
            weight.load(0, blocks);
        }
        OPS_NO_UNROLL
        for (u64 b = 0; b < blocks; b++) {
            barrier();
            x.store(tile_x, TILE * MMA_PITCH);
            weight.store(tile_w, scales);
            barrier();
            x.load(b + 1, blocks);
            weight.load(b + 1, blocks);
            share.template multiply_scaled<Parts::COUNT>(tile_x, TILE * MMA_PITCH, tile_w, scales);
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
