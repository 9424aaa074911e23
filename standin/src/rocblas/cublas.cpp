#include "rocblas/cublas.h"

#include <dlfcn.h>
#include <algorithm>
#include <map>
#include <mutex>

namespace standin {
namespace {

using CublasHandle = struct cublasContext*;

// Constants of cuBLAS.
enum { cublas_no_transpose = 0, cublas_transpose = 1 };
enum { cublas_scalars_on_host = 0, cublas_scalars_on_device = 1 };
constexpr int cublas_default_algorithm = -1;
// Partial sums of 16-bit types stay in f32, as in rocBLAS with compute type f32.
constexpr int cublas_disallow_reduced_precision_reduction = 16;

struct Cublas {
  int (*create)(CublasHandle*);
  int (*set_stream)(CublasHandle, void* stream);
  int (*set_pointer_mode)(CublasHandle, int mode);
  int (*set_math_mode)(CublasHandle, int mode);
  int (*gemm)(CublasHandle, int trans_a, int trans_b, int m, int n, int k, const void* alpha, const void* a, int a_type,
              int lda, long long stride_a, const void* b, int b_type, int ldb, long long stride_b, const void* beta,
              void* c, int c_type, int ldc, long long stride_c, int batch_count, int compute, int algorithm);
};

const Cublas* load() {
  for (const char* name : {"libcublas.so", "libcublas.so.13", "libcublas.so.12"}) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    static Cublas c;
    c.create = reinterpret_cast<decltype(c.create)>(dlsym(library, "cublasCreate_v2"));
    c.set_stream = reinterpret_cast<decltype(c.set_stream)>(dlsym(library, "cublasSetStream_v2"));
    c.set_pointer_mode = reinterpret_cast<decltype(c.set_pointer_mode)>(dlsym(library, "cublasSetPointerMode_v2"));
    c.set_math_mode = reinterpret_cast<decltype(c.set_math_mode)>(dlsym(library, "cublasSetMathMode"));
    c.gemm = reinterpret_cast<decltype(c.gemm)>(dlsym(library, "cublasGemmStridedBatchedEx"));
    if (c.create && c.set_stream && c.set_pointer_mode && c.set_math_mode && c.gemm) return &c;
  }
  return nullptr;
}

int data_type(rocblas_datatype type) {
  switch (type) {
    case rocblas_datatype_f16_r: return 2;
    case rocblas_datatype_bf16_r: return 14;
    case rocblas_datatype_f64_r: return 1;
    case rocblas_datatype_i8_r: return 3;
    case rocblas_datatype_i32_r: return 10;
    default: return 0;
  }
}

int compute_type(rocblas_datatype type) {
  switch (type) {
    case rocblas_datatype_f16_r: return 64;
    case rocblas_datatype_f64_r: return 70;
    case rocblas_datatype_i32_r: return 72;
    default: return 68;
  }
}

/// A matrix as BLAS describes it.
struct BlasMatrix {
  int transpose;
  int64_t leading;
};

BlasMatrix blas_matrix(const Matrices& m) {
  if (m.row_stride == 1 || m.rows == 1) return {cublas_no_transpose, std::max({m.column_stride, m.rows, int64_t(1)})};
  return {cublas_transpose, std::max({m.row_stride, m.columns, int64_t(1)})};
}

// cuBLAS works in place, so C's columns are copied to D first.
hipError_t copy_c_to_d(EngineStream& stream, const Product& p) {
  if (p.c.data == p.d.data) return hipSuccess;
  const auto bytes = int64_t(element_bytes(p.d.type));
  const auto* from = static_cast<const char*>(p.c.data);
  auto* to = static_cast<char*>(const_cast<void*>(p.d.data));
  for (int64_t batch = 0; batch < p.batch_count; ++batch)
    for (int64_t j = 0; j < p.d.columns; ++j) {
      const int64_t at_c = (batch * p.c.batch_stride + j * p.c.column_stride) * bytes;
      const int64_t at_d = (batch * p.d.batch_stride + j * p.d.column_stride) * bytes;
      if (const hipError_t error = engine().copy(stream, to + at_d, from + at_c, size_t(p.d.rows * bytes)))
        return error;
    }
  return hipSuccess;
}

}  // namespace

rocblas_status run_on_cublas(const StreamTarget& target, bool scalars_on_device, bool reads_c, const Product& given) {
  static const Cublas* const cublas = load();
  static std::mutex mutex;
  static auto* const handles = new std::map<int, CublasHandle>;  // by device
  if (!cublas) return rocblas_status_internal_error;
  Product p = given;
  if (blas_matrix(p.d).transpose == cublas_transpose) {  // D is a vector with gaps: compute D^T = op(B)^T op(A)^T
    p.a = given.b.transposed();
    p.b = given.a.transposed();
    p.c = given.c.transposed();
    p.d = given.d.transposed();
  }
  std::lock_guard<std::mutex> lock(mutex);
  void* stream = engine().native_stream(*target.engine);  // also makes the device current
  CublasHandle& handle = (*handles)[target.device];
  if (!handle && cublas->create(&handle) != 0) return rocblas_status_internal_error;
  if (reads_c && copy_c_to_d(*target.engine, p) != hipSuccess) return rocblas_status_internal_error;
  const BlasMatrix a = blas_matrix(p.a), b = blas_matrix(p.b), d = blas_matrix(p.d);
  const int mode = scalars_on_device ? cublas_scalars_on_device : cublas_scalars_on_host;
  const bool failed = cublas->set_stream(handle, stream) != 0 || cublas->set_pointer_mode(handle, mode) != 0 ||
                      cublas->set_math_mode(handle, cublas_disallow_reduced_precision_reduction) != 0 ||
                      cublas->gemm(handle, a.transpose, b.transpose, int(p.d.rows), int(p.d.columns), int(p.a.columns),
                                   p.alpha, p.a.data, data_type(p.a.type), int(a.leading), p.a.batch_stride, p.b.data,
                                   data_type(p.b.type), int(b.leading), p.b.batch_stride, p.beta,
                                   const_cast<void*>(p.d.data), data_type(p.d.type), int(d.leading), p.d.batch_stride,
                                   int(p.batch_count), compute_type(p.compute), cublas_default_algorithm) != 0;
  return failed ? rocblas_status_internal_error : rocblas_status_success;
}

}  // namespace standin
