// sin and cos with exact argument reduction for every finite argument.
#pragma once
#include "ops_math.h"

namespace ops {

// 2 / pi, 64 bits per word, most significant first: enough for the largest exponent plus 128 bits of result.
OPS_TABLE u64 two_over_pi[20] = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull, 0xb7246e3a424dd2e0ull,
    0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull, 0xe99c7026b45f7e41ull, 0x3991d639835339f4ull,
    0x9c845f8bbdf9283bull, 0x1ff897ffde05980full, 0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull,
    0x7527bac7ebe5f17bull, 0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0xf0cfbc209af4361dull};

// A reduced argument: x minus a multiple of pi / 2, as value plus correction, and that multiple modulo 4.
struct Reduced {
    f64 value;
    f64 correction;
    u32 quadrant;
};

// Bits [from, from + 64) of 2 / pi, counted from the binary point. Bits before the point are zero.
OPS_DEVICE u64 two_over_pi_bits(i32 from) {
    if (from <= -64) return 0;
    if (from < 0) return two_over_pi[0] >> u32(-from);
    u32 word = u32(from) >> 6, shift = u32(from) & 63;
    u64 high = word < 20 ? two_over_pi[word] : 0;
    u64 low = word + 1 < 20 ? two_over_pi[word + 1] : 0;
    return shift == 0 ? high : high << shift | low >> (64 - shift);
}

// Payne-Hanek reduction: x = m 2^e with a 53-bit integer m. Of m 2^e (2 / pi), only the two bits before the
// binary point and 126 after it matter. So m is multiplied by three words of 2 / pi that start at bit e - 2.
OPS_DEVICE Reduced reduce_large(f64 x) {
    u64 bits = bits_as<u64>(x);
    u64 m = (bits & 0xfffffffffffffull) | 0x10000000000000ull;
    i32 e = i32(bits >> 52 & 0x7ff) - 1075;
    u64 w0 = two_over_pi_bits(e - 2), w1 = two_over_pi_bits(e + 62), w2 = two_over_pi_bits(e + 126);
    // (w0, w1, w2) * m modulo 2^192; the binary point is two bits below the top
    u64 low = multiply_high(m, w2);
    u64 mid = m * w1 + low;
    u64 carry = mid < low ? 1 : 0;
    u64 high = m * w0 + multiply_high(m, w1) + carry;
    u32 quadrant = u32(high >> 62);
    // Round to the nearest multiple: a fraction of one half or more is measured from the next multiple.
    high = high << 2 | mid >> 62;
    mid <<= 2;
    bool negative = high >> 63 != 0;
    if (negative) {
        quadrant += 1;
        mid = 0 - mid;
        high = ~high + (mid == 0 ? 1 : 0);
    }
    u32 shift = leading_zeros(high);
    if (shift >= 64) {
        high = mid;
        mid = 0;
    } else if (shift != 0) {
        high = high << shift | mid >> (64 - shift);
        mid <<= shift;
    }
    // The leading 53 bits and the next 64 as two doubles, multiplied by pi / 2.
    f64 unit = scale_by_power(0x1p-53, -i32(shift));
    f64 head = f64(high >> 11) * unit;
    f64 tail = f64((high & 0x7ff) << 53 | mid >> 11) * unit * 0x1p-64;
    f64 value = head * 0x1.921fb54442d18p+0;
    f64 correction = fma(head, 0x1.921fb54442d18p+0, -value);
    correction = fma(head, 0x1.1a62633145c07p-54, correction);
    correction = fma(tail, 0x1.921fb54442d18p+0, correction);
    bool flip = negative != (x < 0);
    if (x < 0) quadrant = 0 - quadrant;
    f64 sum = value + correction;
    correction = correction - (sum - value);
    return Reduced{flip ? -sum : sum, flip ? -correction : correction, quadrant & 3};
}

