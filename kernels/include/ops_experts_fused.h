// linear_experts with few rows, fused with the step after it. A group of lanes computes a few outputs; its waves take the units of the rows in
// turns. A unit is eight values of floats, or a step of blocks: `Rows` is FloatRows or BlockRows.
#pragma once
#include "ops_columns.h"
#include "ops_experts.h"
#include "ops_paired.h"

namespace ops {

struct ExpertsFusedArgs {
    ExpertsArgs of;          // its rows are choices, or tokens where choices are added
    Address<const void> up;  // has the strides of the gate
    Address<const f32> up_bias;
    i64 up_bias_stride[2];
    Address<const f32> weights;  // of the choices; null where they are not added
    i64 weights_stride[2];
    u64 together;  // rows of x that a block holds
    f32 alpha;
    f32 limit;  // infinite without one
    f32 shift;  // added to the up
    u32 reserved;
};

// Columns that a group of lanes computes together.
constexpr u32 FUSED_COLUMNS = 4;
// The most rows that a block holds.
constexpr u32 MOST_TOGETHER = 16;

constexpr u32 NO_EXPERT = 0xffffffffu;

// The expert of a choice. An index outside the experts is recorded by the thread that `records`.
OPS_DEVICE u32 chosen_expert(const ExpertsArgs& args, u64 choice, bool records) {
    Index index = read_index(args.ids, args.ids_kind, choice_offset(args, args.ids_stride, choice));
    bool present = !index.absent && index.value >= 0 && u64(index.value) < args.experts;
    if (!present && !index.absent && records) {
        record_index_error(args.error, args.op, args.operand, choice, index.value, args.experts);
    }
    return present ? u32(index.value) : NO_EXPERT;
}

// What a choice is multiplied by.
OPS_DEVICE f32 factor_of(const ExpertsFusedArgs& args, u64 choice) {
    return args.weights == nullptr ? 1.0f : static_cast<const f32*>(args.weights)[choice_offset(args.of, args.weights_stride, choice)];
}

// What a block has in LDS of the choices that it multiplies.
struct Held {
    u32* expert;
    f32* factor;
    u8* planes;  // of blocks: their rows in bytes, times their factors
};

// Reads `count` choices from `first` on. The block must have passed a barrier since it last used what it held.
template <typename Rows>
OPS_DEVICE void hold(const ExpertsFusedArgs& args, const Held& held, u64 first, u32 count, bool records) {
    if (thread_x() < count) {
        held.expert[thread_x()] = chosen_expert(args.of, first + thread_x(), records);
        held.factor[thread_x()] = factor_of(args, first + thread_x());
    }
    Rows::hold(args, held, first, count);
    barrier();
}

// Output n of an expert in bytes from the start of the weight.
template <typename Rows> OPS_DEVICE i64 column_at(const ExpertsArgs& args, u32 expert, u64 n) {
    // Outputs past the end repeat the last one; their results are not stored.
    u64 column = n < args.outputs ? n : args.outputs - 1;
    return (i64(expert) * args.weight_stride[0] + i64(column) * args.weight_stride[1]) * i64(Rows::BYTES);
}

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
    OPS_METHOD f32 total(f32 (&sum)[FUSED_COLUMNS], f32* parts) const {
        return sum_group<FUSED_COLUMNS>(sum_columns<FUSED_COLUMNS>(sum), mine, lanes / OPS_WAVE, parts);
    }
};

OPS_DEVICE f32 up_bias(const ExpertsFusedArgs& args, u32 expert, u64 n) {
    const f32* bias = args.up_bias;
    return bias == nullptr ? 0.0f : bias[i64(expert) * args.up_bias_stride[0] + i64(n) * args.up_bias_stride[1]];
}

// g sigmoid(alpha g) (u + shift), both within the limit.
OPS_DEVICE f32 clamped_gated(const ExpertsFusedArgs& args, f32 gate, f32 up) {
    f32 limit = args.limit, g = minimum(gate, limit), u = minimum(maximum(up, -limit), limit);
    return g * sigmoid(args.alpha * g) * (u + args.shift);
}

