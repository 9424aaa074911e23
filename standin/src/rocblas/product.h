// D = alpha * op(A) * op(B) + beta * C over batches, column-major: the one operation behind gemm and gemv.
#pragma once

#include "rocblas/handle.h"

namespace standin {

/// A batch of column-major matrices; element (i, j) of matrix b is at i * row + j * column + b * batch.
struct Matrices {
  const void* data = nullptr;
  rocblas_datatype type = rocblas_datatype_f32_r;
  int64_t rows = 0, columns = 0;
  int64_t row_stride = 1, column_stride = 0, batch_stride = 0;

  /// op(.): the same memory with rows and columns exchanged.
  Matrices transposed() const;
};

/// `a` and `b` are already op(A) and op(B). `alpha` and `beta` have the type `compute` and are in host or device
/// memory, according to the handle's pointer mode.
struct Product {
  const char* function;
  const void* alpha;
  const void* beta;
  Matrices a, b, c, d;
  int64_t batch_count = 1;
  rocblas_datatype compute = rocblas_datatype_f32_r;
};

/// Bytes per element; 0 for a type that the stand-in does not support.
size_t element_bytes(rocblas_datatype type);

/// Checks the operands' memory and enqueues the work on the handle's stream.
rocblas_status run(const _rocblas_handle& handle, const Product& product);

/// The arithmetic, on the host. Scalars are read from `alpha` and `beta`.
void compute(const Product& product, const void* alpha, const void* beta);

}  // namespace standin
