// The matrix instructions in plain code, for the host and CUDA: what they compute, and from and into
// which registers of which lanes. Derived from the instructions' definitions, which give lane and
// register for each matrix element, and independently of ops_mma.h, which has the inverse mapping.
#pragma once
#include "ops_tile.h"

namespace ops {

template <typename T, u32 SIZE> struct MmaSums { typename MmaSum<T>::type v[SIZE * SIZE / OPS_WAVE]; };

OPS_DEVICE f32 mma_product(f16 a, f16 b, f32 sum) { return fma(to_f32(a), to_f32(b), sum); }
OPS_DEVICE f32 mma_product(bf16 a, bf16 b, f32 sum) { return fma(to_f32(a), to_f32(b), sum); }
OPS_DEVICE i32 mma_product(i8 a, i8 b, i32 sum) { return i32(u32(sum) + u32(i32(a) * i32(b))); }

// gfx90a reads subnormal 16-bit floats as zero.
template <typename T> OPS_DEVICE T mma_read(T x) { return x; }
#if OPS_MATRIX == 90
OPS_DEVICE f16 mma_read(f16 x) { return (x.bits & 0x7c00) == 0 ? f16{u16(x.bits & 0x8000)} : x; }
OPS_DEVICE bf16 mma_read(bf16 x) { return (x.bits & 0x7f80) == 0 ? bf16{u16(x.bits & 0x8000)} : x; }
#endif

#if defined(OPS_HOST)

struct MmaSlot { u32 lane, element; };

// The lane and element that hold A[i][k], or B[k][i].
template <typename T, u32 SIZE> OPS_DEVICE MmaSlot mma_operand_slot(u32 i, u32 k) {
#if OPS_MATRIX == 11
    return {i, k};  // duplicated in lane i + 16
#elif OPS_MATRIX == 12
    return {i + 16 * (k / 8), k % 8};
#elif OPS_MATRIX == 90
    return {i + SIZE * (k / 4), k % 4};
#else
    constexpr u32 TOGETHER = sizeof(T) == 1 ? 8 : 4;
    return {i + SIZE * (k / TOGETHER), k % TOGETHER};
#endif
}

// The lane and element that hold C[i][j].
template <u32 SIZE> OPS_DEVICE MmaSlot mma_sum_slot(u32 i, u32 j) {
#if OPS_MATRIX == 11
    return {j + 16 * (i % 2), i / 2};
#elif OPS_MATRIX == 12
    return {j + 16 * (i / 8), i % 8};
#else
    if (SIZE == 16) return {j + 16 * (i / 4), i % 4};
    return {j + 32 * (i / 4 % 2), 4 * (i / 8) + i % 4};
#endif
}

// Operands that the lanes of a wave share. All threads of a block run on one host thread.
struct MmaWave {
    unsigned char a[OPS_WAVE][16 * 2], b[OPS_WAVE][16 * 2];
};
static thread_local MmaWave mma_waves[1024 / OPS_WAVE];

template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    constexpr u32 DEPTH = mma_held<T, SIZE>() * mma_groups<SIZE>();
    MmaWave& wave = mma_waves[wave_id()];
    __builtin_memcpy(wave.a[lane_id()], &a, sizeof a);
    __builtin_memcpy(wave.b[lane_id()], &b, sizeof b);
    ballot(true);
    auto element = [](const unsigned char (&all)[OPS_WAVE][32], MmaSlot slot) {
        T out;
        __builtin_memcpy(&out, all[slot.lane] + slot.element * sizeof(T), sizeof(T));
        return mma_read(out);
    };
    // Each layout has a column of C in lanes that are equal modulo SIZE.
    const u32 me = lane_id(), j = me % SIZE;
    // The two halves of the wave hold the same rows. The product of rows that differ is undefined.
    auto differs = [](const unsigned char (&all)[OPS_WAVE][32], u32 l) {
        return OPS_MATRIX == 11 && __builtin_memcmp(all[l % 16], all[l % 16 + 16], sizeof(MmaFragment<T, SIZE>)) != 0;
    };
    const bool undefined = differs(wave.b, j);
    T column[DEPTH];
    for (u32 k = 0; k < DEPTH; k++) column[k] = element(wave.b, mma_operand_slot<T, SIZE>(j, k));
    for (u32 i = 0; i < SIZE; i++) {
        const MmaSlot to = mma_sum_slot<SIZE>(i, j);
        if (to.lane != me) continue;
        auto sum = c.v[to.element];
        for (u32 k = 0; k < DEPTH; k++) {
            sum = mma_product(element(wave.a, mma_operand_slot<T, SIZE>(i, k)), column[k], sum);
        }
        c.v[to.element] = undefined || differs(wave.a, i) ? bits_as<decltype(sum)>(0xffffffffu) : sum;
    }
    ballot(true);
}

#else

// CUDA, in the layout of gfx11: a lane has its own column of B and shuffles in the rows of A.
static_assert(OPS_MATRIX == 11, "CUDA emulates the layout of gfx11");

template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    constexpr u32 WORDS = sizeof(a) / 4, IN_WORD = 4 / sizeof(T);
    using Words = Pack<u32, WORDS>;
    using Word = Pack<T, IN_WORD>;
    Words mine = bits_as<Words>(a), column = bits_as<Words>(b);
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) {
        OPS_UNROLL
        for (u32 w = 0; w < WORDS; w++) {
            Word row = bits_as<Word>(shuffle(mine.v[w], 2 * i + lane_id() / 16, 32));
            Word other = bits_as<Word>(column.v[w]);
            OPS_UNROLL
            for (u32 e = 0; e < IN_WORD; e++) c.v[i] = mma_product(row.v[e], other.v[e], c.v[i]);
        }
    }
}

#endif

}  // namespace ops
