// One row of x times a quantized weight. A group of lanes holds the row in registers: each lane has one step, which is 32 values as bytes.
// The group multiplies one row of the weight after the other by it. If x has more steps than the group has lanes, it is split into pieces.
#pragma once
#include "ops_dot_tiles.h"

namespace ops {

// Whether one row may be normed, and something added to y. On waves of 64, gfx9 has too few scalar registers for that.
constexpr bool BESIDE = OPS_WAVE == 32;

// A block splits its steps of x in turns: LANES threads a step, TURN_STEPS steps a turn.
constexpr u32 TURN_STEPS = DOT_BLOCK / LANES, TURNS = DOT_BLOCK / TURN_STEPS;

// Loads four values for every turn, from step `first` on; all loads are in flight together. Steps past the `lanes` of a piece or past the
// row repeat the last one: add_tiles() discards their products.
template <typename T> OPS_DEVICE void load_turns(f32 (&x)[TURNS][4], const T* from, i64 stride, u32 first, u32 lanes, u32 steps) {
    bool packs = stride == 1 && is_aligned(from, sizeof(T) * 4);
    u32 last = (first + lanes < steps ? first + lanes : steps) - 1;
    OPS_UNROLL
    for (u32 turn = 0; turn < TURNS; turn++) {
        u32 step = first + turn * TURN_STEPS + thread_x() / LANES;
        u32 at = (step < last ? step : last) * STEP_VALUES + thread_x() % LANES * 4;
        if (packs) {
            Pack<T, 4> four = load_pack<4>(from + at);
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) x[turn][i] = widen(four.v[i]);
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) x[turn][i] = widen(from[i64(at + i) * stride]);
        }
    }
}

// Four values of x for every turn. All types share a kernel, so which of them x has is an argument.
OPS_DEVICE void load_x(f32 (&x)[TURNS][4], const QLinearArgs& args, u32 first) {
    const void* from = args.x.data;
    i64 stride = args.x.stride[5];
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES);
    if (args.y_kind == FLOAT_F32) {
        load_turns(x, static_cast<const f32*>(from), stride, first, lanes, steps);
    } else if (args.y_kind == FLOAT_F16) {
        load_turns(x, static_cast<const f16*>(from), stride, first, lanes, steps);
    } else {
        load_turns(x, static_cast<const bf16*>(from), stride, first, lanes, steps);
    }
}

// Multiplies x by the weight of a norm, and adds the squares of x to `squares`.
OPS_DEVICE void weigh(f32 (&x)[TURNS][4], f32& squares, const QLinearArgs& args, u32 first) {
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES);
    u32 last = (first + lanes < steps ? first + lanes : steps) - 1;
    const f32* norm = args.norm;
    bool packs = is_aligned(norm, PACK_BYTES);
    OPS_UNROLL
    for (u32 turn = 0; turn < TURNS; turn++) {
        u32 step = first + turn * TURN_STEPS + thread_x() / LANES;
        bool live = step <= last;  // otherwise, the values are those of the last step again
        const f32* from = norm + ((live ? step : last) * STEP_VALUES + thread_x() % LANES * 4);
        Pack<f32, 4> weight;
        if (packs) weight = load_pack<4>(from);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) {
            f32 v = x[turn][i];
            squares = live ? mad(v, v, squares) : squares;
            x[turn][i] = v * (packs ? weight.v[i] : from[i]);
        }
    }
}

// Gives each lane of a group the bytes of its step of a row of B, whose values for every turn are in `x`.
template <typename B> OPS_DEVICE void hold_turns(const f32 (&x)[TURNS][4], u32 lanes, RowBytes& mine, u32* words, f32* scales) {
    constexpr u32 TOGETHER = 4;  // turns between two checks for the end of the piece
    u32 lane = thread_x() % LANES;
    OPS_UNROLL
    for (u32 from = 0; from < TURNS; from += TOGETHER) {
        if (from * TURN_STEPS >= lanes) continue;
        OPS_UNROLL
        for (u32 turn = from; turn < from + TOGETHER; turn++) {
            u32 step = turn * TURN_STEPS + thread_x() / LANES, word;
            f32 scale = to_bytes(word, x[turn]);
            if (lane == 0) scales[step] = scale;
            words[step * LANES + lane] = word;
        }
    }
    barrier();
    mine.hold<B>(words, scales, thread_x() & (lanes - 1));
    barrier();
}

// The same for the row from step `first` on. Returns this thread's part of the sum of squares if there is a norm.
template <typename B> OPS_DEVICE f32 hold_steps(const QLinearArgs& args, RowBytes& mine, u32 first, u32* words, f32* scales) {
    f32 x[TURNS][4], squares = 0;
    load_x(x, args, first);
    if (BESIDE && args.norm != nullptr) weigh(x, squares, args, first);
    hold_turns<B>(x, u32(args.lanes), mine, words, scales);
    return squares;
}

