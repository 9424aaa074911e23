// Element types and conversions. 16-bit floats are plain structs; a compiler's own 16-bit type is used
// only where a conversion is one instruction. Every conversion rounds once, to nearest even.
#pragma once
#include "ops_platform.h"

namespace ops {

struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct f8e4m3 { u8 bits; };

// The type that an element's arithmetic uses: f64 for f64, f32 for the other floats.
template <typename T> struct Accumulate { using type = f32; };
template <> struct Accumulate<f64> { using type = f64; };
template <typename T> using acc_t = typename Accumulate<T>::type;

// Float types as values, for kernels that are compiled once for all of them.
enum FloatKind : u32 { FLOAT_F16 = 0, FLOAT_BF16 = 1, FLOAT_F32 = 2, FLOAT_F64 = 3 };

template <typename T> struct is_float { static constexpr bool value = false; };
template <> struct is_float<f16> { static constexpr bool value = true; };
template <> struct is_float<bf16> { static constexpr bool value = true; };
template <> struct is_float<f32> { static constexpr bool value = true; };
template <> struct is_float<f64> { static constexpr bool value = true; };
template <> struct is_float<f8e4m3> { static constexpr bool value = true; };

OPS_DEVICE bool is_nan(f32 x) { return x != x; }
OPS_DEVICE bool is_nan(f64 x) { return x != x; }
OPS_DEVICE f32 infinity32() { return bits_as<f32>(0x7f800000u); }
OPS_DEVICE f64 infinity64() { return bits_as<f64>(0x7ff0000000000000ull); }
OPS_DEVICE f32 quiet_nan32() { return bits_as<f32>(0x7fc00000u); }
OPS_DEVICE f64 quiet_nan64() { return bits_as<f64>(0x7ff8000000000000ull); }

// ---- f16 --------------------------------------------------------------------

OPS_DEVICE f32 to_f32(f16 h) {
#if defined(OPS_AMD)
    return (f32)bits_as<_Float16>(h.bits);
#elif defined(OPS_CUDA)
    f32 out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(h.bits));
    return out;
#else
    u32 sign = u32(h.bits & 0x8000) << 16;
    u32 magnitude = u32(h.bits & 0x7fff) << 13;
    // A multiplication rebiases the exponent and also normalises subnormals.
    f32 scaled = bits_as<f32>(magnitude) * bits_as<f32>(0x77800000u);
    if ((h.bits & 0x7c00) == 0x7c00) scaled = bits_as<f32>(magnitude | 0x7f800000u);
    return bits_as<f32>(bits_as<u32>(scaled) | sign);
#endif
}

OPS_DEVICE f16 to_f16(f32 x) {
#if defined(OPS_AMD)
    return f16{bits_as<u16>((_Float16)x)};
#elif defined(OPS_CUDA)
    u16 out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out) : "f"(x));
    return f16{out};
#else
    u32 bits = bits_as<u32>(x);
    u16 sign = u16(bits >> 16 & 0x8000);
    u32 magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return f16{u16(sign | 0x7e00)};
    if (magnitude >= 0x47800000) return f16{u16(sign | 0x7c00)};
    if (magnitude < 0x38800000) {
        // Adding 0.5 aligns the subnormal's bits with the end of the mantissa, and the adder rounds them.
        f32 rounded = bits_as<f32>(magnitude) + 0.5f;
        return f16{u16(sign | (bits_as<u32>(rounded) - 0x3f000000))};
    }
    u32 odd = magnitude >> 13 & 1;
    return f16{u16(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13))};
#endif
}

// ---- bf16 -------------------------------------------------------------------

OPS_DEVICE f32 to_f32(bf16 b) { return bits_as<f32>(u32(b.bits) << 16); }

OPS_DEVICE bf16 to_bf16(f32 x) {
    u32 bits = bits_as<u32>(x);
    u32 rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return bf16{u16(is_nan(x) ? (bits >> 16 | 0x40) : rounded)};
}

// ---- f8e4m3: bias 7, no infinity, 0x7f is NaN, largest 448 --------------------

