// Softmax over the last three indices of NCHW (instance) or over C (channel).
#include <cmath>

#include "miopen/operands.h"

using namespace standin;

namespace {

struct Softmax {
  float alpha, beta;
  miopenSoftmaxAlgorithm_t algorithm;
  size_t groups, length;         // independent softmaxes and elements in each
  size_t inner, element_stride;  // group g starts at g / inner * inner * length + g % inner
};

// Computed in f32 throughout, because the fast algorithm's overflow is part of its behaviour.
void apply(const Softmax& s, const Values& x, Values& y) {
  for (size_t g = 0; g < s.groups; ++g) {
    const size_t start = g / s.inner * s.inner * s.length + g % s.inner;
    const auto at = [&](size_t i) { return start + i * s.element_stride; };
    float largest = s.algorithm == MIOPEN_SOFTMAX_FAST ? 0 : -INFINITY;
    if (s.algorithm != MIOPEN_SOFTMAX_FAST)
      for (size_t i = 0; i < s.length; ++i) largest = std::fmax(largest, x[at(i)]);
    double sum = 0;
    for (size_t i = 0; i < s.length; ++i) sum += std::exp(x[at(i)] - largest);
    for (size_t i = 0; i < s.length; ++i) {
      const float shifted = x[at(i)] - largest;
      const float result =
          s.algorithm == MIOPEN_SOFTMAX_LOG ? shifted - float(std::log(sum)) : std::exp(shifted) / float(sum);
      y[at(i)] = s.alpha * result + (s.beta != 0 ? s.beta * y[at(i)] : 0);
    }
  }
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
    Softmax s{*static_cast<const float*>(alpha), *static_cast<const float*>(beta), algorithm, 0, 0, 1, 1};
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
    // The real kernel knows only f16 and f32: it reads the memory of any other type as f32, without a check.
    if (in.tensor.type != miopenHalf) in.tensor.type = out.tensor.type = miopenFloat;
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
