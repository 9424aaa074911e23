// linear_experts: y[i, j] = weight[ids[i, j]] x[i, min(j, m - 1)] + bias[ids[i, j]]. A group of lanes computes a few outputs of one
// row; its expert's number is read on the device. The weight is of floats, or of blocks along d. The types of x, y and the bias
// are values here. For many rows there are experts_sort.hip and the kernels that follow it. The second half
// of this file has linear_experts_swiglu and linear_experts_combine, for few tokens.
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

// Columns that a group of lanes, of one wave or several, computes together.
constexpr u32 FUSED_COLUMNS = 4;
// Which outputs a thread takes part in.
struct FusedPlace {
    u32 lanes;    // of a group
    u32 group;    // in the block
    u32 outputs;  // of the block
    u32 mine;     // the column whose sum this lane gets
    bool writes;
    OPS_METHOD FusedPlace(u32 lanes, u32 outputs_of_group) : lanes(lanes) {
        u32 log = log2_of_lanes(lanes);
        group = same_in_wave(wave_id() * OPS_WAVE >> log);
        outputs = (EXPERTS_BLOCK >> log) * outputs_of_group;
        mine = lane_id() / (OPS_WAVE / FUSED_COLUMNS);
        writes = (thread_x() & (lanes - 1)) < OPS_WAVE && lane_id() % (OPS_WAVE / FUSED_COLUMNS) == 0;
    }
    OPS_METHOD u32 lane() const { return opaque(thread_x() & (lanes - 1)); }
    OPS_METHOD f32 total(f32 (&sum)[FUSED_COLUMNS], f32* parts) const {
        return sum_group<FUSED_COLUMNS>(sum_columns<FUSED_COLUMNS>(sum), mine, lanes / OPS_WAVE, parts);
    }
};

// Eight contiguous values as they are in memory, aligned for accesses of 16 bytes.
template <typename T> struct Eight {
    static constexpr u32 PART = sizeof(T) >= 4 ? 4 : 8;
    Pack<T, PART> parts[8 / PART];
    OPS_METHOD void load(const T* from) {
        OPS_UNROLL
        for (u32 p = 0; p < 8 / PART; p++) parts[p] = load_pack<PART>(from + p * PART);
    }
    OPS_METHOD f32 value(u32 i) const { return widen(parts[i / PART].v[i % PART]); }
};

// Eight values of a row of x, times a factor.
template <typename T> OPS_DEVICE void times_row(f32 (&out)[8], const void* row, u64 at, f32 factor) {
    Eight<T> x;
    x.load(static_cast<const T*>(row) + 8 * at);
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) out[i] = factor * x.value(i);
}

// A row of x, whose type is a value.
struct FusedRow {
    const u8* data;
    u32 kind;
    f32 factor;
    OPS_METHOD FusedRow(const ExpertsArgs& args, u64 choice, f32 factor) : kind(args.kind), factor(factor) {
        data = static_cast<const u8*>(static_cast<const void*>(args.x)) +
               choice_offset(args, args.x_stride, choice) * (kind == FLOAT_F32 ? 4 : 2);
    }
    OPS_METHOD void load(f32 (&out)[8], u64 at) const {
        if (kind == FLOAT_F16) {
            times_row<f16>(out, data, at, factor);
        } else if (kind == FLOAT_BF16) {
            times_row<bf16>(out, data, at, factor);
        } else {
            times_row<f32>(out, data, at, factor);
        }
    }
};

// Adds the products of DEPTH eights of a row, `apart` eights from each other. All their weights are in flight at once.
template <u32 DEPTH, typename W>
OPS_DEVICE void add_eights(f32 (&sum)[FUSED_COLUMNS], const W* const (&column)[FUSED_COLUMNS], const FusedRow& row, u64 at, u32 apart) {
    Eight<W> w[DEPTH][FUSED_COLUMNS];
    OPS_UNROLL
    for (u32 d = 0; d < DEPTH; d++) {
        OPS_UNROLL
        for (u32 o = 0; o < FUSED_COLUMNS; o++) w[d][o].load(column[o] + 8 * (at + d * apart));
    }
    OPS_UNROLL
    for (u32 d = 0; d < DEPTH; d++) {
        f32 x[8];
        row.load(x, at + d * apart);
        OPS_UNROLL
        for (u32 e = 0; e < 8; e++) {
            OPS_UNROLL
            for (u32 o = 0; o < FUSED_COLUMNS; o++) sum[o] = mad(x[e], w[d][o].value(e), sum[o]);
        }
    }
}

