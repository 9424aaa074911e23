// The weight of a product of one row: tiles of its rows.
#pragma once
#include "ops_dot_step.h"
#include "ops_paired.h"

namespace ops {

constexpr u32 DOT_BLOCK = 256;
// Tiles of columns of which a block keeps the sums of its waves before it adds them up.
constexpr u32 ROW_TILES = 16;
constexpr u32 MOST_COLUMNS = 4;
// Columns that a group computes together: a tile. Scales and minima of super-blocks take the registers of two more.
template <typename B> OPS_DEVICE constexpr u32 row_columns() { return B::VALUES > STEP_VALUES ? 2 : MOST_COLUMNS; }

// The columns of a block, in tiles of row_columns() for each of its groups of lanes.
template <typename B, bool PAIRED> struct RowTiles {
    static constexpr u32 COLUMNS = row_columns<B>(), OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    u32 lanes, steps, groups, group, wave, waves;  // waves of a group
    u64 all;
    OPS_METHOD RowTiles(const QLinearArgs& args) {
        lanes = u32(args.lanes);
        steps = u32(args.k / STEP_VALUES);
        groups = DOT_BLOCK / lanes;
        group = thread_x() / lanes;
        waves = lanes / OPS_WAVE;
        wave = wave_id() & (waves - 1);
        all = (args.n + OUTPUTS * groups - 1) / (OUTPUTS * groups);
    }
    // Reads step `step` of this group's columns of a tile. Columns past the end repeat the last one; their results are not stored.
    OPS_METHOD void load(Step<B> (&w)[COLUMNS], const QLinearArgs& args, u64 tile, u32 step) const {
        u64 first = (tile * groups + group) * OUTPUTS, most = args.n - 1;
        if (first > most) first = most;
        u32 last = most - first < OUTPUTS - 1 ? u32(most - first) : OUTPUTS - 1;
        i64 skip = i64(first) * args.weight_row;
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 column = j % OUTPUTS < last ? j % OUTPUTS : last;
            const void* of = PAIRED && j >= OUTPUTS ? args.up : args.weight;
            w[j].load(static_cast<const B*>(of) + (skip + i64(column) * args.weight_row), args.weight_block, step);
        }
    }
    // Where this lane's wave keeps the sum that sum_columns() gave it, for tile `i` of the block.
    OPS_METHOD u32 slot(u32 i) const {
        return ((i * groups + group) * COLUMNS + lane_id() / (OPS_WAVE / COLUMNS)) * waves + wave;
    }
};

}  // namespace ops
