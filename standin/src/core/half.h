// f16 and bf16 as bits, converted in portable code: to nearest, ties to even.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace standin {

inline float bits_to_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t float_to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float bf16_to_float(uint16_t half) { return bits_to_float(uint32_t(half) << 16); }

inline uint16_t float_to_bf16(float value) {
  const uint32_t bits = float_to_bits(value);
  if (value != value) return uint16_t(bits >> 16 | 0x40);  // stays a NaN when its low bits go
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline float f16_to_float(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t mantissa = half & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24, exact
    const float magnitude = float(mantissa) * 0x1p-24f;
    return bits_to_float(float_to_bits(magnitude) | sign);
  }
  const uint32_t wide_exponent = exponent == 0x1f ? 0xff : exponent + 112;
  return bits_to_float(sign | wide_exponent << 23 | mantissa << 13);
}

inline uint16_t float_to_f16(float value) {
  const uint32_t bits = float_to_bits(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return uint16_t(sign | 0x7e00);   // NaN
  if (magnitude >= 0x477ff000) return uint16_t(sign | 0x7c00);  // rounds to infinity
  if (magnitude < 0x38800000)                                   // subnormal: a multiple of 2^-24, rounded
    return uint16_t(sign | uint16_t(std::nearbyint(bits_to_float(magnitude) * 0x1p24f)));
  const uint32_t rounded = magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1);
  return uint16_t(sign | rounded >> 13);
}

/// The arithmetic of a kernel that computes in the type of its elements: every result is rounded to it.
struct Rounding {
  bool half;
  float operator()(double value) const {
    const float single = float(value);
    return half ? f16_to_float(float_to_f16(single)) : single;
  }
};

}  // namespace standin