// Adds the products of one piece of x, which the lanes hold, with `count` tiles to the sums of the waves. `next` holds the first tile, and
// the others are `stride` apart.
template <typename B, typename Args, typename Tiles, u32 COLUMNS>
OPS_DEVICE void add_tiles(const Args& args, const Tiles& tiles, RowStep<B> (&next)[COLUMNS], const RowBytes& x, const RowPlace& at,
                          u64 first, u64 stride, u32 count, bool adds, f32* sums) {
    OPS_NO_UNROLL
    for (u32 i = 0; i < count; i++) {
        RowStep<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) w[j] = next[j];
        // The next tile is in flight while this one is multiplied.
        if (i + 1 < count) tiles.load(next, args, first + u64(i + 1) * stride, at);
        f32 value[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            f32 product = row_product<B>(w[j], x, at.step);
            value[j] = at.live ? product : 0.0f;  // a scale past the end may be infinite
        }
        f32 sum = sum_columns<COLUMNS>(value);
        if (lane_id() % (OPS_WAVE / COLUMNS) != 0) continue;
        f32* to = sums + tiles.slot(i);
        *to = adds ? *to + sum : sum;
    }
}

// The sum of the waves of a group.
OPS_DEVICE f32 sum_waves(const f32* sums, u32 waves) {
    f32 total = 0;
    OPS_NO_UNROLL
    for (u32 w = 0; w < waves; w++) total += sums[w];
    return total;
}

// Adds what there is to add, and stores output `n`: a sum or a gated unit. Other kinds of arguments have their own.
template <typename Tiles> OPS_DEVICE void store_output(const QLinearArgs& args, u64 n, f32 total, f32 up, Nothing, bool) {
    if (n >= args.n) return;
    if (Tiles::PAIRS) total = gated(total, up);
    if (BESIDE) total += added_at(args, i64(n) * args.added.stride[5]);
    write_sum(args, i64(n) * args.y.stride[5], total);
}
template <typename Tiles, typename Args> OPS_DEVICE void dot_row(const Args& all) {
    using B = typename Tiles::Block;
    constexpr u32 COLUMNS = Tiles::COLUMNS, OUTPUTS = Tiles::OUTPUTS;
    const QLinearArgs& args = product_of(all);
    OPS_LDS(u32, words, LANES * DOT_BLOCK);  // the bytes of a step for each thread
    OPS_LDS(f32, scales, DOT_BLOCK);
    OPS_LDS(f32, sums, ROW_TILES * MOST_COLUMNS * (DOT_BLOCK / 32));
    Tiles tiles(args);
    auto ahead = tiles.ahead(reread(all));
    RowBytes x;
    f32 squares = 0, inverse = 1;  // of the norm: its weight is in x, and the root divides the sums
    OPS_NO_UNROLL
    for (u64 first = block_x(); first < tiles.all; first += u64(grid_x()) * ROW_TILES) {
        u32 count = 1;
        while (count < ROW_TILES && first + u64(count) * grid_x() < tiles.all) count++;
        OPS_NO_UNROLL
        for (u32 piece = 0; piece < tiles.steps; piece += tiles.lanes) {
            RowPlace at = tiles.place(args, piece);
            RowStep<B> next[COLUMNS];
            if (RowStep<B>::EARLY) tiles.load(next, all, first, at);
            // A row in one piece stays in the registers.
            if (tiles.steps > tiles.lanes || first == block_x()) {
                f32 of_piece = hold_steps<B>(reread(args), x, piece, words, scales);
                if (first == block_x()) squares += of_piece;
            }
            if (!RowStep<B>::EARLY) tiles.load(next, all, first, at);
            add_tiles(all, tiles, next, x, at, first, grid_x(), count, piece > 0, sums);
        }
        // Reread, here and below, so that few arguments live through the loops.
        const QLinearArgs& now = reread(args);
        if (BESIDE && now.norm != nullptr && first == block_x()) {
            f32 total[1] = {squares};
            reduce_block<DOT_BLOCK>(total, scales, Sum());
            inverse = 1.0f / sqrt(total[0] / f32(now.k) + f32(now.eps));
        }
        barrier();
        OPS_NO_UNROLL
        for (u32 o = thread_x(); o < count << tiles.log_outputs; o += DOT_BLOCK) {
            u64 tile = first + u64(o >> tiles.log_outputs) * grid_x();
            u64 n = (tile << tiles.log_outputs) + (o & ((1u << tiles.log_outputs) - 1));
            // The columns of a group are side by side.
            u32 column = Tiles::PAIRS ? o / OUTPUTS * COLUMNS + o % OUTPUTS : o;
            f32 total = inverse * sum_waves(sums + column * tiles.waves, tiles.waves), second = 0;
            if (Tiles::PAIRS) second = inverse * sum_waves(sums + (column + OUTPUTS) * tiles.waves, tiles.waves);
            store_output<Tiles>(reread(all), n, total, second, ahead, first == block_x() && o >> tiles.log_outputs == 0);
        }
        barrier();
    }
}

template <typename B> OPS_DEVICE void qlinear_row(const QLinearArgs& args) { dot_row<RowTiles<B, false>>(args); }

// silu(x gate) * (x up)
template <typename B> OPS_DEVICE void swiglu_row(const QLinearArgs& args) { dot_row<RowTiles<B, true>>(args); }

}  // namespace ops