// Output n of an expert. Outputs past the end repeat the last one; their results are not stored.
template <typename W> OPS_DEVICE const W* column_of(const void* weight, const ExpertsArgs& args, u32 expert, u64 n) {
    u64 column = n < args.outputs ? n : args.outputs - 1;
    return static_cast<const W*>(weight) + i64(expert) * args.weight_stride[0] + i64(column) * args.weight_stride[1];
}

// A gated unit. Unlike in other kernels, even columns are of the gate and odd ones of the up.
template <typename W> OPS_DEVICE void gated_choice(const ExpertsFusedArgs& args, f32* parts, u64 at) {
    constexpr u32 OUTPUTS = outputs_of<true, FUSED_COLUMNS>(), DEPTH = sizeof(W) == 2 ? 2 : 1;
    FusedPlace place(u32(args.of.lanes), OUTPUTS);
    u64 choice = divide(args.of.groups, at), first = (at - choice * args.of.groups.by) * place.outputs;
    u64 n0 = first + place.group * OUTPUTS, eights = args.of.d / 8, u = place.lane();
    u32 expert = same_in_wave(chosen_expert(args.of, choice, first == 0 && thread_x() == 0));
    const W* column[FUSED_COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < FUSED_COLUMNS; j++) {
        const void* weight = j % 2 == 0 ? args.of.weight : args.up;
        column[j] = column_of<W>(weight, args.of, expert == NO_EXPERT ? 0 : expert, n0 + j / 2);
    }
    f32 sum[FUSED_COLUMNS] = {};
    FusedRow row(args.of, choice, 1.0f);
    if (expert == NO_EXPERT) eights = 0;
    OPS_NO_UNROLL
    for (; DEPTH > 1 && u + place.lanes < eights; u += DEPTH * place.lanes) {
        add_eights<DEPTH>(sum, column, row, u, place.lanes);
    }
    OPS_NO_UNROLL
    for (; u < eights; u += place.lanes) add_eights<1>(sum, column, row, u, 0);
    f32 total = place.total(sum, parts);
    u64 n = n0 + place.mine / 2;
    bool stores = place.writes && n < args.of.outputs;
    if (stores && expert != NO_EXPERT) {
        total += place.mine % 2 == 0 ? expert_bias<f32>(args.of, expert, n) : up_bias(args, expert, n);
    }
    f32 up = shuffle_xor(total, OPS_WAVE / FUSED_COLUMNS, OPS_WAVE);
    if (stores && place.mine % 2 == 0) store_gated(args, choice, expert, n, total, up);
}

// The weighted sum of a token's choices: a group of lanes shares the values of all of them.
template <typename W> OPS_DEVICE void combined_token(const ExpertsFusedArgs& args, const LdsChoices& choices, f32* parts, u64 at) {
    FusedPlace place(u32(args.of.lanes), FUSED_COLUMNS);
    u64 token = divide(args.of.groups, at), first = (at - token * args.of.groups.by) * place.outputs;
    u64 n0 = first + place.group * FUSED_COLUMNS;
    u32 eights = u32(args.of.d / 8), count = u32(args.of.choices.by);
    f32 sum[FUSED_COLUMNS] = {};
    read_choices(args, choices, token * count, count, first == 0);
    OPS_NO_UNROLL
    for (u32 u = place.lane(); u < count * eights; u += place.lanes) {
        u32 j = u / eights, expert = choices.expert[j];
        if (expert == NO_EXPERT) continue;
        const W* column[FUSED_COLUMNS];
        OPS_UNROLL
        for (u32 o = 0; o < FUSED_COLUMNS; o++) column[o] = column_of<W>(args.of.weight, args.of, expert, n0 + o);
        add_eights<1>(sum, column, FusedRow(args.of, token * count + j, choices.factor[j]), u - j * eights, 0);
    }
    f32 total = place.total(sum, parts);
    u64 n = n0 + place.mine;
    if (place.writes && n < args.of.outputs) store_combined(args, choices, token, n, total);
}

template <typename F> OPS_DEVICE void for_fused_groups(const ExpertsFusedArgs& args, F visit) {
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < args.of.rows * args.of.groups.by; at += grid_x()) {
        visit(reread(args), at);
        barrier();  // before the block reuses its LDS
    }
}

template <typename W> OPS_DEVICE void experts_swiglu(const ExpertsFusedArgs& args) {
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    for_fused_groups(args, [&](const ExpertsFusedArgs& now, u64 at) OPS_INLINE { gated_choice<W>(now, parts, at); });
}

template <typename W> OPS_DEVICE void experts_combine(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MAX_CHOICES);
    OPS_LDS(f32, factor, MAX_CHOICES);
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    LdsChoices lds{expert, factor};
    for_fused_groups(args, [&](const ExpertsFusedArgs& now, u64 at) OPS_INLINE { combined_token<W>(now, lds, parts, at); });
}

}  // namespace ops
