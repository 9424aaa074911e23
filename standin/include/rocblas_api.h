// The part of rocBLAS's C interface that the stand-in exports, as published.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hip_api.h"

#ifdef STANDIN_REAL_HEADERS
#include <rocblas/rocblas.h>
#else

typedef enum rocblas_operation_ {
  rocblas_operation_none = 111,
  rocblas_operation_transpose = 112,
  rocblas_operation_conjugate_transpose = 113,
} rocblas_operation;

typedef enum rocblas_status_ {
  rocblas_status_success = 0,
  rocblas_status_invalid_handle = 1,
  rocblas_status_not_implemented = 2,
  rocblas_status_invalid_pointer = 3,
  rocblas_status_invalid_size = 4,
  rocblas_status_memory_error = 5,
  rocblas_status_internal_error = 6,
  rocblas_status_perf_degraded = 7,
  rocblas_status_size_query_mismatch = 8,
  rocblas_status_size_increased = 9,
  rocblas_status_size_unchanged = 10,
  rocblas_status_invalid_value = 11,
  rocblas_status_continue = 12,
  rocblas_status_check_numerics_fail = 13,
  rocblas_status_excluded_from_build = 14,
  rocblas_status_arch_mismatch = 15,
} rocblas_status;

typedef enum rocblas_datatype_ {
  rocblas_datatype_f16_r = 150,
  rocblas_datatype_f32_r = 151,
  rocblas_datatype_f64_r = 152,
  rocblas_datatype_i8_r = 160,
  rocblas_datatype_i32_r = 162,
  rocblas_datatype_bf16_r = 168,
} rocblas_datatype;

typedef enum rocblas_pointer_mode_ {
  rocblas_pointer_mode_host = 0,
  rocblas_pointer_mode_device = 1,
} rocblas_pointer_mode;

typedef enum rocblas_atomics_mode_ {
  rocblas_atomics_not_allowed = 0,
  rocblas_atomics_allowed = 1,
} rocblas_atomics_mode;

typedef enum rocblas_math_mode_ {
  rocblas_default_math = 0,
  rocblas_xf32_xdl_math_op = 1,
} rocblas_math_mode;

typedef enum rocblas_gemm_algo_ {
  rocblas_gemm_algo_standard = 0,
  rocblas_gemm_algo_solution_index = 1,
} rocblas_gemm_algo;

typedef struct rocblas_half {
  uint16_t data;
} rocblas_half;
typedef struct {
  uint16_t data;
} rocblas_bfloat16;
typedef int32_t rocblas_int;
typedef int64_t rocblas_stride;
typedef struct _rocblas_handle* rocblas_handle;

#pragma GCC visibility push(default)
extern "C" {
rocblas_status rocblas_create_handle(rocblas_handle* handle);
rocblas_status rocblas_destroy_handle(rocblas_handle handle);
rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream);
rocblas_status rocblas_get_stream(rocblas_handle handle, hipStream_t* stream);
rocblas_status rocblas_set_pointer_mode(rocblas_handle handle, rocblas_pointer_mode mode);
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode mode);
rocblas_status rocblas_set_math_mode(rocblas_handle handle, rocblas_math_mode mode);
rocblas_status rocblas_set_workspace(rocblas_handle handle, void* address, size_t bytes);
const char* rocblas_status_to_string(rocblas_status status);
void rocblas_initialize(void);
rocblas_status rocblas_get_version_string(char* text, size_t bytes);
rocblas_status rocblas_get_version_string_size(size_t* bytes);

rocblas_status rocblas_gemm_ex(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b,
                               rocblas_int m, rocblas_int n, rocblas_int k, const void* alpha, const void* a,
                               rocblas_datatype a_type, rocblas_int lda, const void* b, rocblas_datatype b_type,
                               rocblas_int ldb, const void* beta, const void* c, rocblas_datatype c_type,
                               rocblas_int ldc, void* d, rocblas_datatype d_type, rocblas_int ldd,
                               rocblas_datatype compute_type, rocblas_gemm_algo algo, int32_t solution, uint32_t flags);
rocblas_status rocblas_gemm_strided_batched_ex(
    rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m, rocblas_int n,
    rocblas_int k, const void* alpha, const void* a, rocblas_datatype a_type, rocblas_int lda, rocblas_stride stride_a,
    const void* b, rocblas_datatype b_type, rocblas_int ldb, rocblas_stride stride_b, const void* beta, const void* c,
    rocblas_datatype c_type, rocblas_int ldc, rocblas_stride stride_c, void* d, rocblas_datatype d_type,
    rocblas_int ldd, rocblas_stride stride_d, rocblas_int batch_count, rocblas_datatype compute_type,
    rocblas_gemm_algo algo, int32_t solution, uint32_t flags);
