// Formats whose values are entries of a grid, each value with a sign, in the manner of ops_formats.h. Codes are the signed
// values of the entries.
#pragma once
#include "ops_formats.h"
#include "ops_grids.h"

namespace ops {

// Negates the bytes whose bit of four is set; none of them is 0.
OPS_DEVICE u32 with_signs(u32 magnitudes, u32 signs) {
    u32 ones = (signs & 15u) * 0x00204081u & 0x01010101u;
    return (magnitudes ^ ones * 0xffu) + ones;
}

// The eighth sign is such that the number of negative values is even.
OPS_DEVICE u32 even_signs(u32 bits) {
    u32 odd = bits & 127u;
    odd ^= odd >> 4;
    odd ^= odd >> 2;
    odd ^= odd >> 1;
    return (bits & 127u) | (odd & 1u) << 7;
}

// Eight values of an entry with levels of two bits: 8, 25 and 43.
OPS_DEVICE void eight_of(u32 (&out)[2], u32 entry, u32 signs) {
    OPS_UNROLL
    for (u32 i = 0; i < 2; i++) {
        u32 levels = entry >> (8 * i) & 0xffu;
        levels = (levels | levels << 12) & 0x000f000fu;
        levels = (levels | levels << 6) & 0x03030303u;
        out[i] = with_signs(levels * 17u + (levels >> 1 & 0x01010101u) + 0x08080808u, signs >> (4 * i));
    }
}

// Four levels of three bits, one in each byte.
OPS_DEVICE u32 four_levels(u32 entry) {
    u32 pairs = (entry | entry << 10) & 0x003f003fu;
    return (pairs | pairs << 5) & 0x07070707u;
}

// x = d (s + 1/2) / 4 entry. Eight bytes for a group of 32: four entries, then signs of 4 x 7 bits and s.
struct IQ2_XXS {
    u16 d;
    u16 qs[32];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u16 d;
        OPS_METHOD void load(const IQ2_XXS* block, u32 part) {
            load_words(q, block->qs + part / 4 * 4);
            d = block->d;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            eight_of(out, IQ2_XXS_GRID[byte_of(q[0], part % 4)], even_signs(q[1] >> (part % 4 * 7)));
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}) * (0.5f + f32(q[1] >> 28)) * 0.25f, 0.0f}; }
    };
};

// x = d (s + 1/2) / 4 entry, for groups of 16. A pair of bytes for eight values: nine bits of entry, seven of signs.
struct IQ2_XS {
    u16 d;
    u16 qs[32];
    u16 scales[4];  // nibbles
    static constexpr u32 VALUES = 256, GROUP = 16;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u16 q, d;
        u8 s;
        OPS_METHOD void load(const IQ2_XS* block, u32 part) {
            q = block->qs[part];
            d = block->d;
            s = u8(byte_at(block->scales, part / 4));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32) const {
            eight_of(out, IQ2_XS_GRID[q & 511u], even_signs(u32(q) >> 9));
        }
        OPS_METHOD Scale scale(u32 part) const {
            return Scale{to_f32(f16{d}) * (0.5f + f32(u32(s) >> (part / 2 % 2 * 4) & 15u)) * 0.25f, 0.0f};
        }
    };
};

// x = d (s + 1/2) / 4 entry, for groups of 16. A byte of entry and a byte of signs for eight values.
struct IQ2_S {
    u16 d;
    u16 qs[16];
    u16 signs[16];
    u16 high[4];    // two bits of entry for eight values
    u16 scales[4];  // nibbles
    static constexpr u32 VALUES = 256, GROUP = 16;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u16 d;
        u8 q, sign, high, s;
        OPS_METHOD void load(const IQ2_S* block, u32 part) {
            d = block->d;
            q = u8(byte_at(block->qs, part));
            sign = u8(byte_at(block->signs, part));
            high = u8(byte_at(block->high, part / 4));
            s = u8(byte_at(block->scales, part / 4));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            eight_of(out, IQ2_S_GRID[q | (u32(high) >> (part % 4 * 2) & 3u) << 8], sign);
        }
        OPS_METHOD Scale scale(u32 part) const {
            return Scale{to_f32(f16{d}) * (0.5f + f32(u32(s) >> (part / 2 % 2 * 4) & 15u)) * 0.25f, 0.0f};
        }
    };
};

// x = d (s + 1/2) / 2 entry. A byte of entry for four values; for a group of 32, signs of 4 x 7 bits and s.
struct IQ3_XXS {
    u16 d;
    u16 qs[32];
    u16 signs[16];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u16 q, d;
        u32 sign[1];
        OPS_METHOD void load(const IQ3_XXS* block, u32 part) {
            q = block->qs[part];
            d = block->d;
            load_words(sign, block->signs + part / 4 * 2);
        }
        // Levels 4, 12, .. 52, 62
        static OPS_METHOD u32 magnitudes(u32 levels) {
            return levels * 8u + 0x04040404u + (levels & levels >> 1 & levels >> 2 & 0x01010101u) * 2u;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            u32 signs = even_signs(sign[0] >> (part % 4 * 7));
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) {
                out[i] = with_signs(magnitudes(four_levels(IQ3_XXS_GRID[byte_of(q, i)])), signs >> (4 * i));
            }
        }
        OPS_METHOD Scale scale(u32) const {
            return Scale{to_f32(f16{d}) * (0.5f + f32(sign[0] >> 28)) * 0.5f, 0.0f};
        }
    };
};

// x = d (1 + 2 s) entry, for groups of 32. A byte of entry for four values, and a byte of signs for eight.
struct IQ3_S {
    u16 d;
    u16 qs[32];
    u16 high[4];  // the highest bits of entries
    u16 signs[16];
    u16 scales[2];  // nibbles
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u16 q, d;
        u8 high, sign, s;
        OPS_METHOD void load(const IQ3_S* block, u32 part) {
            q = block->qs[part];
            d = block->d;
            high = u8(byte_at(block->high, part / 4));
            sign = u8(byte_at(block->signs, part));
            s = u8(byte_at(block->scales, part / 8));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) {
                u32 entry = byte_of(q, i) | (u32(high) >> (part % 4 * 2 + i) & 1u) << 8;
                out[i] = with_signs(four_levels(IQ3_S_GRID[entry]) * 2u + 0x01010101u, u32(sign) >> (4 * i));
            }
        }
        OPS_METHOD Scale scale(u32 part) const {
            return Scale{to_f32(f16{d}) * (1.0f + 2.0f * f32(u32(s) >> (part / 4 % 2 * 4) & 15u)), 0.0f};
        }
    };
};

}  // namespace ops
