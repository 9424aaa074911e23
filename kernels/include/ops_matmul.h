// Shared by the matmul kernels: arguments, and where a batch's matrices and the bias are in memory.
#pragma once
#include "ops_tile.h"

namespace ops {

// A batch of matrices: the strides of the batch dimensions, then those of the matrix.
struct Matrix {
    Operand batch;
    i64 row;
    i64 column;
};

struct MatmulArgs {
    Shape batches;
    Matrix a;
    Matrix b;
    Matrix c;
    u64 m;
    u64 n;
    u64 k;
    Address<const void> bias;  // null when absent
    i64 bias_stride;
    u64 bias_is_f32;  // otherwise it is of type T
    Address<const void> up;  // for products of pairs: a second b, with the strides of the first
    i64 bias_row;  // for few rows: from what is added to one row to the next; 0 for a bias
    Address<const f32> norm;  // for few rows of a: the weight of a norm of them
    f64 eps;
    u64 sharing;  // for few rows of a plain product: waves of a block that share their columns, a power of two
    u64 share;    // elements of k that each of them multiplies: whole packs for all lanes
};

template <typename T, typename W> struct SumOf {
    using type = typename choose<same<T, f64>::value || same<W, f64>::value, f64, f32>::type;
};

template <typename T, typename W> using sum_t = typename SumOf<T, W>::type;

template <typename T, typename A> OPS_DEVICE A bias_at(const MatmulArgs& args, u64 n, u64 m = 0) {
    if (args.bias == nullptr) return A(0);
    i64 at = i64(n) * args.bias_stride + i64(m) * args.bias_row;
    if (args.bias_is_f32 != 0) return A(static_cast<const f32*>(args.bias)[at]);
    return A(widen(static_cast<const T*>(args.bias)[at]));
}

template <typename T> OPS_DEVICE T* matrix_at(const Shape& batches, const Matrix& matrix, u64 batch) {
    return static_cast<T*>(matrix.batch.data) + offset_of<5>(batches, matrix.batch, batch);
}

}  // namespace ops
