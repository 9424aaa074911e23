// linear_experts: y[i, j] = weight[ids[i, j]] x[i, min(j, m - 1)] + bias[ids[i, j]]. A group of lanes computes a few outputs of one
// row; its expert's number is read on the device. The weight is of floats, or of blocks along d. The types of x, y and the bias
// are values here. For many rows there are experts_sort.hip and the kernels that follow it. linear_experts_swiglu and
// linear_experts_combine are in ops_experts_fused.h.
#include "ops_blocks.h"
#include "ops_experts_fused.h"

namespace ops {

// Outputs that a group of lanes computes together. With sums of f64 there are no registers for more than one.
template <typename A> OPS_DEVICE constexpr u32 experts_columns() { return sizeof(A) == 8 ? 1 : 4; }

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

// ---- fused with the step after it ----------------------------------------------------

template <typename W> struct FloatRows {
    static constexpr u64 BYTES = sizeof(W);
    OPS_METHOD static u32 units(const ExpertsArgs& args) { return u32((args.d + 7) / 8); }
    OPS_METHOD static void hold(const ExpertsFusedArgs&, const Held&, u64, u32) {}
    OPS_METHOD static void add(f32 (&sum)[FUSED_COLUMNS], const u8* const (&column)[FUSED_COLUMNS], const ExpertsFusedArgs& args,
                               const Held& held, u32 j, u64 choice, u32 unit) {
        u64 left = args.of.d - 8 * u64(unit);
        u32 count = left < 8 ? u32(left) : 8;
        f32 x[8], factor = held.factor[j];
        load_x(x, args.of, choice_offset(args.of, args.of.x_stride, choice), unit, count);
        OPS_UNROLL
        for (u32 e = 0; e < 8; e++) x[e] *= factor;
        OPS_UNROLL
        for (u32 o = 0; o < FUSED_COLUMNS; o++) {
            f32 w[8];
            WeightRow<W, f32>::load(w, column[o], args.of.weight_stride[2], unit, count);
            OPS_UNROLL
            for (u32 e = 0; e < 8; e++) sum[o] = mad(x[e], w[e], sum[o]);
        }
    }
};

template <typename W> OPS_DEVICE void experts_swiglu(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MOST_TOGETHER);
    OPS_LDS(f32, factor, MOST_TOGETHER);
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    experts_gated<FloatRows<W>>(args, Held{expert, factor, nullptr}, parts);
}

template <typename W> OPS_DEVICE void experts_combine(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MOST_TOGETHER);
    OPS_LDS(f32, factor, MOST_TOGETHER);
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    experts_combined<FloatRows<W>>(args, Held{expert, factor, nullptr}, parts);
}

}  // namespace ops
