// hipBLASLt: products of every type and transpose with a bias, compared with plain loops in double; and its rules.
#include "check.h"
#include "hipblaslt_api.h"

#include <cmath>
#include <cstring>

#include "core/half.h"

namespace {

using standin::bf16_to_float;
using standin::f16_to_float;
using standin::float_to_bf16;
using standin::float_to_f16;

void must_lt(hipblasStatus_t status, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (status == HIPBLAS_STATUS_SUCCESS) return;
  std::printf("%s:%d: hipBLASLt status %d\n", file, line, int(status));
  std::exit(1);
}

size_t size_of(hipDataType type) { return type == HIP_R_32F ? 4 : 2; }

std::vector<uint8_t> encoded(const std::vector<float>& values, hipDataType type) {
  std::vector<uint8_t> bytes(values.size() * size_of(type));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = type == HIP_R_16F ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    if (type == HIP_R_32F) std::memcpy(&bytes[i * 4], &values[i], 4);
    else std::memcpy(&bytes[i * 2], &half, 2);
  }
  return bytes;
}

float decoded(const std::vector<uint8_t>& bytes, hipDataType type, size_t i) {
  float single;
  uint16_t half;
  if (type == HIP_R_32F) {
    std::memcpy(&single, &bytes[i * 4], 4);
    return single;
  }
  std::memcpy(&half, &bytes[i * 2], 2);
  return type == HIP_R_16F ? f16_to_float(half) : bf16_to_float(half);
}

// Small integers, so that every sum is exact in any order.
std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = float(int(i * 7 % 5) - 2);
  return values;
}

