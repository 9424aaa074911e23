// Linear attention. conv1d_update: a thread has a channel and a run of tokens. gated_delta_rule: a group of lanes has two columns of
// a head's matrix (for few tokens, one), in registers, for all tokens; columns are independent of each other. While a block
// computes up to 8 tokens, it loads the next ones. (Gated DeltaNet, arXiv:2412.06464)
#include "ops_lanes.h"
#include "ops_math.h"
#include "ops_row.h"

namespace ops {

constexpr u32 CONV_PACK = 4;  // channels of a thread of conv1d_update_packs
constexpr u32 CONV_TAPS = 4;  // at most
constexpr u32 CONV_AHEAD = 4;  // tokens that are loaded together
constexpr u32 DELTA_BLOCK = 128;
constexpr u32 DELTA_HELD = 16;     // features of a column per lane
constexpr u32 DELTA_TOKENS = 8;    // the most tokens that are staged
constexpr u32 DELTA_STAGE = 1024;  // features of all tokens that are staged
constexpr u32 DELTA_VALUES = 512;  // of all columns of a block and of all tokens that are staged

struct Conv1dUpdateArgs {
    Operand x;       // [b, t, c]
    Operand weight;  // [c, w]
    Operand state;   // [b, c, w - 1]
    Operand y;
    Address<const void> bias;  // null when absent
    i64 bias_step;
    Divider channels;  // packs of them if they are read in packs
    Divider runs;      // of tokens
    u64 count;         // threads with work: batch, runs and channels
    u64 t;
    u64 w;
    u64 run;  // tokens of a run, at least w - 1: only the first then reads the state
    u64 bias_is_f32;
    u64 silu;
};

struct GatedDeltaArgs {
    Operand q;  // [b, t, h, d]
    Operand k;
    Operand v;  // [b, t, h, dv]
    Operand o;
    Operand decay;  // [b, t, h], f32
    Operand beta;
    Operand state;  // [b, h, d, dv], f32
    u64 batch;
    u64 heads;
    u64 t;
    u64 d;
    u64 dv;
    u64 lanes;  // to its columns, a power of two, at least 4
    u64 tiles;  // blocks to a head
    f64 scale;
};

// Where the operands of a thread's channels lie, and how they are read.
template <typename T> struct ConvChannels {
    using A = acc_t<T>;
    const Conv1dUpdateArgs& args;
    const T* x;
    T* y;
    T* state;
    const T* weight;
    i64 channel;

    OPS_METHOD ConvChannels(const Conv1dUpdateArgs& args, i64 batch, i64 channel)
        : args(args), x(static_cast<const T*>(args.x.data) + batch * args.x.stride[3] + channel * args.x.stride[5]),
          y(static_cast<T*>(args.y.data) + batch * args.y.stride[3] + channel * args.y.stride[5]),
          state(static_cast<T*>(args.state.data) + batch * args.state.stride[3] + channel * args.state.stride[4]),
          weight(static_cast<const T*>(args.weight.data) + channel * args.weight.stride[4]), channel(channel) {}
    OPS_METHOD i64 kept() const { return i64(reread(args).w) - 1; }
    // Where input n is, counted from the first of the state, and the step to that of the next channel.
    struct Place {
        const T* at;
        i64 across;
        OPS_METHOD T of(u32 c) const { return at[c * across]; }
    };
    OPS_METHOD Place input(i64 n) const {
        const Conv1dUpdateArgs& now = reread(args);
        i64 later = n - kept();
        return later < 0 ? Place{state + n * now.state.stride[5], now.state.stride[4]}
                         : Place{x + later * now.x.stride[4], now.x.stride[5]};
    }
    OPS_METHOD Place tap(i64 j) const {
        const Conv1dUpdateArgs& now = reread(args);
        return Place{weight + j * now.weight.stride[5], now.weight.stride[4]};
    }
    OPS_METHOD A bias(u32 c = 0) const {
        const Conv1dUpdateArgs& now = reread(args);
        if (now.bias == nullptr) return A(0);
        i64 at = (channel + c) * now.bias_step;
        return now.bias_is_f32 != 0 ? A(static_cast<const f32*>(now.bias)[at]) : A(widen(static_cast<const T*>(now.bias)[at]));
    }
    OPS_METHOD T output(A sum) const { return narrow<T>(reread(args).silu != 0 ? sum * sigmoid(sum) : sum); }
    // Keeps the last inputs. In this order, an old input is read before its place is written.
    OPS_METHOD void keep(u32 c = 0) const {
        const Conv1dUpdateArgs& now = reread(args);
        OPS_NO_UNROLL
        for (i64 n = 0; n < kept(); n++) {
            state[n * now.state.stride[5] + c * now.state.stride[4]] = input(n + i64(now.t)).of(c);
        }
    }
};

// Calls visit(batch, channel, first, end) for the tokens of each run.
template <u32 N, typename F> OPS_DEVICE void for_runs(const Conv1dUpdateArgs& args, F visit) {
    OPS_NO_UNROLL
    for (u64 i = global_thread(); i < args.count; i += global_threads()) {
        u64 rest = divide(args.channels, i), channels = i - rest * args.channels.by;
        u64 batch = divide(args.runs, rest), run = rest - batch * args.runs.by;
        u64 first = run * args.run, end = first + args.run < args.t ? first + args.run : args.t;
        visit(i64(batch), i64(channels * N), i64(first), i64(end));
    }
}

template <typename T> OPS_DEVICE void conv1d_update(const Conv1dUpdateArgs& args) {
    for_runs<1>(args, [&](i64 batch, i64 channel, i64 first, i64 end) OPS_INLINE {
        using A = acc_t<T>;
        ConvChannels<T> own(args, batch, channel);
        A bias = own.bias();
        OPS_NO_UNROLL
        for (i64 token = first; token < end; token++) {
            A sum = 0;
            OPS_NO_UNROLL
            for (i64 j = 0; j <= own.kept(); j++) sum = mad(A(widen(own.input(token + j).of(0))), A(widen(own.tap(j).of(0))), sum);
            own.y[token * args.y.stride[4]] = own.output(sum + bias);
        }
        if (first == 0) own.keep();
    });
}

// The same for up to four taps and channels in packs: a thread reads each input once.
template <typename T> OPS_DEVICE void conv1d_update_packs(const Conv1dUpdateArgs& args) {
    constexpr u32 N = CONV_PACK, TAPS = CONV_TAPS;
    for_runs<N>(args, [&](i64 batch, i64 channel, i64 first, i64 end) OPS_INLINE {
        using A = acc_t<T>;
        ConvChannels<T> own(args, batch, channel);
        A taps[TAPS][N], inputs[TAPS][N], bias[N];
        i64 absent = i64(TAPS) - i64(args.w);
        OPS_UNROLL
        for (u32 c = 0; c < N; c++) bias[c] = own.bias(c);
        OPS_UNROLL
        for (u32 j = 0; j < TAPS; j++) {
            bool is = i64(j) >= absent;
            typename ConvChannels<T>::Place tap = own.tap(is ? i64(j) - absent : 0), input = own.input(first + i64(j) - absent);
            OPS_UNROLL
            for (u32 c = 0; c < N; c++) {
                taps[j][c] = is ? A(widen(tap.of(c))) : A(0);
                inputs[j][c] = is && j + 1 < TAPS ? A(widen(input.of(c))) : A(0);
            }
        }
        OPS_NO_UNROLL
        for (i64 token = first; token < end; token += CONV_AHEAD) {
            Pack<T, N> x[CONV_AHEAD] = {}, y;
            OPS_UNROLL
            for (u32 ahead = 0; ahead < CONV_AHEAD; ahead++) {
                if (token + ahead < end) x[ahead] = load_pack<N>(own.x + (token + ahead) * reread(args).x.stride[4]);
            }
            OPS_UNROLL
            for (u32 ahead = 0; ahead < CONV_AHEAD; ahead++) {
                if (token + ahead >= end) continue;
                OPS_UNROLL
                for (u32 c = 0; c < N; c++) {
                    A sum = 0;
                    inputs[TAPS - 1][c] = widen(x[ahead].v[c]);
                    OPS_UNROLL
                    for (u32 j = 0; j < TAPS; j++) sum = mad(inputs[j][c], taps[j][c], sum);
                    OPS_UNROLL
                    for (u32 j = 0; j + 1 < TAPS; j++) {
                        // An absent input stays 0: an infinite one times its tap, which is 0, would be NaN.
                        inputs[j][c] = i64(j) >= absent ? inputs[j + 1][c] : A(0);
                    }
                    y.v[c] = own.output(sum + bias[c]);
                }
                store_pack<N>(own.y + (token + ahead) * reread(args).y.stride[4], y);
            }
        }
        if (first != 0) return;
        for (u32 c = 0; c < N; c++) own.keep(c);
    });
}

// What a block knows of the next tokens: their keys and queries, the values of its columns, and their gates.
struct DeltaStage {
    f32* keys;  // [token][16 * lanes], zeros after feature d
    f32* queries;
    f32* values;  // [token][columns]
    f32* gates;   // [token][4]: what is kept of the state, beta, and the key times the query
};

// A matrix of a stage, [tokens][width], and where its elements come from. The block has its elements in turn, up to SLOTS a thread,
// which are loaded early into `held` and then stored.
template <typename T, u32 SLOTS> struct DeltaLoad {
    T held[SLOTS];
    u32 width;     // a power of two
    u32 token;     // of this thread's first element
    u32 element;
    u32 per_pass;  // tokens, if a token has fewer elements than the block threads; else 1
    u32 log;       // of how many elements of a token this thread has

    OPS_METHOD DeltaLoad(u32 width) : width(width), log(0) {
        token = thread_x() / width;
        element = thread_x() & (width - 1);
        per_pass = width > DELTA_BLOCK ? 1 : DELTA_BLOCK / width;
        while (width >> log > DELTA_BLOCK) log++;
    }
    // Calls f(slot, token, element) for each of this thread's elements of `tokens` tokens.
    template <typename F> OPS_METHOD void each(u32 tokens, F f) {
        OPS_UNROLL
        for (u32 i = 0; i < SLOTS; i++) {
            // Else the addresses of all elements are computed before the first is loaded, which takes too many registers.
            u32 of = opaque(token) + (i >> log) * per_pass;
            if (of < tokens) f(i, of, element + (i & ((1u << log) - 1)) * DELTA_BLOCK);
        }
    }
    // Elements from `end` on do not exist.
    OPS_METHOD void load(const T* from, i64 token_step, i64 step, u32 tokens, u64 end) {
        each(tokens, [&](u32 slot, u32 of, u32 at) OPS_INLINE {
            held[slot] = at < end ? from[i64(of) * token_step + i64(at) * step] : T();
        });
    }
    OPS_METHOD void store(f32* to, u32 tokens) {
        each(tokens, [&](u32 slot, u32 of, u32 at) OPS_INLINE { to[of * width + at] = f32(widen(held[slot])); });
    }
};

// The place of feature n of a lane: lanes take four neighbours in turn.
OPS_DEVICE u32 feature_of(u32 n, u32 lane, u32 lanes) { return (n / 4 * lanes + lane) * 4 + n % 4; }

// Sums of all VALUES over a group of lanes.
template <u32 VALUES> OPS_DEVICE void reduce_together(f32 (&values)[VALUES], u32 lanes) {
    OPS_UNROLL
    for (u32 mask = 1; mask < OPS_WAVE; mask *= 2) {
        if (mask < lanes) {
            OPS_UNROLL
            for (u32 i = 0; i < VALUES; i++) values[i] += exchange(values[i], mask);
        }
    }
}

// A block's columns of a head's matrix, and what they need of its tokens.
template <typename T, u32 COLUMNS> struct DeltaColumns {
    const GatedDeltaArgs& arguments;
    DeltaStage stage;
    u32 lanes, lane, columns, first;  // `first` of this group's columns, within the block's
    u64 column;                              // the block's first
    i64 batch, head;
    f32 matrix[COLUMNS][DELTA_HELD];
    T* out;  // of the next token, for the column whose output this lane writes
    u32 writes;  // 1 if it does

    OPS_METHOD DeltaColumns(const GatedDeltaArgs& args, DeltaStage stage)
        : arguments(args), stage(stage), lanes(u32(args.lanes)), lane(thread_x() & (lanes - 1)),
          columns(DELTA_BLOCK / lanes * COLUMNS), first(thread_x() / lanes * COLUMNS) {}
    // Turns to the block's columns of a head.
    OPS_METHOD void turn_to(u64 unit, u64 tile) {
        const GatedDeltaArgs& args = reread(arguments);
        column = tile * columns;
        batch = i64(unit / args.heads);
        head = i64(unit % args.heads);
        OPS_UNROLL
        for (u32 n = 0; n < COLUMNS * DELTA_HELD; n++) matrix[n / DELTA_HELD][n % DELTA_HELD] = 0;  // features after d
        move_state<false>();
        out = static_cast<T*>(args.o.data) + row(args.o, 0) + i64(column + first + lane) * args.o.stride[5];
        writes = opaque(lane < COLUMNS && live(lane) ? 1 : 0);
    }
    OPS_METHOD u32 width() const { return DELTA_HELD * lanes; }
    OPS_METHOD bool live(u32 c) const { return column + first + c < reread(arguments).dv; }
    OPS_METHOD i64 row(const Operand& operand, u64 token) const {
        return batch * operand.stride[2] + i64(token) * operand.stride[3] + head * operand.stride[4];
    }
    // Reads or writes the columns.
    template <bool STORE> OPS_METHOD void move_state() {
        const GatedDeltaArgs& args = reread(arguments);
        i64 step = args.state.stride[4], across = args.state.stride[5];
        f32* at = static_cast<f32*>(args.state.data) + batch * args.state.stride[2] + head * args.state.stride[3] +
                  i64(column + first) * across;
        bool packs = across == 1 && step % COLUMNS == 0 && is_aligned(at, sizeof(f32) * COLUMNS) && live(COLUMNS - 1);
        OPS_UNROLL
        for (u32 n = 0; n < DELTA_HELD; n++) {
            u32 feature = feature_of(n, lane, lanes);
            if (feature >= args.d) continue;
            f32* from = at + i64(feature) * step;
            Pack<f32, COLUMNS> pack{};
            if (!STORE && packs) pack = load_pack<COLUMNS>(from);
            OPS_UNROLL
            for (u32 c = 0; c < COLUMNS; c++) {
                if (STORE) {
                    pack.v[c] = matrix[c][n];
                    if (!packs && live(c)) from[i64(c) * across] = matrix[c][n];
                } else {
                    if (!packs) pack.v[c] = live(c) ? from[i64(c) * across] : 0.0f;
                    matrix[c][n] = pack.v[c];
                }
            }
            if (STORE && packs) store_pack<COLUMNS>(from, pack);
        }
    }
    // The key of each token of the stage times its query, by the waves in turn.
    OPS_METHOD void products(u32 tokens) {
        OPS_NO_UNROLL
        for (u32 token = wave_id(); token < tokens; token += DELTA_BLOCK / OPS_WAVE) {
            f32 sum = 0;
            for (u32 e = lane_id(); e < width(); e += OPS_WAVE) {
                sum = mad(stage.keys[token * width() + e], stage.queries[token * width() + e], sum);
            }
            sum = reduce_lanes(sum, OPS_WAVE, Sum());
            if (lane_id() == 0) stage.gates[token * 4 + 2] = sum;
        }
    }
    // Loads `tokens` rows of an operand, from token `first_token` and feature `from` on. Its strides are read again: there are not enough scalar
    // registers for those of all operands.
    template <u32 N>
    OPS_METHOD void load(DeltaLoad<T, N>& to, Operand GatedDeltaArgs::*operand, u64 GatedDeltaArgs::*extent, u64 from, u64 first_token,
                         u32 tokens) const {
        const GatedDeltaArgs& args = reread(arguments);
        const Operand& of = args.*operand;
        const T* at = static_cast<const T*>(of.data) + row(of, first_token) + i64(from) * of.stride[5];
        to.load(at, of.stride[3], of.stride[5], tokens, args.*extent - from);
    }
    // One token. The output does not wait for the new state: q (kept S + k m) = kept (q S) + (q k) m.
    OPS_METHOD void step(u32 token) {
        f32 sums[2 * COLUMNS] = {};  // of the key times each column, and of the query
        OPS_UNROLL
        for (u32 n = 0; n < DELTA_HELD; n += 4) {
            Pack<f32, 4> k = load_pack<4>(stage.keys + token * width() + feature_of(n, lane, lanes));
            Pack<f32, 4> q = load_pack<4>(stage.queries + token * width() + feature_of(n, lane, lanes));
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) {
                OPS_UNROLL
                for (u32 c = 0; c < COLUMNS; c++) {
                    sums[c] = mad(k.v[i], matrix[c][n + i], sums[c]);
                    sums[COLUMNS + c] = mad(q.v[i], matrix[c][n + i], sums[COLUMNS + c]);
                }
            }
        }
        reduce_together(sums, lanes);
        Pack<f32, 4> gates = load_pack<4>(stage.gates + token * 4);
        Pack<f32, COLUMNS> values = load_pack<COLUMNS>(stage.values + token * columns + first);
        f32 kept = gates.v[0], given = 0, missing[COLUMNS];
        OPS_UNROLL
        for (u32 c = 0; c < COLUMNS; c++) {
            missing[c] = gates.v[1] * (values.v[c] - kept * sums[c]);
            if (lane == c) given = mad(gates.v[2], missing[c], kept * sums[COLUMNS + c]);
        }
        // The key is read again, because there are not enough registers to keep it.
        const f32* key = stage.keys + opaque(token) * width();
        OPS_UNROLL
        for (u32 n = 0; n < DELTA_HELD; n += 4) {
            Pack<f32, 4> k = load_pack<4>(key + feature_of(n, lane, lanes));
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) {
                OPS_UNROLL
                for (u32 c = 0; c < COLUMNS; c++) matrix[c][n + i] = mad(k.v[i], missing[c], kept * matrix[c][n + i]);
            }
        }
        const GatedDeltaArgs& args = reread(arguments);
        if (writes != 0) *out = narrow<T>(f32(args.scale) * given);
        out += args.o.stride[3];
    }
};

