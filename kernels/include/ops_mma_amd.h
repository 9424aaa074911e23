// The matrix instructions: one function for each type and size. See ops_mma.h.
#pragma once
#include "ops_tile.h"

namespace ops {

template <typename E, u32 N> using Lanes = E __attribute__((ext_vector_type(N)));

// The operand type that a lane passes to an instruction for elements of T. The overloads of mma_run
// select the instruction by operand and accumulator types.
template <typename T> struct MmaOperand;

#if OPS_MATRIX == 11 || OPS_MATRIX == 12
#if OPS_MATRIX == 11
#define OPS_WMMA(name) __builtin_amdgcn_wmma_##name##_w32
#else
#define OPS_WMMA(name) __builtin_amdgcn_wmma_##name##_w32_gfx12
#endif
using Halves = Lanes<_Float16, mma_held<f16, 16>()>;
using Bfloats = Lanes<short, mma_held<bf16, 16>()>;
using Bytes = Lanes<int, mma_held<i8, 16>() / 4>;
using Floats = Lanes<float, 8>;
using Ints = Lanes<int, 8>;
OPS_DEVICE Floats mma_run(Halves a, Halves b, Floats c) { return OPS_WMMA(f32_16x16x16_f16)(a, b, c); }
OPS_DEVICE Floats mma_run(Bfloats a, Bfloats b, Floats c) { return OPS_WMMA(f32_16x16x16_bf16)(a, b, c); }
// Both operands are signed, and sums are not clamped.
OPS_DEVICE Ints mma_run(Bytes a, Bytes b, Ints c) { return OPS_WMMA(i32_16x16x16_iu8)(true, a, true, b, c, false); }
#undef OPS_WMMA
#else
using Halves = Lanes<_Float16, 4>;
using Bfloats = Lanes<short, 4>;
#if OPS_MATRIX == 90
#define OPS_MFMA_I8(wide, narrow) __builtin_amdgcn_mfma_i32_##narrow##i8
using Bytes = int;
#else
#define OPS_MFMA_I8(wide, narrow) __builtin_amdgcn_mfma_i32_##wide##_i8
using Bytes = long;
#endif
using Floats = Lanes<float, 4>;  // 16 x 16
using Ints = Lanes<int, 4>;
using ManyFloats = Lanes<float, 16>;  // 32 x 32
using ManyInts = Lanes<int, 16>;
// The last three arguments broadcast and permute blocks. With a single block they are 0.
OPS_DEVICE Floats mma_run(Halves a, Halves b, Floats c) { return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0); }
OPS_DEVICE ManyFloats mma_run(Halves a, Halves b, ManyFloats c) {
    return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
}
#if defined(__gfx908__)
// Half as deep: two instructions take the two halves of a lane's elements, the same elements of A and of B.
OPS_DEVICE Floats mma_run(Bfloats a, Bfloats b, Floats c) {
    c = __builtin_amdgcn_mfma_f32_16x16x8bf16(a.lo, b.lo, c, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_16x16x8bf16(a.hi, b.hi, c, 0, 0, 0);
}
OPS_DEVICE ManyFloats mma_run(Bfloats a, Bfloats b, ManyFloats c) {
    c = __builtin_amdgcn_mfma_f32_32x32x4bf16(a.lo, b.lo, c, 0, 0, 0);
    return __builtin_amdgcn_mfma_f32_32x32x4bf16(a.hi, b.hi, c, 0, 0, 0);
}
#else
OPS_DEVICE Floats mma_run(Bfloats a, Bfloats b, Floats c) {
    return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
}
OPS_DEVICE ManyFloats mma_run(Bfloats a, Bfloats b, ManyFloats c) {
    return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
}
#endif
OPS_DEVICE Ints mma_run(Bytes a, Bytes b, Ints c) { return OPS_MFMA_I8(16x16x32, 16x16x16)(a, b, c, 0, 0, 0); }
OPS_DEVICE ManyInts mma_run(Bytes a, Bytes b, ManyInts c) { return OPS_MFMA_I8(32x32x16, 32x32x8)(a, b, c, 0, 0, 0); }
#undef OPS_MFMA_I8
#endif

template <> struct MmaOperand<f16> { using type = Halves; };
template <> struct MmaOperand<bf16> { using type = Bfloats; };
template <> struct MmaOperand<i8> { using type = Bytes; };

// A vector, not an array, so that its registers stay together where control flow merges.
template <typename T, u32 SIZE> struct MmaSums { Lanes<typename MmaSum<T>::type, SIZE * SIZE / OPS_WAVE> v; };

template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    using Operand = typename MmaOperand<T>::type;
    c.v = mma_run(bits_as<Operand>(a), bits_as<Operand>(b), c.v);
}

}  // namespace ops
