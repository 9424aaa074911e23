// qlinear for many rows on matrix units: tiles as in matmul_mma.hip, with steps of 32 values along k.
#include "ops_mma_blocks.h"
#include "ops_qlinear.h"

namespace ops {

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
        auto row_of = [&](u64 m) OPS_INLINE {
            // Rows past the end repeat the last one; their results are not stored.
            return row_at<const T>(now.shape, now.x, m < now.rows ? m : now.rows - 1);
        };
        MmaStageRows<B, T, TILE> x(row_of, m0, now.x.stride[5]);
        MmaStageBlocks<B, H, TILE, const QLinearArgs&> weight(now, n0);
        Share share;
        multiply_blocks<B>(share, x, weight, tile_x, tile_w, scales, now.k / STEP_VALUES);
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