OPS_DEVICE Reduced reduce(f64 x) {
    if (!(abs(x) < 1048576.0)) return reduce_large(x);
    f64 n = nearest_even(x * 0x1.45f306dc9c883p-1);
    // pi / 2 in three parts; with fma, the first two products are exact
    f64 a = fma(n, -0x1.921fb54442d18p+0, x);
    f64 product = n * 0x1.1a62633145c07p-54;
    f64 lost = fma(n, 0x1.1a62633145c07p-54, -product);
    f64 value = a - product;
    f64 correction = (a - value) - product;
    correction = fma(n, 0x1.f1976b7ed8fbcp-110, correction - lost);
    return Reduced{value, correction, u32(i32(n)) & 3};
}

// The same for f32. The products with each part of pi / 2 are fused, so no correction term is needed.
OPS_DEVICE f32 reduce(f32 x, u32& quadrant) {
    if (!(abs(x) < 65536.0f)) {
        if (!(abs(x) < infinity32())) return x - x;  // NaN
        Reduced wide = reduce_large(f64(x));
        quadrant = wide.quadrant;
        return f32(wide.value);
    }
    f32 n = nearest_even(x * 0x1.45f306p-1f);
    quadrant = u32(i32(n));
    f32 r = fma(n, -0x1.921fb6p+0f, x);  // exact
    return fma(n, 0x1.ee59dap-50f, fma(n, 0x1.777a5cp-25f, r));
}

// sin and cos for |r| <= pi / 4, with errors of 2^-28 and 2^-33.
OPS_DEVICE f32 sin_reduced(f32 r) {
    f32 z = r * r;
    return fma(r * z, polynomial(z, -0x1.555546p-3f, 0x1.110754p-7f, -0x1.994a4ep-13f), r);
}
OPS_DEVICE f32 cos_reduced(f32 r) {
    f32 z = r * r;
    return fma(z, polynomial(z, -0.5f, 0x1.55553cp-5f, -0x1.6c07dep-10f, 0x1.9912p-16f), 1.0f);
}

// sin(r + c) and cos(r + c) for |r| <= pi / 4 and a tiny c, with errors of 2^-57 and 2^-63.
OPS_DEVICE f64 sin_reduced(f64 r, f64 c) {
    f64 z = r * r;
    f64 p = polynomial(z, -0x1.5555555555547p-3, 0x1.111111110f575p-7, -0x1.a01a019badf62p-13, 0x1.71de351f67b1p-19,
                       -0x1.ae5e1fe4951fdp-26, 0x1.5d7e52a3c738cp-33);
    return r + fma(r * z, p, fma(-0.5 * z, c, c));
}
OPS_DEVICE f64 cos_reduced(f64 r, f64 c) {
    f64 z = r * r;
    f64 p = polynomial(z, 0x1.5555555555549p-5, -0x1.6c16c16c14bf4p-10, 0x1.a01a019c2afb3p-16, -0x1.27e4f7aa91f51p-22,
                       0x1.1ee9ac2468b4p-29, -0x1.8f8e0900a589fp-37);
    f64 half = 0.5 * z;
    f64 head = 1.0 - half;
    return head + (((1.0 - head) - half) + fma(z * z, p, -r * c));
}

OPS_DEVICE f32 sin_at_quadrant(f32 x, u32 offset) {
    u32 quadrant = 0;
    f32 r = reduce(x, quadrant);
    quadrant += offset;
    f32 odd = cos_reduced(r), even = sin_reduced(r);  // both, since lanes of a wave differ
    return bits_as<f32>(bits_as<u32>((quadrant & 1) != 0 ? odd : even) ^ (quadrant & 2) << 30);
}
OPS_DEVICE f64 sin_at_quadrant(f64 x, u32 offset) {
    if (!(abs(x) < infinity64())) return x - x;  // infinity and NaN
    Reduced r = reduce(x);
    u32 quadrant = r.quadrant + offset;
    f64 out = (quadrant & 1) != 0 ? cos_reduced(r.value, r.correction) : sin_reduced(r.value, r.correction);
    return (quadrant & 2) != 0 ? -out : out;
}
template <typename A> OPS_DEVICE A sin(A x) { return x == A(0) ? x : sin_at_quadrant(x, 0); }
template <typename A> OPS_DEVICE A cos(A x) { return sin_at_quadrant(x, 1); }

}  // namespace ops
