// linear_experts: y[i, j] = weight[ids[i, j]] x[i, min(j, m - 1)] + bias[ids[i, j]]. A group of lanes computes a few outputs of one
// row; its expert's number is read on the device. The weight is of floats, or of blocks along d. The types of x, y and the bias
// are values here.
#include "ops_blocks.h"
#include "ops_index.h"
#include "ops_reduce.h"

namespace ops {

constexpr u32 EXPERTS_BLOCK = 256;
// Outputs that a group of lanes computes together. With sums of f64 there are no registers for more than one.
template <typename A> OPS_DEVICE constexpr u32 experts_columns() { return sizeof(A) == 8 ? 1 : 4; }

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
    Divider groups;   // groups of outputs of a row
    u64 rows;         // n * k
    u64 outputs;
    u64 d;
    u64 experts;
    u64 lanes;  // of a wave to a group of outputs, a power of two
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;   // IndexKind
    u32 kind;       // FloatKind of x and y
    u32 bias_kind;  // FloatKind
    u32 op;         // for the record
    u32 operand;
    u32 reserved;
};

// Element `at` of memory of any float type.
template <typename A> OPS_DEVICE A float_at(const void* data, u32 kind, i64 at) {
    if (kind == FLOAT_F16) return A(widen(static_cast<const f16*>(data)[at]));
    if (kind == FLOAT_BF16) return A(widen(static_cast<const bf16*>(data)[at]));
    if (kind == FLOAT_F32) return A(static_cast<const f32*>(data)[at]);
    return A(static_cast<const f64*>(data)[at]);
}

template <typename A> OPS_DEVICE void store_float(void* data, u32 kind, i64 at, A value) {
    if (kind == FLOAT_F16) {
        static_cast<f16*>(data)[at] = narrow<f16>(value);
    } else if (kind == FLOAT_BF16) {
        static_cast<bf16*>(data)[at] = narrow<bf16>(value);
    } else if (kind == FLOAT_F32) {
        static_cast<f32*>(data)[at] = narrow<f32>(value);
    } else {
        static_cast<f64*>(data)[at] = f64(value);
    }
}

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

// Values 8 c to 8 c + 7 of a row of the weight.
template <typename W, typename A> struct WeightRow {
    OPS_METHOD static void load(A (&out)[8], const void* row, i64 stride, u64 c, u32 count) {
        load_eight(out, static_cast<const W*>(row), stride, 8 * c, count);
    }
    static constexpr u64 BYTES = sizeof(W);
};
template <typename B, typename A> struct WeightBlocks {
    OPS_METHOD static void load(A (&out)[8], const void* row, i64 apart, u64 c, u32) {
        constexpr u32 PARTS = B::VALUES / 8;
        f32 values[8];
        values_of(values, static_cast<const B*>(row) + i64(c / PARTS) * apart, u32(c % PARTS));
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) out[i] = A(values[i]);
    }
    static constexpr u64 BYTES = sizeof(B);
};
template <typename W, typename A> struct WeightOf {
    using type = typename choose<is_float<W>::value, WeightRow<W, A>, WeightBlocks<W, A>>::type;
};

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

// Outputs from n0 on of row j of token i, all lanes of the wave taking part.
template <typename W, typename A>
OPS_DEVICE void expert_columns(const ExpertsArgs& args, u64 i, u64 j, u64 n0, bool live) {
    using Weight = typename WeightOf<W, A>::type;
    constexpr u32 COLUMNS = experts_columns<A>();
    u32 lanes = u32(args.lanes);
    Index index = read_index(args.ids, args.ids_kind, i64(i) * args.ids_stride[0] + i64(j) * args.ids_stride[1]);
    bool present = !index.absent && index.value >= 0 && u64(index.value) < args.experts;
    bool first_lane = (opaque(lane_id()) & (lanes - 1)) == 0;
    if (!present && !index.absent && live && first_lane && n0 == 0) {
        record_index_error(args.error, args.op, args.operand, i * args.choices.by + j, index.value, args.experts);
    }
    i64 expert = present ? index.value : 0;
    A sum[COLUMNS] = {};
    i64 row = i64(i) * args.x_stride[0] + i64(j) * args.x_stride[1];
    const u8* column[COLUMNS];
    OPS_UNROLL
    for (u32 o = 0; o < COLUMNS; o++) {
        // Outputs past the end repeat the last one; their results are not stored.
        u64 at = n0 + o < args.outputs ? n0 + o : args.outputs - 1;
        column[o] = static_cast<const u8*>(args.weight) +
                    (expert * args.weight_stride[0] + i64(at) * args.weight_stride[1]) * i64(Weight::BYTES);
    }
    u64 chunks = present ? (args.d + 7) / 8 : 0;
    OPS_NO_UNROLL
    for (u64 c = opaque(lane_id()) & (lanes - 1); c < chunks; c += lanes) {
        u64 left = args.d - 8 * c;
        u32 count = left < 8 ? u32(left) : 8;
        A x[8];
        load_x(x, args, row, c, count);
        OPS_UNROLL
        for (u32 o = 0; o < COLUMNS; o++) {
            A w[8];
            Weight::load(w, column[o], args.weight_stride[2], c, count);
            OPS_UNROLL
            for (u32 e = 0; e < 8; e++) sum[o] = mad(x[e], w[e], sum[o]);
        }
    }
    OPS_UNROLL
    for (u32 o = 0; o < COLUMNS; o++) {
        A value = reduce_lanes(sum[o], lanes, Sum());
        if (!first_lane || !live || n0 + o >= args.outputs) continue;
        i64 at = i64(n0 + o);
        if (present && args.bias != nullptr) {
            value += float_at<A>(args.bias, args.bias_kind, expert * args.bias_stride[0] + at * args.bias_stride[1]);
        }
        i64 to = i64(i) * args.y_stride[0] + i64(j) * args.y_stride[1] + at * args.y_stride[2];
        store_float(static_cast<void*>(args.y), args.kind, to, value);
    }
}

template <typename W, typename A> OPS_DEVICE void linear_experts(const ExpertsArgs& args) {
    u64 groups = args.rows * args.groups.by;
    u32 per_wave = OPS_WAVE / u32(args.lanes);
    u64 first = (u64(block_x()) * (EXPERTS_BLOCK / OPS_WAVE) + wave_id()) * per_wave;
    u64 step = u64(grid_x()) * (EXPERTS_BLOCK / OPS_WAVE) * per_wave;
    OPS_NO_UNROLL
    for (; first < groups; first += step) {
        const ExpertsArgs& now = reread(args);
        // A group past the end repeats the last one and writes nothing.
        u64 at = first + lane_id() / u32(now.lanes);
        bool live = at < groups;
        at = live ? at : groups - 1;
        u64 row = divide(now.groups, at), token = divide(now.choices, row);
        expert_columns<W, A>(now, token, row - token * now.choices.by, (at - row * now.groups.by) * experts_columns<A>(), live);
    }
}

}  // namespace ops
