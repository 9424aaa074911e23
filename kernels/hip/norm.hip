// rms_norm, add_rms_norm, layer_norm over the last dimension; group_norm over groups of channels.
// Weight and bias are of type W (x's own or f32) and may be absent. Rows are read in 16-byte packs where
// shape.pack says that every operand, weight and bias included, allows it; else element by element.
#include "ops_team.h"

namespace ops {

struct NormArgs {
    Shape shape;  // the last dimension is the row
    Operand x;
    Operand residual;  // add_rms_norm only
    Operand y;
    Operand sum;         // add_rms_norm only
    Address<const void> weight;  // null when absent
    Address<const void> bias;
    i64 weight_stride;
    i64 bias_stride;
    u64 rows;
    u64 lanes;  // per row, a power of two
    f64 eps;
};

struct GroupNormArgs {
    Shape shape;  // x[b, c, ..], dimensions merged where they can be; one if it is to be read in packs
    Operand x;
    Operand y;
    Address<const void> weight;  // of groups * channels; null when absent
    Address<const void> bias;
    i64 weight_stride;
    i64 bias_stride;
    Divider spatial;  // elements of a channel; whole packs if read in packs
    u64 groups;       // of one batch entry
    u64 group_rows;   // batch * groups
    u64 channels;     // of a group
    u64 lanes;        // per group or part, a power of two; apply uses the whole block
    f64 eps;
    Address<void> partial;  // [group_rows][parts] of Moments; parts and apply only
    u64 parts;      // of GROUP_PART elements, the last one shorter
    u64 shares;     // apply: blocks to a group
};

constexpr u32 NORM_BLOCK = 256;

// N parameters from element `at` on; `absent` where there are none.
template <typename W, u32 N, typename A>
OPS_DEVICE Pack<A, N> parameters(const void* data, i64 stride, u64 at, A absent) {
    const W* from = static_cast<const W*>(data);
    constexpr u32 PART = sizeof(W) * N > PACK_BYTES ? PACK_BYTES / sizeof(W) : N;
    Pack<A, N> out;
    if constexpr (N == 1) {
        out.v[0] = from == nullptr ? absent : widen(from[i64(at) * stride]);
    } else {
        using Words = Pack<u32, sizeof(W) * PART / 4>;
        Pack<W, PART> filled;
        OPS_UNROLL
        for (u32 i = 0; i < PART; i++) filled.v[i] = narrow<W>(absent);
        OPS_UNROLL
        for (u32 p = 0; p < N; p += PART) {
            Words raw = bits_as<Words>(filled);
            if (from != nullptr) raw = bits_as<Words>(load_pack<PART>(from + at + p));
            Pack<A, PART> part = widen_pack<W, PART>(bits_as<Pack<W, PART>>(raw));
            OPS_UNROLL
            for (u32 i = 0; i < PART; i++) out.v[p + i] = part.v[i];
        }
    }
    return out;
}

// ---- rms_norm, add_rms_norm -----------------------------------------------------

template <bool ADD, typename W, u32 N, typename G, typename T>
OPS_DEVICE void rms_norm_row(const NormArgs& args, G group, bool live, T* from, T* other, T* to, T* sum_to) {
    using A = acc_t<T>;
    Row<T, N> x{from, args.x.stride[5]}, residual{other, args.residual.stride[5]};
    Row<T, N> y{to, args.y.stride[5]}, sum{sum_to, args.sum.stride[5]};
    u64 n = args.shape.dim[5];
    auto load = [&](u64 c) OPS_INLINE {
        Pack<T, N> values = x.load(c);
        if constexpr (ADD) {
            Pack<T, N> added = residual.load(c);
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) values.v[i] = narrow<T>(widen(values.v[i]) + widen(added.v[i]));
        }
        return values;
    };
    CachedRow<T, N, G> cached{group, n / N, {}};
    A squares = 0;
    cached.first_pass(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) squares = mad(v.v[i], v.v[i], squares);
    });
    A inverse = A(1) / sqrt(group.template reduce<0>(squares, Sum()) / A(n) + A(args.eps));
    if (!live) return;
    cached.again(load, [&](u64 c, const Pack<A, N>& v) OPS_INLINE {
        Pack<A, N> weight = parameters<W, N>(args.weight, args.weight_stride, c * N, A(1));
        Pack<A, N> out;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) out.v[i] = v.v[i] * inverse * weight.v[i];
        if constexpr (ADD) sum.store(c, narrow_pack<T, N>(v));
        y.store(c, narrow_pack<T, N>(out));
    });
}

