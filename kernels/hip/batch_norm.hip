// batch_norm with given statistics: y = (x - mean) / sqrt(var + eps) * weight + bias per channel. The parameters may be of any
// float type, which is a value here.
#include "ops_math.h"
#include "ops_view.h"

namespace ops {

struct Parameter {
    Address<const void> data;  // null when absent
    i64 stride;
    u32 kind;  // FloatKind
    u32 reserved;
};

struct BatchNormArgs {
    Shape shape;  // x[b, c, ..], dimensions merged where they can be
    Operand x;
    Operand y;
    Operand channel;  // its offsets are the channels; there is no memory
    Parameter weight;
    Parameter bias;
    Parameter mean;
    Parameter var;
    f64 eps;
    u64 wide;  // whether a parameter is of f64, so that scales are computed in f64
};

// Element `at` in type C, or `absent` if the parameter is not given.
template <typename C> OPS_DEVICE C read(const Parameter& p, i64 at, C absent) {
    if (p.data == nullptr) return absent;
    i64 i = at * p.stride;
    if (p.kind == FLOAT_F16) return C(widen(static_cast<const f16*>(p.data)[i]));
    if (p.kind == FLOAT_BF16) return C(widen(static_cast<const bf16*>(p.data)[i]));
    if (p.kind == FLOAT_F32) return C(static_cast<const f32*>(p.data)[i]);
    return C(static_cast<const f64*>(p.data)[i]);
}

// What a channel's elements meet. The mean is head + tail: one of f64 may have more digits than A.
template <typename A> struct Channel {
    A head, tail, scale, bias;
    OPS_METHOD A apply(A x) const { return fma((x - head) - tail, scale, bias); }
};

template <typename A, typename C> OPS_DEVICE Channel<A> channel_in(const BatchNormArgs& args, i64 at) {
    C mean = read(args.mean, at, C(0)), root = sqrt(read(args.var, at, C(0)) + C(args.eps));
    A head = A(mean);
    C tail = mean - C(head);
    // An infinite mean has no tail.
    tail = is_nan(tail) || is_nan(tail - tail) ? C(0) : tail;
    return Channel<A>{head, A(tail), A(read(args.weight, at, C(1)) / root), A(read(args.bias, at, C(0)))};
}
template <typename A> OPS_DEVICE Channel<A> channel_of(const BatchNormArgs& args, i64 at) {
    return args.wide != 0 ? channel_in<A, f64>(args, at) : channel_in<A, A>(args, at);
}

template <typename T> OPS_DEVICE void batch_norm(const BatchNormArgs& args) {
    using A = acc_t<T>;
    constexpr u32 N = PACK_BYTES / sizeof(T);
    const u64 step = args.shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        Cursor<T> x(args.x), y(args.y);
        i64 channel = 0;
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            x.move(d, at);
            y.move(d, at);
            channel += i64(at) * args.channel.stride[d];
        });
        Channel<A> of = channel_of<A>(args, channel);
        u64 left = args.shape.count - i;
        if (step == N && left >= N && args.channel.stride[5] == 0) {
            Pack<T, N> in = x.template pack<N>(), out;
            OPS_UNROLL
            for (u32 k = 0; k < N; k++) out.v[k] = narrow<T>(of.apply(widen(in.v[k])));
            store_pack<N>(y.at, out);
            continue;
        }
        if (left > step) left = step;
        OPS_NO_UNROLL
        for (u64 k = 0; k < left; k++) {
            *y.at = narrow<T>(of.apply(widen(*x.at)));
            x.advance();
            y.advance();
            channel += args.channel.stride[5];
            if (args.channel.stride[5] != 0 && k + 1 < left) of = channel_of<A>(args, channel);
        }
    }
}

}  // namespace ops
