// linear_experts for many rows: the rows of an expert are gathered into tiles, as experts_sort.hip lists them, and multiplied as in
// matmul.hip and qlinear.hip. A is the type of sums; those of x and y are values.
#include "ops_experts.h"
#include "ops_stage_blocks.h"

namespace ops {

constexpr u32 EXPERTS_DEPTH = MATMUL_BLOCK * STAGED / EXPERTS_TILE;

// The part of x: like Stage, but for rows of a list.
template <typename A> struct StageChosen {
    static constexpr u32 PITCH = EXPERTS_TILE + 4;
    const ExpertsArgs& args;
    i64 row;
    u64 depth;
    u32 line, k;
    A held[STAGED];

    OPS_METHOD StageChosen(const ExpertsArgs& a, const ExpertTile& tile, u64 elements) : args(a), depth(elements) {
        u32 at = thread_x() * STAGED;
        line = at / EXPERTS_DEPTH;
        k = at % EXPERTS_DEPTH;
        row = choice_offset(args, args.x_stride, choice_at(args, tile, line));
    }
    OPS_METHOD void load(u64, u64 first_k) {
        static_assert(STAGED == 8, "a chunk of a row");
        u64 at = first_k + k, left = at < depth ? depth - at : 0;
        load_x(held, args, row, at / STAGED, left < STAGED ? u32(left) : STAGED);
    }
    OPS_METHOD void store(A* to) const {
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[(k + i) * PITCH + line] = held[i];
    }
};

// The part of an expert's matrix.
template <typename W, typename A> OPS_DEVICE auto stage_of_expert(const ExpertsArgs& args, u32 expert, u64 depth) {
    if constexpr (is_float<W>::value) {
        const W* first = static_cast<const W*>(args.weight) + i64(expert) * args.weight_stride[0];
        const i64(&stride)[3] = args.weight_stride;
        return Stage<W, A, EXPERTS_TILE, EXPERTS_DEPTH>(first, stride[1], stride[2], args.outputs, depth);
    } else {
        return StageBlocks<W, A, EXPERTS_TILE, EXPERTS_DEPTH, ExpertBlocks>(blocks_of<W>(args, expert));
    }
}

// A place in memory of any float type.
struct FloatPointer {
    void* data;
    u32 kind;
    i64 at;
    OPS_METHOD FloatPointer operator+(i64 elements) const { return FloatPointer{data, kind, at + elements}; }
};
template <typename A> OPS_DEVICE void store_element(const FloatPointer& to, A value) {
    store_float(to.data, to.kind, to.at, value);
}

template <typename W, typename A> OPS_DEVICE void experts_tile(const ExpertsArgs& args) {
    OPS_LDS(A, tile_x, EXPERTS_DEPTH * StageChosen<A>::PITCH);
    OPS_LDS(A, tile_w, EXPERTS_DEPTH * StageChosen<A>::PITCH);
    for_expert_tiles(args, [&](const ExpertsArgs& now, const ExpertTile& tile, u64 n0) OPS_INLINE {
        // Choices of no expert have zeros, the sums of nothing.
        bool present = tile.expert < now.experts;
        u64 depth = present ? now.d : 0;
        StageChosen<A> x(now, tile, depth);
        auto weight = stage_of_expert<W, A>(now, present ? tile.expert : 0, depth);
        auto row = [&](u64 m) OPS_INLINE {
            const ExpertsArgs& again = reread(now);
            void* y = again.y;
            return FloatPointer{y, again.kind, choice_offset(again, again.y_stride, choice_at(again, tile, u32(m)))};
        };
        auto bias = [&](u64 n) OPS_INLINE { return expert_bias<A>(reread(now), tile.expert, n); };
        auto extent = [&]() OPS_INLINE {
            const ExpertsArgs& again = reread(now);
            return Extent{tile.rows, again.outputs, depth, again.y_stride[2]};
        };
        multiply_tile<1>(tile_x, tile_w, x, weight, 0, n0, extent, row, bias);
    });
}

}  // namespace ops