template <bool TEAM, bool ADD, typename T, typename W> OPS_DEVICE void rms_norm(const NormArgs& all_args) {
    using A = acc_t<T>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<NORM_BLOCK>());
    using G = RowGroup<A, NORM_BLOCK, TEAM>;
    A* slots = scratch;  // a row has one reduction: the halves of scratch are for rows in turn
    for_group_rows<NORM_BLOCK, TEAM>(all_args.rows, u32(all_args.lanes), [&](u64 row, bool live) OPS_INLINE {
        const NormArgs& args = reread(all_args);
        slots = slots == scratch ? scratch + reduce_slots<NORM_BLOCK>() : scratch;
        T* x = static_cast<T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        T* residual = nullptr;
        T* sum = nullptr;
        if constexpr (ADD) {
            residual = static_cast<T*>(args.residual.data) + offset_of<4>(args.shape, args.residual, row);
            sum = static_cast<T*>(args.sum.data) + offset_of<4>(args.shape, args.sum, row);
        }
        if (N != 1 && args.shape.pack == N) {
            rms_norm_row<ADD, W, N>(args, G(slots, args.lanes), live, x, residual, y, sum);
        } else {
            rms_norm_row<ADD, W, 1>(args, G(slots, args.lanes), live, x, residual, y, sum);
        }
    });
}

// ---- layer_norm and group_norm --------------------------------------------------

// Mean and variance that survive a large mean: the sum of x - shift gives an approximate mean, the head, and
// deviations from it give the variance and the tail, which the head lacks.
template <typename A> struct Moments {
    A head, tail, variance;
    OPS_METHOD A inverse(f64 eps) const { return A(1) / sqrt((variance < A(0) ? A(0) : variance) + A(eps)); }
};

// (x - mean) / sqrt(variance + eps)
template <typename A> struct Normaliser {
    A head, inverse, rest;
    OPS_METHOD Normaliser(const Moments<A>& m, f64 eps) : head(m.head), inverse(m.inverse(eps)), rest(-m.tail * inverse) {}
    OPS_METHOD A operator()(A x) const { return fma(x - head, inverse, rest); }
};

template <typename T, u32 N, typename G, typename L>
OPS_DEVICE Moments<acc_t<T>> moments(CachedRow<T, N, G>& cached, acc_t<T> shift, u64 n, L load) {
    using A = acc_t<T>;
    A total = 0;
    cached.first_pass(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) total += v.v[i] - shift;
    });
    A share = A(1) / A(n);
    A head = mad(cached.group.template reduce<0>(total, Sum()), share, shift);
    A sums[2] = {};  // of deviations, and of their squares
    cached.again(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            A e = v.v[i] - head;
            sums[0] += e;
            sums[1] = mad(e, e, sums[1]);
        }
    });
    cached.group.template reduce_all<1>(sums, Sum());
    A tail = sums[0] * share;
    return Moments<A>{head, tail, sums[1] * share - tail * tail};
}

template <typename W, u32 N, typename G, typename T>
OPS_DEVICE void layer_norm_row(const NormArgs& args, G group, bool live, T* from, T* to) {
    using A = acc_t<T>;
    Row<T, N> x{from, args.x.stride[5]}, y{to, args.y.stride[5]};
    u64 n = args.shape.dim[5];
    auto load = [&](u64 c) OPS_INLINE { return x.load(c); };
    CachedRow<T, N, G> cached{group, n / N, {}};
    Normaliser<A> normalised(moments(cached, A(widen(from[0])), n, load), args.eps);
    if (!live) return;
    cached.again(load, [&](u64 c, const Pack<A, N>& v) OPS_INLINE {
        Pack<A, N> weight = parameters<W, N>(args.weight, args.weight_stride, c * N, A(1));
        Pack<A, N> bias = parameters<W, N>(args.bias, args.bias_stride, c * N, A(0));
        Pack<A, N> out;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) out.v[i] = fma(normalised(v.v[i]), weight.v[i], bias.v[i]);
        y.store(c, narrow_pack<T, N>(out));
    });
}

