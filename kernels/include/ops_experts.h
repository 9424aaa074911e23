// Shared by the kernels of linear_experts: arguments, and rows sorted by expert.
#pragma once
#include "ops_float_kind.h"
#include "ops_index.h"
#include "ops_tile.h"

namespace ops {

constexpr u32 EXPERTS_BLOCK = 256;

// Rows of one expert that a block multiplies together.
constexpr u32 EXPERTS_TILE = 64;

// A tile of rows: `rows` choices from `first` on in the sorted list. Without rows there is nothing to do. Choices of no expert
// have the number of experts as theirs.
struct ExpertTile {
    u32 expert;
    u32 rows;
    u32 first;
    u32 reserved;
};

struct ExpertsArgs {
    Address<const void> x;
    i64 x_stride[3];  // token, choice (0 where all choices share a row), element
    Address<const void> weight;
    i64 weight_stride[3];  // expert, output, element or block
    Address<const void> ids;
    i64 ids_stride[2];
    Address<const void> bias;  // null when absent
    i64 bias_stride[2];
    Address<void> y;
    i64 y_stride[3];  // token, choice, output
    Divider choices;  // k
    Divider groups;   // groups of outputs of a row, or tiles of the outputs
    u64 rows;         // n * k
    u64 outputs;
    u64 d;
    u64 experts;
    u64 lanes;  // of a wave to a group of outputs, a power of two
    u64 slots;  // in `tiles`
    // Memory of the sorted kernels: the choices' experts, the choices in the order of their experts, and the tiles of rows.
    Address<u32> chosen;
    Address<u32> sorted;
    Address<ExpertTile> tiles;
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;   // IndexKind
    u32 kind;       // FloatKind of x and y
    u32 bias_kind;  // FloatKind
    u32 op;         // for the record
    u32 operand;
    u32 reserved;
};

// Eight elements from `at` on, in accesses of 16 bytes; both must be aligned for them.
template <typename T, typename A> OPS_DEVICE void load_aligned(A (&out)[8], const T* from) {
    constexpr u32 PART = sizeof(T) >= 4 ? 16 / sizeof(T) : 8;
    OPS_UNROLL
    for (u32 p = 0; p < 8; p += PART) {
        Pack<T, PART> part = load_pack<PART>(from + p);
        OPS_UNROLL
        for (u32 i = 0; i < PART; i++) out[p + i] = A(widen(part.v[i]));
    }
}

// `count` elements from `at` on, and zeros up to eight.
template <typename T, typename A> OPS_DEVICE void load_eight(A (&out)[8], const T* row, i64 stride, u64 at, u32 count) {
    if (stride == 1 && count == 8 && is_aligned(row + at, sizeof(T) == 2 ? 16 : PACK_BYTES)) {
        load_aligned(out, row + at);
        return;
    }
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) out[i] = i < count ? A(widen(row[i64(at + i) * stride])) : A(0);
}

template <typename A>
OPS_DEVICE void load_x(A (&out)[8], const ExpertsArgs& args, i64 row, u64 c, u32 count) {
    const void* data = args.x;
    i64 stride = args.x_stride[2];
    if (args.kind == FLOAT_F16) {
        load_eight(out, static_cast<const f16*>(data) + row, stride, 8 * c, count);
    } else if (args.kind == FLOAT_BF16) {
        load_eight(out, static_cast<const bf16*>(data) + row, stride, 8 * c, count);
    } else if (args.kind == FLOAT_F32) {
        load_eight(out, static_cast<const f32*>(data) + row, stride, 8 * c, count);
    } else {
        load_eight(out, static_cast<const f64*>(data) + row, stride, 8 * c, count);
    }
}

// The offset in an operand of choice `at` of all, counted in row-major order.
template <u32 N> OPS_DEVICE i64 choice_offset(const ExpertsArgs& args, const i64 (&stride)[N], u64 at) {
    u64 token = divide(args.choices, at);
    return i64(token) * stride[0] + i64(at - token * args.choices.by) * stride[1];
}

// The choice of a row of a tile. Rows past the end repeat the last one; their results are not stored.
OPS_DEVICE u64 choice_at(const ExpertsArgs& args, const ExpertTile& tile, u32 row) {
    return static_cast<const u32*>(args.sorted)[tile.first + (row < tile.rows ? row : tile.rows - 1)];
}

// What is added to output n.
template <typename A> OPS_DEVICE A expert_bias(const ExpertsArgs& args, u32 expert, u64 n) {
    if (args.bias == nullptr || expert == args.experts) return A(0);
    return float_at<A>(args.bias, args.bias_kind, i64(expert) * args.bias_stride[0] + i64(n) * args.bias_stride[1]);
}

// A matrix of blocks, for the stages of tiles.
struct ExpertBlocks {
    const void* weight;
    i64 weight_row;
    i64 weight_block;
    u64 n;
    u64 k;
};
template <typename B> OPS_DEVICE ExpertBlocks blocks_of(const ExpertsArgs& args, u32 expert) {
    const B* first = static_cast<const B*>(args.weight) + i64(expert) * args.weight_stride[0];
    return ExpertBlocks{first, args.weight_stride[1], args.weight_stride[2], args.outputs, args.d};
}

// Calls visit(tile, n0) for each tile of rows and first column that this block multiplies.
template <typename F> OPS_DEVICE void for_expert_tiles(const ExpertsArgs& args, F visit) {
    OPS_NO_UNROLL
    for (u64 at = block_x();; at += grid_x()) {
        const ExpertsArgs& now = reread(args);
        if (at >= now.slots * now.groups.by) break;
        // The tiles of the columns come first: neighbouring blocks read the same rows, and the next tiles the same matrix.
        u64 slot = divide(now.groups, at);
        const ExpertTile& from = static_cast<const ExpertTile*>(now.tiles)[slot];
        ExpertTile tile{same_in_wave(from.expert), same_in_wave(from.rows), same_in_wave(from.first), 0};
        if (tile.rows == 0) continue;
        visit(now, tile, (at - slot * now.groups.by) * EXPERTS_TILE);
    }
}

}  // namespace ops
