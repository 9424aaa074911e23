// What kernels of all block formats share: codes as numbers, eight values, and steps along a row.
#pragma once
#include "ops_formats.h"
#include "ops_formats_grid.h"
#include "ops_formats_levels.h"
#include "ops_formats_more.h"

namespace ops {

// Consecutive values that kernels take in one step. A block holds one step or several.
constexpr u32 STEP_VALUES = 32;

// Code i of a word as a number, OFFSET not subtracted.
template <typename B, typename A> OPS_DEVICE A code_of(u32 word, u32 i) {
    return B::SIGNED ? A(i32(i8(byte_of(word, i)))) : A(byte_of(word, i));
}

// The codes of a word with OFFSET subtracted, as signed bytes.
template <typename B> OPS_DEVICE u32 signed_codes(u32 word) {
    if (B::OFFSET == 0) return word;
    return ((word | 0x80808080u) - u32(B::OFFSET) * 0x01010101u) ^ 0x80808080u;
}

// Eight values. The difference or sum is the only operation that rounds.
template <typename B> OPS_DEVICE void values_of(f32 (&out)[8], const B* block, u32 part) {
    typename B::Eight eight;
    eight.load(block, part);
    u32 words[2];
    eight.codes(words, part);
    Scale scale = eight.scale(part);
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) {
        f32 q = code_of<B, f32>(words[i / 4], i % 4) - f32(B::OFFSET);
        out[i] = B::MIN ? scale.d * q + scale.m : scale.d * q;
    }
}

// One step: 32 codes, and the scales of its groups.
template <typename B> struct Step {
    static constexpr u32 GROUPS = STEP_VALUES / B::GROUP;
    u32 words[8];
    Scale scale[GROUPS];

    // Reads step `step` of a row whose blocks are `apart` blocks from each other.
    OPS_METHOD void load(const B* row, i64 apart, u32 step) {
        constexpr u32 STEPS = B::VALUES / STEP_VALUES;
        const B* block = row + i64(step / STEPS) * apart;
        u32 first = step % STEPS * 4;
        typename B::Eight eight[4];
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) eight[i].load(block, first + i);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) {
            u32 two[2];
            eight[i].codes(two, first + i);
            words[2 * i] = two[0];
            words[2 * i + 1] = two[1];
            if (i % (4 / GROUPS) == 0) scale[i * GROUPS / 4] = eight[i].scale(first + i);
        }
    }
};

}  // namespace ops
