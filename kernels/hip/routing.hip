// router_topk: the experts of each token and their weights; combine_experts: the weighted sum of what they gave.
#include "ops_reduce.h"
#include "ops_view.h"

namespace ops {

constexpr u32 ROUTER_BLOCK = 256;
// Choices that a wave keeps in LDS; those of more experts are computed again where they are needed.
constexpr u32 ROUTER_CACHED = 512;

enum RouterFlags : u32 { ROUTER_SIGMOID = 1, ROUTER_AFTER = 2, ROUTER_RENORMALIZE = 4, ROUTER_MAX = 8 };

struct RouterArgs {
    Address<const void> logits;
    i64 logits_stride[2];
    Address<const void> bias;  // null when absent
    i64 bias_stride;
    Address<f32> weights;
    i64 weights_stride[2];
    Address<u32> ids;
    i64 ids_stride[2];
    u64 rows;
    u64 experts;
    u64 k;
    u64 groups;
    u64 kept;
    Divider group;  // experts of a group
    f64 scale;
    u32 flags;      // RouterFlags
    u32 bias_is_f32;  // else the bias has the logits' type
};

// What precedes everything in the order of choice.
constexpr u64 ROUTER_FIRST = ~0ull;

// A key that is larger the larger the number is; NaN is the largest, zeros of either sign are equal. It is never 0, which stands
// for experts that may not be chosen.
OPS_DEVICE u32 router_key(f32 v) {
    u32 bits = v == 0.0f ? 0u : bits_as<u32>(v);
    u32 key = (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
    return is_nan(v) ? 0xffffffffu : key;
}
OPS_DEVICE f32 router_value(u32 key) {
    if (key == 0xffffffffu) return quiet_nan32();
    return bits_as<f32>((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}
// Larger for what is chosen earlier: the larger key, and the lower index among equals.
OPS_DEVICE u64 router_rank(u32 key, u32 index) { return u64(key) << 32 | u64(~index); }
OPS_DEVICE u32 rank_index(u64 rank) { return ~u32(rank); }

struct Highest {
    OPS_METHOD u64 operator()(u64 a, u64 b) const { return a > b ? a : b; }
};

// One token's experts, chosen by a wave. All lanes take part in everything.
template <typename T> struct Router {
    using A = acc_t<T>;
    const RouterArgs& args;
    const T* logits;
    u32* keys;  // LDS of this wave
    u32 lane;
    A highest, total;  // of the softmax over all experts

    OPS_METHOD Router(const RouterArgs& a, u64 row, u32* wave_keys) : args(a), keys(wave_keys) {
        lane = opaque(lane_id());
        logits = static_cast<const T*>(args.logits) + i64(row) * args.logits_stride[0];
        highest = A(0);
        total = A(1);
    }
    OPS_METHOD bool is(u32 flag) const { return (args.flags & flag) != 0; }
    OPS_METHOD A logit(u64 i) const { return A(widen(logits[i64(i) * args.logits_stride[1]])); }
    OPS_METHOD f32 score(A v, A max, A sum) const {
        return f32(is(ROUTER_SIGMOID) ? sigmoid(v) : exp(v - max) / sum);
    }
    // What the choice compares: a score or a logit, in f32, with the bias.
    OPS_METHOD u32 choice(u64 i) const {
        f32 v = is(ROUTER_AFTER) ? f32(logit(i)) : score(logit(i), highest, total);
        if (args.bias == nullptr) return router_key(v);
        i64 at = i64(i) * args.bias_stride;
        const void* bias = args.bias;
        f32 b = args.bias_is_f32 != 0 ? static_cast<const f32*>(bias)[at] : f32(widen(static_cast<const T*>(bias)[at]));
        return router_key(v + b);
    }
    OPS_METHOD bool cached() const { return args.experts <= ROUTER_CACHED; }
    OPS_METHOD u32 key(u64 i) const { return cached() ? keys[i] : choice(i); }

    // The mark of a group, as a key.
    OPS_METHOD u32 mark(u64 group) const {
        u32 best = 0, second = 0;
        u64 first = group * args.group.by;
        OPS_NO_UNROLL
        for (u64 i = 0; i < args.group.by; i++) {
            u32 k = key(first + i);
            second = k > best ? best : (k > second ? k : second);
            best = k > best ? k : best;
        }
        return second == 0 || is(ROUTER_MAX) ? best : router_key(router_value(best) + router_value(second));
    }
    // The highest rank below `last` among `count` candidates; `key_of` gives their keys, 0 for none.
    template <typename F> OPS_METHOD u64 next(u64 last, u64 count, F key_of) const {
        u64 best = 0;
        OPS_NO_UNROLL
        for (u64 i = lane; i < count; i += OPS_WAVE) {
            u32 k = key_of(i);
            u64 rank = router_rank(k, u32(i));
            if (k != 0 && rank < last && rank > best) best = rank;
        }
        return reduce_lanes(best, OPS_WAVE, Highest());
    }

    OPS_METHOD void softmax_over_all() {
        A max = -A(infinity32());
        OPS_NO_UNROLL
        for (u64 i = lane; i < args.experts; i += OPS_WAVE) max = maximum(logit(i), max);
        highest = reduce_lanes(max, OPS_WAVE, Max());
        A sum = A(0);
        OPS_NO_UNROLL
        for (u64 i = lane; i < args.experts; i += OPS_WAVE) sum += exp(logit(i) - highest);
        total = reduce_lanes(sum, OPS_WAVE, Sum());
    }
    // The rank of the last group that stays.
    OPS_METHOD u64 last_group() const {
        u64 last = ROUTER_FIRST;
        OPS_NO_UNROLL
        for (u64 g = 0; g < args.kept; g++) last = next(last, args.groups, [&](u64 i) OPS_INLINE { return mark(i); });
        return last;
    }
    OPS_METHOD void run(u64 row, bool live_row) {
        if (!is(ROUTER_SIGMOID) && !is(ROUTER_AFTER)) softmax_over_all();
        barrier();  // the keys of the last row are read no more
        if (cached()) {
            OPS_NO_UNROLL
            for (u64 i = lane; i < args.experts; i += OPS_WAVE) keys[i] = choice(i);
        }
        barrier();
        u64 last = args.groups > 1 ? last_group() : 0;
        barrier();
        auto allowed = [&](u64 i) OPS_INLINE -> u32 {
            if (args.groups > 1) {
                u64 group = divide(args.group, i);
                if (router_rank(mark(group), u32(group)) < last) return 0;
            }
            return key(i);
        };
        if (cached() && args.groups > 1) {
            leave_groups(last);
            barrier();
            choose(row, live_row, [&](u64 i) OPS_INLINE { return keys[i]; });
            return;
        }
        choose(row, live_row, allowed);
    }
    // Takes the experts of other groups out of the choice. A lane changes whole groups, whose marks no other lane reads then.
    OPS_METHOD void leave_groups(u64 last) const {
        OPS_NO_UNROLL
        for (u64 g = lane; g < args.groups; g += OPS_WAVE) {
            if (router_rank(mark(g), u32(g)) >= last) continue;
            OPS_NO_UNROLL
            for (u64 i = 0; i < args.group.by; i++) keys[g * args.group.by + i] = 0;
        }
    }
    // The ranks of up to OPS_WAVE experts from the first-th on, one to a lane; `last` moves on.
    template <typename F> OPS_METHOD u64 chosen(u64 first, u64& last, F key_of) const {
        u64 mine = 0;
        u64 count = args.k - first < OPS_WAVE ? args.k - first : OPS_WAVE;
        OPS_NO_UNROLL
        for (u64 j = 0; j < count; j++) {
            last = next(last, args.experts, key_of);
            if (j == lane) mine = last;
        }
        return mine;
    }
    // Chooses and writes. With more experts than lanes, the choice is made twice: for the sums, and for the weights.
    template <typename F> OPS_METHOD void choose(u64 row, bool live_row, F key_of) const {
        A max = -A(infinity32()), sum = A(0);
        u64 last = ROUTER_FIRST, mine = 0;
        bool softmax = is(ROUTER_AFTER) && !is(ROUTER_SIGMOID);
        OPS_NO_UNROLL
        for (u64 first = 0; first < args.k; first += OPS_WAVE) {
            mine = chosen(first, last, key_of);
            bool live = first + lane < args.k;
            A v = live ? logit(rank_index(mine)) : -A(infinity32());
            if (softmax) {
                A before = max;
                max = reduce_lanes(maximum(v, max), OPS_WAVE, Max());
                A part = reduce_lanes(live ? exp(v - max) : A(0), OPS_WAVE, Sum());
                sum = (first == 0 ? A(0) : sum * exp(before - max)) + part;
            } else {
                sum += reduce_lanes(live ? A(score(v, highest, total)) : A(0), OPS_WAVE, Sum());
            }
        }
        last = ROUTER_FIRST;
        A by = A(args.scale);
        if (is(ROUTER_RENORMALIZE)) by = by / ((softmax ? A(1) : sum) + A(1e-20));
        OPS_NO_UNROLL
        for (u64 first = 0; first < args.k; first += OPS_WAVE) {
            if (args.k > OPS_WAVE) mine = chosen(first, last, key_of);
            if (!live_row || first + lane >= args.k) continue;
            u32 id = rank_index(mine);
            A v = logit(id);
            A weight = softmax ? exp(v - max) / sum : A(score(v, highest, total));
            i64 at = i64(first + lane);
            f32* weights = args.weights;
            u32* ids = args.ids;
            weights[i64(row) * args.weights_stride[0] + at * args.weights_stride[1]] = f32(weight * by);
            ids[i64(row) * args.ids_stride[0] + at * args.ids_stride[1]] = id;
        }
    }
};

template <typename T> OPS_DEVICE void router_topk(const RouterArgs& args) {
    OPS_LDS(u32, keys, (ROUTER_BLOCK / 32) * ROUTER_CACHED);
    constexpr u32 WAVES = ROUTER_BLOCK / OPS_WAVE;
    // All waves of a block run the same number of iterations, as they share barriers; one without a row repeats the
    // last one and writes nothing.
    OPS_NO_UNROLL
    for (u64 first = u64(block_x()) * WAVES; first < args.rows; first += u64(grid_x()) * WAVES) {
        bool live = first + wave_id() < args.rows;
        u64 row = live ? first + wave_id() : args.rows - 1;
        Router<T> router(args, row, keys + wave_id() * ROUTER_CACHED);
        router.run(row, live);
    }
}

struct CombineArgs {
    Shape shape;  // of y[n, d]
    Operand x;    // of the first expert
    Operand weights;
    Operand y;
    i64 x_step;  // from one expert to the next
    i64 weights_step;
    u64 k;
};

template <typename T> OPS_DEVICE void combine_experts(const CombineArgs& args) {
    using A = acc_t<T>;
    constexpr u32 N = PACK_BYTES / (sizeof(T) > 4 ? sizeof(T) : 4);
    u64 step = args.shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        Cursor<T> x(args.x), y(args.y);
        Cursor<f32> weights(args.weights);
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            x.move(d, at);
            y.move(d, at);
            weights.move(d, at);
        });
        A sum[N] = {};
        // One row may end within a pack.
        u64 left = args.shape.count - i;
        if (step == N && left >= N) {
            OPS_NO_UNROLL
            for (u64 j = 0; j < args.k; j++) {
                Pack<T, N> part = x.template pack<N>();
                A weight = A(*weights.at);
                OPS_UNROLL
                for (u32 e = 0; e < N; e++) sum[e] = mad(weight, A(widen(part.v[e])), sum[e]);
                x.at += args.x_step;
                weights.at += args.weights_step;
            }
            Pack<T, N> out;
            OPS_UNROLL
            for (u32 e = 0; e < N; e++) out.v[e] = narrow<T>(sum[e]);
            store_pack<N>(y.at, out);
            continue;
        }
        if (left > step) left = step;
        OPS_NO_UNROLL
        for (u64 e = 0; e < left; e++) {
            const T* from = x.at;
            const f32* weight = weights.at;
            A total = A(0);
            OPS_NO_UNROLL
            for (u64 j = 0; j < args.k; j++) {
                total = mad(A(*weight), A(widen(*from)), total);
                from += args.x_step;
                weight += args.weights_step;
            }
            *y.at = narrow<T>(total);
            x.advance();
            y.advance();
        }
    }
}

}  // namespace ops
