// What the kernels of qlinear have in common: arguments, and where a row lies.
#pragma once
#include "ops_view.h"

namespace ops {

struct QLinearArgs {
    Shape shape;  // of x, its last dimension k
    Operand x;
    Operand y;  // its last stride is along n
    Address<const void> weight;
    i64 weight_row;    // in blocks
    i64 weight_block;  // in blocks
    u64 rows;          // of x
    u64 n;
    u64 k;
    u64 lanes;  // of a wave to a row of the weight; tiles ignore it
    Address<void> planes;    // x in digits, where products are of bytes
    u64 plane_rows;  // rows of it, with those past the end that products take along
};

template <typename T> OPS_DEVICE T* row_at(const Shape& shape, const Operand& operand, u64 row) {
    return static_cast<T*>(operand.data) + offset_of<4>(shape, operand, row);
}

}  // namespace ops
