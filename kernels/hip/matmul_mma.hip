// matmul and linear on matrix units: c = a b (+ bias) as in matmul.hip, for a and b of the same 16-bit
// type, or a of f32, which is multiplied as two parts of b's type (ops_mma_parts.h). Sums are in f32.
// The waves of a thread block share its tile of c, in pieces of 16 x 16. a and b are staged in LDS as
// lines with k contiguous, MMA_DEPTH of k at a time, whatever their layout in memory.
#include "ops_mma_parts.h"
#include "ops_matmul.h"

namespace ops {

template <u32 TILE, typename T, typename W> OPS_DEVICE void matmul_mma(const MatmulArgs& args) {
    constexpr bool IN_PARTS = same<T, f32>::value;
    static_assert(IN_PARTS || same<T, W>::value, "a is f32 or has b's type");
    using StageA = typename choose<IN_PARTS, MmaStageParts<W, TILE>, MmaStage<T, TILE>>::type;
    using Share = MmaShare<TILE, W>;
    OPS_LDS(W, tile_a, (IN_PARTS ? 2 : 1) * TILE * MMA_PITCH);
    OPS_LDS(W, tile_b, TILE * MMA_PITCH);
    OPS_LDS(f32, scales, TILE);  // for the lines of a, if its parts are scaled
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const MatmulArgs& now = reread(args);
        u64 tiles_m = (now.m + TILE - 1) / TILE, tiles_n = (now.n + TILE - 1) / TILE;
        if (tile >= tiles_m * tiles_n * now.batches.count) break;
        u64 batch = tile / (tiles_m * tiles_n), in_batch = tile % (tiles_m * tiles_n);
        u64 m0 = in_batch % tiles_m * TILE, n0 = in_batch / tiles_m * TILE;
        StageA a(matrix_at<const T>(now.batches, now.a, batch), now.a.row, now.a.column, m0, now.m);
        MmaStage<W, TILE> b(matrix_at<const W>(now.batches, now.b, batch), now.b.column, now.b.row, n0, now.n);
        Share share;
        multiply_staged<IN_PARTS>(share, a, b, tile_a, tile_b, scales, now.k);
        const MatmulArgs& again = reread(now);
        T* c = matrix_at<T>(again.batches, again.c, batch) + i64(m0) * again.c.row + i64(n0) * again.c.column;
        u64 rows = again.m - m0, columns = again.n - n0;
        i64 by_row = again.c.row, by_column = again.c.column;
        OPS_UNROLL
        for (u32 j = 0; j < Share::ACROSS; j++) {
            u32 n = share.column(j);
            if (n >= columns) continue;
            f32 added = bias_at<T, f32>(reread(again), n0 + n);
            T* to = c + i64(n) * by_column;
            share.each_row(j, [&](u32 m, f32 sum) OPS_INLINE {
                if (m < rows) to[i64(m) * by_row] = narrow<T>(sum + added);
            });
        }
    }
}

}  // namespace ops
