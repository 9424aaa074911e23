// The checks of a product's description, and its arithmetic in plain loops.
#include "hipblaslt/product.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/half.h"

namespace standin {
namespace {

constexpr uint64_t parts = 4;         // that long sums are split into
constexpr uint64_t long_sum = 64;     // from this k on

bool is_operation(int32_t value) { return value >= HIPBLAS_OP_N && value <= HIPBLAS_OP_C; }

// The layout describes a matrix on its own.
bool is_matrix(const char* function, const char* name, const LtLayout& m) {
  if (m.order != 0) {
    misuse("%s: %s is not column-major, and the stand-in supports nothing else", function, name);
    return false;
  }
  if (m.ld < int64_t(std::max<uint64_t>(m.rows, 1))) {
    misuse("%s: %s has a leading dimension of %lld and %llu rows", function, name, (long long)m.ld,
           (unsigned long long)m.rows);
    return false;
  }
  if (m.batch_count < 1 || m.batch_stride < 0) {
    misuse("%s: %s has a batch of %d with a stride of %lld", function, name, m.batch_count,
           (long long)m.batch_stride);
    return false;
  }
  return true;
}

float load(const void* data, int32_t type, uint64_t index) {
  switch (type) {
    case HIP_R_16F: return f16_to_float(static_cast<const uint16_t*>(data)[index]);
    case HIP_R_16BF: return bf16_to_float(static_cast<const uint16_t*>(data)[index]);
    default: return static_cast<const float*>(data)[index];
  }
}

void store(void* data, int32_t type, uint64_t index, float value) {
  switch (type) {
    case HIP_R_16F: static_cast<uint16_t*>(data)[index] = float_to_f16(value); break;
    case HIP_R_16BF: static_cast<uint16_t*>(data)[index] = float_to_bf16(value); break;
    default: static_cast<float*>(data)[index] = value;
  }
}

// op(M) as rows (or columns) of k values each, without gaps.
std::vector<float> packed(const void* data, const LtLayout& m, bool lines_are_columns, uint64_t batch, uint64_t k) {
  const uint64_t lines = lines_are_columns ? m.columns : m.rows;
  std::vector<float> out(lines * k);
  for (uint64_t line = 0; line < lines; ++line)
    for (uint64_t i = 0; i < k; ++i) {
      const uint64_t row = lines_are_columns ? i : line, column = lines_are_columns ? line : i;
      out[line * k + i] = load(data, m.type, batch * uint64_t(m.batch_stride) + column * uint64_t(m.ld) + row);
    }
  return out;
}

float dot(const float* a, const float* b, uint64_t from, uint64_t to) {
  float sum = 0;
  for (uint64_t i = from; i < to; ++i) sum += a[i] * b[i];
  return sum;
}

// A sum, computed through the workspace if it is split.
float sum_of(const float* a, const float* b, uint64_t k, float* scratch) {
  if (!scratch) return dot(a, b, 0, k);
  for (uint64_t part = 0; part < parts; ++part) scratch[part] = dot(a, b, k * part / parts, k * (part + 1) / parts);
  float sum = 0;
  for (uint64_t part = 0; part < parts; ++part) sum += scratch[part];
  return sum;
}

}  // namespace

size_t lt_element_bytes(int32_t type) {
  switch (type) {
    case HIP_R_16F:
    case HIP_R_16BF: return 2;
    case HIP_R_32F: return 4;
    default: return 0;
  }
}

hipblasStatus_t describe(const char* function, const void* desc, const void* a, const void* b, const void* c,
                         const void* d, LtProduct* out) {
  const LtDesc* product = lt_object<LtDesc>(function, Kind::HipblasltDesc, desc);
  const LtLayout* layouts[4];
  const void* const given[] = {a, b, c, d};
  static const char* const names[] = {"A", "B", "C", "D"};
  bool sound = product != nullptr;
  for (int i = 0; i < 4; ++i) {
    layouts[i] = lt_object<LtLayout>(function, Kind::HipblasltLayout, given[i]);
    sound = sound && layouts[i] && is_matrix(function, names[i], *layouts[i]);
  }
  if (!sound) return HIPBLAS_STATUS_INVALID_VALUE;
  if (!is_operation(product->trans_a) || !is_operation(product->trans_b)) {
    misuse("%s: %d and %d are not both operations", function, product->trans_a, product->trans_b);
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  *out = {function, *product, *layouts[0], *layouts[1], *layouts[2], *layouts[3], 0};
  const bool a_straight = product->trans_a == HIPBLAS_OP_N, b_straight = product->trans_b == HIPBLAS_OP_N;
  const uint64_t m = a_straight ? out->a.rows : out->a.columns, n = b_straight ? out->b.columns : out->b.rows;
  const uint64_t k = a_straight ? out->a.columns : out->a.rows;
  out->k = k;
  const bool fits = k == (b_straight ? out->b.rows : out->b.columns) && m == out->d.rows && n == out->d.columns &&
                    m == out->c.rows && n == out->c.columns;
  const bool batches = out->a.batch_count == out->d.batch_count && out->b.batch_count == out->d.batch_count &&
                       out->c.batch_count == out->d.batch_count;
  if (fits && batches) return HIPBLAS_STATUS_SUCCESS;
  misuse("%s: the extents or the batches of A, B, C and D do not belong together", function);
  return HIPBLAS_STATUS_INVALID_VALUE;
}

bool has_kernel(const LtProduct& p) {
  if (config().engine == EngineKind::Cuda) return false;  // see the README
  const bool types = p.a.type == p.b.type && p.c.type == p.d.type && p.a.type == p.d.type &&
                     lt_element_bytes(p.a.type) != 0 && p.desc.compute == HIPBLAS_COMPUTE_32F &&
                     p.desc.scale == HIP_R_32F;
  const bool bias = !p.has_bias() || p.desc.bias_type == p.d.type || p.desc.bias_type == HIP_R_32F;
  const bool epilogue = p.has_bias() || p.desc.epilogue == HIPBLASLT_EPILOGUE_DEFAULT;
  // The real library of ROCm 7.2 has none for these on gfx1201. Here that holds for every device, so that
  // callers have to handle it.
  const bool two_transposed = p.desc.trans_a != HIPBLAS_OP_N && p.desc.trans_b != HIPBLAS_OP_N;
  const bool lacking = two_transposed && p.a.type == HIP_R_16F && p.has_bias() && p.desc.bias_type == HIP_R_16F;
  return types && bias && epilogue && !lacking;
}

size_t workspace_of(const LtProduct& p) { return p.k < long_sum ? 0 : parts * sizeof(float); }

uint64_t kernel_of(const LtProduct& p) {
  uint64_t hash = 14695981039346656037u;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  for (const LtLayout* m : {&p.a, &p.b, &p.c, &p.d}) {
    mix(uint64_t(m->type));
    mix(m->rows);
    mix(m->columns);
    mix(uint64_t(m->ld));
    mix(uint64_t(m->batch_count));
    mix(uint64_t(m->batch_stride));
  }
  mix(uint64_t(p.desc.trans_a));
  mix(uint64_t(p.desc.trans_b));
  mix(uint64_t(p.desc.epilogue));
  if (p.has_bias()) mix(uint64_t(p.desc.bias_type));
  return hash;
}

void compute(const LtProduct& p, float alpha, float beta, const LtAddresses& at) {
  float* scratch = workspace_of(p) ? static_cast<float*>(at.workspace) : nullptr;
  const auto at_d = [&](const LtLayout& m, uint64_t batch, uint64_t row, uint64_t column) {
    return batch * uint64_t(m.batch_stride) + column * uint64_t(m.ld) + row;
  };
  for (uint64_t batch = 0; batch < uint64_t(p.d.batch_count); ++batch) {
    const auto a = packed(at.a, p.a, p.desc.trans_a != HIPBLAS_OP_N, batch, p.k);
    const auto b = packed(at.b, p.b, p.desc.trans_b == HIPBLAS_OP_N, batch, p.k);
    for (uint64_t column = 0; column < p.d.columns; ++column)
      for (uint64_t row = 0; row < p.d.rows; ++row) {
        float value = alpha * sum_of(&a[row * p.k], &b[column * p.k], p.k, scratch);
        if (beta != 0) value += beta * load(at.c, p.c.type, at_d(p.c, batch, row, column));
        if (at.bias) value += load(at.bias, p.desc.bias_type, row);
        store(const_cast<void*>(at.d), p.d.type, at_d(p.d, batch, row, column), value);
      }
  }
}

}  // namespace standin
