// The gemm functions: check the arguments as documented, then compute one matrix product.
#include "rocblas/product.h"

using namespace standin;

namespace {

struct Gemm {
  const char* function;
  rocblas_operation trans_a, trans_b;
  int64_t m, n, k;
  const void* alpha;
  const void* a;
  rocblas_datatype a_type;
  int64_t lda, stride_a;
  const void* b;
  rocblas_datatype b_type;
  int64_t ldb, stride_b;
  const void* beta;
  const void* c;
  rocblas_datatype c_type;
  int64_t ldc, stride_c;
  void* d;
  rocblas_datatype d_type;
  int64_t ldd, stride_d;
  int64_t batch_count;
  rocblas_datatype compute;
};

bool known(rocblas_operation op) {
  return op == rocblas_operation_none || op == rocblas_operation_transpose ||
         op == rocblas_operation_conjugate_transpose;
}

// The real-valued combinations in the documentation's table.
bool supported(const Gemm& g) {
  if (g.a_type != g.b_type || g.c_type != g.d_type) return false;
  const auto is = [&](rocblas_datatype in, rocblas_datatype out, rocblas_datatype compute) {
    return g.a_type == in && g.c_type == out && g.compute == compute;
  };
  return is(rocblas_datatype_f64_r, rocblas_datatype_f64_r, rocblas_datatype_f64_r) ||
         is(rocblas_datatype_f32_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r) ||
         is(rocblas_datatype_f16_r, rocblas_datatype_f16_r, rocblas_datatype_f16_r) ||
         is(rocblas_datatype_f16_r, rocblas_datatype_f16_r, rocblas_datatype_f32_r) ||
         is(rocblas_datatype_f16_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r) ||
         is(rocblas_datatype_bf16_r, rocblas_datatype_bf16_r, rocblas_datatype_f32_r) ||
         is(rocblas_datatype_bf16_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r) ||
         is(rocblas_datatype_i8_r, rocblas_datatype_i32_r, rocblas_datatype_i32_r);
}

Matrices column_major(const void* data, rocblas_datatype type, int64_t rows, int64_t columns, int64_t ld,
                      int64_t stride) {
  return {data, type, rows, columns, 1, ld, stride};
}

rocblas_status gemm(rocblas_handle handle, const Gemm& g) {
  return rocblas_call(g.function, handle, [&](_rocblas_handle& h) {
    if (!known(g.trans_a) || !known(g.trans_b)) return rocblas_status_invalid_value;
    if (g.m < 0 || g.n < 0 || g.k < 0 || g.batch_count < 0) return rocblas_status_invalid_size;
    const bool a_straight = g.trans_a == rocblas_operation_none;
    const bool b_straight = g.trans_b == rocblas_operation_none;
    if (g.lda < (a_straight ? g.m : g.k) || g.ldb < (b_straight ? g.k : g.n) || g.ldc < g.m || g.ldd < g.m)
      return rocblas_status_invalid_size;
    if (!supported(g)) return rocblas_status_not_implemented;
    if (g.m == 0 || g.n == 0 || g.batch_count == 0) return rocblas_status_success;
    if (!g.alpha || !g.beta) return rocblas_status_invalid_pointer;
    if (g.stride_a < 0 || g.stride_b < 0 || g.stride_c < 0 || g.stride_d < 0) return rocblas_status_not_implemented;
    Product p{g.function, g.alpha, g.beta, {}, {}, {}, {}, g.batch_count, g.compute};
    p.a = a_straight ? column_major(g.a, g.a_type, g.m, g.k, g.lda, g.stride_a)
                     : column_major(g.a, g.a_type, g.k, g.m, g.lda, g.stride_a).transposed();
    p.b = b_straight ? column_major(g.b, g.b_type, g.k, g.n, g.ldb, g.stride_b)
                     : column_major(g.b, g.b_type, g.n, g.k, g.ldb, g.stride_b).transposed();
    p.c = column_major(g.c, g.c_type, g.m, g.n, g.ldc, g.stride_c);
    p.d = column_major(g.d, g.d_type, g.m, g.n, g.ldd, g.stride_d);
    return run(h, p);
  });
}

// The typed functions: a single type, and C in place.
rocblas_status plain_gemm(const char* function, rocblas_handle handle, rocblas_datatype type, rocblas_operation trans_a,
                          rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k, const void* alpha,
                          const void* a, rocblas_int lda, const void* b, rocblas_int ldb, const void* beta, void* c,
                          rocblas_int ldc, rocblas_stride stride_a = 0, rocblas_stride stride_b = 0,
                          rocblas_stride stride_c = 0, rocblas_int batch_count = 1) {
  return gemm(handle, {function, trans_a,  trans_b, m, n,    k,   alpha,    a, type, lda, stride_a, b,           type,
                       ldb,      stride_b, beta,    c, type, ldc, stride_c, c, type, ldc, stride_c, batch_count, type});
}

}  // namespace

