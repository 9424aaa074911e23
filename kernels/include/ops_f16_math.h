// Elementary functions whose result is rounded to f16. They compute in f32 with a relative error below
// 2^-15 wherever the result is representable in f16. They use the GPU's 2^x and 1 / x without
// correction steps, and shorter polynomials. Arguments must be values of f16.
#pragma once
#include "ops_trig.h"

namespace ops {

OPS_DEVICE f32 exp_f16(f32 x) { return exp2_normal(x * 0x1.715476p+0f); }

OPS_DEVICE f32 sigmoid_f16(f32 x) {
    f32 e = exp_f16(-abs(x));
    return (x < 0.0f ? e : 1.0f) * reciprocal_estimate(1.0f + e);
}

OPS_DEVICE f32 tanh_f16(f32 x) {
    f32 a = abs(x), e = exp2_normal(a * -0x1.715476p+1f);
    f32 far = with_sign_of((1.0f - e) * reciprocal_estimate(1.0f + e), x);
    return a < 0.09375f ? fma(x * x * x, -0x1.555556p-2f, x) : far;  // 2^-16
}

// As normal_cdf: exp(-b^2) r s(1 - 4 r) with r = 1 / (b + 2). The error is 2^-16 up to b = 4.6; beyond
// that, x times the result rounds to 0.
OPS_DEVICE f32 normal_cdf_f16(f32 x) {
    f32 a = abs(x);
    f32 r = reciprocal_estimate(fma(a, 0x1.6a09e6p-1f, 2.0f));
    f32 s = polynomial(fma(-4.0f, r, 1.0f), 0x1.0585aap-1f, -0x1.5fdc62p-2f, 0x1.1ebce4p-3f, -0x1.208e30p-6f,
                       -0x1.896b62p-7f);
    f32 tail = exp2_normal(a * a * -0x1.715476p-1f) * (r * s);
    return x < 0.0f ? tail : 1.0f - tail;
}

// x times a polynomial in x^2, which is constant beyond |x| = 2.95, where erf is 1 - 2^-15. There the product exceeds 1 and is cut.
OPS_DEVICE f32 erf_f16(f32 x) {
    f32 z = -larger(-x * x, -0x1.167ae1p+3f);
    f32 y = x * polynomial(z, 0x1.20dc14p+0f, -0x1.80ca30p-2f, 0x1.c9de94p-4f, -0x1.a37aa6p-6f, 0x1.220f2ap-8f, -0x1.21b07ep-11f,
                           0x1.83d892p-15f, -0x1.331e1ep-19f, 0x1.aebb0ep-25f);
    return abs(y) > 1.0f ? with_sign_of(1.0f, x) : y;
}

// log2 by the hardware instruction: accurate to 1 ulp on AMD; on CUDA, the error is 2^-22: absolute for x between 1/2 and 2, relative elsewhere.
OPS_DEVICE f32 log2_estimate(f32 x) {
#if defined(OPS_AMD)
    return __builtin_amdgcn_logf(x);
#elif defined(OPS_CUDA)
    f32 out;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
#else
    return log(x) * 0x1.715476p+0f;
#endif
}
// log(1 + f) for |f| < 1/4, with a relative error of 2^-16.
OPS_DEVICE f32 log_near_1_f16(f32 f) {
    return f * polynomial(f, 0x1.000010p+0f, -0x1.ffc6fcp-2f, 0x1.550304p-2f, -0x1.0e05aep-2f, 0x1.b5d94ep-3f);
}
OPS_DEVICE f32 log_f16(f32 x) {
    f32 all = log2_estimate(x) * 0x1.62e430p-1f;
#if defined(OPS_CUDA)
    return abs(x - 1.0f) < 0.25f ? log_near_1_f16(x - 1.0f) : all;
#else
    return all;
#endif
}

// Arguments are at most 65504, so no large-argument reduction is needed. Errors of sin and cos: 2^-19 and 2^-24.
OPS_DEVICE f32 sin_at_quadrant_f16(f32 x, u32 offset) {
    f32 shifted = fma(x, 0x1.45f306p-1f, 0x1.8p23f), n = shifted - 0x1.8p23f;
    u32 quadrant = bits_as<u32>(shifted) + offset;
    f32 r = fma(n, 0x1.777a5cp-25f, fma(n, -0x1.921fb6p+0f, x)), z = r * r;
    f32 even = fma(r * z, fma(z, 0x1.0b65ccp-7f, -0x1.5543a6p-3f), r);
    f32 odd = fma(z, polynomial(z, -0x1.ffffacp-2f, 0x1.553d4ap-5f, -0x1.64199ep-10f), 1.0f);
    return bits_as<f32>(bits_as<u32>((quadrant & 1) != 0 ? odd : even) ^ (quadrant & 2) << 30);
}
OPS_DEVICE f32 sin_f16(f32 x) { return x == 0.0f ? x : sin_at_quadrant_f16(x, 0); }
OPS_DEVICE f32 cos_f16(f32 x) { return sin_at_quadrant_f16(x, 1); }

}  // namespace ops