// A gated unit: columns are of the gate and the up in turn.
template <typename Rows> OPS_DEVICE void experts_gated(const ExpertsFusedArgs& args, const Held& held, f32* parts) {
    constexpr u32 OUTPUTS = outputs_of<true, FUSED_COLUMNS>();
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < args.of.rows * args.of.groups.by; at += grid_x()) {
        const ExpertsFusedArgs& now = reread(args);
        FusedPlace place(u32(now.of.lanes), OUTPUTS);
        u64 choice = divide(now.of.groups, at), first = (at - choice * now.of.groups.by) * place.outputs;
        u64 n0 = first + place.group * OUTPUTS;
        hold<Rows>(now, held, choice, 1, first == 0);
        u32 expert = same_in_wave(held.expert[0]);
        f32 sum[FUSED_COLUMNS] = {};
        const u8* column[FUSED_COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < FUSED_COLUMNS; j++) {
            const void* weight = j % 2 == 0 ? now.of.weight : now.up;
            column[j] = static_cast<const u8*>(weight) + column_at<Rows>(now.of, expert == NO_EXPERT ? 0 : expert, n0 + j / 2);
        }
        u32 units = expert == NO_EXPERT ? 0 : Rows::units(now.of);
        OPS_NO_UNROLL
        for (u32 u = opaque(thread_x() & (place.lanes - 1)); u < units; u += place.lanes) {
            Rows::add(sum, column, now, held, 0, choice, u);
        }
        f32 total = place.total(sum, parts);
        u64 n = n0 + place.mine / 2;
        bool stores = place.writes && n < now.of.outputs;
        if (stores && expert != NO_EXPERT) {
            total += place.mine % 2 == 0 ? expert_bias<f32>(now.of, expert, n) : up_bias(now, expert, n);
        }
        f32 y = clamped_gated(now, total, shuffle_xor(total, OPS_WAVE / FUSED_COLUMNS, OPS_WAVE));
        if (stores && place.mine % 2 == 0) {
            if (expert == NO_EXPERT) y = 0;
            store_float(static_cast<void*>(now.of.y), now.of.kind, choice_offset(now.of, now.of.y_stride, choice) + i64(n) * now.of.y_stride[2], y);
        }
        barrier();
    }
}

// What the biases of a token's experts add to output n.
OPS_DEVICE f32 sum_of_biases(const ExpertsFusedArgs& args, u64 token, u64 n) {
    f32 sum = 0;
    if (args.of.bias == nullptr) return sum;
    OPS_NO_UNROLL
    for (u64 choice = token * args.of.choices.by; choice < (token + 1) * args.of.choices.by; choice++) {
        u32 expert = chosen_expert(args.of, choice, false);
        if (expert != NO_EXPERT) sum = mad(factor_of(args, choice), expert_bias<f32>(args.of, expert, n), sum);
    }
    return sum;
}

// The weighted sum of a token's choices: the lanes of a group share the units of all of them.
template <typename Rows> OPS_DEVICE void experts_combined(const ExpertsFusedArgs& args, const Held& held, f32* parts) {
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < args.of.rows * args.of.groups.by; at += grid_x()) {
        const ExpertsFusedArgs& now = reread(args);
        FusedPlace place(u32(now.of.lanes), FUSED_COLUMNS);
        u64 token = divide(now.of.groups, at), first = (at - token * now.of.groups.by) * place.outputs;
        u64 n0 = first + place.group * FUSED_COLUMNS;
        u32 units = Rows::units(now.of), choices = u32(now.of.choices.by);
        f32 sum[FUSED_COLUMNS] = {};
        OPS_NO_UNROLL
        for (u32 from = 0; from < choices; from += u32(now.together)) {
            u32 left = choices - from, count = left < u32(now.together) ? left : u32(now.together);
            u64 choice = token * choices + from;
            if (from > 0) barrier();
            hold<Rows>(now, held, choice, count, first == 0);
            OPS_NO_UNROLL
            for (u32 at = opaque(thread_x() & (place.lanes - 1)); at < count * units; at += place.lanes) {
                u32 j = at / units, expert = held.expert[j];
                if (expert == NO_EXPERT) continue;
                const u8* weight = static_cast<const u8*>(static_cast<const void*>(now.of.weight));
                const u8* column[FUSED_COLUMNS];
                OPS_UNROLL
                for (u32 o = 0; o < FUSED_COLUMNS; o++) {
                    column[o] = weight + column_at<Rows>(now.of, expert, n0 + o);
                }
                Rows::add(sum, column, now, held, j, choice + j, at - j * units);
            }
        }
        f32 total = place.total(sum, parts);
        u64 n = n0 + place.mine;
        if (place.writes && n < now.of.outputs) {
            total += sum_of_biases(now, token, n);
            store_float(static_cast<void*>(now.of.y), now.of.kind, i64(token) * now.of.y_stride[0] + i64(n) * now.of.y_stride[2], total);
        }
        barrier();
    }
}

}  // namespace ops