OPS_DEVICE f32 to_f32(f8e4m3 v) {
    u32 sign = u32(v.bits & 0x80) << 24;
    u32 exponent = v.bits >> 3 & 15;
    u32 mantissa = v.bits & 7;
    f32 out = exponent == 0 ? f32(mantissa) * 0.001953125f  // 2^-9
                            : bits_as<f32>((exponent + 120) << 23 | mantissa << 20);
    if ((v.bits & 0x7f) == 0x7f) out = quiet_nan32();
    return bits_as<f32>(bits_as<u32>(out) | sign);
}

OPS_DEVICE f8e4m3 to_f8e4m3(f32 x) {
    u32 bits = bits_as<u32>(x);
    u8 sign = u8(bits >> 24 & 0x80);
    u32 magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return f8e4m3{u8(sign | 0x7f)};
    if (magnitude >= 0x43e00000) return f8e4m3{u8(sign | 0x7e)};
    if (magnitude < 0x3c800000) {  // below 2^-6: multiples of 2^-9, aligned by an addition
        f32 rounded = bits_as<f32>(magnitude) + 16384.0f;
        return f8e4m3{u8(sign | (bits_as<u32>(rounded) - 0x46800000))};
    }
    u32 odd = magnitude >> 20 & 1;
    u32 rounded = (magnitude - (120u << 23) + 0x7ffff + odd) >> 20;
    return f8e4m3{u8(sign | (rounded > 0x7e ? 0x7e : rounded))};
}

// ---- wide to narrow through a value that cannot round twice ------------------

// f64 to f32, rounded to odd: an inexact result has its last bit set. Rounding that result again to 22
// bits or fewer gives the same as rounding the f64 directly.
OPS_DEVICE f32 to_f32_odd(f64 x) {
    f32 near = (f32)x;
    f64 back = near;
    u32 bits = bits_as<u32>(near);
    if (back == x || is_nan(x) || (bits & 1) != 0) return near;
    f64 magnitude = x < 0 ? -x : x;
    f64 reached = back < 0 ? -back : back;
    return bits_as<f32>(reached > magnitude ? bits - 1 : bits + 1);
}

// A 64-bit integer as f64, also rounded to odd.
OPS_DEVICE f64 to_f64_odd(i64 x) {
    u64 magnitude = x < 0 ? 0 - u64(x) : u64(x);
    if (magnitude >> 53 != 0) {
        u64 lost = magnitude & 0x7ff;
        magnitude = (magnitude & ~0x7ffull) | (lost != 0 ? 0x800 : 0);
    }
    f64 out = f64(magnitude);
    return x < 0 ? -out : out;
}

// ---- widen and narrow: storage to accumulator and back ------------------------

OPS_DEVICE f32 widen(f16 x) { return to_f32(x); }
OPS_DEVICE f32 widen(bf16 x) { return to_f32(x); }
OPS_DEVICE f32 widen(f8e4m3 x) { return to_f32(x); }
OPS_DEVICE f32 widen(f32 x) { return x; }
OPS_DEVICE f64 widen(f64 x) { return x; }

template <typename T> struct Narrow;
template <> struct Narrow<f16> {
    static OPS_METHOD f16 from(f32 x) { return to_f16(x); }
    static OPS_METHOD f16 from(f64 x) { return to_f16(to_f32_odd(x)); }
};
template <> struct Narrow<bf16> {
    static OPS_METHOD bf16 from(f32 x) { return to_bf16(x); }
    static OPS_METHOD bf16 from(f64 x) { return to_bf16(to_f32_odd(x)); }
};
template <> struct Narrow<f8e4m3> {
    static OPS_METHOD f8e4m3 from(f32 x) { return to_f8e4m3(x); }
    static OPS_METHOD f8e4m3 from(f64 x) { return to_f8e4m3(to_f32_odd(x)); }
};
template <> struct Narrow<f32> {
    static OPS_METHOD f32 from(f32 x) { return x; }
    static OPS_METHOD f32 from(f64 x) { return (f32)x; }
};
template <> struct Narrow<f64> {
    static OPS_METHOD f64 from(f64 x) { return x; }
};
template <typename T, typename A> OPS_DEVICE T narrow(A x) { return Narrow<T>::from(x); }

}  // namespace ops
