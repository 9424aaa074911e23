// Softmax over the last three indices of NCHW (instance) or over C (channel).
#include <cmath>

#include "core/half.h"
#include "miopen/operands.h"

using namespace standin;

namespace {

struct Softmax {
  float alpha, beta;
  miopenSoftmaxAlgorithm_t algorithm;
  size_t groups, length;         // independent softmaxes and elements in each
  size_t inner, element_stride;  // group g starts at g / inner * inner * length + g % inner
  Rounding round;                // the kernel computes in the type of its elements, sums included
};

// log(exp(x) + exp(y)) as the kernel computes it: its maximum and minimum ignore NaN, and values below a
// limit are ignored, so neither NaN nor a row of minus infinity shows in the sum.
float log_add_exp(float x, float y, Rounding round) {
  const float cutoff = round.half ? -1e4f : -1e20f;
  const float larger = std::fmax(x, y), smaller = std::fmin(x, y);
  if (larger <= cutoff) return cutoff;
  if (smaller <= cutoff) return larger;
  const float difference = round(smaller - larger);
  if (difference <= cutoff) return larger;
  return round(larger + round(std::log(round(round(std::exp(difference)) + 1))));
}

// The sum over a row in the order of a block of threads: each adds its own elements, then halves are added.
template <class Add, class Term>
float block_sum(size_t length, float zero, Add&& add, Term&& term) {
  size_t threads = 1;
  while (threads < length && threads < 256) threads *= 2;
  std::vector<float> lanes(threads, zero);
  for (size_t i = 0; i < length; ++i) lanes[i % threads] = add(lanes[i % threads], term(i));
  for (size_t half = threads / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i) lanes[i] = add(lanes[i], lanes[i + half]);
  return lanes[0];
}

void apply(const Softmax& s, const Values& x, Values& y) {
  const Rounding round = s.round;
  const bool log = s.algorithm == MIOPEN_SOFTMAX_LOG;
  for (size_t g = 0; g < s.groups; ++g) {
    const size_t start = g / s.inner * s.inner * s.length + g % s.inner;
    const auto at = [&](size_t i) { return start + i * s.element_stride; };
    float largest = s.algorithm == MIOPEN_SOFTMAX_FAST ? 0 : round.half ? -65504 : -3.402823466e+38f;
    if (s.algorithm != MIOPEN_SOFTMAX_FAST)
      for (size_t i = 0; i < s.length; ++i) largest = std::fmax(largest, x[at(i)]);
    const auto shifted = [&](size_t i) { return round(x[at(i)] - largest); };
    const float sum =
        log ? block_sum(s.length, round.half ? -1e4f : -1e20f,
                        [&](float a, float b) { return log_add_exp(a, b, round); }, shifted)
            : block_sum(s.length, 0, [&](float a, float b) { return round(a + b); },
                        [&](size_t i) { return round(std::exp(shifted(i))); });
    for (size_t i = 0; i < s.length; ++i) {
      const float result = log ? round(shifted(i) - sum) : round(round(std::exp(shifted(i))) / sum);
      y[at(i)] = s.alpha * result + (s.beta != 0 ? s.beta * y[at(i)] : 0);
    }
  }
}

// The type that the kernel of a call reads. MIOpen 3.1 looks up a kernel by the problem without its type, so
// the type of the handle's first call with these extents is used for all later ones.
miopenDataType_t type_of_kernel(MiopenHandle& handle, const Tensor& x, const Softmax& s, miopenSoftmaxMode_t mode) {
  // The kernel knows only f16 and f32: it reads the memory of any other type as f32, without a check.
  const miopenDataType_t own = x.type == miopenHalf ? miopenHalf : miopenFloat;
  if (config().miopen.before(3, 1) || !config().miopen.before(3, 2)) return own;
  std::string problem = std::to_string(s.algorithm) + "," + std::to_string(mode) + "," + std::to_string(s.alpha) +
                        "," + std::to_string(s.beta);
  for (const size_t length : x.lengths) problem += "," + std::to_string(length);
  return handle.softmax_types.emplace(problem, own).first->second;
}

miopenStatus_t softmax(const char* function, miopenHandle_t handle, const void* alpha, miopenTensorDescriptor_t x_desc,
                       const void* x, const void* beta, miopenTensorDescriptor_t y_desc, void* y,
                       miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  return handle_call(function, handle, [&](MiopenHandle& h) {
    const Tensor* x_tensor = find(function, x_desc);
    const Tensor* y_tensor = find(function, y_desc);
    if (!x_tensor || !y_tensor || !alpha || !beta) return miopenStatusBadParm;
    if (x_tensor->type != y_tensor->type || x_tensor->lengths != y_tensor->lengths || x_tensor->lengths.size() != 4)
      return miopenStatusBadParm;
    const std::vector<size_t>& n = x_tensor->lengths;
    Softmax s{*static_cast<const float*>(alpha), *static_cast<const float*>(beta), algorithm, 0, 0, 1, 1, {false}};
    if (mode == MIOPEN_SOFTMAX_MODE_INSTANCE) {
      s.groups = n[0];
      s.length = n[1] * n[2] * n[3];
    } else {
      s.inner = s.element_stride = n[2] * n[3];
      s.groups = n[0] * s.inner;
      s.length = n[1];
    }
    Operand in = input("x", *x_tensor, x);
    Operand out = output("y", *y_tensor, y);
    in.tensor.type = out.tensor.type = type_of_kernel(h, *x_tensor, s, mode);
    s.round.half = in.tensor.type == miopenHalf;
    return run(function, h, {in, out}, [s](std::vector<Values>& v) { apply(s, v[0], v[1]); });
  });
}

}  // namespace

extern "C" {

miopenStatus_t miopenSoftmaxForward(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t x_desc,
                                    const void* x, const void* beta, const miopenTensorDescriptor_t y_desc, void* y) {
  return softmax(__func__, handle, alpha, x_desc, x, beta, y_desc, y, MIOPEN_SOFTMAX_ACCURATE,
                 MIOPEN_SOFTMAX_MODE_CHANNEL);
}

miopenStatus_t miopenSoftmaxForward_V2(miopenHandle_t handle, const void* alpha, const miopenTensorDescriptor_t x_desc,
                                       const void* x, const void* beta, const miopenTensorDescriptor_t y_desc, void* y,
                                       miopenSoftmaxAlgorithm_t algorithm, miopenSoftmaxMode_t mode) {
  return softmax(__func__, handle, alpha, x_desc, x, beta, y_desc, y, algorithm, mode);
}

}  // extern "C"
