// The matrix instructions in plain code, for the host and CUDA: what they compute, and from and into
// which registers of which lanes. Derived from the instructions' definitions, which give lane and
// register for each matrix element, and independently of ops_mma.h, which has the inverse mapping.
#pragma once
#include "ops_tile.h"

namespace ops {

template <typename T, u32 SIZE> struct MmaSums { typename MmaSum<T>::type v[SIZE * SIZE / OPS_WAVE]; };

OPS_DEVICE f32 mma_wide(f16 x) { return to_f32(x); }
OPS_DEVICE f32 mma_wide(bf16 x) { return to_f32(x); }
OPS_DEVICE i32 mma_wide(i8 x) { return i32(x); }
OPS_DEVICE f32 mma_product(f32 a, f32 b, f32 sum) { return fma(a, b, sum); }
OPS_DEVICE i32 mma_product(i32 a, i32 b, i32 sum) { return i32(u32(sum) + u32(a * b)); }

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

// Lines of the operands that the lanes of a wave share: rows of A, columns of B. On gfx11 each is there twice, because the halves of
// the wave hold the same. All threads of a block run on one host thread.
template <typename Sum> struct MmaWave {
    Sum a[32][32], b[32][32];
};
template <typename Sum> static thread_local MmaWave<Sum> mma_waves[1024 / OPS_WAVE];

// Writes what this lane holds of a line to its place.
template <typename T, u32 SIZE>
OPS_DEVICE void mma_share(const MmaFragment<T, SIZE>& mine, typename MmaSum<T>::type (&lines)[32][32]) {
    constexpr bool TWICE = OPS_MATRIX == 11;
    const u32 me = lane_id(), i = me % SIZE;
    for (u32 k = 0; k < mma_held<T, SIZE>() * mma_groups<SIZE>(); k++) {
        const MmaSlot slot = mma_operand_slot<T, SIZE>(i, k);
        if (slot.lane == (TWICE ? i : me)) lines[TWICE ? me : i][k] = mma_wide(mma_read(mine.line.v[slot.element]));
    }
}

template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    using Sum = typename MmaSum<T>::type;
    constexpr u32 DEPTH = mma_held<T, SIZE>() * mma_groups<SIZE>();
    MmaWave<Sum>& wave = mma_waves<Sum>[wave_id()];
    mma_share<T, SIZE>(a, wave.a);
    mma_share<T, SIZE>(b, wave.b);
    ballot(true);
    // The two halves of the wave hold the same lines. The product of lines that differ is undefined.
    auto differs = [](const Sum (&lines)[32][32], u32 i) {
        return OPS_MATRIX == 11 && __builtin_memcmp(lines[i], lines[(i + 16) % 32], DEPTH * sizeof(Sum)) != 0;
    };
    // Each layout has a column of C in lanes that are equal modulo SIZE.
    const u32 me = lane_id(), j = me % SIZE;
    const bool undefined = differs(wave.b, j);
    for (u32 i = 0; i < SIZE; i++) {
        const MmaSlot to = mma_sum_slot<SIZE>(i, j);
        if (to.lane != me) continue;
        Sum sum = c.v[to.element];
        for (u32 k = 0; k < DEPTH; k++) sum = mma_product(wave.a[i][k], wave.b[j][k], sum);
        c.v[to.element] = undefined || differs(wave.a, i) ? bits_as<Sum>(0xffffffffu) : sum;
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
            for (u32 e = 0; e < IN_WORD; e++) {
                c.v[i] = mma_product(mma_wide(row.v[e]), mma_wide(other.v[e]), c.v[i]);
            }
        }
    }
}

#endif

}  // namespace ops
