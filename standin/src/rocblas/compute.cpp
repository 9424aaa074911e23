// The arithmetic of a matrix product, in the simplest form that is fast enough for tests.
#include <vector>

#include "core/half.h"
#include "rocblas/product.h"

namespace standin {
namespace {

template <class Acc>
Acc load(const void* data, rocblas_datatype type, int64_t index) {
  switch (type) {
    case rocblas_datatype_f16_r: return Acc(f16_to_float(static_cast<const uint16_t*>(data)[index]));
    case rocblas_datatype_bf16_r: return Acc(bf16_to_float(static_cast<const uint16_t*>(data)[index]));
    case rocblas_datatype_f64_r: return Acc(static_cast<const double*>(data)[index]);
    case rocblas_datatype_i8_r: return Acc(static_cast<const int8_t*>(data)[index]);
    case rocblas_datatype_i32_r: return Acc(static_cast<const int32_t*>(data)[index]);
    default: return Acc(static_cast<const float*>(data)[index]);
  }
}

template <class Acc>
void store(void* data, rocblas_datatype type, int64_t index, Acc value) {
  switch (type) {
    case rocblas_datatype_f16_r: static_cast<uint16_t*>(data)[index] = float_to_f16(float(value)); break;
    case rocblas_datatype_bf16_r: static_cast<uint16_t*>(data)[index] = float_to_bf16(float(value)); break;
    case rocblas_datatype_f64_r: static_cast<double*>(data)[index] = double(value); break;
    case rocblas_datatype_i32_r: static_cast<int32_t*>(data)[index] = int32_t(value); break;
    default: static_cast<float*>(data)[index] = float(value);
  }
}

// Packs one matrix of the batch, row by row without gaps.
template <class Acc>
std::vector<Acc> packed(const Matrices& m, int64_t batch) {
  std::vector<Acc> out(size_t(m.rows * m.columns));
  Acc* next = out.data();
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j)
      *next++ = load<Acc>(m.data, m.type, i * m.row_stride + j * m.column_stride + batch * m.batch_stride);
  return out;
}

// Sums in several lanes, like a GPU: more precise than one running total, and faster.
template <class Acc>
Acc dot(const Acc* a, const Acc* b, int64_t count) {
  constexpr int lanes = 8;
  Acc sums[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (; i < count; ++i) sums[i % lanes] += a[i] * b[i];
  for (int step = lanes / 2; step; step /= 2)
    for (int lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
  return sums[0];
}

template <class Acc>
void multiply(const Product& p, Acc alpha, Acc beta) {
  void* out = const_cast<void*>(p.d.data);
  for (int64_t batch = 0; batch < p.batch_count; ++batch) {
    // By definition, an operand with a factor of zero is not read, so NaNs in it have no effect.
    const bool product = alpha != Acc(0) && p.a.columns != 0;
    const std::vector<Acc> a = product ? packed<Acc>(p.a, batch) : std::vector<Acc>();
    const std::vector<Acc> b = product ? packed<Acc>(p.b.transposed(), batch) : std::vector<Acc>();
    for (int64_t j = 0; j < p.d.columns; ++j)
      for (int64_t i = 0; i < p.d.rows; ++i) {
        const int64_t k = p.a.columns;
        Acc value = product ? Acc(alpha * dot(a.data() + i * k, b.data() + j * k, k)) : Acc(0);
        if (beta != Acc(0))
          value += beta *
                   load<Acc>(p.c.data, p.c.type, i * p.c.row_stride + j * p.c.column_stride + batch * p.c.batch_stride);
        store(out, p.d.type, i * p.d.row_stride + j * p.d.column_stride + batch * p.d.batch_stride, value);
      }
  }
}

}  // namespace

Matrices Matrices::transposed() const {
  Matrices t = *this;
  std::swap(t.rows, t.columns);
  std::swap(t.row_stride, t.column_stride);
  return t;
}

size_t element_bytes(rocblas_datatype type) {
  switch (type) {
    case rocblas_datatype_i8_r: return 1;
    case rocblas_datatype_f16_r:
    case rocblas_datatype_bf16_r: return 2;
    case rocblas_datatype_f32_r:
    case rocblas_datatype_i32_r: return 4;
    case rocblas_datatype_f64_r: return 8;
    default: return 0;
  }
}

void compute(const Product& p, const void* alpha, const void* beta) {
  switch (p.compute) {
    case rocblas_datatype_f64_r:
      multiply(p, *static_cast<const double*>(alpha), *static_cast<const double*>(beta));
      break;
    case rocblas_datatype_i32_r:  // unsigned inside: sums wrap
      multiply<uint32_t>(p, *static_cast<const uint32_t*>(alpha), *static_cast<const uint32_t*>(beta));
      break;
    default:  // f16 scalars, but sums in f32
      multiply(p, load<float>(alpha, p.compute, 0), load<float>(beta, p.compute, 0));
  }
}

}  // namespace standin
