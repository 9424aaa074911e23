// A weight of blocks on its way to LDS, for products of tiles.
#pragma once
#include "ops_blocks.h"
#include "ops_tile.h"

namespace ops {

// The weight's part of a tile: like Stage, but for blocks. M says where they are: a kernel's arguments, or the matrix of an expert.
template <typename B, typename A, u32 SIZE, u32 DEPTH, typename M> struct StageBlocks {
    static constexpr u32 PITCH = SIZE + 4;
    M matrix;
    u32 line, k;
    A held[STAGED];

    OPS_METHOD StageBlocks(M m) : matrix(m) {
        u32 at = thread_x() * STAGED;
        line = at / DEPTH;
        k = at % DEPTH;
    }
    OPS_METHOD void load(u64 first_line, u64 first_k) {
        u64 l = first_line + line, e = first_k + k;
        bool inside = l < matrix.n && e < matrix.k;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) held[i] = 0;
        if (!inside) return;
        const B* block = static_cast<const B*>(matrix.weight) + i64(l) * matrix.weight_row +
                         i64(e / B::VALUES) * matrix.weight_block;
        static_assert(STAGED == 8, "a part of a block");
        f32 values[8];
        values_of(values, block, u32(e % B::VALUES) / 8);
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) held[i] = A(values[i]);
    }
    OPS_METHOD void store(A* tile) const {
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) tile[(k + i) * PITCH + line] = held[i];
    }
};

}  // namespace ops