rocblas_status rocblas_gemm_batched_ex(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b,
                                       rocblas_int m, rocblas_int n, rocblas_int k, const void* alpha, const void* a,
                                       rocblas_datatype a_type, rocblas_int lda, const void* b, rocblas_datatype b_type,
                                       rocblas_int ldb, const void* beta, const void* c, rocblas_datatype c_type,
                                       rocblas_int ldc, void* d, rocblas_datatype d_type, rocblas_int ldd,
                                       rocblas_int batch_count, rocblas_datatype compute_type, rocblas_gemm_algo algo,
                                       int32_t solution, uint32_t flags);

rocblas_status rocblas_sgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const float* alpha, const float* a, rocblas_int lda,
                             const float* b, rocblas_int ldb, const float* beta, float* c, rocblas_int ldc);
rocblas_status rocblas_dgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const double* alpha, const double* a, rocblas_int lda,
                             const double* b, rocblas_int ldb, const double* beta, double* c, rocblas_int ldc);
rocblas_status rocblas_hgemm(rocblas_handle handle, rocblas_operation trans_a, rocblas_operation trans_b, rocblas_int m,
                             rocblas_int n, rocblas_int k, const rocblas_half* alpha, const rocblas_half* a,
                             rocblas_int lda, const rocblas_half* b, rocblas_int ldb, const rocblas_half* beta,
                             rocblas_half* c, rocblas_int ldc);
rocblas_status rocblas_sgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const float* alpha, const float* a, rocblas_int lda,
                                             rocblas_stride stride_a, const float* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const float* beta, float* c, rocblas_int ldc,
                                             rocblas_stride stride_c, rocblas_int batch_count);
rocblas_status rocblas_dgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const double* alpha, const double* a, rocblas_int lda,
                                             rocblas_stride stride_a, const double* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const double* beta, double* c, rocblas_int ldc,
                                             rocblas_stride stride_c, rocblas_int batch_count);
rocblas_status rocblas_hgemm_strided_batched(rocblas_handle handle, rocblas_operation trans_a,
                                             rocblas_operation trans_b, rocblas_int m, rocblas_int n, rocblas_int k,
                                             const rocblas_half* alpha, const rocblas_half* a, rocblas_int lda,
                                             rocblas_stride stride_a, const rocblas_half* b, rocblas_int ldb,
                                             rocblas_stride stride_b, const rocblas_half* beta, rocblas_half* c,
                                             rocblas_int ldc, rocblas_stride stride_c, rocblas_int batch_count);

rocblas_status rocblas_sgemv(rocblas_handle handle, rocblas_operation trans, rocblas_int m, rocblas_int n,
                             const float* alpha, const float* a, rocblas_int lda, const float* x, rocblas_int incx,
                             const float* beta, float* y, rocblas_int incy);
rocblas_status rocblas_dgemv(rocblas_handle handle, rocblas_operation trans, rocblas_int m, rocblas_int n,
                             const double* alpha, const double* a, rocblas_int lda, const double* x, rocblas_int incx,
                             const double* beta, double* y, rocblas_int incy);
rocblas_status rocblas_sgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                             rocblas_int n, const float* alpha, const float* a, rocblas_int lda,
                                             rocblas_stride stride_a, const float* x, rocblas_int incx,
                                             rocblas_stride stride_x, const float* beta, float* y, rocblas_int incy,
                                             rocblas_stride stride_y, rocblas_int batch_count);
rocblas_status rocblas_dgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                             rocblas_int n, const double* alpha, const double* a, rocblas_int lda,
                                             rocblas_stride stride_a, const double* x, rocblas_int incx,
                                             rocblas_stride stride_x, const double* beta, double* y, rocblas_int incy,
                                             rocblas_stride stride_y, rocblas_int batch_count);
rocblas_status rocblas_hshgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_half* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_half* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta,
                                               rocblas_half* y, rocblas_int incy, rocblas_stride stride_y,
                                               rocblas_int batch_count);
rocblas_status rocblas_hssgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_half* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_half* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta, float* y,
                                               rocblas_int incy, rocblas_stride stride_y, rocblas_int batch_count);
rocblas_status rocblas_tstgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_bfloat16* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_bfloat16* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta,
                                               rocblas_bfloat16* y, rocblas_int incy, rocblas_stride stride_y,
                                               rocblas_int batch_count);
rocblas_status rocblas_tssgemv_strided_batched(rocblas_handle handle, rocblas_operation trans, rocblas_int m,
                                               rocblas_int n, const float* alpha, const rocblas_bfloat16* a,
                                               rocblas_int lda, rocblas_stride stride_a, const rocblas_bfloat16* x,
                                               rocblas_int incx, rocblas_stride stride_x, const float* beta, float* y,
                                               rocblas_int incy, rocblas_stride stride_y, rocblas_int batch_count);
}
#pragma GCC visibility pop
#endif
