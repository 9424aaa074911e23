// linear_experts for few rows by a weight of blocks, with x rounded to bytes and four products per instruction. split: rounds the rows
// of x. dot1: a block computes outputs of one row, and each of its groups of lanes a few of them. In the arguments, `tiles` is where the
// bytes of x are, and `slots` how many rows of x there are.
#include "ops_byte_planes.h"
#include "ops_experts_fused.h"

namespace ops {

// Outputs that a group of lanes computes together.
constexpr u32 EXPERT_COLUMNS = 4;

OPS_DEVICE u8* planes_of(const ExpertsArgs& args) { return reinterpret_cast<u8*>(static_cast<ExpertTile*>(args.tiles)); }

// Whether all choices of a token multiply the same row of x.
OPS_DEVICE bool is_shared(const ExpertsArgs& args) { return args.x_stride[1] == 0; }

template <u32 VALUES = 4> OPS_DEVICE void expert_split(const ExpertsArgs& args) {
    split_rows(planes_of(args), u32(args.slots), args.d, [&](f32 (&x)[VALUES], u64 row, u32 at) OPS_INLINE {
        i64 from = is_shared(args) ? i64(row) * args.x_stride[0] : choice_offset(args, args.x_stride, row);
        OPS_UNROLL
        for (u32 i = 0; i < VALUES; i++) x[i] = float_at<f32>(args.x, args.kind, from + i64(at + i) * args.x_stride[2]);
    });
}

// Adds the products of row `row` of x with outputs from n0 on. The waves of a group take the steps in turns.
template <typename B>
OPS_DEVICE void add_products(f32 (&sum)[EXPERT_COLUMNS], const ExpertsArgs& args, u32 row, u32 expert, u64 n0) {
    const B* column[EXPERT_COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < EXPERT_COLUMNS; j++) {
        // Outputs past the end repeat the last one; their results are not stored.
        u64 n = n0 + j < args.outputs ? n0 + j : args.outputs - 1;
        column[j] = static_cast<const B*>(args.weight) + i64(expert) * args.weight_stride[0] + i64(n) * args.weight_stride[1];
    }
    u32 steps = u32(args.d / STEP_VALUES), lanes = u32(args.lanes);
    OPS_NO_UNROLL
    for (u32 b = opaque(thread_x() & (lanes - 1)); b < steps; b += lanes) {
        Step<B> w[EXPERT_COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < EXPERT_COLUMNS; j++) w[j].load(column[j], args.weight_stride[2], b);
        ByteStep x = read_step(planes_of(args) + group_at(u32(args.slots), row, b), b);
        GroupSums<B> sums(x.head);
        OPS_UNROLL
        for (u32 j = 0; j < EXPERT_COLUMNS; j++) sum[j] = add_step(sum[j], w[j], x, sums);
    }
}

template <typename B> OPS_DEVICE void expert_dot(const ExpertsArgs& args) {
    constexpr u32 LANES_OF_SUM = OPS_WAVE / EXPERT_COLUMNS;
    OPS_LDS(f32, parts, EXPERT_COLUMNS * (EXPERTS_BLOCK / 32));
    u32 lanes = u32(args.lanes), log = log2_of_lanes(lanes), group = same_in_wave(wave_id() * OPS_WAVE >> log);
    u32 outputs = (EXPERTS_BLOCK >> log) * EXPERT_COLUMNS;  // of a block
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < args.rows * args.groups.by; at += grid_x()) {
        const ExpertsArgs& now = reread(args);
        u64 choice = divide(now.groups, at), token = divide(now.choices, choice);
        u64 first = (at - choice * now.groups.by) * outputs, n0 = first + group * EXPERT_COLUMNS;
        u32 expert = same_in_wave(chosen_expert(now, choice, first == 0 && thread_x() == 0));
        f32 sum[EXPERT_COLUMNS] = {};
        if (expert != NO_EXPERT) add_products<B>(sum, now, u32(is_shared(now) ? token : choice), expert, n0);
        u32 mine = lane_id() / LANES_OF_SUM;
        f32 total = sum_group<EXPERT_COLUMNS>(sum_columns<EXPERT_COLUMNS>(sum), mine, lanes / OPS_WAVE, parts);
        u64 n = n0 + mine;
        bool writes = (thread_x() & (lanes - 1)) < OPS_WAVE && lane_id() % LANES_OF_SUM == 0;
        if (!writes || n >= now.outputs) continue;
        if (expert != NO_EXPERT) total += expert_bias<f32>(now, expert, n);
        store_float(static_cast<void*>(now.y), now.kind, choice_offset(now, now.y_stride, choice) + i64(n) * now.y_stride[2], total);
    }
}

