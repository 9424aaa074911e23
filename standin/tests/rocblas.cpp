// rocBLAS: products of every type and transpose, compared with plain loops in double.
#include "check.h"
#include "rocblas_api.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/half.h"

namespace {

using standin::bf16_to_float;
using standin::f16_to_float;
using standin::float_to_bf16;
using standin::float_to_f16;

void must_blas(rocblas_status status, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (status == rocblas_status_success) return;
  std::printf("%s:%d: %s\n", file, line, rocblas_status_to_string(status));
  std::exit(1);
}

class Handle {
 public:
  Handle() { must_blas(rocblas_create_handle(&handle_)); }
  ~Handle() { must_blas(rocblas_destroy_handle(handle_)); }
  operator rocblas_handle() const { return handle_; }

 private:
  rocblas_handle handle_ = nullptr;
};

size_t size_of(rocblas_datatype type) {
  switch (type) {
    case rocblas_datatype_f64_r: return 8;
    case rocblas_datatype_f32_r:
    case rocblas_datatype_i32_r: return 4;
    case rocblas_datatype_i8_r: return 1;
    default: return 2;
  }
}

void encode(void* at, rocblas_datatype type, double value) {
  const float single = float(value);
  const int32_t whole = int32_t(value);
  const int8_t small = int8_t(value);
  const uint16_t half = type == rocblas_datatype_f16_r ? float_to_f16(single) : float_to_bf16(single);
  switch (type) {
    case rocblas_datatype_f64_r: std::memcpy(at, &value, 8); break;
    case rocblas_datatype_f32_r: std::memcpy(at, &single, 4); break;
    case rocblas_datatype_i32_r: std::memcpy(at, &whole, 4); break;
    case rocblas_datatype_i8_r: std::memcpy(at, &small, 1); break;
    default: std::memcpy(at, &half, 2);
  }
}

double decode(const void* at, rocblas_datatype type) {
  double value;
  float single;
  int32_t whole;
  int8_t small;
  uint16_t half;
  switch (type) {
    case rocblas_datatype_f64_r: std::memcpy(&value, at, 8); return value;
    case rocblas_datatype_f32_r: std::memcpy(&single, at, 4); return single;
    case rocblas_datatype_i32_r: std::memcpy(&whole, at, 4); return whole;
    case rocblas_datatype_i8_r: std::memcpy(&small, at, 1); return small;
    default:
      std::memcpy(&half, at, 2);
      return type == rocblas_datatype_f16_r ? f16_to_float(half) : bf16_to_float(half);
  }
}

// Numbers that every type here represents exactly: -4 to 4.
struct Numbers {
  uint32_t state = 1;
  double next() {
    state = state * 1664525 + 1013904223;
    return double(int(state >> 24) % 9) - 4;
  }
};

/// Column-major matrices of any type, in device memory and as doubles.
struct Operand {
  rocblas_datatype type;
  int64_t rows, columns, ld, stride;
  std::vector<double> values;
  Buffer<char> device;

  Operand(Numbers& numbers, rocblas_datatype type, int64_t rows, int64_t columns, int64_t padding, int64_t batches)
      : type(type),
        rows(rows),
        columns(columns),
        ld(rows + padding),
        stride(ld * columns + padding),
        values(make(numbers, size_t(stride * batches))),
        device(encoded()) {}

