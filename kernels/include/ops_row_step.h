// Decodes a quantized weight for products with a single row of x. A step is 32 values, in the order in which their bytes lie in memory, so
// that adjacent lanes read adjacent bytes.
#pragma once
#include "ops_blocks.h"
#include "ops_bytes.h"
#include "ops_dot4.h"

namespace ops {

// ---- bytes at any address -----------------------------------------------------------------

// HEAD bytes (at most 2), followed by WORDS words. `load` only reads memory, so that other loads can follow it.
template <u32 HEAD, u32 WORDS> struct Chunk {
#if defined(OPS_CUDA)
    // The aligned packs of 16 bytes that cover them. Separate loads of 4 bytes would need more accesses to the cache.
    static constexpr u32 PACKS = (HEAD + 4 * WORDS + 2 * PACK_BYTES - 2) / PACK_BYTES;
    Pack<u32, 4> pack[PACKS];
    u32 before;
    OPS_METHOD void load(const void* from) {
        before = u32(reinterpret_cast<u64>(from)) % PACK_BYTES;
        const u32* packs = reinterpret_cast<const u32*>(static_cast<const u8*>(from) - before);
        OPS_UNROLL
        for (u32 p = 0; p < PACKS; p++) {
            // The last pack may start past the end of the data.
            if (p == 0 || p * PACK_BYTES < before + HEAD + 4 * WORDS) pack[p] = load_pack<4>(packs + 4 * p);
        }
    }
    OPS_METHOD u32 get(u32 (&out)[WORDS]) const {
        u32 w[4 * PACKS];
        OPS_UNROLL
        for (u32 i = 0; i < 4 * PACKS; i++) w[i] = pack[i / 4].v[i % 4];
        OPS_UNROLL
        for (u32 i = 0; i + 2 < 4 * PACKS; i++) w[i] = (before & 8) != 0 ? w[i + 2] : w[i];
        OPS_UNROLL
        for (u32 i = 0; i + 1 < 4 * PACKS; i++) w[i] = (before & 4) != 0 ? w[i + 1] : w[i];
        u32 bits = before % 4 * 8;
        OPS_UNROLL
        for (u32 i = 0; i < WORDS; i++) out[i] = __funnelshift_rc(w[i], w[i + 1], bits + HEAD * 8);
        return __funnelshift_r(w[0], w[1], bits);
    }
#else
    u32 head, word[WORDS];
    template <typename U> OPS_METHOD void load(const U* from) {
        static_assert(HEAD % sizeof(U) == 0, "words begin where elements do");
        head = HEAD == 0 ? 0 : from[0];
        load_words(word, from + HEAD / sizeof(U));
    }
    OPS_METHOD u32 get(u32 (&out)[WORDS]) const {
        OPS_UNROLL
        for (u32 i = 0; i < WORDS; i++) out[i] = word[i];
        return head;
    }
#endif
};

// N words that are usually aligned to their size.
template <u32 N> OPS_DEVICE void load_usually_aligned(u32 (&out)[N], const u16* from) {
#if defined(OPS_CUDA)
    if (is_aligned(from, 4 * N)) {
        Pack<u32, N> pack = load_pack<N>(reinterpret_cast<const u32*>(from));
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) out[i] = pack.v[i];
        return;
    }
#endif
    load_words(out, from);
}

// The codes of 4 words of nibbles: the low ones, then the high ones.
OPS_DEVICE void nibbles(u32 (&codes)[8], const u32 (&q)[4]) {
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        codes[i] = q[i] & 0x0f0f0f0fu;
        codes[4 + i] = q[i] >> 4 & 0x0f0f0f0fu;
    }
}

// The levels of the same nibbles.
OPS_DEVICE void levels(u32 (&out)[8], const u32 (&q)[4], const Levels& of) {
#if defined(OPS_CUDA)
    // Four nibbles as they are in memory select four bytes of eight. Their bits 3 choose between two such lookups.
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 at = q[i] & 0x77777777u, choice = (q[i] >> 1 & 0x44444444u) | 0x32103210u, part[2];
        OPS_UNROLL
        for (u32 h = 0; h < 2; h++) {
            u32 low = __byte_perm(of.word[0], of.word[1], at >> (16 * h));
            u32 high = __byte_perm(of.word[2], of.word[3], at >> (16 * h));
            part[h] = __byte_perm(low, high, choice >> (16 * h));
        }
        out[i] = __byte_perm(part[0], part[1], 0x6420);
        out[4 + i] = __byte_perm(part[0], part[1], 0x7531);
    }
#else
    nibbles(out, q);
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) out[i] = levels_of(of, out[i]);
#endif
}

// Number `i` of the two 16-bit floats of a word.
OPS_DEVICE f32 half_of(u32 word, u32 i) { return to_f32(f16{u16(word >> (16 * i))}); }

// ---- formats ----------------------------------------------------------------------------

