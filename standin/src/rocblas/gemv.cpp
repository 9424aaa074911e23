// The gemv functions: y = alpha * op(A) * x + beta * y, as a product with one column.
#include "rocblas/product.h"

using namespace standin;

namespace {

struct Vectors {
  const void* data;
  rocblas_datatype type;
  int64_t increment, stride;
};

Matrices column(const Vectors& v, int64_t length) { return {v.data, v.type, length, 1, v.increment, 0, v.stride}; }

rocblas_status gemv(const char* function, rocblas_handle handle, rocblas_operation trans, int64_t m, int64_t n,
                    rocblas_datatype compute, const void* alpha, const void* a, rocblas_datatype a_type, int64_t lda,
                    int64_t stride_a, const Vectors& x, const void* beta, const Vectors& y, int64_t batch_count) {
  return rocblas_call(function, handle, [&](_rocblas_handle& h) {
    if (trans < rocblas_operation_none || trans > rocblas_operation_conjugate_transpose)
      return rocblas_status_invalid_value;
    if (m < 0 || n < 0 || lda < m || lda < 1 || x.increment == 0 || y.increment == 0 || batch_count < 0)
      return rocblas_status_invalid_size;
    if (m == 0 || n == 0 || batch_count == 0) return rocblas_status_success;
    if (!alpha || !beta) return rocblas_status_invalid_pointer;
    if (x.increment < 0 || y.increment < 0 || stride_a < 0 || x.stride < 0 || y.stride < 0)
      return rocblas_status_not_implemented;
    const Matrices stored{a, a_type, m, n, 1, lda, stride_a};
    Product p{function, alpha, beta, {}, {}, {}, {}, batch_count, compute};
    p.a = trans == rocblas_operation_none ? stored : stored.transposed();
    p.b = column(x, p.a.columns);
    p.c = p.d = column(y, p.a.rows);
    return run(h, p);
  });
}

constexpr rocblas_datatype f16 = rocblas_datatype_f16_r;
constexpr rocblas_datatype bf16 = rocblas_datatype_bf16_r;
constexpr rocblas_datatype f32 = rocblas_datatype_f32_r;
constexpr rocblas_datatype f64 = rocblas_datatype_f64_r;

}  // namespace

extern "C" {

rocblas_status rocblas_sgemv(rocblas_handle handle, rocblas_operation trans, rocblas_int m, rocblas_int n,
                             const float* alpha, const float* a, rocblas_int lda, const float* x, rocblas_int incx,
                             const float* beta, float* y, rocblas_int incy) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, f32, lda, 0, {x, f32, incx, 0}, beta, {y, f32, incy, 0}, 1);
}

rocblas_status rocblas_dgemv(rocblas_handle handle, rocblas_operation trans, rocblas_int m, rocblas_int n,
                             const double* alpha, const double* a, rocblas_int lda, const double* x, rocblas_int incx,
                             const double* beta, double* y, rocblas_int incy) {
  return gemv(__func__, handle, trans, m, n, f64, alpha, a, f64, lda, 0, {x, f64, incx, 0}, beta, {y, f64, incy, 0}, 1);
}

rocblas_status rocblas_sgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                             rocblas_int n, const float* alpha, const float* a, rocblas_int lda,
                                             rocblas_stride stride_a, const float* x, rocblas_int incx,
                                             rocblas_stride stride_x, const float* beta, float* y, rocblas_int incy,
                                             rocblas_stride stride_y, rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, f32, lda, stride_a, {x, f32, incx, stride_x}, beta,
              {y, f32, incy, stride_y}, batch_count);
}

rocblas_status rocblas_dgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                             rocblas_int n, const double* alpha, const double* a, rocblas_int lda,
                                             rocblas_stride stride_a, const double* x, rocblas_int incx,
                                             rocblas_stride stride_x, const double* beta, double* y, rocblas_int incy,
                                             rocblas_stride stride_y, rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f64, alpha, a, f64, lda, stride_a, {x, f64, incx, stride_x}, beta,
              {y, f64, incy, stride_y}, batch_count);
}

rocblas_status rocblas_hshgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_half* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_half* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta,
                                               rocblas_half* y, rocblas_int incy, rocblas_stride stride_y,
                                               rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, f16, lda, stride_a, {x, f16, incx, stride_x}, beta,
              {y, f16, incy, stride_y}, batch_count);
}

rocblas_status rocblas_hssgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_half* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_half* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta, float* y,
                                               rocblas_int incy, rocblas_stride stride_y, rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, f16, lda, stride_a, {x, f16, incx, stride_x}, beta,
              {y, f32, incy, stride_y}, batch_count);
}

rocblas_status rocblas_tstgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_bfloat16* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_bfloat16* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta,
                                               rocblas_bfloat16* y, rocblas_int incy, rocblas_stride stride_y,
                                               rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, bf16, lda, stride_a, {x, bf16, incx, stride_x}, beta,
              {y, bf16, incy, stride_y}, batch_count);
}

rocblas_status rocblas_tssgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_bfloat16* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_bfloat16* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta, float* y,
                                               rocblas_int incy, rocblas_stride stride_y, rocblas_int batch_count) {
  return gemv(__func__, handle, trans, m, n, f32, alpha, a, bf16, lda, stride_a, {x, bf16, incx, stride_x}, beta,
              {y, f32, incy, stride_y}, batch_count);
}

}  // extern "C"
