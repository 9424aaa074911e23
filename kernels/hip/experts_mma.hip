// linear_experts for many rows on matrix units: the rows of an expert are gathered into tiles, as experts_sort.hip lists them, and
// multiplied as in matmul_mma.hip and qlinear_mma.hip. x and y have type T. A weight W of floats has the same type, or a 16-bit type with
// x of f32.
#include "ops_mma_blocks.h"
#include "ops_experts.h"

namespace ops {

// A row of x for each line of a tile.
template <typename T> OPS_DEVICE const T* chosen_row(const ExpertsArgs& args, const ExpertTile& tile, u32 line) {
    return static_cast<const T*>(args.x) + choice_offset(args, args.x_stride, choice_at(args, tile, line));
}

// Adds the bias to the sums and writes them to y.
template <typename T, typename Share>
OPS_DEVICE void store_chosen(Share& share, const ExpertsArgs& args, const ExpertTile& tile, u64 n0) {
    u64 columns = args.outputs - n0;
    i64 by_column = args.y_stride[2];
    share.add_columns([&](u32 n) OPS_INLINE { return n < columns ? expert_bias<f32>(args, tile.expert, n0 + n) : 0.0f; });
    struct Line {
        i64 at;
        bool live;
    };
    auto begin = [&](u32 m) OPS_INLINE {
        i64 row = choice_offset(args, args.y_stride, choice_at(args, tile, m));
        return Line{row + i64(n0) * by_column, m < tile.rows};
    };
    T* y = args.y;
    share.each(begin, [&](const Line& line, u32 n, f32 sum) OPS_INLINE {
        if (line.live && n < columns) y[line.at + i64(n) * by_column] = narrow<T>(sum);
    });
}

template <typename W, typename T> OPS_DEVICE void experts_mma(const ExpertsArgs& args) {
    constexpr bool IN_PARTS = same<T, f32>::value;
    static_assert(IN_PARTS || same<T, W>::value, "x is of f32 or has the weight's type");
    constexpr u32 TILE = EXPERTS_TILE;
    using StageX = typename choose<IN_PARTS, MmaStageParts<W, TILE>, MmaStage<T, TILE>>::type;
    // So a stage's first line may be any row: along k, a thread stages the elements of this line alone.
    static_assert(StageX::PACKS == 1, "a thread stages a part of one line");
    OPS_LDS(W, tile_x, (IN_PARTS ? 2 : 1) * TILE * MMA_PITCH);
    OPS_LDS(W, tile_w, TILE * MMA_PITCH);
    OPS_LDS(f32, scales, TILE);  // for the lines of x, if its parts are scaled
    for_expert_tiles(args, [&](const ExpertsArgs& now, const ExpertTile& tile, u64 n0) OPS_INLINE {
        MmaShare<TILE, W> share;
        // Choices of no expert have zeros, the sums of nothing.
        if (tile.expert < now.experts) {
            const W* weight = static_cast<const W*>(now.weight) + i64(tile.expert) * now.weight_stride[0];
            StageX x(chosen_row<T>(now, tile, thread_x() / 4), 0, now.x_stride[2], 0, TILE);
            MmaStage<W, TILE> w(weight, now.weight_stride[1], now.weight_stride[2], n0, now.outputs);
            multiply_staged<IN_PARTS>(share, x, w, tile_x, tile_w, scales, now.d);
        }
        store_chosen<T>(share, reread(now), tile, n0);
    });
}

template <typename B, typename T> OPS_DEVICE void qexperts_mma(const ExpertsArgs& args) {
    using Parts = RowParts<T>;
    using H = typename Parts::Half;
    constexpr u32 TILE = EXPERTS_TILE;
    OPS_LDS(H, tile_x, Parts::COUNT * TILE * MMA_PITCH);
    OPS_LDS(H, tile_w, TILE * MMA_PITCH);
    OPS_LDS(f32, scale_memory, (TileScales<B, TILE>::SIZE));
    TileScales<B, TILE> scales{scale_memory};
    for_expert_tiles(args, [&](const ExpertsArgs& now, const ExpertTile& tile, u64 n0) OPS_INLINE {
        MmaShare<TILE, H> share;
        if (tile.expert < now.experts) {
            auto row_of = [&](u64 line) OPS_INLINE { return chosen_row<T>(now, tile, u32(line)); };
            MmaStageRows<B, T, TILE> x(row_of, 0, now.x_stride[2]);
            MmaStageBlocks<B, H, TILE, ExpertBlocks> weight(blocks_of<B>(now, tile.expert), n0);
            multiply_blocks<B>(share, x, weight, tile_x, tile_w, scales, now.d / STEP_VALUES);
        }
        store_chosen<T>(share, reread(now), tile, n0);
    });
}

}  // namespace ops
