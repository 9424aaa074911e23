// Formats whose codes of four bits index sixteen levels, in the manner of ops_formats.h.
#pragma once
#include "ops_formats.h"

namespace ops {

// Sixteen levels as bytes of four words.
struct Levels {
    u32 word[4];
};

// The levels of four indices, one in each byte.
OPS_DEVICE u32 levels_of(const Levels& levels, u32 indices) {
#if defined(OPS_AMD)
    u32 in_half = indices & 0x07070707u, high = (indices >> 3 & 0x01010101u) * 0xffu;
    u32 low = __builtin_amdgcn_perm(levels.word[1], levels.word[0], in_half);
    return (low & ~high) | (__builtin_amdgcn_perm(levels.word[3], levels.word[2], in_half) & high);
#elif defined(OPS_CUDA)
    // The selector has an index in every four bits.
    u32 high = (indices >> 3 & 0x01010101u) * 0xffu, in_half = indices & 0x07070707u;
    u32 selector = __byte_perm(in_half | in_half >> 4, 0, 0x4420);
    u32 low = __byte_perm(levels.word[0], levels.word[1], selector);
    return (low & ~high) | (__byte_perm(levels.word[2], levels.word[3], selector) & high);
#else
    u32 out = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 at = indices >> (8 * i) & 15u;
        u32 low = at & 4u ? levels.word[1] : levels.word[0], high = at & 4u ? levels.word[3] : levels.word[2];
        out |= ((at & 8u ? high : low) >> (at % 4 * 8) & 0xffu) << (8 * i);
    }
    return out;
#endif
}

// -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113
OPS_DEVICE Levels iq4_levels() { return Levels{{0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u}}; }
// Twice the values of a float with two bits of exponent and one of significand: 0 1 2 3, 4 6 8 12, and their negatives.
OPS_DEVICE Levels fp4_levels() { return Levels{{0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu}}; }

// x = d level(q). The low nibbles hold q of values 0..15, the high nibbles those of 16..31.
struct IQ4_NL {
    u16 d;
    u16 qs[8];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u16 d;
        OPS_METHOD void load(const IQ4_NL* block, u32 part) {
            load_words(q, block->qs + part % 2 * 4);
            d = block->d;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = levels_of(iq4_levels(), q[i] >> (part / 2 * 4) & 0x0f0f0f0fu);
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), 0.0f}; }
    };
};

// x = d (s - 32) level(q), for groups of 32. A group's codes are stored as those of iq4_nl.
struct IQ4_XS {
    u16 d;
    u16 high;    // two bits of s for each group
    u16 low[2];  // four bits of s for each group
    u16 qs[64];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u16 d, high, low;
        OPS_METHOD void load(const IQ4_XS* block, u32 part) {
            load_words(q, block->qs + part / 4 * 8 + part % 2 * 4);
            d = block->d;
            high = block->high;
            low = block->low[part / 16];
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = levels_of(iq4_levels(), q[i] >> (part % 4 / 2 * 4) & 0x0f0f0f0fu);
        }
        OPS_METHOD Scale scale(u32 part) const {
            u32 group = part / 4;
            u32 s = (u32(low) >> (group % 4 * 4) & 15u) | (u32(high) >> (group * 2) & 3u) << 4;
            return Scale{to_f32(f16{d}) * f32(i32(s) - 32), 0.0f};
        }
    };
};

// x = 2^(e - 127) float(q), computed as half the scale times twice the float. For e of 0 and 1, half the scale is subnormal.
struct MXFP4 {
    u8 e;
    u8 qs[16];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u8 e;
        OPS_METHOD void load(const MXFP4* block, u32 part) {
            load_words(q, block->qs + part % 2 * 8);
            e = block->e;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = levels_of(fp4_levels(), q[i] >> (part / 2 * 4) & 0x0f0f0f0fu);
        }
        OPS_METHOD Scale scale(u32) const {
            return Scale{bits_as<f32>(e < 2 ? 0x00200000u << e : u32(e - 1) << 23), 0.0f};
        }
    };
};

}  // namespace ops
