// One row of x times a quantized weight. A group of lanes holds the row in registers, each lane the digits of one step of
// 32 values, and multiplies row after row of the weight by it. A row that is longer than the group has lanes is taken in pieces.
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

template <typename T> OPS_DEVICE void load_four(f32 (&out)[4], const T* from, i64 stride) {
    if (stride == 1 && is_aligned(from, sizeof(T) * 4)) {
        Pack<T, 4> four = load_pack<4>(from);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) out[i] = widen(four.v[i]);
        return;
    }
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) out[i] = widen(from[i64(i) * stride]);
}

// Four values of x, its only row, from `at` on. Both 16-bit types have as many digits, so that theirs is a value.
template <u32 DIGITS> OPS_DEVICE void load_x(f32 (&out)[4], const QLinearArgs& args, u32 at) {
    const void* x = args.x.data;
    i64 stride = args.x.stride[5], offset = i64(at) * stride;
    if (DIGITS == 3) {
        load_four(out, static_cast<const f32*>(x) + offset, stride);
    } else if (args.y_kind == FLOAT_F16) {
        load_four(out, static_cast<const f16*>(x) + offset, stride);
    } else {
        load_four(out, static_cast<const bf16*>(x) + offset, stride);
    }
}

// Gives each lane of a group the digits of its step, from step `first` on; those past the end are 0.
template <u32 DIGITS>
OPS_DEVICE void hold_steps(const QLinearArgs& args, SplitStep<DIGITS>& mine, u32 first, u32* words, f32* scales) {
    // In each turn, LANES threads split a step of 32 values.
    constexpr u32 STEPS = DOT_BLOCK / LANES, TURNS = DOT_BLOCK / STEPS;
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES), lane = thread_x() % LANES, place = thread_x() / LANES;
    f32 x[TURNS][4] = {};
    OPS_UNROLL
    for (u32 turn = 0; turn < TURNS; turn++) {
        u32 step = turn * STEPS + place;
        if (step < lanes && first + step < steps) load_x<DIGITS>(x[turn], args, (first + step) * STEP_VALUES + lane * 4);
    }
    OPS_UNROLL
    for (u32 turn = 0; turn < TURNS; turn++) {
        if (turn * STEPS >= lanes) continue;
        u32 step = turn * STEPS + place, word[DIGITS];
        i32 q[4];
        f32 scale = to_integers<DIGITS>(q, x[turn]);
        digits_of<DIGITS>(word, q);
        if (lane == 0) scales[step] = scale;
        OPS_UNROLL
        for (u32 p = 0; p < DIGITS; p++) words[step * 8 * DIGITS + 8 * p + lane] = word[p];
    }
    barrier();
    u32 me = thread_x() & (lanes - 1);
    mine.head.scale = scales[me];
    OPS_UNROLL
    for (u32 p = 0; p < 2 * DIGITS; p++) mine.part[p] = load_pack<4>(words + me * 8 * DIGITS + 4 * p);
    sum_digits<0, 8>(mine, mine.head.upper, mine.head.last);
    barrier();
}

// Sums COLUMNS values over the wave at once. Lane l of the wave gets the sum of value l / (OPS_WAVE / COLUMNS).
template <u32 COLUMNS> OPS_DEVICE f32 sum_columns(f32 (&value)[COLUMNS]) {
    u32 mask = OPS_WAVE / 2;
    OPS_UNROLL
    for (u32 half = COLUMNS / 2; half > 0; half /= 2, mask /= 2) {
        bool upper = (lane_id() & mask) != 0;
        OPS_UNROLL
        for (u32 c = 0; c < half; c++) {
            f32 keep = upper ? value[half + c] : value[c], give = upper ? value[c] : value[half + c];
            value[c] = keep + shuffle_xor(give, mask, OPS_WAVE);
        }
    }
    return reduce_lanes(value[0], 2 * mask, Sum());
}

// The columns of a block, in tiles of row_columns() for each of its groups of lanes.
template <typename B, bool PAIRED> struct RowTiles {
    static constexpr u32 COLUMNS = row_columns<B>(), OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    const QLinearArgs& args;
    u32 groups, group, wave, waves;  // waves of a group
    OPS_METHOD RowTiles(const QLinearArgs& a) : args(a) {
        u32 lanes = u32(args.lanes);
        groups = DOT_BLOCK / lanes;
        group = thread_x() / lanes;
        waves = lanes / OPS_WAVE;
        wave = wave_id() & (waves - 1);
    }
    OPS_METHOD u64 count() const { return (args.n + OUTPUTS * groups - 1) / (OUTPUTS * groups); }
    // Reads step `step` of this group's columns of a tile. Columns past the end repeat the last one; their results are not stored.
    OPS_METHOD void load(Step<B> (&w)[COLUMNS], u64 tile, u32 step) const {
        u64 n0 = (tile * groups + group) * OUTPUTS;
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u64 n = n0 + j % OUTPUTS;
            if (n >= args.n) n = args.n - 1;
            const void* of = PAIRED && j >= OUTPUTS ? args.up : args.weight;
            w[j].load(static_cast<const B*>(of) + i64(n) * args.weight_row, args.weight_block, step);
        }
    }
    // Where this lane's wave keeps the sum that sum_columns() gave it, for tile `i` of the block.
    OPS_METHOD u32 slot(u32 i) const {
        return ((i * groups + group) * COLUMNS + lane_id() / (OPS_WAVE / COLUMNS)) * waves + wave;
    }
};