template <bool TEAM, typename T, typename W> OPS_DEVICE void layer_norm(const NormArgs& all_args) {
    using A = acc_t<T>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<NORM_BLOCK>());
    using G = RowGroup<A, NORM_BLOCK, TEAM>;
    if (all_args.shape.dim[5] == 0) return;
    for_group_rows<NORM_BLOCK, TEAM>(all_args.rows, u32(all_args.lanes), [&](u64 row, bool live) OPS_INLINE {
        const NormArgs& args = reread(all_args);
        T* x = static_cast<T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        if (N != 1 && args.shape.pack == N) {
            layer_norm_row<W, N>(args, G(scratch, args.lanes), live, x, y);
        } else {
            layer_norm_row<W, 1>(args, G(scratch, args.lanes), live, x, y);
        }
    });
}

// A run of consecutive logical elements, whatever the strides: a group, or a part of one.
template <typename T, u32 N> struct Run {
    const GroupNormArgs& args;
    u64 first;

    OPS_METHOD Row<T, N> chunk(const Operand& operand, u64 c) const {
        u64 element = first + c * N;
        i64 offset = N == 1 ? offset_of<5>(args.shape, operand, element) : i64(element);
        return Row<T, N>{static_cast<T*>(operand.data) + offset, 1};
    }
    OPS_METHOD Pack<T, N> load(u64 c) const { return chunk(args.x, c).load(0); }
    // Writes chunk c, normalised; `start` is where the run starts within its group.
    template <typename W, typename A>
    OPS_METHOD void store(u64 c, const Pack<A, N>& v, const Normaliser<A>& normalised, u64 channel, u64 start) const {
        u64 of = channel + divide(args.spatial, start + c * N);
        A weight = parameters<W, 1>(args.weight, args.weight_stride, of, A(1)).v[0];
        A bias = parameters<W, 1>(args.bias, args.bias_stride, of, A(0)).v[0];
        Pack<A, N> out;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) out.v[i] = fma(normalised(v.v[i]), weight, bias);
        chunk(args.y, c).store(0, narrow_pack<T, N>(out));
    }
};

template <typename T, typename W, u32 N>
OPS_DEVICE void group_norm_of(const GroupNormArgs& args, u64 at, bool live, acc_t<T>* scratch) {
    using A = acc_t<T>;
    using G = Team<A, NORM_BLOCK>;
    u64 n = args.channels * args.spatial.by;
    Run<T, N> run{args, at * n};
    auto load = [&](u64 c) OPS_INLINE { return run.load(c); };
    CachedRow<T, N, G> cached{G(scratch, args.lanes), n / N, {}};
    Normaliser<A> normalised(moments(cached, A(widen(load(0).v[0])), n, load), args.eps);
    if (!live) return;
    u64 channel = at % args.groups * args.channels;
    cached.again(load, [&](u64 c, const Pack<A, N>& v) OPS_INLINE {
        run.template store<W>(c, v, normalised, channel, 0);
    });
}

template <typename T, typename W> OPS_DEVICE void group_norm(const GroupNormArgs& all_args) {
    constexpr u32 N = row_pack<T>();
    OPS_LDS(acc_t<T>, scratch, turns_slots<NORM_BLOCK>());
    if (all_args.shape.count == 0) return;
    for_team_rows<NORM_BLOCK>(all_args.group_rows, u32(all_args.lanes), [&](u64 at, bool live) OPS_INLINE {
        const GroupNormArgs& args = reread(all_args);
        if (N != 1 && args.shape.pack == N) {
            group_norm_of<T, W, N>(args, at, live, scratch);
        } else {
            group_norm_of<T, W, 1>(args, at, live, scratch);
        }
    });
}

// ---- group_norm of few large groups: parts, then apply ----------------------------

constexpr u32 GROUP_PART = 4096;  // elements whose moments are taken at once, from registers

