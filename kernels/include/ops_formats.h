// The layouts of GGUF blocks, each with one unpacking piece from which all kernels of blocks are built (ops_blocks.h).
// Blocks are aligned to 2 bytes only, those of mxfp4 not at all.
#pragma once
#include "ops_view.h"

namespace ops {

#if defined(OPS_CUDA)
// CUDA requires aligned loads. Aligned words are read, and pairs of them funnel-shifted. The first may begin up to 3 bytes before `from`,
// and the last end up to 3 bytes after the last byte: inside the allocation, because CUDA's begin and end at whole words.
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u8* from) {
    u32 before = u32(reinterpret_cast<u64>(from)) & 3;
    const u32* words = reinterpret_cast<const u32*>(from - before);
    u32 word[N + 1];
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) word[i] = words[i];
    word[N] = before == 0 ? 0 : words[N];
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = __funnelshift_r(word[i], word[i + 1], before * 8);
}
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u16* from) { load_words(out, reinterpret_cast<const u8*>(from)); }
#else
// The hardware supports 32-bit loads at any address; the type declares an alignment of 2 bytes.
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u16* from) {
    typedef u32 Words __attribute__((aligned(2), may_alias));
    const Words* words = reinterpret_cast<const Words*>(from);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = words[i];
}
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u8* from) {
    typedef u32 Words __attribute__((aligned(1), may_alias));
    const Words* words = reinterpret_cast<const Words*>(from);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = words[i];
}
#endif

OPS_DEVICE u32 byte_of(u32 word, u32 i) { return word >> (8 * i) & 0xff; }
// A byte of an array that is declared as pairs.
OPS_DEVICE u32 byte_at(const u16* from, u32 i) { return reinterpret_cast<const u8*>(from)[i]; }

// A format is the struct of its blocks, with these members:
//   VALUES    values of a block
//   GROUP     consecutive values that share a scale: 32 or 16
//   OFFSET    what is subtracted from every code
//   MIN       whether a value is d (code - OFFSET) + m; without, it is d (code - OFFSET)
//   SIGNED    whether codes are signed bytes; then OFFSET is 0
//   Eight     eight consecutive values: `part` counts them in the block. `load` only reads words from memory, so that
//             others can be loaded meanwhile; `codes` and `scale` then compute.
struct Scale {
    f32 d, m;
};

// x = (q - 8) d. The low nibbles hold q of values 0..15, the high nibbles those of 16..31.
struct Q4_0 {
    u16 d;
    u16 qs[8];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 8;
    static constexpr bool MIN = false, SIGNED = false;

    struct Eight {
        u32 q[2];
        u16 d;
        OPS_METHOD void load(const Q4_0* block, u32 part) {
            load_words(q, block->qs + part % 2 * 4);
            d = block->d;
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = q[i] >> (part / 2 * 4) & 0x0f0f0f0fu;
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}), 0.0f}; }
    };
};

// x = q d
struct Q8_0 {
    u16 d;
    u16 qs[16];
    static constexpr u32 VALUES = 32, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = false, SIGNED = true;

    struct Eight {
        u32 q[2];
        u16 d;
        OPS_METHOD void load(const Q8_0* block, u32 part) {
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

// The scale and the minimum of one group of q4_k or q5_k, six bits each, in units of d and dmin. Byte i of twelve holds
// the scale of group i, byte i + 4 its minimum; byte i + 8 holds the low bits of group i + 4, and the first two bytes
// the high ones.
struct SixBits {
    u16 d, dmin;
    u8 byte[3];
    OPS_METHOD void load(const u16* head, u32 group) {
        d = head[0];
        dmin = head[1];
        OPS_UNROLL
        for (u32 i = 0; i < 3; i++) byte[i] = u8(byte_at(head + 2, group % 4 + 4 * i));
    }
    OPS_METHOD Scale scale(u32 group) const {
        bool low = group < 4;
        u32 s = low ? byte[0] & 63u : (byte[2] & 15u) | (u32(byte[0]) >> 6 << 4);
        u32 m = low ? byte[1] & 63u : (u32(byte[2]) >> 4) | (u32(byte[1]) >> 6 << 4);
        return Scale{to_f32(f16{d}) * f32(s), -(to_f32(f16{dmin}) * f32(m))};
    }
};

// x = q d s - m dmin. 32 bytes hold q of two groups of 32: one in the low nibbles, one in the high nibbles.
struct Q4_K {
    u16 head[8];  // d, dmin, and twelve bytes of scales and minima
    u16 qs[64];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = true, SIGNED = false;

    struct Eight {
        u32 q[2];
        SixBits six;
        OPS_METHOD void load(const Q4_K* block, u32 part) {
            load_words(q, block->qs + part / 8 * 16 + part % 4 * 4);
            six.load(block->head, part / 4);
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) out[i] = q[i] >> (part / 4 % 2 * 4) & 0x0f0f0f0fu;
        }
        OPS_METHOD Scale scale(u32 part) const { return six.scale(part / 4); }
    };
};

// As q4_k; bit g of byte i of `high` is the fifth bit of value i of group g.
struct Q5_K {
    u16 head[8];
    u16 high[16];
    u16 qs[64];
    static constexpr u32 VALUES = 256, GROUP = 32;
    static constexpr i32 OFFSET = 0;
    static constexpr bool MIN = true, SIGNED = false;

    struct Eight {
        u32 q[2], h[2];
        SixBits six;
        OPS_METHOD void load(const Q5_K* block, u32 part) {
            load_words(q, block->qs + part / 8 * 16 + part % 4 * 4);
            load_words(h, block->high + part % 4 * 4);
            six.load(block->head, part / 4);
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            u32 group = part / 4;
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) {
                out[i] = (q[i] >> (group % 2 * 4) & 0x0f0f0f0fu) | (h[i] >> group & 0x01010101u) << 4;
            }
        }
        OPS_METHOD Scale scale(u32 part) const { return six.scale(part / 4); }
    };
};

// x = (q - 32) d s, for groups of 16. Each half of the block has 64 bytes of low nibbles, those of its values 0..63 and
// 64..127, and 32 bytes with the high two bits of values i, i + 32, i + 64 and i + 96.
struct Q6_K {
    u16 low[64];
    u16 high[32];
    u16 scales[8];  // signed bytes
    u16 d;
    static constexpr u32 VALUES = 256, GROUP = 16;
    static constexpr i32 OFFSET = 32;
    static constexpr bool MIN = false, SIGNED = false;

    struct Eight {
        u32 q[2], h[2];
        u16 d;
        u8 s;
        OPS_METHOD void load(const Q6_K* block, u32 part) {
            load_words(q, block->low + part / 16 * 32 + part % 8 * 4);
            load_words(h, block->high + part / 16 * 16 + part % 4 * 4);
            d = block->d;
            s = u8(byte_at(block->scales, part / 2));
        }
        OPS_METHOD void codes(u32 (&out)[2], u32 part) const {
            u32 in_half = part % 16;
            OPS_UNROLL
            for (u32 i = 0; i < 2; i++) {
                out[i] = (q[i] >> (in_half / 8 * 4) & 0x0f0f0f0fu) | (h[i] >> (in_half / 4 * 2) & 0x03030303u) << 4;
            }
        }
        OPS_METHOD Scale scale(u32) const { return Scale{to_f32(f16{d}) * f32(i32(i8(s))), 0.0f}; }
    };
};

}  // namespace ops
