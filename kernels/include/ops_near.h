// exp(x) - 1 and log(1 + x), precise near 0, where a difference from 1 would cancel. As in ops_math.h: the largest error that the
// tests measure is below 2.5 ulp in f32 and f64.
#pragma once
#include "ops_math.h"

namespace ops {

// x = n log 2 + r, so exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1). Half of that is computed, because 2^n overflows for the largest
// results. `half` is 2^(n - 1), and `q` is exp(r) - 1.
template <typename A> OPS_DEVICE A expm1_joined(A q, A half) { return A(2) * fma(q, half, half - A(0.5)); }

OPS_DEVICE f32 expm1(f32 x) {
    f32 n = nearest_exponent(x * 0x1.715476p+0f);
    f32 r = fma(n, 0x1.05c610p-29f, fma(n, -0x1.62e430p-1f, x));
    // (exp(r) - 1 - r) / r^2; 2^-28
    f32 p = polynomial(r, 0x1.fffffcp-2f, 0x1.555492p-3f, 0x1.5558bap-5f, 0x1.12393cp-7f, 0x1.6a41cep-10f);
    f32 y = expm1_joined(fma(r * r, p, r), bits_as<f32>(u32(i32(n) + 126) << 23));
    y = x > 89.0f ? infinity32() : x < -18.0f ? -1.0f : y;
    return abs(x) < 0x1p-25f ? x : y;  // also the sign of 0
}
OPS_DEVICE f64 expm1(f64 x) {
    if (!(x < 710.0)) return is_nan(x) ? x : infinity64();
    if (x < -40.0) return -1.0;
    if (abs(x) < 0x1p-54) return x;
    f64 n = nearest_even(x * 0x1.71547652b82fep+0);
    f64 r = fma(n, -0x1.62e42fefa39efp-1, x);
    r = fma(n, -0x1.abc9e3b39803fp-56, r);
    f64 q = fma(r * r, table_polynomial<5>(r, exp_coefficients), r);
    return expm1_joined(q, bits_as<f64>(u64(i32(n) + 1022) << 52));
}

// log(1 + x) is the logarithm of the rounded sum, corrected for what the sum lost. Near 0, where both terms are of one size, it is
// x - x^2 / 2.
template <typename A> OPS_DEVICE A log1p_within(A x, A near_zero) {
    A sum = A(1) + x, y = log(sum);
    A lost = x < A(1) ? x - (sum - A(1)) : A(1) - (sum - x);  // exact
    bool number = sum > A(0) && sum < A(infinity32());
    y = number ? y + lost / sum : y;
    return abs(x) < near_zero ? fma(A(-0.5) * x, x, x) : y;
}
OPS_DEVICE f32 log1p(f32 x) { return log1p_within(x, 0x1p-12f); }
OPS_DEVICE f64 log1p(f64 x) { return log1p_within(x, 0x1p-27); }

// log(1 + exp(x)), of which the power cannot overflow.
template <typename A> OPS_DEVICE A softplus(A x) { return (x > A(0) ? x : A(0)) + log1p(exp(-abs(x))); }

}  // namespace ops
