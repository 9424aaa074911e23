// cast between any two plain types. Float to int truncates and saturates, and NaN gives 0. Int to float and
// float to narrower float round once, to nearest even. Int to int wraps. Casts to f8e4m3 saturate at 448.
#include "ops_view.h"

namespace ops {

struct CastArgs {
    Shape shape;
    Operand x;
    Operand y;
};

// The first value above the range: 2^(bits - 1) for a signed type, 2^bits for an unsigned one.
template <typename I, typename A> OPS_DEVICE A upper_end() {
    constexpr bool is_signed = I(-1) < I(0);
    return A(2) * A(u64(1) << (sizeof(I) * 8 - (is_signed ? 2 : 1)));
}

template <typename I, typename A> OPS_DEVICE I saturate(A x) {
    constexpr bool is_signed = I(-1) < I(0);
    constexpr u64 top = ~0ull >> (64 - sizeof(I) * 8 + (is_signed ? 1 : 0));
    const A end = upper_end<I, A>();
    if (x != x) return I(0);
    if (x >= end) return I(top);
    if (x <= (is_signed ? -end : A(0))) return is_signed ? I(~top) : I(0);
    return I(x);
}

template <typename Y, typename I> OPS_DEVICE Y round_integer(I x) {
    if constexpr (same<Y, f64>::value) {
        return f64(x);
    } else if constexpr (same<Y, f32>::value) {
        return f32(x);
    } else if constexpr (same<Y, bf16>::value && sizeof(I) == 8) {
        return narrow<Y>(to_f64_odd(x));
    } else if constexpr (same<Y, bf16>::value && sizeof(I) == 4) {
        return narrow<Y>(f64(x));
    } else {
        // Exact up to 2^24, which exceeds the range of f16 and f8e4m3.
        return narrow<Y>(f32(x));
    }
}

template <typename Y, typename X> OPS_DEVICE Y convert(X x) {
    if constexpr (same<X, Y>::value) {
        return x;
    } else if constexpr (is_float<X>::value && is_float<Y>::value) {
        return narrow<Y>(widen(x));
    } else if constexpr (is_float<X>::value) {
        return saturate<Y>(widen(x));
    } else if constexpr (is_float<Y>::value) {
        return round_integer<Y>(x);
    } else {
        return Y(x);
    }
}

template <typename X, typename Y> OPS_DEVICE void cast(const CastArgs& args) {
    map<Y, X>(args.shape, args.y, [](X x) OPS_INLINE { return convert<Y>(x); }, args.x);
}

}  // namespace ops
