// One tile type for all matrix units: WMMA on gfx11 and gfx12, MFMA on gfx90a and gfx94x. A wave
// multiplies A [SIZE][DEPTH] by B [DEPTH][SIZE] and accumulates into C [SIZE][SIZE]. A lane holds one
// line of each operand (a row of A, a column of B), of which it has some consecutive elements along k. Of
// the product, it holds some rows of one column. The build selects the matrix units with -DOPS_MATRIX=11,
// 12, 90 or 94. The host and CUDA have none of these units; ops_mma_plain.h emulates them there.
#pragma once
#if defined(__gfx908__)
// Its accumulators must be in AGPRs, and each kind of register is a half of what a wave has.
#define OPS_REGISTERS __attribute__((amdgpu_waves_per_eu(1)))
#elif defined(__GFX9__)
// With at most 256 registers, MFMA accumulators stay in VGPRs. With more, clang 19 puts them into AGPRs
// and copies all of them to and from VGPRs in every loop iteration.
#define OPS_REGISTERS __attribute__((amdgpu_waves_per_eu(2)))
#endif
#include "ops_tile.h"

#if !defined(OPS_MATRIX)
#error "define OPS_MATRIX as 11, 12, 90 or 94"
#elif OPS_MATRIX != 11 && OPS_MATRIX != 12 && OPS_MATRIX != 90 && OPS_MATRIX != 94
#error "OPS_MATRIX is 11, 12, 90 or 94"
#elif (OPS_MATRIX >= 90) != (OPS_WAVE == 64)
#error "WMMA is for waves of 32, MFMA for waves of 64"
#endif
#if defined(OPS_AMD)
#if OPS_MATRIX == 11 && !defined(__GFX11__)
#error "OPS_MATRIX=11 is for gfx11"
#elif OPS_MATRIX == 12 && !defined(__GFX12__)
#error "OPS_MATRIX=12 is for gfx12"
#elif OPS_MATRIX == 90 && !defined(__gfx90a__) && !defined(__gfx908__)
#error "OPS_MATRIX=90 is for gfx908 and gfx90a"
#endif
#endif

namespace ops {

// The accumulator type for products of T.
template <typename T> struct MmaSum { using type = f32; };
template <> struct MmaSum<i8> { using type = i32; };

// Elements of one line that a lane passes to one instruction.
template <typename T, u32 SIZE> OPS_DEVICE constexpr u32 mma_held() {
#if OPS_MATRIX == 11
    return 16;  // the whole line, duplicated in both halves of the wave
#elif OPS_MATRIX == 12
    return 8;
#elif OPS_MATRIX == 90
    return 4;
#else
    return sizeof(T) == 1 ? 8 : 4;
#endif
}

// Number of lane groups that hold different parts of a line.
template <u32 SIZE> OPS_DEVICE constexpr u32 mma_groups() { return OPS_MATRIX == 11 ? 1 : OPS_WAVE / SIZE; }

template <typename T, u32 SIZE> struct MmaFragment { Pack<T, mma_held<T, SIZE>()> line; };

}  // namespace ops

#if defined(OPS_AMD)
#include "ops_mma_amd.h"
#else
#include "ops_mma_plain.h"
#endif

namespace ops {

// SIZE is 16, or 32 with MFMA. STEPS consecutive instructions along k are grouped, so that a lane reads
// its elements for all of them from contiguous memory. This permutes k in the same way for A and B.
template <typename T, u32 SIZE_ = 16, u32 STEPS = 1> struct Mma {
    static_assert(SIZE_ == 16 || (SIZE_ == 32 && OPS_MATRIX >= 90), "the matrix units have no instruction of this size");
    static constexpr u32 SIZE = SIZE_, COUNT = STEPS;
    static constexpr u32 HELD = mma_held<T, SIZE>(), GROUPS = mma_groups<SIZE>();
    static constexpr u32 DEPTH = HELD * GROUPS * STEPS;
    static constexpr u32 SUMS = SIZE * SIZE / OPS_WAVE;
    using Sum = typename MmaSum<T>::type;

    // SIZE lines of one operand.
    struct Lines { MmaFragment<T, SIZE> step[STEPS]; };
    struct Product : MmaSums<T, SIZE> {
        using MmaSums<T, SIZE>::v;
        OPS_METHOD void fill(Sum value) {
            OPS_UNROLL
            for (u32 i = 0; i < SUMS; i++) v[i] = value;
        }
        // Multiplies row r by factor(r).
        template <typename F> OPS_METHOD void scale_rows(F factor) {
            OPS_UNROLL
            for (u32 i = 0; i < SUMS; i++) v[i] *= factor(row(i));
        }
    };

    // The line of A and B that this lane holds, and the index along k of its first element.
    static OPS_METHOD u32 line() { return lane_id() % SIZE; }
    static OPS_METHOD u32 group() { return GROUPS == 1 ? 0 : lane_id() / SIZE; }
    static OPS_METHOD u32 first() { return group() * (HELD * STEPS); }

    // Column and row, within the product, of this lane's accumulator i.
    static OPS_METHOD u32 column() { return lane_id() % SIZE; }
    static OPS_METHOD u32 row(u32 i) { return first_row() + rows_on(i); }
    // The row of accumulator 0, and the distance of accumulator i from it, which is the same in every lane.
    static OPS_METHOD u32 first_row() {
        constexpr u32 APART = OPS_MATRIX == 11 ? 1 : OPS_MATRIX == 12 ? 8 : 4;
        return lane_id() / SIZE * APART;
    }
    static OPS_METHOD constexpr u32 rows_on(u32 i) {
        if (OPS_MATRIX == 11) return 2 * i;
        if (OPS_MATRIX == 12) return i;
        return i / 4 * (4 * OPS_WAVE / SIZE) + i % 4;
    }

    // The position of element k in a line that is multiplied with Lines built from accumulators instead of loaded
    // ones. In this order, a lane's accumulators of STEPS products, stacked along k, are its elements in sequence.
    static OPS_METHOD u32 place(u32 k) {
        if (GROUPS == 1) return k;
        u32 step = k / (HELD * GROUPS), in_step = k % (HELD * GROUPS);
        return (in_step / HELD * STEPS + step) * HELD + in_step % HELD;
    }

    // Loads lines that are `pitch` elements apart, with k contiguous. A lane's first element must be
    // aligned to the size of the lane's elements, up to 16 bytes.
    static OPS_METHOD Lines load(const T* at, u32 pitch) { return load_mine(at + line() * pitch + first()); }
    // The same in two steps. `mine` recomputes the address of this lane's part instead of keeping it in
    // registers through a loop; `load_mine` loads from that address.
    static OPS_METHOD const T* mine(const T* at, u32 pitch) {
        u32 lane = opaque(lane_id());
        return at + lane % SIZE * pitch + (GROUPS == 1 ? 0 : lane / SIZE * (HELD * STEPS));
    }
    static OPS_METHOD Lines load_mine(const T* at) { return bits_as<Lines>(load_parts<HELD * STEPS>(at)); }

    // c += a b. All lanes of the wave must take part. With fewer than all instructions, those from `first` on.
    template <u32 COUNTED = STEPS>
    static OPS_METHOD void multiply_add(const Lines& a, const Lines& b, Product& c, u32 first = 0) {
        OPS_UNROLL
        for (u32 s = 0; s < COUNTED; s++) mma<T, SIZE>(a.step[first + s], b.step[first + s], c);
    }
};

}  // namespace ops
