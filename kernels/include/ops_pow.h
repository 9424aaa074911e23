// Powers, with the special values of C's pow.
#pragma once
#include "ops_math.h"

namespace ops {

// a^b for finite a > 0. exp and log have a relative error of 2^-52 in f64, so that of the power is 2^-52 |b log a|: it
// vanishes in f32, and is below 2^-42 in f64.
OPS_DEVICE f64 power_of_positive(f64 a, f64 b) { return exp(b * log(a)); }

// a^b, rounded to A. An exponent of f64 keeps the digits that f32 lacks.
template <typename A, typename B> OPS_DEVICE A power(A a, B b) {
    A size = abs(a);
    A infinity = A(infinity32());
    if (b == B(0) || a == A(1)) return A(1);
    if (is_nan(a) || is_nan(b)) return A(quiet_nan32());
    A y;
    if (size == A(0) || size == infinity) {
        y = (size == A(0)) == (b < B(0)) ? infinity : A(0);
    } else if (size == A(1)) {
        y = A(1);
    } else {
        y = A(power_of_positive(f64(size), f64(b)));
    }
    bool negative = (bits_as<u32>(f32(with_sign_of(A(1), a))) >> 31) != 0;
    if (!negative) return y;
    // Negative numbers have powers only with integer exponents, and keep their sign if these are odd.
    bool whole = floor(b) == b, even = floor(b * B(0.5)) == b * B(0.5);
    if (!whole) return size == A(0) || size == infinity ? y : A(quiet_nan32());
    return even ? y : -y;
}

// The power of an integer, wrapping. A negative exponent gives 1 / a^-b, truncated.
template <typename T, typename U> OPS_DEVICE T integer_power(T a, T b) {
    bool odd = (U(b) & 1) != 0;
    if (b < T(0)) {
        if (a == T(1) || (T(-1) < T(0) && a == T(-1))) return odd ? a : T(1);
        return T(0);
    }
    U power = 1, square = U(a);
    OPS_NO_UNROLL
    for (U left = U(b); left != 0; left >>= 1) {
        if ((left & 1) != 0) power *= square;
        square *= square;
    }
    return T(power);
}

}  // namespace ops
