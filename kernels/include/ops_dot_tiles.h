// The weight of a product of one row: tiles of its rows.
#pragma once
#include "ops_dot_step.h"
#include "ops_paired.h"
#include "ops_row_step.h"

namespace ops {

constexpr u32 DOT_BLOCK = 256;
// Tiles of columns of which a block keeps the sums of its waves before it adds them up.
constexpr u32 ROW_TILES = 16;
constexpr u32 MOST_COLUMNS = 4;

OPS_DEVICE constexpr u32 log2_of(u32 power) { return power < 2 ? 0 : 1 + log2_of(power / 2); }

struct Nothing {};

// A lane's step of every column.
struct RowPlace {
    u32 step;
    i64 block;  // that holds it, from the start of a row
    bool live;  // whether the row has the step; if not, it is the last one
};

OPS_DEVICE const QLinearArgs& product_of(const QLinearArgs& args) { return args; }

// The columns of a block, in tiles of COLUMNS for each of its groups of lanes. All counts are powers of two.
template <typename B, bool PAIRED> struct RowTiles {
    using Block = B;
    static constexpr bool PAIRS = PAIRED;
    static constexpr u32 COLUMNS = RowStep<B>::COLUMNS, OUTPUTS = outputs_of<PAIRED, COLUMNS>(), STEPS = B::VALUES / STEP_VALUES;
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
    // The caller's step of the piece of a row that begins at step `piece`.
    OPS_METHOD RowPlace place(const QLinearArgs& args, u32 piece) const {
        u32 step = piece + (thread_x() & (lanes - 1));
        bool live = step < steps;
        if (!live) step = steps - 1;
        return RowPlace{step % STEPS, i64(step / STEPS) * args.weight_block, live};
    }
    // Reads that step of this group's columns of a tile. Columns past the end repeat the last one; their results are not stored.
    OPS_METHOD void load(RowStep<B> (&w)[COLUMNS], const QLinearArgs& args, u64 tile, const RowPlace& at) const {
        u32 first = (u32(tile) * groups + group) * OUTPUTS;
        if (first > most) first = most;
        u32 last = most - first;
        i64 skip = i64(first) * args.weight_row + at.block;
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 column = j % OUTPUTS < last ? j % OUTPUTS : last;
            const void* of = PAIRED && j >= OUTPUTS ? args.up : args.weight;
            w[j].load(static_cast<const B*>(of) + (skip + i64(column) * args.weight_row), at.step);
        }
    }
    // Data that the stores need and that is loaded before the product. These tiles need none.
    template <typename Args> OPS_METHOD Nothing ahead(const Args&) const { return Nothing{}; }
    // Where this lane's wave keeps the sum that sum_columns() gave it, for tile `i` of the block.
    OPS_METHOD u32 slot(u32 i) const {
        return ((i * groups + group) * COLUMNS + lane_id() / (OPS_WAVE / COLUMNS)) * waves + wave;
    }
};

}  // namespace ops
