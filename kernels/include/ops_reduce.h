// Reductions over a group of lanes and over a thread block, on the physical wave.
#pragma once
#include "ops_math.h"

namespace ops {

struct Sum {
    template <typename A> OPS_METHOD A operator()(A a, A b) const { return a + b; }
};
struct Max {
    template <typename A> OPS_METHOD A operator()(A a, A b) const { return maximum(a, b); }
};
struct Larger {
    template <typename A> OPS_METHOD A operator()(A a, A b) const { return larger(a, b); }
};

// Gives every lane of each aligned group of `width` lanes the group's total. All lanes of the wave must take part.
template <typename F, typename A> OPS_DEVICE A reduce_lanes(A value, u32 width, F f) {
    for (u32 mask = width / 2; mask > 0; mask /= 2) value = f(value, shuffle_xor(value, mask, width));
    return value;
}

// LDS slots for a reduction of at most two values, enough for either wave size; and for a loop of
// reductions, which alternate between two halves.
template <u32 BLOCK> OPS_DEVICE constexpr u32 reduce_slots() { return 2 * BLOCK / 32; }
template <u32 BLOCK> OPS_DEVICE constexpr u32 turns_slots() { return 2 * reduce_slots<BLOCK>(); }

// Gives every thread of the block the totals of VALUES values. The block must pass another barrier
// before it reuses `scratch`; a reduction in the other half counts as one.
template <u32 BLOCK, u32 VALUES, typename F, typename A>
OPS_DEVICE void reduce_block(A (&value)[VALUES], A* scratch, F f) {
    static_assert(VALUES <= 2, "reduce_slots reserves LDS for at most two values");
    constexpr u32 waves = BLOCK / OPS_WAVE;
    OPS_UNROLL
    for (u32 i = 0; i < VALUES; i++) {
        value[i] = reduce_lanes(value[i], OPS_WAVE, f);
        if (waves > 1 && lane_id() == 0) scratch[wave_id() * VALUES + i] = value[i];
    }
    if (waves == 1) return;
    barrier();
    OPS_UNROLL
    for (u32 i = 0; i < VALUES; i++) {
        value[i] = scratch[i];
        for (u32 w = 1; w < waves; w++) value[i] = f(value[i], scratch[w * VALUES + i]);
    }
}

// Gives every thread the sum of all threads before it, and the sum of all in `total`. `scratch` has a place for each wave. The next
// call must use another.
template <u32 BLOCK, typename S> OPS_DEVICE S sum_before(S own, S* scratch, S& total) {
    S sum = own;
    for (u32 d = 1; d < OPS_WAVE; d *= 2) {
        S other = shuffle(sum, lane_id() - d, OPS_WAVE);
        if (lane_id() >= d) sum += other;
    }
    if (lane_id() == OPS_WAVE - 1) scratch[wave_id()] = sum;
    S before = shuffle(sum, lane_id() - 1, OPS_WAVE);
    if (lane_id() == 0) before = S(0);
    barrier();
    S waves = S(0);
    total = S(0);
    for (u32 w = 0; w < BLOCK / OPS_WAVE; w++) {
        if (w == wave_id()) waves = total;
        total += scratch[w];
    }
    return waves + before;
}

}  // namespace ops
