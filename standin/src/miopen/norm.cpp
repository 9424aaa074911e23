// Layer norm (plain, after an addition, and the T5 form, which is RMS norm) and group norm.
#include <array>
#include <cmath>

#include "miopen/operands.h"

using namespace standin;

namespace {

// Operands of a norm, in this order; omitted ones have no elements.
enum { X, Addend, Weight, Bias, Y, Mean, Rstd };

// The sum of f(0), .., f(count - 1) in f32, in the order of a block of 256 threads: each thread adds its own
// terms, then halves are added.
template <class F>
float block_sum(size_t count, F&& f) {
  std::array<float, 256> lanes{};
  for (size_t i = 0; i < count; ++i) lanes[i % lanes.size()] += f(i);
  for (size_t half = lanes.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  return lanes[0];
}

// Rows of `length` elements; element i of row r is scaled by weight[scale_index(r, i)].
template <class ScaleIndex>
void normalize(std::vector<Values>& v, size_t length, float epsilon, bool subtract_mean, bool scaled,
               ScaleIndex&& scale_index) {
  const size_t rows = v[X].size() / length;
  Values row(length);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < length; ++i)
      row[i] = v[X][r * length + i] + (v[Addend].empty() ? 0 : v[Addend][r * length + i]);
    const float mean = subtract_mean ? block_sum(length, [&](size_t i) { return row[i]; }) / float(length) : 0;
    // The kernels compute the variance as E[x^2] - E[x]^2 in f32, so a large mean cancels all of its digits.
    const float square = block_sum(length, [&](size_t i) { return row[i] * row[i]; }) / float(length);
    const float rstd = 1 / std::sqrt(square - mean * mean + epsilon);
    for (size_t i = 0; i < length; ++i) {
      const double weight = scaled ? v[Weight][scale_index(r, i)] : 1;
      const double bias = scaled && !v[Bias].empty() ? v[Bias][scale_index(r, i)] : 0;
      v[Y][r * length + i] = float((row[i] - mean) * rstd * weight + bias);
    }
    if (!v[Mean].empty()) v[Mean][r] = float(mean);
    if (!v[Rstd].empty()) v[Rstd][r] = float(rstd);
  }
}

struct NormTensors {
  const Tensor *x, *addend, *weight, *bias, *y, *mean, *rstd;
};

struct NormData {
  const void *x, *addend, *weight, *bias;
  void *y, *mean, *rstd;
};

// A statistic, which some versions write in f32 whatever the type of its descriptor.
Operand statistic(const char* name, const Tensor* tensor, void* data, bool in_f32) {
  Operand operand = optional_output(name, tensor, data);
  if (in_f32) operand.tensor.type = miopenFloat;
  return operand;
}

std::vector<Operand> operands(const NormTensors& t, const NormData& d, bool scaled, bool f32_statistics) {
  return {input("x", *t.x, d.x),
          optional_input("x2", t.addend, d.addend),
          optional_input("weight", scaled ? t.weight : nullptr, d.weight),
          optional_input("bias", scaled ? t.bias : nullptr, d.bias),
          output("y", *t.y, d.y),
          statistic("mean", t.mean, d.mean, f32_statistics),
          statistic("rstd", t.rstd, d.rstd, f32_statistics)};
}

// Common checks of all norms. `parameters` is the required number of weights and `rows` the number of statistics.
miopenStatus_t check(const NormTensors& t, const NormData& d, bool scaled, bool with_bias, size_t parameters,
                     size_t rows) {
  if (t.x->lengths != t.y->lengths || (t.addend && t.addend->lengths != t.x->lengths)) return miopenStatusBadParm;
  if (scaled && (!t.weight || !d.weight || t.weight->count() != parameters)) return miopenStatusBadParm;
  if (scaled && with_bias && (!t.bias || !d.bias || t.bias->count() != parameters)) return miopenStatusBadParm;
  if (t.mean && d.mean && t.mean->count() != rows) return miopenStatusBadParm;
  if (t.rstd && d.rstd && t.rstd->count() != rows) return miopenStatusBadParm;
  const bool computable =
      same_packed_float({t.x, t.addend, scaled ? t.weight : nullptr, scaled ? t.bias : nullptr, t.y});
  return computable ? miopenStatusSuccess : miopenStatusNotImplemented;
}

// Norms over the indices from `axis` on.
miopenStatus_t layer_norm(const char* function, const MiopenHandle& handle, const NormTensors& t, const NormData& d,
                          size_t axis, float epsilon, bool scaled, bool rms) {
  size_t length = 1;
  for (size_t i = axis; i < t.x->lengths.size(); ++i) length *= t.x->lengths[i];
  if (const miopenStatus_t status = check(t, d, scaled, !rms, length, t.x->count() / length)) return status;
  // As 3.1 does; 3.0 and 3.2 on write them in the type of x.
  const bool f32_statistics = !config().miopen.before(3, 1) && config().miopen.before(3, 2);
  return run(function, handle, operands(t, d, scaled, f32_statistics), [=](std::vector<Values>& v) {
    normalize(v, length, epsilon, !rms, scaled, [](size_t, size_t i) { return i; });
  });
}

}  // namespace