// ---- fused with the step after it ----------------------------------------------------

// Groups of 32 steps that a block holds.
constexpr u32 HELD_GROUPS = 16;
// Steps that the threads of a block round at a time, and how often before they wait for each other's loads.
constexpr u32 TURN_STEPS = EXPERTS_BLOCK / LANES, TURNS = 4;

template <typename B> struct BlockRows {
    static constexpr u64 BYTES = sizeof(B);
    OPS_METHOD static u32 units(const ExpertsArgs& args) { return u32(args.d / STEP_VALUES); }
    OPS_METHOD static void hold(const ExpertsFusedArgs& args, const Held& held, u64 first, u32 count) {
        u32 steps = units(args.of), all = count * steps;
        OPS_NO_UNROLL
        for (u32 from = 0; from < all; from += TURNS * TURN_STEPS) {
            f32 x[TURNS][4];
            u32 at[TURNS], block[TURNS];
            OPS_UNROLL
            for (u32 turn = 0; turn < TURNS; turn++) {
                u32 step = from + turn * TURN_STEPS + thread_x() / LANES, row = (step < all ? step : all - 1) / steps;
                block[turn] = (step < all ? step : all - 1) - row * steps;
                at[turn] = group_at(u32(args.together), row, block[turn]);
                i64 to = choice_offset(args.of, args.of.x_stride, first + row);
                f32 factor = factor_of(args, first + row);
                OPS_UNROLL
                for (u32 i = 0; i < 4; i++) {
                    i64 value = block[turn] * STEP_VALUES + lane_id() % LANES * 4 + i;
                    x[turn][i] = factor * float_at<f32>(args.of.x, args.of.kind, to + value * args.of.x_stride[2]);
                }
            }
            OPS_UNROLL
            for (u32 turn = 0; turn < TURNS; turn++) {
                u32 step = from + turn * TURN_STEPS + thread_x() / LANES;
                split_block(held.planes + at[turn], block[turn], x[turn], step < all);
            }
        }
    }
    OPS_METHOD static void add(f32 (&sum)[FUSED_COLUMNS], const u8* const (&column)[FUSED_COLUMNS], const ExpertsFusedArgs& args,
                               const Held& held, u32 j, u64, u32 unit) {
        Step<B> w[FUSED_COLUMNS];
        OPS_UNROLL
        for (u32 o = 0; o < FUSED_COLUMNS; o++) w[o].load(reinterpret_cast<const B*>(column[o]), args.of.weight_stride[2], unit);
        ByteStep x = read_step(held.planes + group_at(u32(args.together), j, unit), unit);
        GroupSums<B> sums(x.head);
        OPS_UNROLL
        for (u32 o = 0; o < FUSED_COLUMNS; o++) sum[o] = add_step(sum[o], w[o], x, sums);
    }
};

template <typename B> OPS_DEVICE void experts_swiglu(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MOST_TOGETHER);
    OPS_LDS(f32, factor, MOST_TOGETHER);
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    OPS_LDS(u8, planes, HELD_GROUPS * GROUP_BYTES);
    experts_gated<BlockRows<B>>(args, Held{expert, factor, planes}, parts);
}

template <typename B> OPS_DEVICE void experts_combine(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MOST_TOGETHER);
    OPS_LDS(f32, factor, MOST_TOGETHER);
    OPS_LDS(f32, parts, FUSED_COLUMNS * (EXPERTS_BLOCK / 32));
    OPS_LDS(u8, planes, HELD_GROUPS * GROUP_BYTES);
    experts_combined<BlockRows<B>>(args, Held{expert, factor, planes}, parts);
}

}  // namespace ops
