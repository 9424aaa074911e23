// Elementwise functions with parameters: powf, clamp, elu; any shape and strides; y may be x itself.
#include "ops_view.h"
#include "ops_pow.h"

namespace ops {

struct ParametricArgs {
    Shape shape;
    Operand x;
    Operand y;
    u64 first;   // an f64 for floats, an i64 for integers, as bits
    u64 second;
};

// A parameter as a number of type A.
template <typename A> OPS_DEVICE A parameter(u64 bits) { return A(bits_as<i64>(bits)); }
template <> OPS_METHOD f32 parameter<f32>(u64 bits) { return f32(bits_as<f64>(bits)); }
template <> OPS_METHOD f64 parameter<f64>(u64 bits) { return bits_as<f64>(bits); }

// exp(x) - 1 for x <= 0 or NaN. Near 0, where the difference cancels, a Taylor polynomial.
OPS_DEVICE f32 exp_minus_one(f32 x) {
    // 2^-26 down to -0.35
    f32 p = polynomial(x, 1.0f, 0x1p-1f, 0x1.555556p-3f, 0x1.555556p-5f, 0x1.111112p-7f, 0x1.6c16c2p-10f, 0x1.a01a02p-13f);
    return x > -0.35f ? x * p : exp(x) - 1.0f;
}
OPS_DEVICE f64 exp_minus_one(f64 x) {
    // tanh is accurate near 0: exp(x) - 1 = 2 t / (1 - t) with t = tanh(x / 2).
    f64 t = tanh(0.5 * x);
    return x > -0.7 ? 2.0 * t / (1.0 - t) : exp(x) - 1.0;
}

struct Powf { template <typename A> static OPS_METHOD A of(A x, A exponent, A) { return power(x, exponent); } };
struct Clamp { template <typename A> static OPS_METHOD A of(A x, A low, A high) { return minimum(maximum(x, low), high); } };
struct Elu {
    template <typename A> static OPS_METHOD A of(A x, A alpha, A) {
        return x > A(0) ? x : alpha * exp_minus_one(x);
    }
};

template <typename F, typename T> OPS_DEVICE void parametric(const ParametricArgs& args) {
    if constexpr (is_float<T>::value) {
        acc_t<T> first = parameter<acc_t<T>>(args.first), second = parameter<acc_t<T>>(args.second);
        map<T, T>(args.shape, args.y, [=](T x) OPS_INLINE { return narrow<T>(F::of(widen(x), first, second)); }, args.x);
    } else {
        T first = parameter<T>(args.first), second = parameter<T>(args.second);
        map<T, T>(args.shape, args.y, [=](T x) OPS_INLINE { return F::of(x, first, second); }, args.x);
    }
}

}  // namespace ops
