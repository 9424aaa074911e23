// Reductions over a group of lanes and over a block, on the physical wave.
#pragma once
#include "ops_math.h"

namespace ops {

struct Sum {
    template <typename A> OPS_METHOD A operator()(A a, A b) const { return a + b; }
};
struct Max {
    template <typename A> OPS_METHOD A operator()(A a, A b) const { return maximum(a, b); }
};

// Every lane of each aligned group of `width` lanes gets the group's total. All lanes of the wave take part.
template <typename F, typename A> OPS_DEVICE A reduce_lanes(A value, u32 width, F f) {
    for (u32 mask = width / 2; mask > 0; mask /= 2) value = f(value, shuffle_xor(value, mask, width));
    return value;
}

// Slots of LDS that reduce_block wants, enough for either wave size.
template <u32 BLOCK> OPS_DEVICE constexpr u32 reduce_slots() { return BLOCK / 32; }

// Every thread of the block gets the total. `scratch` holds reduce_slots<BLOCK>() values and may be
// used again at once.
template <u32 BLOCK, typename F, typename A> OPS_DEVICE A reduce_block(A value, A* scratch, F f) {
    constexpr u32 waves = BLOCK / OPS_WAVE;
    value = reduce_lanes(value, OPS_WAVE, f);
    if (waves == 1) return value;
    if (lane_id() == 0) scratch[wave_id()] = value;
    barrier();
    value = scratch[0];
    for (u32 w = 1; w < waves; w++) value = f(value, scratch[w]);
    barrier();
    return value;
}

}  // namespace ops
