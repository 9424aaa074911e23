// GGUF block formats: 32 elements with one f16 scale. Blocks are aligned to 2 bytes only.
#pragma once
#include "ops_view.h"

namespace ops {

constexpr u32 BLOCK_ELEMENTS = 32;

#if defined(OPS_CUDA)
// CUDA requires aligned loads. If a block's words are misaligned, they are read from two bytes earlier
// (still inside the block, whose scale precedes the values), and pairs of words are funnel-shifted.
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u16* from) {
    u64 address = reinterpret_cast<u64>(from);
    u32 shift = u32(address & 2) * 8;
    const u32* words = reinterpret_cast<const u32*>(address - (address & 2));
    u32 word[N + 1];
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) word[i] = words[i];
    word[N] = shift == 0 ? 0 : *reinterpret_cast<const u16*>(words + N);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = __funnelshift_r(word[i], word[i + 1], shift);
}
#else
// The hardware supports 32-bit loads at any address; the type declares an alignment of 2 bytes.
template <u32 N> OPS_DEVICE void load_words(u32 (&out)[N], const u16* from) {
    typedef u32 Words __attribute__((aligned(2), may_alias));
    const Words* words = reinterpret_cast<const Words*>(from);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = words[i];
}
#endif

OPS_DEVICE u32 byte_of(u32 word, u32 i) { return word >> (8 * i) & 0xff; }

// x = (q - 8) d. The low nibbles hold q of elements 0..15, the high nibbles those of 16..31.
struct Q4_0 {
    u16 d;
    u16 qs[8];
    static constexpr u32 WORDS = 4;
    static constexpr i32 OFFSET = 8;  // subtracted from every stored value

    // Step g of 4 reads STEP words from word g STEP on: four elements from first(g) and four from second(g).
    static constexpr u32 STEP = 1;
    static OPS_METHOD u32 first(u32 g) { return 4 * g; }
    static OPS_METHOD u32 second(u32 g) { return 16 + 4 * g; }
    // Unpacks one step; its words must be at the front of `words`.
    template <typename A> static OPS_METHOD void unpack(A (&out)[8], const u32 (&words)[WORDS]) {
        u32 low = words[0] & 0x0f0f0f0fu, high = words[0] >> 4 & 0x0f0f0f0fu;
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) {
            out[i] = A(byte_of(low, i));
            out[4 + i] = A(byte_of(high, i));
        }
    }
    // All 32 elements as bytes, in order, with OFFSET still included.
    static OPS_METHOD void bytes(u32 (&out)[8], const Q4_0* block) {
        u32 words[WORDS];
        load_words(words, block->qs);
        OPS_UNROLL
        for (u32 i = 0; i < WORDS; i++) {
            out[i] = words[i] & 0x0f0f0f0fu;
            out[WORDS + i] = words[i] >> 4 & 0x0f0f0f0fu;
        }
    }
    // The 8 elements from 8 * part on, with OFFSET subtracted.
    template <typename A> static OPS_METHOD void eight(A (&out)[8], const Q4_0* block, u32 part) {
        u32 words[2];
        load_words(words, block->qs + part % 2 * 4);
        u32 shift = part / 2 * 4;
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) out[i] = A(i32(byte_of(words[i / 4] >> shift, i % 4) & 15) - OFFSET);
    }
    // The 4 elements from 4 * part on, with OFFSET subtracted.
    static OPS_METHOD void four(i32 (&out)[4], const Q4_0* block, u32 part) {
        u32 words[1];
        load_words(words, block->qs + part % 4 * 2);
        u32 shift = part / 4 * 4;
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) out[i] = i32(byte_of(words[0] >> shift, i) & 15) - OFFSET;
    }
};

// x = q d
struct Q8_0 {
    u16 d;
    u16 qs[16];
    static constexpr u32 WORDS = 8;
    static constexpr i32 OFFSET = 0;
    static constexpr u32 STEP = 2;

    static OPS_METHOD u32 first(u32 g) { return 8 * g; }
    static OPS_METHOD u32 second(u32 g) { return 8 * g + 4; }
    template <typename A> static OPS_METHOD void unpack(A (&out)[8], const u32 (&words)[WORDS]) {
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) out[i] = A(i32(i8(byte_of(words[i / 4], i % 4))));
    }
    static OPS_METHOD void bytes(u32 (&out)[8], const Q8_0* block) { load_words(out, block->qs); }
    template <typename A> static OPS_METHOD void eight(A (&out)[8], const Q8_0* block, u32 part) {
        u32 words[2];
        load_words(words, block->qs + part * 4);
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) out[i] = A(i32(i8(byte_of(words[i / 4], i % 4))));
    }
    static OPS_METHOD void four(i32 (&out)[4], const Q8_0* block, u32 part) {
        u32 words[1];
        load_words(words, block->qs + part * 2);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) out[i] = i32(i8(byte_of(words[0], i)));
    }
};

}  // namespace ops
