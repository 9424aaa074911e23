// Checks the operands of a matrix product and enqueues it on the handle's stream.
#include "rocblas/product.h"

#include <array>
#include <cstring>

#include "rocblas/cublas.h"

namespace standin {
namespace {

constexpr size_t largest_scalar = 8;
using Scalar = std::array<char, largest_scalar>;

// Elements from the first to the last that an operand spans. Strides are never negative here.
DeviceRange extent(const Matrices& m, int64_t batch_count) {
  if (m.rows == 0 || m.columns == 0 || batch_count == 0) return {nullptr, 0};
  const int64_t last =
      (m.rows - 1) * m.row_stride + (m.columns - 1) * m.column_stride + (batch_count - 1) * m.batch_stride;
  return {const_cast<void*>(m.data), size_t(last + 1) * element_bytes(m.type)};
}

Scalar read_scalar(const void* from, rocblas_datatype type) {
  Scalar scalar{};
  std::memcpy(scalar.data(), from, element_bytes(type));
  return scalar;
}

bool is_zero(const Scalar& scalar, rocblas_datatype type) {
  Scalar negative_zero{};
  const size_t bytes = element_bytes(type);
  if (type != rocblas_datatype_i32_r) negative_zero[bytes - 1] = char(0x80);
  return scalar == Scalar{} || scalar == negative_zero;
}

}  // namespace

rocblas_status run(const _rocblas_handle& handle, const Product& product) {
  if (handle.workspace)
    if (const hipError_t error = check_device_range("rocblas", "workspace", handle.workspace, handle.workspace_bytes))
      return from_hip(error);
  StreamTarget stream;
  if (const hipError_t error = resolve(product.function, handle.stream, &stream)) return from_hip(error);
  const bool scalars_on_device = handle.pointer_mode == rocblas_pointer_mode_device;
  Scalar alpha{}, beta{};
  bool reads_product = true, reads_c = true;
  if (!scalars_on_device) {  // read now: they may be gone when the work runs
    alpha = read_scalar(product.alpha, product.compute);
    beta = read_scalar(product.beta, product.compute);
    reads_product = !is_zero(alpha, product.compute) && product.a.columns != 0;
    reads_c = !is_zero(beta, product.compute);
  }
  const size_t scalar_bytes = scalars_on_device ? element_bytes(product.compute) : 0;
  const Matrices none;
  const std::vector<DeviceRange> ranges = {extent(reads_product ? product.a : none, product.batch_count),
                                           extent(reads_product ? product.b : none, product.batch_count),
                                           extent(reads_c ? product.c : none, product.batch_count),
                                           extent(product.d, product.batch_count),
                                           {const_cast<void*>(product.alpha), scalar_bytes},
                                           {const_cast<void*>(product.beta), scalar_bytes}};
  static const char* const roles[] = {"A", "B", "C", "D", "alpha", "beta"};
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes != 0 && !ranges[i].ptr) return rocblas_status_invalid_pointer;
    if (const hipError_t error = check_device_range(product.function, roles[i], ranges[i].ptr, ranges[i].bytes))
      return from_hip(error);
  }
  // rocBLAS adds C in the compute type and rounds the sum once. cuBLAS rounds the product to f16 first.
  const bool rounds_early = reads_c && element_bytes(product.d.type) < element_bytes(product.compute);
  if (config().engine == EngineKind::Cuda && !rounds_early)
    return run_on_cublas(stream, scalars_on_device, reads_c, product);
  return from_hip(engine().run_on_host(*stream.engine, ranges, [=](void* const* at) {
    Product p = product;
    p.a.data = at[0];
    p.b.data = at[1];
    p.c.data = at[2];
    p.d.data = at[3];
    compute(p, scalars_on_device ? at[4] : alpha.data(), scalars_on_device ? at[5] : beta.data());
  }));
}

}  // namespace standin
