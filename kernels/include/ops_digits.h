// Blocks of 32 values of x as integers times a power of two, and the integers as signed base-256 digits, for byte dot products.
#pragma once
#include "ops_dot4.h"
#include "ops_reduce.h"

namespace ops {

// Digits per value of x, which is all that the products depend on in its type. 16-bit types have at most 11 significant bits, so 16 bits represent exactly
// every value within a factor of 16 of the block's largest.
template <typename T> struct Digits { static constexpr u32 COUNT = 2; };
template <> struct Digits<f32> { static constexpr u32 COUNT = 3; };

// The scale of x's integers, and their sum, which offsets and minima are multiplied by: `last` is the share of the last
// of three digits, `upper` that of all others.
struct Head {
    f32 scale;
    i32 upper;
    i32 last;
    u32 unused;
};

// ---- splitting a block ----------------------------------------------------------------

constexpr u32 LANES = 8;  // per block, four values each

struct Greater {
    OPS_METHOD u32 operator()(u32 a, u32 b) const { return a > b ? a : b; }
};

// The nearest integer, either of two.
OPS_DEVICE i32 nearest(f32 x) {
#if defined(OPS_AMD)
    return i32(__builtin_rintf(x));
#elif defined(OPS_CUDA)
    return __float2int_rn(x);
#else
    return i32(round(x));
#endif
}

// Converts four elements of a block to integers and returns the power of two that scales them. If the
// block has an infinity, that is the scale: infinities become 1 or -1 and other values 0. If the block
// has a NaN, the scale is NaN.
template <u32 DIGITS> OPS_DEVICE f32 to_integers(i32 (&q)[4], const f32 (&x)[4]) {
    constexpr u32 BITS = 8 * DIGITS - 2, INFINITE = 0x7f800000u;
    u32 magnitude[4], most = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        magnitude[i] = bits_as<u32>(x[i]) & 0x7fffffffu;
        most = Greater()(most, magnitude[i]);
    }
    OPS_UNROLL
    for (u32 mask = LANES / 2; mask > 0; mask /= 2) most = Greater()(most, shuffle_xor(most, mask, LANES));
    bool finite = most < INFINITE;
    u32 largest = finite ? most : 0;
    // The leading digit is at most 127. If rounding would exceed that, the exponent is one higher.
    u32 exponent = bits_as<u32>(bits_as<f32>(largest) * 1.00404f) >> 23;
    if (exponent == 0) exponent = 1;
    // Two multiplications, because 2^148 is out of range for f32.
    i32 up = i32(BITS + 127) - i32(exponent), half = up / 2;
    f32 first = bits_as<f32>(u32(127 + half) << 23), second = bits_as<f32>(u32(127 + up - half) << 23);
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        i32 infinite = magnitude[i] != INFINITE ? 0 : x[i] < 0.0f ? -1 : 1;
        q[i] = finite ? nearest(x[i] * first * second) : infinite;
    }
    f32 scale = bits_as<f32>(exponent > BITS ? (exponent - BITS) << 23 : 1u << (22 + exponent - BITS));
    return finite ? scale : most == INFINITE ? infinity32() : quiet_nan32();
}

// The digits of four integers, one word for each digit, the leading digit first. Adding 128 to every digit makes the
// integer a plain base-256 number, whose bytes are then corrected.
template <u32 DIGITS> OPS_DEVICE void digits_of(u32 (&word)[DIGITS], const i32 (&q)[4]) {
    constexpr u32 BIAS = DIGITS == 3 ? 0x808080u : 0x8080u;
    u32 bytes[4];
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) bytes[i] = (u32(q[i]) + BIAS) ^ BIAS;
    OPS_UNROLL
    for (u32 p = 0; p < DIGITS; p++) {
        u32 shift = 8 * (DIGITS - 1 - p);
        word[p] = (bytes[0] >> shift & 0xff) | (bytes[1] >> shift & 0xff) << 8 | (bytes[2] >> shift & 0xff) << 16 |
                  (bytes[3] >> shift & 0xff) << 24;
    }
}

// ---- a block as the products read it ----------------------------------------------------

// The parts of one step of x: its head, and for each digit two entries of 16 bytes.
template <u32 DIGITS> struct SplitStep {
    Head head;
    Pack<u32, 4> part[2 * DIGITS];
    OPS_METHOD u32 word(u32 digit, u32 i) const { return part[2 * digit + i / 4].v[i % 4]; }
};

// Sums words FIRST to LAST of each digit: the last of three digits, and all others as one number.
template <u32 FIRST, u32 LAST, u32 DIGITS> OPS_DEVICE void sum_digits(const SplitStep<DIGITS>& x, i32& upper, i32& last) {
    i32 sum = 0, rest = 0;
    OPS_UNROLL
    for (u32 i = FIRST; i < LAST; i++) sum = dot4(0x01010101u, x.word(0, i), sum);
    sum = i32(u32(sum) << 8);
    OPS_UNROLL
    for (u32 i = FIRST; i < LAST; i++) {
        sum = dot4(0x01010101u, x.word(1, i), sum);
        if (DIGITS == 3) rest = dot4(0x01010101u, x.word(DIGITS - 1, i), rest);
    }
    upper = sum;
    last = rest;
}

}  // namespace ops
