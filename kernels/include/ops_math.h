// Elementary functions in plain arithmetic. The source is the same on every target, except where GPUs have an
// instruction: 2^x, 1 / x and log of f32. On the host, the largest error measured by the tests is below 2.5 ulp in
// f32 and f64, and 6 ulp for f32 normal_cdf; f64 normal_cdf additionally has the error of rounding x / sqrt(2).
// These limits hold on AMD too: both instructions are accurate to 1 ulp (ISA documents, V_EXP_F32 and V_RCP_F32),
// like the host's polynomial for 2^x, and quotients are corrected. No function flushes subnormals or assumes
// finite input. The f32 functions are branch-free, so that computations of neighbouring elements overlap; only sin
// and cos branch, for large arguments. Polynomials are minimax fits; each has its error beside it.
#pragma once
#include "ops_types.h"

namespace ops {

// ---- hardware functions --------------------------------------------------------

#if defined(OPS_CUDA)
#define OPS_MATH(name) ::name
#else
#define OPS_MATH(name) __builtin_##name
#endif

OPS_DEVICE f32 fma(f32 a, f32 b, f32 c) { return OPS_MATH(fmaf)(a, b, c); }
OPS_DEVICE f64 fma(f64 a, f64 b, f64 c) { return OPS_MATH(fma)(a, b, c); }
// a * b + c for long sums; fused where FMA is one instruction.
#if defined(OPS_HOST)
OPS_DEVICE f32 mad(f32 a, f32 b, f32 c) { return a * b + c; }
OPS_DEVICE f64 mad(f64 a, f64 b, f64 c) { return a * b + c; }
#else
OPS_DEVICE f32 mad(f32 a, f32 b, f32 c) { return fma(a, b, c); }
OPS_DEVICE f64 mad(f64 a, f64 b, f64 c) { return fma(a, b, c); }
#endif
OPS_DEVICE f32 sqrt(f32 x) { return OPS_MATH(sqrtf)(x); }
OPS_DEVICE f64 sqrt(f64 x) { return OPS_MATH(sqrt)(x); }
OPS_DEVICE f32 floor(f32 x) { return OPS_MATH(floorf)(x); }
OPS_DEVICE f64 floor(f64 x) { return OPS_MATH(floor)(x); }
OPS_DEVICE f32 ceil(f32 x) { return OPS_MATH(ceilf)(x); }
OPS_DEVICE f64 ceil(f64 x) { return OPS_MATH(ceil)(x); }
OPS_DEVICE f32 trunc(f32 x) { return OPS_MATH(truncf)(x); }
OPS_DEVICE f64 trunc(f64 x) { return OPS_MATH(trunc)(x); }
OPS_DEVICE f32 nearest_even(f32 x) { return OPS_MATH(rintf)(x); }
OPS_DEVICE f64 nearest_even(f64 x) { return OPS_MATH(rint)(x); }

OPS_DEVICE f32 abs(f32 x) { return bits_as<f32>(bits_as<u32>(x) & 0x7fffffffu); }
OPS_DEVICE f64 abs(f64 x) { return bits_as<f64>(bits_as<u64>(x) & 0x7fffffffffffffffull); }
OPS_DEVICE f32 with_sign_of(f32 x, f32 s) {
    return bits_as<f32>((bits_as<u32>(x) & 0x7fffffffu) | (bits_as<u32>(s) & 0x80000000u));
}
OPS_DEVICE f64 with_sign_of(f64 x, f64 s) {
    const u64 sign = 0x8000000000000000ull;
    return bits_as<f64>((bits_as<u64>(x) & ~sign) | (bits_as<u64>(s) & sign));
}
// Rounds halves away from zero.
template <typename A> OPS_DEVICE A round(A x) {
    A whole = trunc(x);
    return abs(x - whole) >= A(0.5) ? whole + with_sign_of(A(1), x) : whole;
}
// Returns NaN if either operand is NaN.
template <typename A> OPS_DEVICE A maximum(A a, A b) { return a > b || a != a ? a : b; }
// Ignores NaN; one instruction.
#if defined(OPS_HOST)
template <typename A> OPS_DEVICE A larger(A a, A b) { return a > b || b != b ? a : b; }
#else
OPS_DEVICE f32 larger(f32 a, f32 b) { return OPS_MATH(fmaxf)(a, b); }
OPS_DEVICE f64 larger(f64 a, f64 b) { return OPS_MATH(fmax)(a, b); }
#endif
template <typename A> OPS_DEVICE A minimum(A a, A b) { return a < b || a != a ? a : b; }

// Products and sums that no compiler may fuse, for results that must match a reference bit for bit.
OPS_DEVICE f32 multiply_exact(f32 a, f32 b) {
#if defined(OPS_CUDA)
    return __fmul_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a * b;
#endif
}
OPS_DEVICE f32 add_exact(f32 a, f32 b) {
#if defined(OPS_CUDA)
    return __fadd_rn(a, b);
#else
#if defined(__clang__)
#pragma clang fp contract(off)
#endif
    return a + b;
#endif
}

// x * 2^n for |n| up to twice the exponent range, rounded only once, at the end.
OPS_DEVICE f32 scale_by_power(f32 x, i32 n) {
#if defined(OPS_AMD)
    return __builtin_ldexpf(x, n);
#else
    i32 half = n >> 1;
    return x * bits_as<f32>(u32(half + 127) << 23) * bits_as<f32>(u32(n - half + 127) << 23);
#endif
}
OPS_DEVICE f64 scale_by_power(f64 x, i32 n) {
    i32 half = n >> 1;
    return x * bits_as<f64>(u64(half + 1023) << 52) * bits_as<f64>(u64(n - half + 1023) << 52);
}

// c[0] + c[1] x + ... by Horner's rule.
template <typename A> OPS_DEVICE A polynomial(A, A c) { return c; }
template <typename A, typename... C> OPS_DEVICE A polynomial(A x, A c, C... rest) {
    return fma(polynomial(x, rest...), x, c);
}

// Horner's rule with coefficients from a table, highest power first, AT_ONCE per iteration. As immediate constants,
// the coefficients of a long f64 polynomial would be kept through the whole loop and fill the scalar registers.
template <u32 AT_ONCE, u32 COUNT> OPS_DEVICE f64 table_polynomial(f64 x, const f64 (&c)[COUNT]) {
    static_assert(COUNT % AT_ONCE == 0, "COUNT is a multiple of AT_ONCE");
    f64 sum = 0;
    OPS_NO_UNROLL
    for (u32 first = 0; first < COUNT; first += AT_ONCE) {
        OPS_UNROLL
        for (u32 i = 0; i < AT_ONCE; i++) sum = fma(sum, x, c[first + i]);
    }
    return sum;
}

// 1 / x by the hardware instruction, accurate to 1 ulp.
OPS_DEVICE f32 reciprocal_estimate(f32 x) {
#if defined(OPS_AMD)
    return __builtin_amdgcn_rcpf(x);
#elif defined(OPS_CUDA)
    f32 out;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
#else
    return 1.0f / x;
#endif
}

// a / b for 1 <= b < 2^64 and a <= b: the reciprocal estimate and one correction step.
OPS_DEVICE f32 quotient(f32 a, f32 b) {
#if defined(OPS_HOST)
    return a / b;
#else
    f32 inverse = reciprocal_estimate(b), q = a * inverse;
    return fma(fma(-b, q, a), inverse, q);
#endif
}
OPS_DEVICE f64 quotient(f64 a, f64 b) { return a / b; }

// ---- exp ----------------------------------------------------------------------

// 2^x if the result is a normal number. Smaller results may be flushed to zero.
OPS_DEVICE f32 exp2_normal(f32 x) {
#if defined(OPS_AMD)
    return __builtin_amdgcn_exp2f(x);
#elif defined(OPS_CUDA)
    f32 out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
#else
    if (x < -126.0f) return 0.0f;
    if (x >= 128.0f) return infinity32();
    f32 n = nearest_even(x), f = x - n;
    // 2^-28
    f32 p = polynomial(f, 0x1.62e430p-1f, 0x1.ebfbdcp-3f, 0x1.c6aee8p-5f, 0x1.3b2d4cp-7f, 0x1.5f3e52p-10f, 0x1.41fbbcp-13f);
    return scale_by_power(fma(f, p, 1.0f), is_nan(x) ? 0 : i32(n));
#endif
}

// The nearest integer in -151 .. 129, which covers all f32 exponents; any integer for NaN.
OPS_DEVICE f32 nearest_exponent(f32 x) {
#if defined(OPS_AMD)
    return nearest_even(__builtin_amdgcn_fmed3f(x, -151.0f, 129.0f));
#elif defined(OPS_CUDA)
    return (fminf(fmaxf(x, -151.0f), 129.0f) + 0x1.8p23f) - 0x1.8p23f;
#else
    return nearest_even(x < 129.0f ? x > -151.0f ? x : -151.0f : 129.0f);
#endif
}

// Splits x log2(e) into an integer and a remainder; the remainder includes the rounding error of the product.
OPS_DEVICE f32 exp(f32 x) {
    f32 n = nearest_exponent(x * 0x1.715476p+0f);
    f32 f = fma(x, 0x1.4ae0c0p-26f, fma(x, 0x1.715476p+0f, -n));
    return scale_by_power(exp2_normal(f), i32(n));
}

// exp(r) = 1 + r + r^2 p(r), 2^-57
OPS_TABLE f64 exp_coefficients[10] = {
    0x1.ad8e8edd255a1p-26, 0x1.28b1f22b3d584p-22, 0x1.71df21f8e634ep-19, 0x1.a019953c73e0fp-16, 0x1.a01a0129149c2p-13,
    0x1.6c16c185ec859p-10, 0x1.1111111128792p-7,  0x1.555555555007p-5,   0x1.55555555554f5p-3,  0x1.000000000000bp-1};
OPS_DEVICE f64 exp(f64 x) {
    if (!(x < 710.0)) return is_nan(x) ? x : infinity64();
    if (x < -746.0) return 0.0;
    f64 n = nearest_even(x * 0x1.71547652b82fep+0);
    f64 r = fma(n, -0x1.62e42fefa39efp-1, x);
    r = fma(n, -0x1.abc9e3b39803fp-56, r);
    f64 p = table_polynomial<5>(r, exp_coefficients);
    return scale_by_power(1.0 + fma(r * r, p, r), i32(n));
}

// ---- log ----------------------------------------------------------------------

// Devices use the compiler's log: one instruction (1 ulp on AMD) and a two-part product.
OPS_DEVICE f32 log(f32 x) {
#if !defined(OPS_HOST)
    return OPS_MATH(logf)(x);
#else
    if (!(x > 0.0f)) return x == 0.0f ? -infinity32() : quiet_nan32();
    if (x == infinity32()) return x;
    i32 bias = -127;
    if (x < 0x1p-126f) {
        x *= 0x1p25f;
        bias -= 25;
    }
    // x = 2^e m with m between sqrt(1/2) and sqrt(2)
    u32 bits = bits_as<u32>(x) + (0x3f800000u - 0x3f3504f3u);
    f32 e = f32(i32(bits >> 23) + bias);
    f32 f = bits_as<f32>((bits & 0x7fffff) + 0x3f3504f3u) - 1.0f;
    // 2^-26: log(1 + f) - f + f^2 / 2, over f^3
    f32 p = polynomial(f, 0x1.55557p-2f, -0x1.000234p-2f, 0x1.99944ep-3f, -0x1.5466fep-3f, 0x1.239ce2p-3f,
                       -0x1.0e96ccp-3f, 0x1.015974p-3f, -0x1.2a6f78p-4f);
    f32 square = f * f;
    f32 tail = fma(square * f, p, e * -0x1.05c610p-29f);
    return fma(e, 0x1.62e430p-1f, f + fma(square, -0.5f, tail));
#endif
}

OPS_DEVICE f64 log(f64 x) {
    if (!(x > 0.0)) return x == 0.0 ? -infinity64() : quiet_nan64();
    if (x == infinity64()) return x;
    i32 bias = -1023;
    if (x < 0x1p-1022) {
        x *= 0x1p54;
        bias -= 54;
    }
    const u64 half_root = 0x3fe6a09e667f3bcdull;
    u64 bits = bits_as<u64>(x) + (0x3ff0000000000000ull - half_root);
    f64 e = f64(i32(bits >> 52) + bias);
    f64 f = bits_as<f64>((bits & 0xfffffffffffffull) + half_root) - 1.0;
    // log(1 + f) = 2 artanh(s), s = f / (2 + f); 2^-59
    f64 s = f / (2.0 + f);
    f64 z = s * s;
    f64 p = z * polynomial(z, 0x1.5555555555592p-1, 0x1.999999997ff2bp-2, 0x1.24924941e082ap-2,
                           0x1.c71c521481016p-3, 0x1.74663d045f9e1p-3, 0x1.39a1e2d9e1db6p-3, 0x1.2f041b9b27d8ep-3);
    f64 tail = fma(e, 0x1.abc9e3b39803fp-56, -s * (f - p));
    return fma(e, 0x1.62e42fefa39efp-1, f + tail);
}

// ---- tanh, logistic --------------------------------------------------------------

OPS_DEVICE f32 tanh(f32 x) {
    f32 a = abs(x), z = x * x;
    // 2^-28 below 0.55
    f32 p = polynomial(z, -0x1.55553ep-2f, 0x1.1109bep-3f, -0x1.b89abap-5f, 0x1.54c3c2p-6f, -0x1.828776p-8f);
    f32 e = exp(-2.0f * a);
    f32 far = with_sign_of(quotient(1.0f - e, 1.0f + e), x);
    return a < 0.55f ? fma(x * z, p, x) : far;
}

OPS_TABLE f64 tanh_coefficients[12] = {
    0x1.b475e45dc99f8p-18,  -0x1.058dba2fac874p-15, 0x1.83ef1b2f7f5bap-14,  -0x1.f21a2db5bbec5p-13,
    0x1.3521d180aff8cp-11,  -0x1.7d9eaf40cd0e6p-10, 0x1.d6d3894008fbdp-9,   -0x1.226e33f208a9ap-7,
    0x1.664f4879878f2p-6,   -0x1.ba1ba1b9f8abdp-5,  0x1.1111111110f01p-3,   -0x1.5555555555554p-2};
OPS_DEVICE f64 tanh(f64 x) {
    f64 a = abs(x);
    if (a < 0.55) return fma(x * (x * x), table_polynomial<6>(x * x, tanh_coefficients), x);  // 2^-62
    return is_nan(x) ? x : with_sign_of(1.0 - 2.0 / (exp(2.0 * a) + 1.0), x);
}

// 1 / (1 + exp(-x)), with relative accuracy for negative x too.
template <typename A> OPS_DEVICE A sigmoid(A x) {
    A e = exp(-abs(x));
    return quotient(x < A(0) ? e : A(1), A(1) + e);
}

// 2u, where gelu's tanh form 0.5 x (1 + tanh u) is computed as x sigmoid(2u). That form stays accurate
// for negative x.
template <typename A> OPS_DEVICE A gelu_exponent(A x) {
    return x * fma(x * x, A(2 * 0.79788456080286535588 * 0.044715), A(2 * 0.79788456080286535588));
}

// ---- erf ----------------------------------------------------------------------

// (1 + 2a) exp(a^2) erfc(a) for a >= 0.85, as a polynomial in (a - 4) / (a + 4). 2^-57.
OPS_TABLE f64 erfc_coefficients[21] = {
    -0x1.830e8f1aed1ffp-26, 0x1.6695d93e98476p-24,  0x1.80a574e617b12p-24,  -0x1.aece10d9b20bbp-21,
    0x1.2b13c5de25963p-22,  0x1.7e6a155729ee8p-18,  -0x1.7846129071761p-17, -0x1.994b17c6138b9p-16,
    0x1.3bdefe836e60ep-13,  -0x1.a1df79fe0a9b1p-13, -0x1.8d4a8a5f2207cp-11, 0x1.49c672d45a4fbp-8,
    -0x1.09623893c00c8p-6,  0x1.3079edf5d73fep-5,   -0x1.0fb06dfe09a97p-4,  0x1.7fee004e15825p-4,
    -0x1.9ddb23c3eb3d1p-4,  0x1.16ecefcfa52bbp-4,   0x1.f7f5df66fdb76p-7,   -0x1.1df1ad154a28ep-3,
    0x1.3ba5916e9fd7fp+0};
OPS_DEVICE f64 erfc_scaled(f64 a) {
    return table_polynomial<7>((a - 4.0) / (a + 4.0), erfc_coefficients);
}

// erfc(a) for a >= 0.85, corrected for the rounding error of a * a.
OPS_DEVICE f64 erfc_tail(f64 a) {
    f64 square = a * a;
    f64 lost = fma(a, a, -square);
    f64 e = exp(-square);
    return fma(-e, lost, e) * erfc_scaled(a) / fma(2.0, a, 1.0);
}

OPS_DEVICE f32 erf_near_zero(f32 x) {  // |x| < 0.9; 2^-26
    f32 z = x * x;
    f32 p = polynomial(z, 0x1.06eba8p-3f, -0x1.81274p-2f, 0x1.ce2d18p-4f, -0x1.b7f2dcp-6f, 0x1.5374bp-8f,
                       -0x1.9c2daap-11f, 0x1.271f42p-14f);
    return fma(x, p, x);
}
OPS_DEVICE f64 erf_near_zero(f64 x) {  // 2^-56
    f64 z = x * x;
    f64 p = polynomial(z, 0x1.06eba8214db69p-3, -0x1.812746b0379ffp-2, 0x1.ce2f21a043864p-4, -0x1.b82ce312b9ef1p-6,
                       0x1.565bcd155a7dbp-8, -0x1.c02db53b97278p-11, 0x1.f9a34c13f17b8p-14, -0x1.f4d552dccdb25p-17,
                       0x1.ba1005fe50877p-20, -0x1.60f29514dbccdp-23, 0x1.07192d5d3b60ap-26, -0x1.89040e69905ccp-30,
                       0x1.01df39e4656fdp-33);
    return fma(x, p, x);
}

OPS_DEVICE f32 erf(f32 x) {
    f32 a = abs(x), b = a > 4.0f ? 4.0f : a;  // NaN stays NaN; from 4 on, the result rounds to 1
    // log2 of erfc from 0.86 to 4; the error of erf is 2^-28
    f32 p = polynomial(b, -0x1.5e1010p-13f, -0x1.a09bdep+0f, -0x1.d63bd2p-1f, -0x1.349b80p-3f, 0x1.09af38p-5f,
                       -0x1.25d618p-8f, 0x1.328392p-12f);
    f32 far = with_sign_of(1.0f - exp2_normal(p), x);
    return a < 0.88f ? erf_near_zero(x) : far;
}
OPS_DEVICE f64 erf(f64 x) {
    f64 a = abs(x);
    if (a < 0.88) return erf_near_zero(x);
    if (is_nan(x)) return x;
    f64 tail = a < 6.5 ? erfc_tail(a) : 0.0;
    return with_sign_of(1.0 - tail, x);
}

// The normal distribution function, 0.5 erfc(-x / sqrt 2), with relative accuracy in the left tail.
// f32: with a = |x|, b = a / sqrt 2 and r = 1 / (b + 3), the tail is exp(-b^2) r s((b - 3) r); for
// positive x, the result is 1 minus that.
OPS_DEVICE f32 normal_cdf(f32 x) {
    f32 a = abs(x);
    a = a > 14.5f ? 14.5f : a;  // NaN stays NaN; beyond 14.5 the tail is below the smallest f32
    f32 half = 0.5f * a, square = half * a, lost = fma(half, a, -square);
    f32 b = a * 0x1.6a09e6p-1f, r = quotient(1.0f, b + 3.0f);
    // 2^-28
    f32 s = polynomial((b - 3.0f) * r, 0x1.12f21ep-1f, -0x1.c44c48p-2f, 0x1.2e3268p-2f, -0x1.3deacap-3f,
                       0x1.e9976cp-5f, -0x1.b7bf60p-7f, -0x1.41a9a6p-11f, 0x1.93c70cp-10f, -0x1.f9687ap-13f,
                       -0x1.547e3cp-13f);
    f32 n = nearest_exponent(square * -0x1.715476p+0f);
    f32 f = fma(square, -0x1.4ae0c0p-26f, fma(square, -0x1.715476p+0f, -n));
    f32 tail = scale_by_power(exp2_normal(fma(lost, -0x1.715476p+0f, f)) * (r * s), i32(n));
    return x < 0.0f ? tail : 1.0f - tail;
}
OPS_DEVICE f64 normal_cdf(f64 x) {
    f64 z = x * 0.70710678118654752440;
    f64 a = abs(z);
    if (a < 0.88) return fma(0.5, erf_near_zero(z), 0.5);
    if (is_nan(x)) return x;
    f64 half_tail = a < 27.5 ? 0.5 * erfc_tail(a) : 0.0;
    return x < 0.0 ? half_tail : 1.0 - half_tail;
}

}  // namespace ops