extern "C" {

miopenStatus_t miopenLayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                      const miopenTensorDescriptor_t x_desc, const void* x,
                                      const miopenTensorDescriptor_t weight_desc, const void* weight,
                                      const miopenTensorDescriptor_t bias_desc, const void* bias, const float epsilon,
                                      const int32_t normalized_dim, const miopenTensorDescriptor_t y_desc, void* y,
                                      const miopenTensorDescriptor_t mean_desc, void* mean,
                                      const miopenTensorDescriptor_t rstd_desc, void* rstd) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenLayerNormForward";
    const NormTensors t{find(f, x_desc),    nullptr,         find(f, weight_desc),
                        find(f, bias_desc), find(f, y_desc), find(f, mean_desc),
                        find(f, rstd_desc)};
    if (!t.x || !t.y || (mode != MIOPEN_ELEMENTWISE_AFFINE && mode != MIOPEN_WEIGHT_BIAS)) return miopenStatusBadParm;
    if (normalized_dim < 0 || size_t(normalized_dim) >= t.x->lengths.size()) return miopenStatusBadParm;
    return layer_norm(f, h, t, {x, nullptr, weight, bias, y, mean, rstd}, size_t(normalized_dim), epsilon,
                      mode == MIOPEN_WEIGHT_BIAS, false);
  });
}

miopenStatus_t miopenAddLayerNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t x_desc, const void* x,
    const miopenTensorDescriptor_t x2_desc, const void* x2, const miopenTensorDescriptor_t weight_desc,
    const void* weight, const miopenTensorDescriptor_t bias_desc, const void* bias, const float epsilon,
    const int32_t normalized_dim, const miopenTensorDescriptor_t y_desc, void* y,
    const miopenTensorDescriptor_t mean_desc, void* mean, const miopenTensorDescriptor_t rstd_desc, void* rstd) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenAddLayerNormForward";
    if (config().miopen.before(3, 2)) return miopenStatusNotImplemented;  // the real library lacks the function
    const NormTensors t{find(f, x_desc), find(f, x2_desc),   find(f, weight_desc), find(f, bias_desc),
                        find(f, y_desc), find(f, mean_desc), find(f, rstd_desc)};
    const bool known = mode == MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD || mode == MIOPEN_WEIGHT_BIAS_FUSED_ADD;
    if (!t.x || !t.addend || !t.y || !x2 || !known) return miopenStatusBadParm;
    if (normalized_dim < 0 || size_t(normalized_dim) >= t.x->lengths.size()) return miopenStatusBadParm;
    return layer_norm(f, h, t, {x, x2, weight, bias, y, mean, rstd}, size_t(normalized_dim), epsilon,
                      mode == MIOPEN_WEIGHT_BIAS_FUSED_ADD, false);
  });
}

miopenStatus_t miopenT5LayerNormForward(miopenHandle_t handle, miopenNormMode_t mode,
                                        const miopenTensorDescriptor_t x_desc, const void* x,
                                        const miopenTensorDescriptor_t weight_desc, const void* weight,
                                        const float epsilon, const miopenTensorDescriptor_t y_desc, void* y,
                                        const miopenTensorDescriptor_t rstd_desc, void* rstd) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenT5LayerNormForward";
    if (config().miopen.before(3, 2)) return miopenStatusNotImplemented;  // the real library lacks the function
    const NormTensors t{find(f, x_desc), nullptr, find(f, weight_desc), nullptr,
                        find(f, y_desc), nullptr, find(f, rstd_desc)};
    const bool known = mode == MIOPEN_ELEMENTWISE_AFFINE_T5 || mode == MIOPEN_WEIGHT_BIAS_T5;
    if (!t.x || !t.y || !known || t.x->lengths.empty()) return miopenStatusBadParm;
    return layer_norm(f, h, t, {x, nullptr, weight, nullptr, y, nullptr, rstd}, t.x->lengths.size() - 1, epsilon,
                      mode == MIOPEN_WEIGHT_BIAS_T5, true);
  });
}

miopenStatus_t miopenGroupNormForward(
    miopenHandle_t handle, miopenNormMode_t mode, const miopenTensorDescriptor_t x_desc, const void* x,
    const miopenTensorDescriptor_t weight_desc, const void* weight, const miopenTensorDescriptor_t bias_desc,
    const void* bias, const uint64_t num_groups, const float epsilon, const miopenTensorDescriptor_t y_desc, void* y,
    const miopenTensorDescriptor_t mean_desc, void* mean, const miopenTensorDescriptor_t rstd_desc, void* rstd) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenGroupNormForward";
    if (config().miopen.before(3, 1)) return miopenStatusNotImplemented;  // the real library lacks the function
    const NormTensors t{find(f, x_desc),    nullptr,         find(f, weight_desc),
                        find(f, bias_desc), find(f, y_desc), find(f, mean_desc),
                        find(f, rstd_desc)};
    if (!t.x || !t.y || (mode != MIOPEN_ELEMENTWISE_AFFINE && mode != MIOPEN_WEIGHT_BIAS)) return miopenStatusBadParm;
    if (t.x->lengths.size() < 2 || num_groups == 0 || t.x->lengths[1] % num_groups != 0) return miopenStatusBadParm;
    const size_t channels = t.x->lengths[1];
    const size_t rows = t.x->lengths[0] * num_groups;
    const size_t length = t.x->count() / rows;
    const size_t channel_length = t.x->count() / t.x->lengths[0] / channels;
    const bool scaled = mode == MIOPEN_WEIGHT_BIAS;
    const NormData d{x, nullptr, weight, bias, y, mean, rstd};
    if (const miopenStatus_t status = check(t, d, scaled, true, channels, rows)) return status;
    // As 3.1 and 3.2 do.
    const bool f32_statistics = config().miopen.before(3, 3);
    return run(f, h, operands(t, d, scaled, f32_statistics), [=](std::vector<Values>& v) {
      normalize(v, length, epsilon, true, scaled,
                [=](size_t row, size_t i) { return row % num_groups * (channels / num_groups) + i / channel_length; });
    });
  });
}

}  // extern "C"