  static std::vector<double> make(Numbers& numbers, size_t count) {
    std::vector<double> values(count);
    for (double& value : values) value = numbers.next();
    return values;
  }
  std::vector<char> encoded() const {
    std::vector<char> bytes(values.size() * size_of(type));
    for (size_t i = 0; i < values.size(); ++i) encode(&bytes[i * size_of(type)], type, values[i]);
    return bytes;
  }
  double at(int64_t batch, int64_t i, int64_t j) const { return values[size_t(batch * stride + j * ld + i)]; }
  double op(bool transposed, int64_t batch, int64_t i, int64_t j) const {
    return transposed ? at(batch, j, i) : at(batch, i, j);
  }
};

struct Types {
  rocblas_datatype in, out, compute;
  double tolerance;
};

constexpr Types all_types[] = {
    {rocblas_datatype_f64_r, rocblas_datatype_f64_r, rocblas_datatype_f64_r, 1e-15},
    {rocblas_datatype_f32_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r, 1e-6},
    {rocblas_datatype_f16_r, rocblas_datatype_f16_r, rocblas_datatype_f32_r, 1e-3},
    {rocblas_datatype_f16_r, rocblas_datatype_f16_r, rocblas_datatype_f16_r, 1e-2},
    {rocblas_datatype_f16_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r, 1e-6},
    {rocblas_datatype_bf16_r, rocblas_datatype_bf16_r, rocblas_datatype_f32_r, 8e-3},
    {rocblas_datatype_bf16_r, rocblas_datatype_f32_r, rocblas_datatype_f32_r, 1e-6},
    {rocblas_datatype_i8_r, rocblas_datatype_i32_r, rocblas_datatype_i32_r, 0},
};

void gemm_case(rocblas_handle handle, const Types& types, bool trans_a, bool trans_b, double alpha, double beta) {
  constexpr int64_t m = 8, n = 12, k = 20, batches = 3;
  Numbers numbers;
  const int64_t padding = types.in == rocblas_datatype_i8_r ? 4 : 2;  // cuBLAS wants i8 columns aligned to 4 bytes
  Operand a(numbers, types.in, trans_a ? k : m, trans_a ? m : k, padding, batches);
  Operand b(numbers, types.in, trans_b ? n : k, trans_b ? k : n, padding, batches);
  Operand c(numbers, types.out, m, n, padding, batches);
  Operand d(numbers, types.out, m, n, padding, batches);
  const std::vector<char> before = d.device.read();
  char alpha_bytes[8], beta_bytes[8];
  encode(alpha_bytes, types.compute, alpha);
  encode(beta_bytes, types.compute, beta);
  const auto op = [](bool t) { return t ? rocblas_operation_transpose : rocblas_operation_none; };
  must_blas(rocblas_gemm_strided_batched_ex(
      handle, op(trans_a), op(trans_b), m, n, k, alpha_bytes, a.device.data(), types.in, int(a.ld), a.stride,
      b.device.data(), types.in, int(b.ld), b.stride, beta_bytes, c.device.data(), types.out, int(c.ld), c.stride,
      d.device.data(), types.out, int(d.ld), d.stride, batches, types.compute, rocblas_gemm_algo_standard, 0, 0));
  must(hipDeviceSynchronize());
  const std::vector<char> after = d.device.read();
  const size_t bytes = size_of(types.out);
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) sum += a.op(trans_a, batch, i, l) * b.op(trans_b, batch, l, j);
        const double wanted = alpha * sum + beta * c.at(batch, i, j);
        const double got = decode(&after[size_t(batch * d.stride + j * d.ld + i) * bytes], types.out);
        check(std::abs(got - wanted) <= types.tolerance * std::max(1., std::abs(wanted)), "an element of the product");
      }
      const size_t gap = size_t(batch * d.stride + j * d.ld + m) * bytes;
      check(std::memcmp(&before[gap], &after[gap], bytes * size_t(padding)) == 0, "between the columns");
    }
}

void products() {
  Handle handle;
  for (const Types& types : all_types)
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const auto& [alpha, beta] : {std::pair(1., 0.), std::pair(2., -1.), std::pair(0., 2.)})
          gemm_case(handle, types, trans_a, trans_b, alpha, beta);
}

void zero_factors_hide_nan() {
  Handle handle;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Buffer<float> a({nan}), b({1}), c({nan}), d({3});
  const float zero = 0, one = 1, two = 2;
  must_blas(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, &one, b.data(), 1, b.data(),
                          1, &zero, c.data(), 1));
  check_equal(c.read()[0], 1.f, "beta of zero");
  must_blas(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, &zero, a.data(), 1, b.data(),
                          1, &two, d.data(), 1));
  check_equal(d.read()[0], 6.f, "alpha of zero");
  must_blas(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 0, &one, a.data(), 1, b.data(),
                          1, &two, d.data(), 1));
  check_equal(d.read()[0], 12.f, "k of zero");
}

void vectors() {
  Handle handle;
  Numbers numbers;
  constexpr int m = 5, n = 7, batches = 2, incx = 2, incy = 3;
  for (const bool transposed : {false, true}) {
    Operand a(numbers, rocblas_datatype_f16_r, m, n, 1, batches);
    const int in = transposed ? m : n, out = transposed ? n : m;
    Operand x(numbers, rocblas_datatype_f16_r, in * incx, 1, 0, batches);
    Operand y(numbers, rocblas_datatype_f32_r, out * incy, 1, 0, batches);
    const float alpha = 2, beta = 1;
    must_blas(rocblas_hssgemv_strided_batched(handle, transposed ? rocblas_operation_transpose : rocblas_operation_none,
                                              m, n, &alpha, reinterpret_cast<rocblas_half*>(a.device.data()), int(a.ld),
                                              a.stride, reinterpret_cast<rocblas_half*>(x.device.data()), incx,
                                              x.stride, &beta, reinterpret_cast<float*>(y.device.data()), incy,
                                              y.stride, batches));
    const std::vector<char> got = y.device.read();
    for (int batch = 0; batch < batches; ++batch)
      for (int i = 0; i < out * incy; ++i) {
        double wanted = y.at(batch, i, 0);
        for (int l = 0; l < in && i % incy == 0; ++l)
          wanted += alpha * a.op(transposed, batch, i / incy, l) * x.at(batch, l * incx, 0);
        check_equal(decode(&got[size_t(batch * y.stride + i) * 4], rocblas_datatype_f32_r), wanted, "gemv");
      }
  }
}