template <u32 COLUMNS, typename T> OPS_DEVICE void gated_delta_rule(const GatedDeltaArgs& all_args) {
    OPS_LDS(f32, keys, DELTA_STAGE);
    OPS_LDS(f32, queries, DELTA_STAGE);
    OPS_LDS(f32, values, DELTA_VALUES);
    OPS_LDS(f32, gates, 4 * DELTA_TOKENS);
    DeltaColumns<T, COLUMNS> mine(all_args, DeltaStage{keys, queries, values, gates});
    u32 most = DELTA_STAGE / mine.width() < DELTA_TOKENS ? DELTA_STAGE / mine.width() : DELTA_TOKENS;
    OPS_NO_UNROLL
    for (u64 block = block_x();; block += grid_x()) {
        const GatedDeltaArgs& args = reread(all_args);
        u64 unit = block / args.tiles;
        if (unit >= args.batch * args.heads) break;
        mine.turn_to(unit, block - unit * args.tiles);
        DeltaLoad<T, DELTA_STAGE / DELTA_BLOCK> k(mine.width()), q(mine.width());
        DeltaLoad<T, DELTA_VALUES / DELTA_BLOCK> v(mine.columns);
        f32 decay = 0, beta = 0;
        auto load = [&](u64 first) OPS_INLINE {
            u64 left = reread(all_args).t - first;
            u32 tokens = left < most ? u32(left) : most;
            mine.load(k, &GatedDeltaArgs::k, &GatedDeltaArgs::d, 0, first, tokens);
            mine.load(q, &GatedDeltaArgs::q, &GatedDeltaArgs::d, 0, first, tokens);
            mine.load(v, &GatedDeltaArgs::v, &GatedDeltaArgs::dv, mine.column, first, tokens);
            if (thread_x() >= tokens) return;
            auto gate = [&](const Operand& operand) OPS_INLINE {
                i64 place = mine.batch * operand.stride[3] + i64(first + thread_x()) * operand.stride[4] + mine.head * operand.stride[5];
                return static_cast<const f32*>(operand.data)[place];
            };
            decay = gate(reread(all_args).decay);
            beta = gate(reread(all_args).beta);
        };
        load(0);
        OPS_NO_UNROLL
        for (u64 first = 0; first < reread(all_args).t; first += most) {
            u64 left = reread(all_args).t - first;
            u32 tokens = left < most ? u32(left) : most;
            barrier();  // The tokens before are done with.
            k.store(keys, tokens);
            q.store(queries, tokens);
            v.store(values, tokens);
            if (thread_x() < tokens) {
                gates[thread_x() * 4] = exp(decay);
                gates[thread_x() * 4 + 1] = beta;
            }
            barrier();
            if (left > most) load(first + most);  // They arrive while these are used.
            mine.products(tokens);
            barrier();
            OPS_NO_UNROLL
            for (u32 token = 0; token < tokens; token++) mine.step(token);
        }
        mine.template move_state<true>();
    }
}

}  // namespace ops