// A step has two halves of 16 values, APART values from each other, each with its own scale if GROUPS is 2. `load` reads memory. `codes`
// decodes what it read, unless `load` has already done so. COLUMNS is the number of columns that a group of lanes computes together. If
// EARLY, the first tile is loaded before x is rounded to 8 bits, so that the two overlap. This does not pay for formats that need many
// registers.
template <typename B> struct RowStep {
    static constexpr u32 APART = 16, GROUPS = Step<B>::GROUPS;
    // Two scales, or codes in two places, take the registers of two more columns.
    static constexpr u32 COLUMNS = GROUPS > 1 || sizeof(typename B::Eight) > 16 ? 2 : 4;
    static constexpr bool EARLY = false;
    Step<B> decoded;
    OPS_METHOD void load(const B* block, u32 step) { decoded.load(block, 0, step); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) words[i] = decoded.words[i];
        OPS_UNROLL
        for (u32 h = 0; h < GROUPS; h++) scale[h] = decoded.scale[h];
    }
};

template <> struct RowStep<Q4_0> {
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
    static constexpr bool EARLY = true;
    Chunk<2, 4> chunk;
    OPS_METHOD void load(const Q4_0* block, u32) { chunk.load(&block->d); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        u32 q[4];
        scale[0] = Scale{half_of(chunk.get(q), 0), 0.0f};
        nibbles(words, q);
    }
};

template <> struct RowStep<Q4_1> {
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
    static constexpr bool EARLY = true;
    Chunk<0, 5> chunk;
    OPS_METHOD void load(const Q4_1* block, u32) { chunk.load(&block->d); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        u32 all[5];
        chunk.get(all);
        scale[0] = Scale{half_of(all[0], 0), half_of(all[0], 1)};
        const u32 q[4] = {all[1], all[2], all[3], all[4]};
        nibbles(words, q);
    }
};

template <> struct RowStep<Q8_0> {
#if defined(OPS_CUDA)
    // With four columns of four packs each, a multiprocessor would have registers for one block only.
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 2;
#else
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
#endif
    static constexpr bool EARLY = true;
    Chunk<2, 8> chunk;
    OPS_METHOD void load(const Q8_0* block, u32) { chunk.load(&block->d); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        scale[0] = Scale{half_of(chunk.get(words), 0), 0.0f};
    }
};

// The scales and minima of groups 2 i and 2 i + 1 of q4_k and q5_k. `head` holds d, dmin, and the twelve bytes of SixBits.
OPS_DEVICE void scales_of_pair(Scale (&scale)[2], const u32 (&head)[4], u32 i) {
    bool low = i < 2;
    u32 shift = i % 2 * 16;
    u32 first = head[1] >> shift, second = head[2] >> shift, third = head[3] >> shift;
    u32 s = low ? first & 0x3f3fu : (third & 0x0f0fu) | (first >> 2 & 0x3030u);
    u32 m = low ? second & 0x3f3fu : (third >> 4 & 0x0f0fu) | (second >> 2 & 0x3030u);
    f32 d = half_of(head[0], 0), dmin = half_of(head[0], 1);
    OPS_UNROLL
    for (u32 h = 0; h < 2; h++) scale[h] = Scale{d * f32(byte_of(s, h)), -(dmin * f32(byte_of(m, h)))};
}

// Sixteen bytes of nibbles are half of two groups.
template <> struct RowStep<Q4_K> {
    static constexpr u32 APART = 32, GROUPS = 2, COLUMNS = 4;
    static constexpr bool EARLY = true;
    u32 head[4], q[4];
    OPS_METHOD void load(const Q4_K* block, u32 step) {
        load_usually_aligned(head, block->head);
        load_usually_aligned(q, block->qs + step * 8);
    }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32 step) const {
        scales_of_pair(scale, head, step / 2);
        nibbles(words, q);
    }
};

template <> struct RowStep<Q5_K> {
    static constexpr u32 APART = 32, GROUPS = 2, COLUMNS = 2;
    static constexpr bool EARLY = true;
    u32 head[4], high[4], q[4];
    OPS_METHOD void load(const Q5_K* block, u32 step) {
        load_usually_aligned(head, block->head);
        load_usually_aligned(high, block->high + step % 2 * 8);
        load_usually_aligned(q, block->qs + step * 8);
    }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32 step) const {
        scales_of_pair(scale, head, step / 2);
        nibbles(words, q);
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) words[i] |= (high[i % 4] >> (step / 2 * 2 + i / 4) & 0x01010101u) << 4;
    }
};