// Adds the products of one piece of x, which the lanes hold, with `count` tiles to the sums of the waves.
template <u32 DIGITS, bool PAIRED, typename B>
OPS_DEVICE void add_tiles(const RowTiles<B, PAIRED>& tiles, const SplitStep<DIGITS>& x, u64 first, u32 count, u32 piece, f32* sums) {
    constexpr u32 COLUMNS = RowTiles<B, PAIRED>::COLUMNS;
    u32 lanes = u32(tiles.args.lanes), steps = u32(tiles.args.k / STEP_VALUES), step = piece + (thread_x() & (lanes - 1));
    bool live = step < steps;
    if (!live) step = steps - 1;
    GroupSums<DIGITS, B> x_sums(x);
    Step<B> next[COLUMNS];
    tiles.load(next, first, step);
    OPS_NO_UNROLL
    for (u32 i = 0; i < count; i++) {
        Step<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) w[j] = next[j];
        // The next tile is in flight while this one is multiplied.
        if (i + 1 < count) tiles.load(next, first + u64(i + 1) * grid_x(), step);
        f32 value[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            if (Step<B>::GROUPS > 1) {
                OPS_UNROLL
                for (u32 c = 0; c < 8; c++) w[j].words[c] = signed_codes<B>(w[j].words[c]);
            }
            f32 product = add_step<DIGITS>(0.0f, w[j], x, x_sums);
            value[j] = live ? product : 0.0f;  // a scale past the end may be infinite
        }
        f32 sum = sum_columns<COLUMNS>(value);
        if (lane_id() % (OPS_WAVE / COLUMNS) != 0) continue;
        f32* to = sums + tiles.slot(i);
        *to = piece == 0 ? sum : *to + sum;
    }
}

// The sum of the waves of a group.
OPS_DEVICE f32 sum_waves(const f32* sums, u32 waves) {
    f32 total = 0;
    OPS_NO_UNROLL
    for (u32 w = 0; w < waves; w++) total += sums[w];
    return total;
}

template <bool PAIRED, typename B, typename T> OPS_DEVICE void dot_row(const QLinearArgs& args) {
    using Tiles = RowTiles<B, PAIRED>;
    constexpr u32 DIGITS = Digits<T>::COUNT, COLUMNS = Tiles::COLUMNS, OUTPUTS = Tiles::OUTPUTS;
    OPS_LDS(u32, words, 8 * DIGITS * DOT_BLOCK);  // the digits of a step for each thread
    OPS_LDS(f32, scales, DOT_BLOCK);
    OPS_LDS(f32, sums, ROW_TILES * MOST_COLUMNS * (DOT_BLOCK / 32));
    Tiles tiles(args);
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES), in_tile = OUTPUTS * tiles.groups;
    u64 all = tiles.count();
    SplitStep<DIGITS> x;
    OPS_NO_UNROLL
    for (u64 first = block_x(); first < all; first += u64(grid_x()) * ROW_TILES) {
        u64 left = (all - first + grid_x() - 1) / grid_x();
        u32 count = left < ROW_TILES ? u32(left) : ROW_TILES;
        OPS_NO_UNROLL
        for (u32 piece = 0; piece < steps; piece += lanes) {
            // A row in one piece stays in the registers.
            if (steps > lanes || first == block_x()) hold_steps<DIGITS>(reread(args), x, piece, words, scales);
            add_tiles<DIGITS, PAIRED, B>(tiles, x, first, count, piece, sums);
        }
        barrier();
        OPS_NO_UNROLL
        for (u32 o = thread_x(); o < count * in_tile; o += DOT_BLOCK) {
            u64 n = (first + u64(o / OUTPUTS / tiles.groups) * grid_x()) * in_tile + o % in_tile;
            // The columns of a group are side by side.
            u32 column = PAIRED ? o / OUTPUTS * COLUMNS + o % OUTPUTS : o;
            f32 total = sum_waves(sums + column * tiles.waves, tiles.waves);
            if (PAIRED) total = gated(total, sum_waves(sums + (column + OUTPUTS) * tiles.waves, tiles.waves));
            if (n < args.n) write_sum<DIGITS>(args, i64(n) * args.y.stride[5], total);
        }
        barrier();
    }
}

template <typename B, typename T> OPS_DEVICE void qlinear_row(const QLinearArgs& args) { dot_row<false, B, T>(args); }

// silu(x gate) * (x up)
template <typename B, typename T> OPS_DEVICE void swiglu_row(const QLinearArgs& args) { dot_row<true, B, T>(args); }

}  // namespace ops
