// The rest of the formats whose codes are integers, in the manner of ops_formats.h.
#pragma once
#include "ops_formats.h"

namespace ops {

// Bit i of four as bit 0 of byte i.
OPS_DEVICE u32 spread_bits(u32 bits) { return (bits & 15u) * 0x00204081u & 0x01010101u; }

// x = q d + m
struct Q4_1 {
    u16 d, m;
    u16 qs[8];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = true, SIGNED = false;

    struct Eight {
        u32 q[2];
        u16 d, m;
        OPS_METHOD void load(const Q4_1* block, u32 part) {
            load_words(q, block->qs + part % 2 * 4);
            d = block->d;
            m = block->m;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = q[i] >> (part / 2 * 4) & 0x0f0f0f0fu;
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), to_f32(f16{m})}; }
    };
};

// Five-bit codes of q5_0 and q5_1: low nibbles as in q4_0, and bit i of `high` for value i.
struct FiveBits {
    u32 q[2], high[1];
    OPS_METHOD void load(const u16* qh, const u16* qs, u32 part) {
        load_words(q, qs + part % 2 * 4);
        load_words(high, qh);
    }
    OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
        OPS_UNROLL
        for (u32 i = 0; i < 2; i++) {
            out[i] = (q[i] >> (part / 2 * 4) & 0x0f0f0f0fu) | spread_bits(high[0] >> (part * 8 + i * 4)) << 4;
        }
    }
};

// x = (q - 16) d
struct Q5_0 {
    u16 d;
    u16 qh[2];
    u16 qs[8];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 16;
    static constexpr bool MIN = false, SIGNED = false;

    struct Eight : FiveBits {
        u16 d;
        OPS_METHOD void load(const Q5_0* block, u32 part) {
            FiveBits::load(block->qh, block->qs, part);
            d = block->d;
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), 0.0f}; }
    };
};

// x = q d + m
struct Q5_1 {
    u16 d, m;
    u16 qh[2];
    u16 qs[8];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = true, SIGNED = false;

    struct Eight : FiveBits {
        u16 d, m;
        OPS_METHOD void load(const Q5_1* block, u32 part) {
            FiveBits::load(block->qh, block->qs, part);
            d = block->d;
            m = block->m;
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), to_f32(f16{m})}; }
    };
};

// x = q d; the sum is for products with minima.
struct Q8_1 {
    u16 d, sum;
    u16 qs[16];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u16 d;
        OPS_METHOD void load(const Q8_1* block, u32 part) {
            load_words(q, block->qs + part * 4);
            d = block->d;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32) const {
            out[0] = q[0];
            out[1] = q[1];
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), 0.0f}; }
    };
};

// x = q d with d in f32; the sums of groups are for products with minima.
struct Q8_K {
    u16 d[2];
    u16 qs[128];
    u16 sums[16];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2], d[1];
        OPS_METHOD void load(const Q8_K* block, u32 part) {
            load_words(q, block->qs + part * 4);
            load_words(d, block->d);
        }
        OPS_METHOD void codes(u32 (&out)[2], u32) const {
            out[0] = q[0];
            out[1] = q[1];
        }
        OPS_METHOD Scale scale(u32) const { return Scale{bits_as<f32>(d[0]), 0.0f}; }
    };
};

// x = q d s - m dmin, for groups of 16. Each half of the block has 32 bytes, whose bits 2 i and 2 i + 1 belong to values
// 32 i and on.
struct Q2_K {
    u16 scales[8];  // bytes: s in the low nibble, m in the high one
    u16 qs[32];
    u16 d, dmin;
    static constexpr u32 VALUES = 256, GROUP = 16;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = true, SIGNED = false;

    struct Eight {
        u32 q[2];
        u16 d, dmin;
        u8 s;
        OPS_METHOD void load(const Q2_K* block, u32 part) {
            load_words(q, block->qs + part / 16 * 16 + part % 4 * 4);
            d = block->d;
            dmin = block->dmin;
            s = u8(byte_at(block->scales, part / 2));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = q[i] >> (part / 4 % 4 * 2) & 0x03030303u;
        }
        OPS_METHOD Scale scale(u32) const {
            return Scale{to_f32(f16{d}) * f32(s & 15u), -(to_f32(f16{dmin}) * f32(u32(s) >> 4))};
        }
    };
};

// x = (q - 4) d (s - 32), for groups of 16. The low two bits are stored as in q2_k; bit j of byte i of `high` is the third
// bit of value 32 j + i.
struct Q3_K {
    u16 high[16];
    u16 qs[32];
    u16 scales[6];  // bytes: low nibbles of sixteen scales in eight, then the high two bits of four in each
    u16 d;
    static constexpr u32 VALUES = 256, GROUP = 16;
    static constexpr i32 OFFSET = 4;
    static constexpr bool MIN = false, SIGNED = false;

    struct Eight {
        u32 q[2], h[2];
        u16 d;
        u8 low, top;
        OPS_METHOD void load(const Q3_K* block, u32 part) {
            u32 group = part / 2;
            load_words(q, block->qs + part / 16 * 16 + part % 4 * 4);
            load_words(h, block->high + part % 4 * 4);
            d = block->d;
            low = u8(byte_at(block->scales, group % 8));
            top = u8(byte_at(block->scales, 8 + group % 4));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) {
                out[i] = (q[i] >> (part / 4 % 4 * 2) & 0x03030303u) | (h[i] >> (part / 4) & 0x01010101u) << 2;
            }
        }
        OPS_METHOD Scale scale(u32 part) const {
            u32 group = part / 2;
            u32 s = (u32(low) >> (group / 8 * 4) & 15u) | (u32(top) >> (group / 4 * 2) & 3u) << 4;
            return Scale{to_f32(f16{d}) * f32(i32(s) - 32), 0.0f};
        }
    };
};

}  // namespace ops
