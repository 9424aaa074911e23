// linear_experts for few rows by a weight of blocks, with x rounded to bytes and four products per instruction. split: rounds the rows
// of x. dot1: a block computes outputs of one row, and each of its groups of lanes a few of them. In the arguments, `tiles` is where the
// bytes of x are, and `slots` how many rows of x there are.
#include "ops_byte_planes.h"
#include "ops_dot_row.h"
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

// The outputs for one row of x, in tiles; each group of lanes computes COLUMNS columns of a tile. GATED: the row belongs to a token, whose
// choices share it, or to one choice, and the tiles of its choices follow each other. Otherwise, the row joins the rows of all choices of a
// token, so each step belongs to one choice. A step of no expert is not live.
template <typename B, bool GATED> struct ExpertTiles {
    static constexpr u32 COLUMNS = RowStep<B>::COLUMNS, OUTPUTS = outputs_of<GATED, COLUMNS>(), STEPS = B::VALUES / STEP_VALUES;
    u32 lanes, steps, of_choice;          // steps of the row, and of a choice
    u32 groups, group, wave, waves;       // waves of a group
    u32 log_outputs;                      // the binary logarithm of the outputs of a tile
    u32 per_choice, first, stride, all;   // tiles
    u64 row, first_choice;
    LdsChoices choices;  // of the row
    OPS_METHOD ExpertTiles(const ExpertsFusedArgs& args, const LdsChoices& lds) : choices(lds) {
        lanes = u32(args.of.lanes);
        of_choice = u32(args.of.d / STEP_VALUES);
        u32 count = u32(args.of.choices.by), log = log2_of_lanes(lanes);
        groups = DOT_BLOCK >> log;
        group = same_in_wave(thread_x() >> log);
        waves = lanes / OPS_WAVE;
        wave = wave_id() & (waves - 1);
        log_outputs = log2_of(OUTPUTS * DOT_BLOCK) - log;
        row = block_x() / args.of.slots;
        first = u32(block_x() - row * args.of.slots);
        stride = u32(args.of.slots);
        bool single_choice = GATED && !is_shared(args.of);
        first_choice = single_choice ? row : row * count;
        steps = GATED ? of_choice : of_choice * count;
        per_choice = u32((args.of.outputs + (1u << log_outputs) - 1) >> log_outputs);
        all = GATED && !single_choice ? per_choice * count : per_choice;
        read_choices(reread(args), choices, first_choice, single_choice ? 1 : count, first == 0);
    }
    // The caller's step of the piece of the row that begins at step `piece`.
    OPS_METHOD RowPlace place(const ExpertsFusedArgs& args, u32 piece) const {
        u32 step = piece + (thread_x() & (lanes - 1));
        bool live = step < steps;
        if (!live) step = steps - 1;
        i64 skip = 0;
        if (!GATED) {
            u32 j = step / of_choice;
            step -= j * of_choice;
            u32 expert = choices.expert[j];
            live = live && expert != NO_EXPERT;
            skip = expert == NO_EXPERT ? 0 : i64(expert) * args.of.weight_stride[0];
        }
        return RowPlace{step % STEPS, skip + i64(step / STEPS) * args.of.weight_stride[2], live};
    }
    // Reads that step of this group's columns of a tile. Columns past the end repeat the last one; their results are not stored.
    OPS_METHOD void load(RowStep<B> (&w)[COLUMNS], const ExpertsFusedArgs& all_args, u64 tile, const RowPlace& at) const {
        const ExpertsFusedArgs& args = reread(all_args);
        i64 skip = at.block;
        if (GATED) {
            u32 j = u32(tile) / per_choice;
            tile -= j * per_choice;
            u32 expert = same_in_wave(choices.expert[j]);
            skip += expert == NO_EXPERT ? 0 : i64(expert) * args.of.weight_stride[0];
        }
        u32 most = u32(args.of.outputs - 1), n0 = (u32(tile) * groups + group) * OUTPUTS;
        if (n0 > most) n0 = most;
        u32 last = most - n0;
        skip += i64(n0) * args.of.weight_stride[1];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            u32 column = j % OUTPUTS < last ? j % OUTPUTS : last;
            const void* of = GATED && j >= OUTPUTS ? args.up : args.of.weight;
            w[j].load(static_cast<const B*>(of) + (skip + i64(column) * args.of.weight_stride[1]), at.step);
        }
    }
    // Where this lane's wave keeps the sum that sum_columns() gave it, for tile `i` of the block.
    OPS_METHOD u32 slot(u32 i) const {
        return ((i * groups + group) * COLUMNS + lane_id() / (OPS_WAVE / COLUMNS)) * waves + wave;
    }
};

