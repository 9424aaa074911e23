// linear_experts with few tokens, fused with the step after it: arguments, choices, and what follows the products.
#pragma once
#include "ops_columns.h"
#include "ops_experts.h"
#include "ops_paired.h"

namespace ops {

struct ExpertsFusedArgs {
    ExpertsArgs of;          // of floats, `rows` are choices, or tokens where they are added; with blocks, `slots` are thread blocks per row of x
    Address<const void> up;  // has the strides of the gate
    Address<const f32> up_bias;
    i64 up_bias_stride[2];
    Address<const f32> weights;  // of the choices; null where they are not added
    i64 weights_stride[2];
    f32 alpha;
    f32 limit;  // infinity if there is no limit
    f32 shift;  // added to the up
    u32 reserved;
};

// The most choices of a token.
constexpr u32 MAX_CHOICES = 64;

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

// The experts and weights of choices, in LDS.
struct LdsChoices {
    u32* expert;
    f32* factor;
};

// Reads `count` choices from `first` on. The block must have passed a barrier since it last used the memory.
OPS_DEVICE void read_choices(const ExpertsFusedArgs& args, const LdsChoices& choices, u64 first, u32 count, bool records) {
    if (thread_x() < count) {
        u64 choice = first + thread_x();
        choices.expert[thread_x()] = chosen_expert(args.of, choice, records);
        const f32* weights = args.weights;
        choices.factor[thread_x()] = weights == nullptr ? 1.0f : weights[choice_offset(args.of, args.weights_stride, choice)];
    }
    barrier();
}

OPS_DEVICE f32 up_bias(const ExpertsFusedArgs& args, u32 expert, u64 n) {
    const f32* bias = args.up_bias;
    return bias == nullptr ? 0.0f : bias[i64(expert) * args.up_bias_stride[0] + i64(n) * args.up_bias_stride[1]];
}

// g sigmoid(alpha g) (u + shift), with g at most the limit and u within it; 0 without an expert.
OPS_DEVICE void store_gated(const ExpertsFusedArgs& args, u64 choice, u32 expert, u64 n, f32 gate, f32 up) {
    f32 y = 0, limit = args.limit;
    if (expert != NO_EXPERT) {
        f32 g = minimum(gate, limit), u = minimum(maximum(up, -limit), limit);
        y = g * sigmoid(args.alpha * g) * (u + args.shift);
    }
    i64 at = choice_offset(args.of, args.of.y_stride, choice) + i64(n) * args.of.y_stride[2];
    store_float(static_cast<void*>(args.of.y), args.of.kind, at, y);
}

// Adds the biases of a token's experts, times their weights.
OPS_DEVICE void store_combined(const ExpertsFusedArgs& args, const LdsChoices& choices, u64 token, u64 n, f32 total) {
    if (args.of.bias != nullptr) {
        OPS_NO_UNROLL
        for (u32 j = 0; j < u32(args.of.choices.by); j++) {
            u32 expert = choices.expert[j];
            if (expert != NO_EXPERT) total = mad(choices.factor[j], expert_bias<f32>(args.of, expert, n), total);
        }
    }
    i64 at = i64(token) * args.of.y_stride[0] + i64(n) * args.of.y_stride[2];
    store_float(static_cast<void*>(args.of.y), args.of.kind, at, total);
}

}  // namespace ops