hipblasLtMatrixLayout_t layout(hipDataType type, uint64_t rows, uint64_t columns, int64_t ld, int32_t batch = 1,
                               int64_t stride = 0) {
  hipblasLtMatrixLayout_t made = nullptr;
  must_lt(hipblasLtMatrixLayoutCreate(&made, type, rows, columns, ld));
  must_lt(hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  must_lt(hipblasLtMatrixLayoutSetAttribute(made, HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return made;
}

// A product of m rows, n columns and sums of k, twice in a batch, with everything that it needs.
struct Problem {
  hipDataType type;
  bool trans_a, trans_b;
  uint64_t m = 3, n = 4, k = 5;
  hipblasLtHandle_t handle = nullptr;
  hipblasLtMatmulDesc_t desc = nullptr;
  hipblasLtMatmulPreference_t preference = nullptr;
  hipblasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  hipblasLtMatmulHeuristicResult_t chosen;
  int found = -1;

  Problem(hipDataType t, bool ta, bool tb, uint64_t sum = 5) : type(t), trans_a(ta), trans_b(tb), k(sum) {
    must_lt(hipblasLtCreate(&handle));
    must_lt(hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
    must_lt(hipblasLtMatmulPreferenceCreate(&preference));
    const uint64_t bytes = 1 << 20;
    must_lt(hipblasLtMatmulPreferenceSetAttribute(preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, 8));
    const int32_t op_a = ta ? HIPBLAS_OP_T : HIPBLAS_OP_N, op_b = tb ? HIPBLAS_OP_T : HIPBLAS_OP_N;
    must_lt(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_TRANSA, &op_a, 4));
    must_lt(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_TRANSB, &op_b, 4));
    a = ta ? layout(t, k, m, k + 1, 2, 2 * 64 * 8) : layout(t, m, k, m + 1, 2, 2 * 64 * 8);
    b = tb ? layout(t, n, k, n, 2, 0) : layout(t, k, n, k, 2, 0);
    d = layout(t, m, n, m + 2, 2, 32);
  }
  ~Problem() {
    for (hipblasLtMatrixLayout_t each : {a, b, d}) must_lt(hipblasLtMatrixLayoutDestroy(each));
    must_lt(hipblasLtMatmulDescDestroy(desc));
    must_lt(hipblasLtMatmulPreferenceDestroy(preference));
    must_lt(hipblasLtDestroy(handle));
  }
  void with_bias(const void* bias, hipDataType bias_type) {
    const uint32_t epilogue = HIPBLASLT_EPILOGUE_BIAS;
    must_lt(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 4));
    must_lt(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
    must_lt(hipblasLtMatmulDescSetAttribute(desc, HIPBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, 4));
  }
  hipblasStatus_t choose() {
    return hipblasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &chosen, &found);
  }
  hipblasStatus_t run(const void* at_a, const void* at_b, void* at_d, float beta, void* workspace, size_t bytes) {
    const float alpha = 1;
    return hipblasLtMatmul(handle, desc, &alpha, at_a, a, at_b, b, &beta, at_d, d, at_d, d, &chosen.algo, workspace,
                           bytes, nullptr);
  }
};

constexpr size_t a_elements = 2048, b_elements = 1024, d_elements = 64;

void compare(hipDataType type, bool ta, bool tb, hipDataType bias_type, float beta, uint64_t k) {
  Problem p(type, ta, tb, k);
  const auto a = ramp(a_elements), b = ramp(b_elements), c = ramp(d_elements), bias = ramp(8);
  Buffer<uint8_t> at_a(encoded(a, type)), at_b(encoded(b, type)), at_bias(encoded(bias, bias_type));
  Buffer<uint8_t> at_d(encoded(c, type)), workspace(std::vector<uint8_t>(1 << 10));
  p.with_bias(at_bias.data(), bias_type);
  must_lt(p.choose());
  const bool lacking = ta && tb && type == HIP_R_16F && bias_type == HIP_R_16F;
  if (!on_host_engine() || lacking) return check_equal(p.found, 0, "no kernel");
  check_equal(p.found, 1, "a kernel");
  check(p.chosen.workspaceSize <= workspace.bytes(), "it fits the workspace");
  must_lt(p.run(at_a.data(), at_b.data(), at_d.data(), beta, workspace.data(), workspace.bytes()));
  const auto got = at_d.read();
  const uint64_t lda = ta ? k + 1 : p.m + 1;
  for (size_t batch = 0; batch < 2; ++batch)
    for (uint64_t j = 0; j < p.n; ++j)
      for (uint64_t i = 0; i < p.m; ++i) {
        double sum = bias[i];
        for (uint64_t l = 0; l < k; ++l)
          sum += double(a[batch * 1024 + (ta ? i * lda + l : l * lda + i)]) * b[tb ? l * p.n + j : j * k + l];
        const size_t at = batch * 32 + j * (p.m + 2) + i;
        check_equal(decoded(got, type, at), sum + double(beta) * c[at], "an element");
      }
  check_equal(decoded(got, type, p.m), c[p.m], "a gap between columns");
}

void products_of_every_type_and_transpose() {
  for (hipDataType type : {HIP_R_16F, HIP_R_16BF, HIP_R_32F})
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (hipDataType bias_type : {type, HIP_R_32F})
          for (float beta : {0.f, 1.f}) {
            compare(type, ta, tb, bias_type, beta, 5);
            compare(type, ta, tb, bias_type, beta, 100);
          }
}

void what_is_not_added_is_not_read() {
  if (!on_host_engine()) return;
  Problem p(HIP_R_32F, false, false);
  must_lt(p.choose());
  Buffer<float> a(ramp(a_elements)), b(ramp(b_elements)), d(std::vector<float>(d_elements, NAN));
  must_lt(p.run(a.data(), b.data(), d.data(), 0, nullptr, 0));
  check(d.read()[0] == d.read()[0], "NaN in D has no effect with beta 0");
}

void types_without_a_kernel_give_no_algorithm() {
  hipblasLtHandle_t handle = nullptr;
  hipblasLtMatmulDesc_t desc = nullptr;
  hipblasLtMatmulPreference_t preference = nullptr;
  must_lt(hipblasLtCreate(&handle));
  must_lt(hipblasLtMatmulDescCreate(&desc, HIPBLAS_COMPUTE_32F, HIP_R_32F));
  must_lt(hipblasLtMatmulPreferenceCreate(&preference));
  hipblasLtMatrixLayout_t m = layout(HIP_R_8F_E4M3, 4, 4, 4);
  hipblasLtMatmulHeuristicResult_t result;
  int found = -1;
  must_lt(hipblasLtMatmulAlgoGetHeuristic(handle, desc, m, m, m, m, preference, 1, &result, &found));
  check_equal(found, 0, "f8");
  int version = 0;
  must_lt(hipblasLtGetVersion(handle, &version));
  check_equal(version, 100200, "the version");
  check_equal(int(hipblasLtGetVersion(nullptr, &version)), HIPBLAS_STATUS_NOT_INITIALIZED, "no handle");
  int64_t ld = 0;
  size_t written = 0;
  must_lt(hipblasLtMatrixLayoutGetAttribute(m, HIPBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld, &written));
  check(ld == 4 && written == 8, "an attribute is read");
  must_lt(hipblasLtMatrixLayoutDestroy(m));
  must_lt(hipblasLtMatmulPreferenceDestroy(preference));
  must_lt(hipblasLtMatmulDescDestroy(desc));
  must_lt(hipblasLtDestroy(handle));
}

void descriptors_that_contradict_each_other_are_misuses() {
  Problem p(HIP_R_32F, false, false);
  const auto refused = [&](const char* what) {
    check_misuse(what, [&] { check_equal(int(p.choose()), HIPBLAS_STATUS_INVALID_VALUE, what); });
  };
  const auto set = [&](hipblasLtMatrixLayoutAttribute_t attribute, auto value) {
    must_lt(hipblasLtMatrixLayoutSetAttribute(p.a, attribute, &value, sizeof value));
  };
  set(HIPBLASLT_MATRIX_LAYOUT_LD, int64_t(p.m - 1));
  refused("a leading dimension below the rows");
  set(HIPBLASLT_MATRIX_LAYOUT_LD, int64_t(p.m));
  set(HIPBLASLT_MATRIX_LAYOUT_COLS, uint64_t(p.k + 1));
  refused("sums of different lengths");
  set(HIPBLASLT_MATRIX_LAYOUT_COLS, uint64_t(p.k));
  set(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(3));
  refused("different batches");
  set(HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT, int32_t(2));
  const int32_t op = 7;
  must_lt(hipblasLtMatmulDescSetAttribute(p.desc, HIPBLASLT_MATMUL_DESC_TRANSA, &op, 4));
  refused("an operation that is none");
  check_misuse("an unknown attribute", [&] {
    hipblasLtMatmulDescSetAttribute(p.desc, hipblasLtMatmulDescAttributes_t(99), &op, 4);
  });
  check_misuse("an attribute of another size", [&] {
    hipblasLtMatmulDescSetAttribute(p.desc, HIPBLASLT_MATMUL_DESC_BIAS_POINTER, &op, 4);
  });
  hipblasLtMatrixLayout_t gone = layout(HIP_R_32F, 1, 1, 1);
  must_lt(hipblasLtMatrixLayoutDestroy(gone));
  check_misuse("a destroyed descriptor", [&] { hipblasLtMatrixLayoutDestroy(gone); });
}

void launches_are_checked() {
  if (!on_host_engine()) return;
  Problem p(HIP_R_32F, false, false, 100), other(HIP_R_32F, true, false, 100);
  must_lt(p.choose());
  must_lt(other.choose());
  Buffer<float> a(ramp(a_elements)), b(ramp(b_elements)), d(ramp(d_elements)), scratch(ramp(64));
  const size_t needed = p.chosen.workspaceSize;
  check(needed > 0, "long sums need a workspace");
  const auto refused = [&](const char* what, void* workspace, size_t bytes) {
    check_misuse(what, [&] { p.run(a.data(), b.data(), d.data(), 0, workspace, bytes); });
  };
  refused("a workspace that is too small", scratch.data(), needed - 1);
  refused("no workspace", nullptr, needed);
  refused("a workspace that is not aligned", scratch.data() + 1, needed);
  const hipblasLtMatmulAlgo_t right = p.chosen.algo;
  p.chosen.algo = other.chosen.algo;
  refused("an algorithm for another product", scratch.data(), needed);
  p.chosen.algo = hipblasLtMatmulAlgo_t();
  refused("an algorithm that nobody chose", scratch.data(), needed);
  p.chosen.algo = right;
  check_misuse("memory that is too small", [&] {
    Buffer<float> small(ramp(4));
    p.run(small.data(), b.data(), d.data(), 0, scratch.data(), needed);
  });
  must_lt(p.run(a.data(), b.data(), d.data(), 0, scratch.data(), needed));
  p.with_bias(nullptr, HIP_R_32F);
  must_lt(p.choose());
  refused("a bias that is null", scratch.data(), needed);
  // Too small a preference leaves no algorithm.
  const uint64_t bytes = needed - 1;
  must_lt(hipblasLtMatmulPreferenceSetAttribute(p.preference, HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, 8));
  must_lt(p.choose());
  check_equal(p.found, 0, "a workspace that the caller does not allow");
}

}  // namespace

int main() {
  return run_tests({{"products of every type and transpose", products_of_every_type_and_transpose},
                    {"what is not added is not read", what_is_not_added_is_not_read},
                    {"types without a kernel give no algorithm", types_without_a_kernel_give_no_algorithm},
                    {"descriptors that contradict each other are misuses",
                     descriptors_that_contradict_each_other_are_misuses},
                    {"launches are checked", launches_are_checked}});
}
