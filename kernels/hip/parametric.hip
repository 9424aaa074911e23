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

// The parameters are of f64 for floats, of i64 for integers.
struct Powf { template <typename A> static OPS_METHOD A of(A x, f64 exponent, f64) { return power(x, exponent); } };
struct Clamp {
    template <typename A, typename P> static OPS_METHOD A of(A x, P low, P high) {
        return minimum(maximum(x, A(low)), A(high));
    }
};
struct Elu {
    template <typename A> static OPS_METHOD A of(A x, f64 alpha, f64) {
        return x > A(0) ? x : A(alpha) * exp_minus_one(x);
    }
};

template <typename F, typename T> OPS_DEVICE void parametric(const ParametricArgs& args) {
    if constexpr (is_float<T>::value) {
        f64 first = bits_as<f64>(args.first), second = bits_as<f64>(args.second);
        map<T, T>(args.shape, args.y, [=](T x) OPS_INLINE { return narrow<T>(F::of(widen(x), first, second)); }, args.x);
    } else {
        i64 first = i64(args.first), second = i64(args.second);
        map<T, T>(args.shape, args.y, [=](T x) OPS_INLINE { return F::of(x, first, second); }, args.x);
    }
}

}  // namespace ops