template <typename T, u32 N>
OPS_DEVICE void group_part_of(const GroupNormArgs& args, u64 first, u64 n, bool live, Moments<acc_t<T>>* to, acc_t<T>* scratch) {
    using A = acc_t<T>;
    using G = Team<A, NORM_BLOCK>;
    Run<T, N> run{args, first};
    auto load = [&](u64 c) OPS_INLINE { return run.load(c); };
    CachedRow<T, N, G> cached{G(scratch, args.lanes), n / N, {}};
    Moments<A> m = moments(cached, A(widen(load(0).v[0])), n, load);
    if (live && cached.group.lane == 0) *to = m;
}

// The moments of every part of every group.
template <typename T, typename W> OPS_DEVICE void group_norm_parts(const GroupNormArgs& args) {
    using A = acc_t<T>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<NORM_BLOCK>());
    for_team_rows<NORM_BLOCK>(args.group_rows * args.parts, u32(args.lanes), [&](u64 at, bool live) OPS_INLINE {
        u64 n = args.channels * args.spatial.by, group = at / args.parts;
        u64 start = (at - group * args.parts) * GROUP_PART;
        u64 length = n - start < GROUP_PART ? n - start : GROUP_PART;
        Moments<A>* to = static_cast<Moments<A>*>(args.partial) + at;
        if (N != 1 && args.shape.pack == N) {
            group_part_of<T, N>(args, group * n + start, length, live, to, scratch);
        } else {
            group_part_of<T, 1>(args, group * n + start, length, live, to, scratch);
        }
    });
}

// The moments of a group from those of its parts, each weighted by its share of the elements.
template <typename A, typename G>
OPS_DEVICE Moments<A> merged(const Moments<A>* parts, u64 count, u64 n, const G& group) {
    A shift = parts[0].head, total = 0;
    auto weight = [&](u64 p) OPS_INLINE { return A(p + 1 < count ? GROUP_PART : n - p * GROUP_PART) / A(n); };
    OPS_NO_UNROLL
    for (u64 p = group.lane; p < count; p += NORM_BLOCK) {
        total = mad(weight(p), (parts[p].head - shift) + parts[p].tail, total);
    }
    A head = shift + group.template reduce<0>(total, Sum());
    A sums[2] = {};
    OPS_NO_UNROLL
    for (u64 p = group.lane; p < count; p += NORM_BLOCK) {
        A apart = (parts[p].head - head) + parts[p].tail;
        sums[0] = mad(weight(p), apart, sums[0]);
        sums[1] = mad(weight(p), mad(apart, apart, parts[p].variance), sums[1]);
    }
    group.template reduce_all<1>(sums, Sum());
    return Moments<A>{head, sums[0], sums[1] - sums[0] * sums[0]};
}

template <typename T, typename W, u32 N, typename A>
OPS_DEVICE void group_apply_to(const GroupNormArgs& args, u64 group, u64 start, u64 end, const Moments<A>& m) {
    Run<T, N> run{args, group * args.channels * args.spatial.by + start};
    Normaliser<A> normalised(m, args.eps);
    u64 channel = group % args.groups * args.channels;
    OPS_NO_UNROLL
    for (u64 c = thread_x(); c < (end - start) / N; c += NORM_BLOCK) {
        run.template store<W>(c, widen_pack<T, N>(run.load(c)), normalised, channel, start);
    }
}

// Normalises with them: a block to each of a group's shares, which are whole parts.
template <typename T, typename W> OPS_DEVICE void group_norm_apply(const GroupNormArgs& args) {
    using A = acc_t<T>;
    using G = Team<A, NORM_BLOCK>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<NORM_BLOCK>());
    for_team_rows<NORM_BLOCK>(args.group_rows * args.shares, NORM_BLOCK, [&](u64 at, bool) OPS_INLINE {
        u64 n = args.channels * args.spatial.by, group = at / args.shares, share = at - group * args.shares;
        u64 length = (args.parts + args.shares - 1) / args.shares * GROUP_PART;
        u64 start = share * length < n ? share * length : n, end = n - start < length ? n : start + length;
        const Moments<A>* parts = static_cast<const Moments<A>*>(args.partial) + group * args.parts;
        Moments<A> m = merged(parts, args.parts, n, G(scratch, NORM_BLOCK));
        if (N != 1 && args.shape.pack == N) {
            group_apply_to<T, W, N>(args, group, start, end, m);
        } else {
            group_apply_to<T, W, 1>(args, group, start, end, m);
        }
    });
}

}  // namespace ops
