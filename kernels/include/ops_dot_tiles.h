// The weight of a product of one row: tiles of its rows.
#pragma once
#include "ops_dot_step.h"
#include "ops_paired.h"

namespace ops {

constexpr u32 DOT_BLOCK = 256;
// Tiles of columns of which a block keeps the sums of its waves before it adds them up.
constexpr u32 ROW_TILES = 16;
constexpr u32 MOST_COLUMNS = 4;
// Columns that a group computes together: a tile. Two scales to a step, or codes in two places, take the registers of two more.
template <typename B> OPS_DEVICE constexpr u32 row_columns() {
    return Step<B>::GROUPS > 1 || sizeof(typename B::Eight) > 16 ? 2 : MOST_COLUMNS;
}

OPS_DEVICE constexpr u32 log2_of(u32 power) { return power < 2 ? 0 : 1 + log2_of(power / 2); }

// The columns of a block, in tiles of row_columns() for each of its groups of lanes. All counts are powers of two.
template <typename B, bool PAIRED> struct RowTiles {
    static constexpr u32 COLUMNS = row_columns<B>(), OUTPUTS = outputs_of<PAIRED, COLUMNS>(), STEPS = B::VALUES / STEP_VALUES;
    u32 lanes, steps, groups, group, wave, waves;  // waves of a group
    u32 most;                                      // the last column
    u32 log_outputs;                               // the binary logarithm of the outputs of a tile
    u64 all;
    OPS_METHOD RowTiles(const QLinearArgs& args) {
        lanes = u32(args.lanes);
        steps = u32(args.k / STEP_VALUES);
        u32 log = log2_of_lanes(lanes);
        groups = DOT_BLOCK >> log;
        group = same_in_wave(thread_x() >> log);
        waves = lanes / OPS_WAVE;
        wave = wave_id() & (waves - 1);
        most = u32(args.n - 1);
        log_outputs = log2_of(OUTPUTS * DOT_BLOCK) - log;
        all = (args.n + (1u << log_outputs) - 1) >> log_outputs;
    }
    // Reads step `step` of this group's columns of a tile, whose block is `block` blocks from the start of a row. Columns past the end repeat
    // the last one; their results are not stored.
    OPS_METHOD void load(Step<B> (&w)[COLUMNS], const QLinearArgs& args, u64 tile, i64 block, u32 step) const {
        u32 first = (u32(tile) * groups + group) * OUTPUTS;
        if (first > most) first = most;
        u32 last = most - first;
        i64 skip = i64(first) * args.weight_row + block;
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 column = j % OUTPUTS < last ? j % OUTPUTS : last;
            const void* of = PAIRED && j >= OUTPUTS ? args.up : args.weight;
            w[j].load(static_cast<const B*>(of) + (skip + i64(column) * args.weight_row), 0, step % STEPS);
        }
    }
    // Where this lane's wave keeps the sum that sum_columns() gave it, for tile `i` of the block.
    OPS_METHOD u32 slot(u32 i) const {
        return ((i * groups + group) * COLUMNS + lane_id() / (OPS_WAVE / COLUMNS)) * waves + wave;
    }
};

}  // namespace ops
