// Blocks of 32 values of x as signed bytes times a scale, for byte dot products.
#pragma once
#include "ops_dot4.h"
#include "ops_math.h"
#include "ops_reduce.h"

namespace ops {

// What a step of x has beside its bytes.
struct Head {
    f32 scale;
    i32 sums;  // of the bytes of either half, in 16 bits each, for offsets and minima
    OPS_METHOD i32 sum(u32 half) const { return half == 0 ? i32(u32(sums) << 16) >> 16 : sums >> 16; }
    OPS_METHOD i32 sum() const { return sum(0) + sum(1); }
};
OPS_DEVICE i32 pack_sums(i32 first, i32 second) { return i32((u32(first) & 0xffffu) | u32(second) << 16); }

// One step of x as the products read it.
struct ByteStep {
    Head head;
    Pack<u32, 4> half[2];
    OPS_METHOD u32 word(u32 i) const { return half[i / 4].v[i % 4]; }
    OPS_METHOD i32 sum_half(u32 h) const {
        i32 sum = 0;
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) sum = dot4(0x01010101u, half[h].v[i], sum);
        return sum;
    }
};

// ---- rounding a block -----------------------------------------------------------------

constexpr u32 LANES = 8;  // per block, four values each

struct Greater {
    OPS_METHOD u32 operator()(u32 a, u32 b) const { return a > b ? a : b; }
};

// The low bytes of four words.
OPS_DEVICE u32 low_bytes(const u32 (&word)[4]) {
    return (word[0] & 0xff) | (word[1] & 0xff) << 8 | (word[2] & 0xff) << 16 | word[3] << 24;
}

// Infinities become 1 or -1, and other values 0.
OPS_DEVICE u32 infinities_of(const f32 (&x)[4]) {
    u32 byte[4];
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) byte[i] = x[i] == infinity32() ? 1u : x[i] == -infinity32() ? 0xffu : 0u;
    return low_bytes(byte);
}

// Rounds four elements of a block to bytes from -127 to 127, and gives their scale: the largest magnitude over 127. If the block has an
// infinity, the scale is infinite; if it has a NaN, the scale is NaN.
OPS_DEVICE f32 to_bytes(u32& word, const f32 (&x)[4]) {
    constexpr u32 INFINITE = 0x7f800000u, TINY = 0x0d800000u, LARGE = 0x71800000u;  // 2^-100, 2^100
    u32 most = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) most = Greater()(most, bits_as<u32>(x[i]) & 0x7fffffffu);
    OPS_UNROLL
    for (u32 mask = LANES / 2; mask > 0; mask /= 2) most = Greater()(most, shuffle_xor(most, mask, LANES));
    if (most >= INFINITE) {
        word = infinities_of(x);
        return most == INFINITE ? infinity32() : quiet_nan32();
    }
    // Reciprocals of tiny numbers are out of range, those of huge ones are flushed to 0. Times 2^64 or 2^-64, neither is.
    f32 to_middle = most < TINY ? bits_as<f32>(0x5f800000u) : most > LARGE ? bits_as<f32>(0x1f800000u) : 1.0f;
    f32 inverse = most == 0 ? 0.0f : 127.0f * reciprocal_estimate(bits_as<f32>(most) * to_middle);
    u32 rounded[4];
    OPS_UNROLL
    // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
    for (u32 i = 0; i < 4; i++) rounded[i] = bits_as<u32>(fma(x[i] * to_middle, inverse, 12582912.0f));
    word = low_bytes(rounded);
    return bits_as<f32>(most) * (1.0f / 127.0f);
}

}  // namespace ops
