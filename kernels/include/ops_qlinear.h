// Shared by the qlinear kernels: arguments, and the address of a row.
#pragma once
#include "ops_view.h"

namespace ops {

struct QLinearArgs {
    Shape shape;  // of x; the last dimension is k
    Operand x;
    Operand y;  // the last stride is along n
    Address<const void> weight;
    i64 weight_row;    // in blocks
    i64 weight_block;  // in blocks
    u64 rows;          // of x
    u64 n;
    u64 k;
    u64 lanes;  // lanes of a wave per row of the weight; unused by tiles
    Address<void> planes;    // x rounded to bytes, for byte dot products
    u64 plane_rows;  // rows in `planes`, including the padding rows that these products read
    u64 y_kind;      // FloatKind of y, for these products
    Address<const void> up;  // for products of pairs: a second weight, with the strides of the first
    Address<const f32> norm;  // for one row: the weight of a norm of x; null without one
    f64 eps;
    Operand added;   // for byte dot products: added to y; data is null if there is nothing to add
    u64 added_kind;  // its FloatKind
};

template <typename T> OPS_DEVICE T* row_at(const Shape& shape, const Operand& operand, u64 row) {
    return static_cast<T*>(operand.data) + offset_of<4>(shape, operand, row);
}

}  // namespace ops
