// The matrix instructions, one function for each type and size; see ops_mma.h.
#pragma once
#include "ops_tile.h"

namespace ops {

template <typename E, u32 N> using Lanes = E __attribute__((ext_vector_type(N)));

template <typename T, u32 SIZE> struct MatrixUnit;

#if OPS_MATRIX == 11 || OPS_MATRIX == 12
using WmmaF32 = Lanes<float, 8>;
using WmmaI32 = Lanes<int, 8>;
#if OPS_MATRIX == 11
#define OPS_WMMA(name) __builtin_amdgcn_wmma_##name##_w32
constexpr u32 WMMA_HELD = 16;
#else
#define OPS_WMMA(name) __builtin_amdgcn_wmma_##name##_w32_gfx12
constexpr u32 WMMA_HELD = 8;
#endif

template <> struct MatrixUnit<f16, 16> {
    using Operand = Lanes<_Float16, WMMA_HELD>;
    using Sums = WmmaF32;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) { return OPS_WMMA(f32_16x16x16_f16)(a, b, c); }
};
template <> struct MatrixUnit<bf16, 16> {
    using Operand = Lanes<short, WMMA_HELD>;
    using Sums = WmmaF32;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) { return OPS_WMMA(f32_16x16x16_bf16)(a, b, c); }
};
template <> struct MatrixUnit<i8, 16> {
    using Operand = Lanes<int, WMMA_HELD / 4>;
    using Sums = WmmaI32;
    // Both operands signed, sums not clamped.
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return OPS_WMMA(i32_16x16x16_iu8)(true, a, true, b, c, false);
    }
};
#undef OPS_WMMA
#else
// The last three arguments broadcast and permute blocks; one block needs none of it.
template <> struct MatrixUnit<f16, 16> {
    using Operand = Lanes<_Float16, 4>;
    using Sums = Lanes<float, 4>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, 0, 0, 0);
    }
};
template <> struct MatrixUnit<f16, 32> {
    using Operand = Lanes<_Float16, 4>;
    using Sums = Lanes<float, 16>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0);
    }
};
template <> struct MatrixUnit<bf16, 16> {
    using Operand = Lanes<short, 4>;
    using Sums = Lanes<float, 4>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, 0, 0, 0);
    }
};
template <> struct MatrixUnit<bf16, 32> {
    using Operand = Lanes<short, 4>;
    using Sums = Lanes<float, 16>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0);
    }
};
#if OPS_MATRIX == 90
#define OPS_MFMA_I8(wide, narrow) __builtin_amdgcn_mfma_i32_##narrow##i8
using MfmaI8 = int;
#else
#define OPS_MFMA_I8(wide, narrow) __builtin_amdgcn_mfma_i32_##wide##_i8
using MfmaI8 = long;
#endif
template <> struct MatrixUnit<i8, 16> {
    using Operand = MfmaI8;
    using Sums = Lanes<int, 4>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return OPS_MFMA_I8(16x16x32, 16x16x16)(a, b, c, 0, 0, 0);
    }
};
template <> struct MatrixUnit<i8, 32> {
    using Operand = MfmaI8;
    using Sums = Lanes<int, 16>;
    static OPS_METHOD Sums run(Operand a, Operand b, Sums c) {
        return OPS_MFMA_I8(32x32x16, 32x32x8)(a, b, c, 0, 0, 0);
    }
};
#undef OPS_MFMA_I8
#endif

// A vector, not an array: its registers then stay together where paths meet.
template <typename T, u32 SIZE> struct MmaSums { typename MatrixUnit<T, SIZE>::Sums v; };

template <typename T, u32 SIZE>
OPS_DEVICE void mma(const MmaFragment<T, SIZE>& a, const MmaFragment<T, SIZE>& b, MmaSums<T, SIZE>& c) {
    using Unit = MatrixUnit<T, SIZE>;
    c.v = Unit::run(bits_as<typename Unit::Operand>(a), bits_as<typename Unit::Operand>(b), c.v);
}

}  // namespace ops
