// Memory of any float type, for kernels that are compiled once for all of them.
#pragma once
#include "ops_types.h"

namespace ops {

// Element `at` of memory of any float type.
template <typename A> OPS_DEVICE A float_at(const void* data, u32 kind, i64 at) {
    if (kind == FLOAT_F16) return A(widen(static_cast<const f16*>(data)[at]));
    if (kind == FLOAT_BF16) return A(widen(static_cast<const bf16*>(data)[at]));
    if (kind == FLOAT_F32) return A(static_cast<const f32*>(data)[at]);
    return A(static_cast<const f64*>(data)[at]);
}

template <typename A> OPS_DEVICE void store_float(void* data, u32 kind, i64 at, A value) {
    if (kind == FLOAT_F16) {
        static_cast<f16*>(data)[at] = narrow<f16>(value);
    } else if (kind == FLOAT_BF16) {
        static_cast<bf16*>(data)[at] = narrow<bf16>(value);
    } else if (kind == FLOAT_F32) {
        static_cast<f32*>(data)[at] = narrow<f32>(value);
    } else {
        static_cast<f64*>(data)[at] = f64(value);
    }
}

}  // namespace ops
