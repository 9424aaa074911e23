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

// gfx90a reads subnormal 16-bit floats as zero.
template <typename T> OPS_DEVICE T mma_read(T x) { return x; }
#if OPS_MATRIX == 90
OPS_DEVICE f16 mma_read(f16 x) { return (x.bits & 0x7c00) == 0 ? f16{u16(x.bits & 0x8000)} : x; }
OPS_DEVICE bf16 mma_read(bf16 x) { return (x.bits & 0x7f80) == 0 ? bf16{u16(x.bits & 0x8000)} : x; }
#endif

#if defined(OPS_HOST)

struct MmaSlot { u32 lane, element; };

// The lane and element that hold A[i][k], or B[k][i].
template <typename T, u32 SIZE> constexpr MmaSlot mma_operand_slot(u32 i, u32 k) {
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
template <u32 SIZE> constexpr MmaSlot mma_sum_slot(u32 i, u32 j) {
#if OPS_MATRIX == 11
    return {j + 16 * (i % 2), i / 2};
#elif OPS_MATRIX == 12
    return {j + 16 * (i / 8), i % 8};
#else
    if (SIZE == 16) return {j + 16 * (i / 4), i % 4};
    return {j + 32 * (i / 4 % 2), 4 * (i / 8) + i % 4};
#endif
}

// For each element that a lane holds: its index along k (A and B), or its row (C). In every layout, a lane holds row `lane % SIZE` of A,
// and column `lane % SIZE` of B and of C.
template <typename T, u32 SIZE> struct MmaSlots {
    static constexpr u32 HELD = mma_held<T, SIZE>(), DEPTH = HELD * mma_groups<SIZE>(), SUMS = SIZE * SIZE / OPS_WAVE;
    u8 k[OPS_WAVE][HELD] = {}, row[OPS_WAVE][SUMS] = {};

    constexpr MmaSlots() {
        for (u32 line = 0; line < SIZE; line++) {
            for (u32 at = 0; at < DEPTH; at++) {
                const MmaSlot slot = mma_operand_slot<T, SIZE>(line, at);
                for (u32 lane = slot.lane; lane < OPS_WAVE; lane += OPS_MATRIX == 11 ? 16 : OPS_WAVE) k[lane][slot.element] = u8(at);
            }
            for (u32 column = 0; column < SIZE; column++) {
                const MmaSlot slot = mma_sum_slot<SIZE>(line, column);
                row[slot.lane][slot.element] = u8(line);
            }
        }
    }
};

// One product of a wave: the lines of its operands side by side, and the sums. On gfx11 the lines are there twice, because the halves
// of the wave hold the same.
template <typename Sum> struct MmaProduct { Sum a[32][32], b[32][32], c[32][32]; };

// Double-buffered: a lane that is ahead writes to one product while others still read the other. All threads of a block run on one host
// thread.
template <typename Sum> struct MmaWave {
    MmaProduct<Sum> products[2];
    u32 turn;
};
template <typename Sum> static thread_local MmaWave<Sum> mma_waves[1024 / OPS_WAVE];

// C += A B. On gfx11, both halves of a wave must hold the same operands; where they differ, the result is all ones (NaN), so that tests
// notice. g++ inlines no function of the kernel, which has other options, into one with `optimize`.
template <u32 SIZE, u32 DEPTH, typename Sum>
#if !defined(__clang__)
__attribute__((noinline, optimize("O3")))
#endif
static void mma_multiply(MmaProduct<Sum>& of) {
    u32 a_differs[SIZE] = {}, b_differs[SIZE] = {};
    for (u32 k = 0; OPS_MATRIX == 11 && k < DEPTH; k++) {
        for (u32 i = 0; i < SIZE; i++) {
            a_differs[i] |= __builtin_bit_cast(u32, of.a[k][i]) ^ __builtin_bit_cast(u32, of.a[k][(i + 16) % 32]);
            b_differs[i] |= __builtin_bit_cast(u32, of.b[k][i]) ^ __builtin_bit_cast(u32, of.b[k][(i + 16) % 32]);
        }
    }
    for (u32 i = 0; i < SIZE; i++) {
        Sum sums[SIZE];
        for (u32 j = 0; j < SIZE; j++) sums[j] = of.c[i][j];
        for (u32 k = 0; k < DEPTH; k++) {
            for (u32 j = 0; j < SIZE; j++) {
                if constexpr (same<Sum, f32>::value) sums[j] = __builtin_fmaf(of.a[k][i], of.b[k][j], sums[j]);
                else sums[j] = i32(u32(sums[j]) + u32(of.a[k][i] * of.b[k][j]));
            }
        }
        for (u32 j = 0; j < SIZE; j++) {
            of.c[i][j] = (a_differs[i] | b_differs[j]) != 0 ? __builtin_bit_cast(Sum, 0xffffffffu) : sums[j];
        }
    }
}

// Each lane writes what it holds. The first lane that runs after the ballot multiplies for the whole wave, and then changes `turn`, which
// tells the others.
template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    using Slots = MmaSlots<T, SIZE>;
    static constexpr Slots SLOTS;
    const u32 lane = lane_id(), column = lane % SIZE, line = OPS_MATRIX == 11 ? lane : column;
    auto& wave = mma_waves<typename MmaSum<T>::type>[wave_id()];
    const u32 turn = wave.turn;
    auto& product = wave.products[turn];
    for (u32 e = 0; e < Slots::HELD; e++) {
        product.a[SLOTS.k[lane][e]][line] = mma_wide(mma_read(a.line.v[e]));
        product.b[SLOTS.k[lane][e]][line] = mma_wide(mma_read(b.line.v[e]));
    }
    for (u32 e = 0; e < Slots::SUMS; e++) product.c[SLOTS.row[lane][e]][column] = c.v[e];
    ballot(true);
    if (wave.turn == turn) {
        mma_multiply<SIZE, Slots::DEPTH>(product);
        wave.turn = 1 - turn;
    }
    for (u32 e = 0; e < Slots::SUMS; e++) c.v[e] = product.c[SLOTS.row[lane][e]][column];
}

#else

// CUDA, in the layout of gfx11: a lane has its own column of B and shuffles in the rows of A.
static_assert(OPS_MATRIX == 11, "CUDA emulates the layout of gfx11");

OPS_DEVICE f32 mma_product(f32 a, f32 b, f32 sum) { return fma(a, b, sum); }
OPS_DEVICE i32 mma_product(i32 a, i32 b, i32 sum) { return i32(u32(sum) + u32(a * b)); }

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
