// Elementwise ops with one operand: y = f(x), any shape and strides; y may be x itself. Floats compute
// in the accumulator type and round once; integers wrap.
#include "ops_view.h"
#include "ops_f16_math.h"
#include "ops_near.h"

namespace ops {

struct UnaryArgs {
    Shape shape;
    Operand x;
    Operand y;
};

// x * mul + add
struct AffineArgs {
    Shape shape;
    Operand x;
    Operand y;
    f64 mul;
    f64 add;
};

template <typename A> OPS_DEVICE A silu_of(A x) { return x * sigmoid(x); }
template <typename A> OPS_DEVICE A gelu_of(A x) { return x * sigmoid(gelu_exponent(x)); }

struct Sigmoid { template <typename A> static OPS_METHOD A of(A x) { return sigmoid(x); } };
struct Silu { template <typename A> static OPS_METHOD A of(A x) { return silu_of(x); } };
struct Gelu { template <typename A> static OPS_METHOD A of(A x) { return gelu_of(x); } };
struct GeluErf { template <typename A> static OPS_METHOD A of(A x) { return x * normal_cdf(x); } };
struct Tanh { template <typename A> static OPS_METHOD A of(A x) { return tanh(x); } };
struct Erf { template <typename A> static OPS_METHOD A of(A x) { return erf(x); } };
struct Exp { template <typename A> static OPS_METHOD A of(A x) { return exp(x); } };
struct Expm1 { template <typename A> static OPS_METHOD A of(A x) { return expm1(x); } };
struct Log { template <typename A> static OPS_METHOD A of(A x) { return log(x); } };
struct Log1p { template <typename A> static OPS_METHOD A of(A x) { return log1p(x); } };
struct Softplus { template <typename A> static OPS_METHOD A of(A x) { return softplus(x); } };
struct Sin { template <typename A> static OPS_METHOD A of(A x) { return sin(x); } };
struct Cos { template <typename A> static OPS_METHOD A of(A x) { return cos(x); } };
struct Sqrt { template <typename A> static OPS_METHOD A of(A x) { return sqrt(x); } };
struct Recip { template <typename A> static OPS_METHOD A of(A x) { return A(1) / x; } };
struct Floor { template <typename A> static OPS_METHOD A of(A x) { return floor(x); } };
struct Ceil { template <typename A> static OPS_METHOD A of(A x) { return ceil(x); } };
struct Round { template <typename A> static OPS_METHOD A of(A x) { return round(x); } };
struct Trunc { template <typename A> static OPS_METHOD A of(A x) { return trunc(x); } };

// These also support integers, whose arithmetic uses an unsigned type so that it wraps.
template <typename T> using wrap_t = typename choose<sizeof(T) == 8, u64, u32>::type;

struct Neg {
    static OPS_METHOD f32 of(f32 x) { return -x; }
    static OPS_METHOD f64 of(f64 x) { return -x; }
    template <typename T> static OPS_METHOD T of(T x) { return T(wrap_t<T>(0) - wrap_t<T>(x)); }
};
struct Abs {
    static OPS_METHOD f32 of(f32 x) { return abs(x); }
    static OPS_METHOD f64 of(f64 x) { return abs(x); }
    template <typename T> static OPS_METHOD T of(T x) { return x < T(0) ? Neg::of(x) : x; }
};
struct Relu {
    template <typename T> static OPS_METHOD T of(T x) { return x < T(0) ? T(0) : x; }
};
struct Sqr {
    static OPS_METHOD f32 of(f32 x) { return x * x; }
    static OPS_METHOD f64 of(f64 x) { return x * x; }
    template <typename T> static OPS_METHOD T of(T x) { return T(wrap_t<T>(x) * wrap_t<T>(x)); }
};
struct Sign {  // sign of NaN is 0
    template <typename T> static OPS_METHOD T of(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : T(0); }
};

// f for f16, before the result is rounded. Uses the shorter function if there is one.
template <typename F> OPS_DEVICE f32 of_f16(F, f32 x) { return F::of(x); }
OPS_DEVICE f32 of_f16(Sigmoid, f32 x) { return sigmoid_f16(x); }
OPS_DEVICE f32 of_f16(Silu, f32 x) { return x * sigmoid_f16(x); }
OPS_DEVICE f32 of_f16(Gelu, f32 x) { return x * sigmoid_f16(gelu_exponent(x)); }
OPS_DEVICE f32 of_f16(GeluErf, f32 x) { return x * normal_cdf_f16(x); }
OPS_DEVICE f32 of_f16(Tanh, f32 x) { return tanh_f16(x); }
OPS_DEVICE f32 of_f16(Exp, f32 x) { return exp_f16(x); }
OPS_DEVICE f32 of_f16(Erf, f32 x) { return erf_f16(x); }
OPS_DEVICE f32 of_f16(Log, f32 x) { return log_f16(x); }
OPS_DEVICE f32 of_f16(Sin, f32 x) { return sin_f16(x); }
OPS_DEVICE f32 of_f16(Cos, f32 x) { return cos_f16(x); }

template <typename F> struct is_long { static constexpr bool value = same<F, Sin>::value || same<F, Cos>::value; };

template <typename T, typename F> struct Apply {
    static constexpr bool in_turns = is_long<F>::value && same<T, bf16>::value;
    OPS_METHOD T operator()(T x) const {
        if constexpr (same<T, f16>::value) {
            return narrow<T>(of_f16(F(), widen(x)));
        } else if constexpr (is_float<T>::value) {
            return narrow<T>(F::of(widen(x)));
        } else {
            return F::of(x);
        }
    }
};

template <typename F, typename T> OPS_DEVICE void unary(const UnaryArgs& args) {
    map<T, T>(args.shape, args.y, Apply<T, F>(), args.x);
}

template <typename T> OPS_DEVICE void affine(const AffineArgs& args) {
    acc_t<T> mul = acc_t<T>(args.mul), add = acc_t<T>(args.add);
    map<T, T>(args.shape, args.y, [=](T x) OPS_INLINE { return narrow<T>(fma(widen(x), mul, add)); }, args.x);
}

}  // namespace ops