extern "C" {

rocblas_status rocblas_gemm_ex(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b,
                               rocblas_int m, rocblas_int n, rocblas_int k, const void* alpha, const void* a,
                               rocblas_datatype a_type, rocblas_int lda, const void* b, rocblas_datatype b_type,
                               rocblas_int ldb, const void* beta, const void* c, rocblas_datatype c_type,
                               rocblas_int ldc, void* d, rocblas_datatype d_type, rocblas_int ldd,
                               rocblas_datatype compute_type, rocblas_gemm_algo, int32_t, uint32_t) {
  return gemm(handle, {__func__, trans_a, trans_b, m, n,      k,   alpha, a, a_type, lda, 0, b, b_type,
                       ldb,      0,       beta,    c, c_type, ldc, 0,     d, d_type, ldd, 0, 1, compute_type});
}

rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m, rocblas_int n,
    rocblas_int k, const void* alpha, const void* a, rocblas_datatype a_type, rocblas_int lda, rocblas_stride stride_a,
    const void* b, rocblas_datatype b_type, rocblas_int ldb, rocblas_stride stride_b, const void* beta, const void* c,
    rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c, void* d, rocblas_datatype d_type,
    rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count, rocblas_datatype compute_type, rocblas_gemm_algo,
    int32_t, uint32_t) {
  return gemm(handle, {__func__, trans_a,  trans_b, m,      n,   k,        alpha,       a,           a_type,
                       lda,      stride_a, b,       b_type, ldb, stride_b, beta,        c,           c_type,
                       ldc,      stride_c, d,       d_type, ldd, stride_d, batch_count, compute_type});
}

// Takes arrays of pointers, which no caller here uses.
rocblas_status rocblas_gemm_batched_ex(rocblas_handle handle, rocblas_operation, rocblas_operation, rocblas_int,
                                       rocblas_int, rocblas_int, const void*, const void*, rocblas_datatype,
                                       rocblas_int, const void*, rocblas_datatype, rocblas_int, const void*,
                                       const void*, rocblas_datatype, rocblas_int, void*, rocblas_datatype, rocblas_int,
                                       rocblas_int, rocblas_datatype, rocblas_gemm_algo, int32_t, uint32_t) {
  return rocblas_call(__func__, handle, [](_rocblas_handle&) { return rocblas_status_not_implemented; });
}

rocblas_status rocblas_sgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const float* alpha, const float* a, rocblas_int lda,
                             const float* b, rocblas_int ldb, const float* beta, float* c, rocblas_int ldc) {
  return plain_gemm(__func__, handle, rocblas_datatype_f32_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc);
}

rocblas_status rocblas_dgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const double* alpha, const double* a, rocblas_int lda,
                             const double* b, rocblas_int ldb, const double* beta, double* c, rocblas_int ldc) {
  return plain_gemm(__func__, handle, rocblas_datatype_f64_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc);
}

rocblas_status rocblas_hgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const rocblas_half* alpha, const rocblas_half* a,
                             rocblas_int lda, const rocblas_half* b, rocblas_int ldb, const rocblas_half* beta,
                             rocblas_half* c, rocblas_int ldc) {
  return plain_gemm(__func__, handle, rocblas_datatype_f16_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc);
}

rocblas_status rocblas_sgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const float* alpha, const float* a, rocblas_int lda,
                                             rocblas_stride stride_a, const float* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const float* beta, float* c, rocblas_int ldc,
                                             rocblas_stride stride_c, rocblas_int batch_count) {
  return plain_gemm(__func__, handle, rocblas_datatype_f32_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc, stride_a, stride_b, stride_c, batch_count);
}

rocblas_status rocblas_dgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const double* alpha, const double* a, rocblas_int lda,
                                             rocblas_stride stride_a, const double* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const double* beta, double* c, rocblas_int ldc,
                                             rocblas_stride stride_c, rocblas_int batch_count) {
  return plain_gemm(__func__, handle, rocblas_datatype_f64_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc, stride_a, stride_b, stride_c, batch_count);
}

rocblas_status rocblas_hgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const rocblas_half* alpha, const rocblas_half* a, rocblas_int lda,
                                             rocblas_stride stride_a, const rocblas_half* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const rocblas_half* beta, rocblas_half* c,
                                             rocblas_int ldc, rocblas_stride stride_c, rocblas_int batch_count) {
  return plain_gemm(__func__, handle, rocblas_datatype_f16_r, trans_a, trans_b, m, n, k, alpha, a, lda, b, ldb, beta, c,
                    ldc, stride_a, stride_b, stride_c, batch_count);
}

}  // extern "C"
