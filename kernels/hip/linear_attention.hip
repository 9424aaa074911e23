// Linear attention. conv1d_update: a thread has a channel and a run of tokens. gated_delta_rule: a group of lanes has a column of
// a head's matrix, in registers, for all tokens; columns are independent of each other.
#include "ops_math.h"
#include "ops_row.h"

namespace ops {

constexpr u32 DELTA_BLOCK = 256;
constexpr u32 DELTA_HELD = 16;  // features of a column per lane

struct Conv1dUpdateArgs {
    Operand x;       // [b, t, c]
    Operand weight;  // [c, w]
    Operand state;   // [b, c, w - 1]
    Operand y;
    Address<const void> bias;  // null when absent
    i64 bias_step;
    Divider channels;
    Divider runs;  // of tokens
    u64 count;     // threads with work: batch, runs and channels
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
    u64 lanes;  // to a column, a power of two
    u64 tiles;  // blocks to a head
    f64 scale;
};

template <typename T> OPS_DEVICE void conv1d_update(const Conv1dUpdateArgs& args) {
    using A = acc_t<T>;
    OPS_NO_UNROLL
    for (u64 i = global_thread(); i < args.count; i += global_threads()) {
        u64 rest = divide(args.channels, i), channel = i - rest * args.channels.by;
        u64 batch = divide(args.runs, rest), run = rest - batch * args.runs.by;
        const T* x = static_cast<const T*>(args.x.data) + i64(batch) * args.x.stride[3] + i64(channel) * args.x.stride[5];
        T* y = static_cast<T*>(args.y.data) + i64(batch) * args.y.stride[3] + i64(channel) * args.y.stride[5];
        T* state = static_cast<T*>(args.state.data) + i64(batch) * args.state.stride[3] + i64(channel) * args.state.stride[4];
        const T* weight = static_cast<const T*>(args.weight.data) + i64(channel) * args.weight.stride[4];
        // An input, counted from the first of the state.
        i64 kept = i64(args.w) - 1;
        auto input = [&](i64 n) OPS_INLINE {
            return n < kept ? state[n * args.state.stride[5]] : x[(n - kept) * args.x.stride[4]];
        };
        A bias = 0;
        if (args.bias != nullptr) {
            i64 at = i64(channel) * args.bias_step;
            bias = args.bias_is_f32 != 0 ? A(static_cast<const f32*>(args.bias)[at])
                                         : A(widen(static_cast<const T*>(args.bias)[at]));
        }
        i64 first = i64(run * args.run), end = first + i64(args.run);
        if (end > i64(args.t)) end = i64(args.t);
        OPS_NO_UNROLL
        for (i64 token = first; token < end; token++) {
            A sum = 0;
            OPS_NO_UNROLL
            for (i64 j = 0; j <= kept; j++) sum = mad(A(widen(input(token + j))), A(widen(weight[j * args.weight.stride[5]])), sum);
            sum += bias;
            y[token * args.y.stride[4]] = narrow<T>(args.silu != 0 ? sum * sigmoid(sum) : sum);
        }
        if (run != 0) continue;
        // In this order, an old input is read before its place is written.
        OPS_NO_UNROLL
        for (i64 n = 0; n < kept; n++) state[n * args.state.stride[5]] = input(n + i64(args.t));
    }
}

// How many of the features `lane`, `lane + lanes`, .. are within a row of d.
OPS_DEVICE u32 features_of(u32 lane, u32 lanes, u64 d) { return lane < d ? u32(d - lane + lanes - 1) / lanes : 0; }

// The `held` features `lane`, `lane + lanes`, .. of a row; zeros after them.
template <typename T> OPS_DEVICE void load_features(f32 (&to)[DELTA_HELD], const T* row, i64 step, u32 lane, u32 lanes, u32 held) {
    OPS_UNROLL
    for (u32 n = 0; n < DELTA_HELD; n++) {
        // Compared here: there are not enough scalar registers to keep the results of all comparisons for the next row.
        to[n] = n < opaque(held) ? f32(widen(row[i64(lane + n * lanes) * step])) : 0.0f;
    }
}

OPS_DEVICE f32 dot_features(const f32 (&a)[DELTA_HELD], const f32 (&b)[DELTA_HELD], u32 lanes) {
    f32 sum = 0;
    OPS_UNROLL
    for (u32 n = 0; n < DELTA_HELD; n++) sum = mad(a[n], b[n], sum);
    return reduce_lanes(sum, lanes, Sum());
}

template <typename T> OPS_DEVICE void gated_delta_rule(const GatedDeltaArgs& all_args) {
    u32 lanes = u32(all_args.lanes), columns = DELTA_BLOCK / lanes;
    u32 lane = thread_x() & (lanes - 1);
    OPS_NO_UNROLL
    for (u64 block = block_x();; block += grid_x()) {
        const GatedDeltaArgs& args = reread(all_args);
        u64 unit = block / args.tiles, tile = block - unit * args.tiles;
        if (unit >= args.batch * args.heads) break;
        i64 batch = i64(unit / args.heads), head = i64(unit % args.heads);
        u64 mine = tile * columns + thread_x() / lanes;
        bool live = mine < args.dv;
        i64 column = i64(live ? mine : args.dv - 1);
        f32* state = static_cast<f32*>(args.state.data) + batch * args.state.stride[2] + head * args.state.stride[3] +
                     column * args.state.stride[5];
        f32 matrix[DELTA_HELD];
        u32 held = features_of(lane, lanes, args.d);
        load_features(matrix, state, args.state.stride[4], lane, lanes, held);
        OPS_NO_UNROLL
        for (u64 token = 0; token < args.t; token++) {
            const GatedDeltaArgs& now = reread(all_args);
            auto row = [&](const Operand& operand) OPS_INLINE {
                return batch * operand.stride[2] + i64(token) * operand.stride[3] + head * operand.stride[4];
            };
            auto gate = [&](const Operand& operand) OPS_INLINE {
                i64 at = batch * operand.stride[3] + i64(token) * operand.stride[4] + head * operand.stride[5];
                return static_cast<const f32*>(operand.data)[at];
            };
            f32 kept = exp(gate(now.decay)), beta = gate(now.beta);
            f32 v = widen(static_cast<const T*>(now.v.data)[row(now.v) + column * now.v.stride[5]]);
            f32 features[DELTA_HELD];
            load_features(features, static_cast<const T*>(now.k.data) + row(now.k), now.k.stride[5], lane, lanes, held);
            OPS_UNROLL
            for (u32 n = 0; n < DELTA_HELD; n++) matrix[n] *= kept;
            f32 missing = beta * (v - dot_features(features, matrix, lanes));
            OPS_UNROLL
            for (u32 n = 0; n < DELTA_HELD; n++) matrix[n] = mad(features[n], missing, matrix[n]);
            load_features(features, static_cast<const T*>(now.q.data) + row(now.q), now.q.stride[5], lane, lanes, held);
            f32 out = f32(now.scale) * dot_features(features, matrix, lanes);
            if (live && lane == 0) {
                static_cast<T*>(now.o.data)[row(now.o) + column * now.o.stride[5]] = narrow<T>(out);
            }
        }
        if (!live) continue;
        OPS_UNROLL
        for (u32 n = 0; n < DELTA_HELD; n++) {
            if (n < opaque(held)) state[i64(lane + n * lanes) * args.state.stride[4]] = matrix[n];
        }
    }
}

}  // namespace ops
