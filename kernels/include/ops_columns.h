// Sums of the columns that a group of lanes, of one wave or several, computes together.
#pragma once
#include "ops_reduce.h"

namespace ops {

// The binary logarithm of the lanes of a group, from 32 to a block's 256.
OPS_DEVICE u32 log2_of_lanes(u32 lanes) { return 5 + u32(lanes > 32) + u32(lanes > 64) + u32(lanes > 128); }

// Sums COLUMNS values over the wave at once. Lane l of the wave gets the sum of value l / (OPS_WAVE / COLUMNS).
template <u32 COLUMNS> OPS_DEVICE f32 sum_columns(f32 (&value)[COLUMNS]) {
    u32 mask = OPS_WAVE / 2;
    OPS_UNROLL
    for (u32 half = COLUMNS / 2; half > 0; half /= 2, mask /= 2) {
        bool upper = (lane_id() & mask) != 0;
        OPS_UNROLL
        for (u32 c = 0; c < half; c++) {
            // Read before the choice: LLVM 22 makes of `upper ? value[half + c] : value[c]` an element of unknown index, and compares
            // that with every index.
            f32 low = value[c], high = value[half + c];
            f32 keep = upper ? high : low, give = upper ? low : high;
            value[c] = keep + shuffle_xor(give, mask, OPS_WAVE);
        }
    }
    return reduce_lanes(value[0], 2 * mask, Sum());
}

// The sum over a group's waves of number `mine`, of which each wave has its own part.
template <u32 SUMS> OPS_DEVICE f32 sum_group(f32 part, u32 mine, u32 waves, f32* parts) {
    if (waves == 1) return part;
    parts[wave_id() * SUMS + mine] = part;
    barrier();
    f32 total = 0;
    const f32* first = parts + (wave_id() & ~(waves - 1)) * SUMS + mine;
    OPS_NO_UNROLL
    for (u32 w = 0; w < waves; w++) total += first[w * SUMS];
    barrier();
    return total;
}

}  // namespace ops