void scalars_on_the_device() {
  Handle handle;
  Buffer<double> a({3}), c({5}), alpha({2}), beta({10});
  must_blas(rocblas_set_pointer_mode(handle, rocblas_pointer_mode_device));
  must_blas(rocblas_dgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, alpha.data(), a.data(), 1,
                          a.data(), 1, beta.data(), c.data(), 1));
  check_equal(c.read()[0], 68., "2 * 3 * 3 + 10 * 5");
}

void runs_on_its_stream() {
  Handle handle;
  hipStream_t stream = nullptr, got = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  must_blas(rocblas_set_stream(handle, stream));
  must_blas(rocblas_get_stream(handle, &got));
  check(got == stream, "the stream that was set");
  Buffer<float> a({0}), c({0});
  const float one = 1, zero = 0;
  must(hipMemsetD32Async(a.data(), 0x40000000, 1, stream));  // 2.0f, written before the product reads it
  must_blas(rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, &one, a.data(), 1, a.data(),
                          1, &zero, c.data(), 1));
  float value = 0;
  must(hipMemcpyAsync(&value, c.data(), 4, hipMemcpyDeviceToHost, stream));
  must(hipStreamSynchronize(stream));
  check_equal(value, 4.f, "in stream order");
  must_blas(rocblas_set_stream(handle, nullptr));
  must(hipStreamDestroy(stream));
}

void workspaces() {
  Handle handle;
  Buffer<float> a({3}), c({0});
  const float one = 1, zero = 0;
  const auto product = [&] {
    return rocblas_sgemm(handle, rocblas_operation_none, rocblas_operation_none, 1, 1, 1, &one, a.data(), 1, a.data(), 1,
                         &zero, c.data(), 1);
  };
  {
    Buffer<char> workspace(std::vector<char>(4096));
    must_blas(rocblas_set_workspace(handle, workspace.data(), workspace.bytes()));
    must_blas(product());
    check_equal(c.read()[0], 9.f, "with a workspace");
  }
  check_misuse("a workspace that was freed", [&] { check(product() != rocblas_status_success, "refused"); });
  must_blas(rocblas_set_workspace(handle, nullptr, 0));
  must_blas(product());
  must(hipDeviceSynchronize());
}

void bad_arguments() {
  Handle handle;
  Buffer<float> a(std::vector<float>(16)), c(std::vector<float>(16));
  const float one = 1;
  const auto sgemm = [&](rocblas_handle h, int m, int lda, const float* pa, const float* alpha) {
    return rocblas_sgemm(h, rocblas_operation_none, rocblas_operation_none, m, 4, 4, alpha, pa, lda, a.data(), 4, &one,
                         c.data(), 4);
  };
  check_equal(sgemm(nullptr, 4, 4, a.data(), &one), rocblas_status_invalid_handle, "no handle");
  check_equal(sgemm(handle, -1, 4, a.data(), &one), rocblas_status_invalid_size, "negative size");
  check_equal(sgemm(handle, 4, 3, a.data(), &one), rocblas_status_invalid_size, "lda too small");
  check_equal(sgemm(handle, 4, 4, nullptr, &one), rocblas_status_invalid_pointer, "no A");
  check_equal(sgemm(handle, 4, 4, a.data(), nullptr), rocblas_status_invalid_pointer, "no alpha");
  check_misuse("A reaches past its allocation", [&] {
    check_equal(sgemm(handle, 4, 5, a.data(), &one), rocblas_status_invalid_pointer, "lda too large");
  });
  size_t bytes = 0;
  must_blas(rocblas_get_version_string_size(&bytes));
  std::vector<char> text(bytes);
  must_blas(rocblas_get_version_string(text.data(), bytes));
  check_equal(text[0], '5', "version");
}

// Every f16 and bf16 pattern survives conversion to f32 and back, and rounding is to nearest even.
void half_conversions() {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float f = f16_to_float(uint16_t(bits)), b = bf16_to_float(uint16_t(bits));
    if (f == f) check_equal(float_to_f16(f), uint16_t(bits), "f16 there and back");
    if (b == b) check_equal(float_to_bf16(b), uint16_t(bits), "bf16 there and back");
  }
  check_equal(float_to_f16(1.f + 0x1p-11f), 0x3c00, "a tie goes down to even");
  check_equal(float_to_f16(1.f + 3 * 0x1p-11f), 0x3c02, "a tie goes up to even");
  check_equal(float_to_f16(65520.f), 0x7c00, "overflow");
  check_equal(float_to_f16(0x1p-25f), 0, "half of the smallest goes to zero");
}

}  // namespace

int main() {
  return run_tests({{"products", products},
                    {"zero_factors_hide_nan", zero_factors_hide_nan},
                    {"vectors", vectors},
                    {"scalars_on_the_device", scalars_on_the_device},
                    {"runs_on_its_stream", runs_on_its_stream},
                    {"workspaces", workspaces},
                    {"bad_arguments", bad_arguments},
                    {"half_conversions", half_conversions}});
}
