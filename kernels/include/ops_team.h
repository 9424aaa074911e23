// Long rows: several waves of a block share one, as few as keep it in registers if that is possible.
#pragma once
#include "ops_row.h"

namespace ops {

// The `width` neighbouring lanes, whole waves and a power of two, that share a row. Like those of a Group, consecutive reductions must
// alternate between TURN 0 and 1, and all threads of the block must take part.
template <typename A, u32 BLOCK> struct Team {
    A* scratch;
    u32 width;
    u32 lane;

    OPS_METHOD Team(A* s, u64 w) : scratch(s), width(u32(w)) { lane = opaque(thread_x() & (width - 1)); }
    OPS_METHOD u32 lanes() const { return width; }
    template <u32 TURN, typename F> OPS_METHOD A reduce(A value, F f) const {
        A one[1] = {value};
        reduce_all<TURN>(one, f);
        return one[0];
    }
    template <u32 TURN, u32 VALUES, typename F> OPS_METHOD void reduce_all(A (&value)[VALUES], F f) const {
        A* slots = scratch + TURN * reduce_slots<BLOCK>();
        OPS_UNROLL
        for (u32 i = 0; i < VALUES; i++) {
            value[i] = reduce_lanes(value[i], OPS_WAVE, f);
            if (lane_id() == 0) slots[wave_id() * VALUES + i] = value[i];
        }
        barrier();
        u32 waves = width / OPS_WAVE;
        const A* of = slots + (wave_id() & ~(waves - 1)) * VALUES;
        OPS_UNROLL
        for (u32 i = 0; i < VALUES; i++) value[i] = of[i];
        OPS_UNROLL
        for (u32 w = 1; w < BLOCK / OPS_WAVE; w++) {
            if (w >= waves) break;
            OPS_UNROLL
            for (u32 i = 0; i < VALUES; i++) value[i] = f(value[i], of[w * VALUES + i]);
        }
    }
};

// Calls visit(row, live) for the rows of this team. All threads of the block run the same number of iterations; a team without a row left
// repeats the last row with live = false.
template <u32 BLOCK, typename F> OPS_DEVICE void for_team_rows(u64 rows, u32 width, F visit) {
    u32 shift = 63 - leading_zeros(width), teams = BLOCK >> shift, own = same_in_wave(thread_x() >> shift);
    for (u64 first = u64(block_x()) * teams; first < rows; first += u64(grid_x()) * teams) {
        u64 row = first + own;
        bool live = row < rows;
        visit(live ? row : rows - 1, live);
    }
}

// The lanes that share a row: a team if it takes several waves, otherwise lanes of one wave.
template <typename A, u32 BLOCK, bool TEAM> using RowGroup = typename choose<TEAM, Team<A, BLOCK>, Group<A, BLOCK, false>>::type;

// Calls visit(row, live) for the rows of this group.
template <u32 BLOCK, bool TEAM, typename F> OPS_DEVICE void for_group_rows(u64 rows, u32 width, F visit) {
    if constexpr (TEAM) {
        for_team_rows<BLOCK>(rows, width, visit);
    } else {
        for_rows<BLOCK, false>(rows, width, visit);
    }
}

}  // namespace ops
