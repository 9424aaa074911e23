// Products with two weights of the same extents and strides, the gate and the up of a gated unit: of the columns that lanes compute
// together, the first half are rows of the gate and the second the same rows of the up.
#pragma once
#include "ops_math.h"

namespace ops {

// Outputs of `COLUMNS` columns.
template <bool PAIRED, u32 COLUMNS> OPS_DEVICE constexpr u32 outputs_of() { return PAIRED ? COLUMNS / 2 : COLUMNS; }

// silu(gate) * up
template <typename A> OPS_DEVICE A gated(A gate, A up) { return gate * sigmoid(gate) * up; }

}  // namespace ops