// Four values of the row of x for every turn, from step `first` on, times the weights of their choices.
template <typename T, typename Tiles>
OPS_DEVICE void load_choices(f32 (&x)[TURNS][4], const ExpertsFusedArgs& args, const Tiles& tiles, u32 first) {
    const T* from = static_cast<const T*>(static_cast<const void*>(args.of.x)) + choice_offset(args.of, args.of.x_stride, tiles.first_choice);
    load_turns(x, from, args.of.x_stride[2], first, tiles.lanes, tiles.steps);
    if (args.weights == nullptr) return;
    OPS_UNROLL
    for (u32 turn = 0; turn < TURNS; turn++) {
        u32 step = first + turn * TURN_STEPS + thread_x() / LANES;
        f32 factor = tiles.choices.factor[(step < tiles.steps ? step : tiles.steps - 1) / tiles.of_choice];
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) x[turn][i] *= factor;
    }
}

// Gives each lane the bytes of its step of the row of x, from step `first` on.
template <typename B, typename Tiles>
OPS_DEVICE void hold_choices(const ExpertsFusedArgs& args, const Tiles& tiles, RowBytes& mine, u32 first, u32* words, f32* scales) {
    f32 x[TURNS][4];
    if (args.of.kind == FLOAT_F32) {
        load_choices<f32>(x, args, tiles, first);
    } else if (args.of.kind == FLOAT_F16) {
        load_choices<f16>(x, args, tiles, first);
    } else {
        load_choices<bf16>(x, args, tiles, first);
    }
    hold_turns<B>(x, tiles.lanes, mine, words, scales);
}

// Adds the waves' sums of `count` tiles, and stores the outputs.
template <bool GATED, typename Tiles>
OPS_DEVICE void store_tiles(const ExpertsFusedArgs& args, const Tiles& tiles, u32 first, u32 count, const f32* sums) {
    OPS_NO_UNROLL
    for (u32 o = thread_x(); o < count << tiles.log_outputs; o += DOT_BLOCK) {
        u32 tile = first + (o >> tiles.log_outputs) * tiles.stride, j = GATED ? tile / tiles.per_choice : 0;
        u64 n = (u64(tile - j * tiles.per_choice) << tiles.log_outputs) + (o & ((1u << tiles.log_outputs) - 1));
        if (n >= args.of.outputs) continue;
        // The columns of a group are side by side.
        u32 column = GATED ? o / Tiles::OUTPUTS * Tiles::COLUMNS + o % Tiles::OUTPUTS : o;
        f32 total = sum_waves(sums + column * tiles.waves, tiles.waves);
        if constexpr (GATED) {
            u32 expert = tiles.choices.expert[j];
            f32 up = sum_waves(sums + (column + Tiles::OUTPUTS) * tiles.waves, tiles.waves);
            if (expert != NO_EXPERT) {
                total += expert_bias<f32>(args.of, expert, n);
                up += up_bias(args, expert, n);
            }
            store_gated(args, tiles.first_choice + j, expert, n, total, up);
        } else {
            store_combined(args, tiles.choices, tiles.row, n, total);
        }
    }
}

template <bool GATED, typename B> OPS_DEVICE void experts_row(const ExpertsFusedArgs& args, const LdsChoices& choices, u32* words, f32* scales, f32* sums) {
    using Tiles = ExpertTiles<B, GATED>;
    Tiles tiles(args, choices);
    RowBytes x;
    OPS_NO_UNROLL
    for (u32 first = tiles.first; first < tiles.all; first += tiles.stride * ROW_TILES) {
        u32 count = 1;
        while (count < ROW_TILES && first + count * tiles.stride < tiles.all) count++;
        OPS_NO_UNROLL
        for (u32 piece = 0; piece < tiles.steps; piece += tiles.lanes) {
            RowPlace at = tiles.place(reread(args), piece);
            RowStep<B> next[Tiles::COLUMNS];
            if (RowStep<B>::EARLY) tiles.load(next, args, first, at);
            // A row in one piece stays in the registers.
            if (tiles.steps > tiles.lanes || first == tiles.first) hold_choices<B>(reread(args), tiles, x, piece, words, scales);
            if (!RowStep<B>::EARLY) tiles.load(next, args, first, at);
            add_tiles(args, tiles, next, x, at, first, tiles.stride, count, piece > 0, sums);
        }
        barrier();
        store_tiles<GATED>(reread(args), tiles, first, count, sums);
        barrier();
    }
}

template <typename B> OPS_DEVICE void experts_swiglu(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MAX_CHOICES);
    OPS_LDS(f32, factor, MAX_CHOICES);
    OPS_LDS(u32, words, LANES * DOT_BLOCK);
    OPS_LDS(f32, scales, DOT_BLOCK);
    OPS_LDS(f32, sums, ROW_TILES * MOST_COLUMNS * (DOT_BLOCK / 32));
    experts_row<true, B>(args, LdsChoices{expert, factor}, words, scales, sums);
}

template <typename B> OPS_DEVICE void experts_combine(const ExpertsFusedArgs& args) {
    OPS_LDS(u32, expert, MAX_CHOICES);
    OPS_LDS(f32, factor, MAX_CHOICES);
    OPS_LDS(u32, words, LANES * DOT_BLOCK);
    OPS_LDS(f32, scales, DOT_BLOCK);
    OPS_LDS(f32, sums, ROW_TILES * MOST_COLUMNS * (DOT_BLOCK / 32));
    experts_row<false, B>(args, LdsChoices{expert, factor}, words, scales, sums);
}

}  // namespace ops