// Sixteen bytes of nibbles belong to groups that are 64 values apart.
template <> struct RowStep<Q6_K> {
    static constexpr u32 APART = 64, GROUPS = 2, COLUMNS = 2;
    static constexpr bool EARLY = false;
    Chunk<0, 4> low, high;
    u16 d;
    u8 s[2];
    OPS_METHOD void load(const Q6_K* block, u32 step) {
        low.load(block->low + step * 8);
        high.load(block->high + step / 4 * 16 + step % 2 * 8);
        d = block->d;
        OPS_UNROLL
        for (u32 h = 0; h < 2; h++) s[h] = u8(byte_at(block->scales, step / 4 * 8 + step % 4 + h * 4));
    }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32 step) const {
        u32 q[4], bits[4];
        low.get(q);
        high.get(bits);
        nibbles(words, q);
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) words[i] |= (bits[i % 4] >> (step % 4 / 2 * 2 + i / 4 * 4) & 0x03030303u) << 4;
        OPS_UNROLL
        for (u32 h = 0; h < 2; h++) scale[h] = Scale{to_f32(f16{d}) * f32(i32(i8(s[h]))), 0.0f};
    }
};

template <> struct RowStep<IQ4_XS> {
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
    static constexpr bool EARLY = true;
    u32 head[2], first[2], last[2];
    OPS_METHOD void load(const IQ4_XS* block, u32 step) {
        load_usually_aligned(head, &block->d);
        load_usually_aligned(first, block->qs + step * 8);
        load_usually_aligned(last, block->qs + step * 8 + 4);
    }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32 step) const {
        u32 s = (head[1] >> (step * 4) & 15u) | (head[0] >> (16 + step * 2) & 3u) << 4;
        scale[0] = Scale{half_of(head[0], 0) * f32(i32(s) - 32), 0.0f};
        const u32 q[4] = {first[0], first[1], last[0], last[1]};
        levels(words, q, iq4_levels());
    }
};

template <> struct RowStep<IQ4_NL> {
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
    static constexpr bool EARLY = true;
    Chunk<2, 4> chunk;
    OPS_METHOD void load(const IQ4_NL* block, u32) { chunk.load(&block->d); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        u32 q[4];
        scale[0] = Scale{half_of(chunk.get(q), 0), 0.0f};
        levels(words, q, iq4_levels());
    }
};

template <> struct RowStep<MXFP4> {
    static constexpr u32 APART = 16, GROUPS = 1, COLUMNS = 4;
    static constexpr bool EARLY = true;
    Chunk<1, 4> chunk;
    OPS_METHOD void load(const MXFP4* block, u32) { chunk.load(&block->e); }
    OPS_METHOD void codes(u32 (&words)[8], Scale (&scale)[GROUPS], u32) const {
        u32 q[4];
        MXFP4::Eight eight;
        eight.e = u8(chunk.get(q));
        scale[0] = eight.scale(0);
        levels(words, q, fp4_levels());
    }
};

// ---- products -------------------------------------------------------------------------

// The bytes of x that a lane multiplies by the steps of its column: two halves, each with its sum and its scale.
struct RowBytes {
    f32 scale[2];
    i32 sum[2];
    Pack<u32, 4> half[2];
    OPS_METHOD u32 word(u32 i) const { return half[i / 4].v[i % 4]; }
    // `words` holds four values each, `scales` those of 32. The halves are those of step `step` of a row of B.
    template <typename B> OPS_METHOD void hold(const u32* words, const f32* scales, u32 step) {
        constexpr u32 APART = RowStep<B>::APART;
        u32 first = step * 16 / APART * 2 * APART + step * 16 % APART;
        OPS_UNROLL
        for (u32 h = 0; h < 2; h++) {
            u32 at = first + h * APART, any = 0;
            half[h] = load_pack<4>(words + at / 4);
            scale[h] = scales[at / STEP_VALUES];
            sum[h] = 0;
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) {
                sum[h] = dot4(0x01010101u, half[h].v[i], sum[h]);
                any |= half[h].v[i];
            }
            // A group of 32 that holds an infinity has an infinite scale, and bytes of 0 except where the infinities are. A half without
            // one must not compute 0 * infinity, which is NaN.
            if (any == 0 && scale[h] == infinity32()) scale[h] = 0;
        }
    }
};

// The product of a lane's bytes with a step of the weight. The dot product starts at -OFFSET times the sum of x, which corrects for the
// offset of codes. The integer part is exact. Only scaling, minima and adding the halves round.
template <typename B> OPS_DEVICE f32 row_product(const RowStep<B>& w, const RowBytes& x, u32 step) {
    constexpr u32 GROUPS = RowStep<B>::GROUPS, WORDS = 8 / GROUPS;
    u32 words[8];
    Scale scale[GROUPS];
    w.codes(words, scale, step);
    f32 total = 0;
    OPS_UNROLL
    for (u32 h = 0; h < GROUPS; h++) {
        i32 sum = GROUPS == 1 ? x.sum[0] + x.sum[1] : x.sum[h], dot = -B::OFFSET * sum;
        OPS_UNROLL
        for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) dot = dot4(words[i], x.word(i), dot);
        f32 term = scale[h].d * f32(dot);
        if (B::MIN) term = mad(scale[h].m, f32(sum), term);
        total = mad(term, x.scale[h], total);
    }
    return total;
}

}  // namespace ops
