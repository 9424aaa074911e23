// Batch normalization, the inference form.
#include <cmath>

#include "miopen/operands.h"

using namespace standin;

namespace {

// The shape of the parameters for x: one per channel, or one per element of a sample.
std::vector<size_t> parameter_lengths(const Tensor& x, miopenBatchNormMode_t mode) {
  std::vector<size_t> lengths(x.lengths.size(), 1);
  lengths[1] = x.lengths[1];
  if (mode == miopenBNPerActivation)
    for (size_t i = 2; i < lengths.size(); ++i) lengths[i] = x.lengths[i];
  return lengths;
}

}  // namespace

extern "C" {

miopenStatus_t miopenDeriveBNTensorDescriptor(miopenTensorDescriptor_t derived, const miopenTensorDescriptor_t x_desc,
                                              miopenBatchNormMode_t mode) {
  return miopen_call(__func__, [&] {
    const Tensor* x = find("miopenDeriveBNTensorDescriptor", x_desc);
    auto* out = const_cast<Tensor*>(find("miopenDeriveBNTensorDescriptor", derived));
    if (!x || !out || x->lengths.size() < 4) return miopenStatusBadParm;
    out->type = miopenFloat;
    out->lengths = parameter_lengths(*x, mode);
    out->strides = packed_strides(out->lengths);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenBatchNormalizationForwardInference(miopenHandle_t handle, miopenBatchNormMode_t mode, void* alpha,
                                                        void* beta, const miopenTensorDescriptor_t x_desc,
                                                        const void* x, const miopenTensorDescriptor_t y_desc, void* y,
                                                        const miopenTensorDescriptor_t parameter_desc, void* scale,
                                                        void* bias, void* mean, void* variance, double epsilon) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenBatchNormalizationForwardInference";
    const Tensor* tx = find(f, x_desc);
    const Tensor* ty = find(f, y_desc);
    const Tensor* tp = find(f, parameter_desc);
    if (!tx || !ty || !tp || !alpha || !beta || !mean || !variance) return miopenStatusBadParm;
    if (tx->lengths != ty->lengths || tx->lengths.size() < 4) return miopenStatusBadParm;
    if (tp->lengths != parameter_lengths(*tx, mode)) return miopenStatusBadParm;
    if (!same_packed_float({tx, ty}) || !same_packed_float({tp})) return miopenStatusNotImplemented;
    // The kernels read the parameters in f32; those of bf16 came with 3.4.
    if (tp->type != miopenFloat) return miopenStatusNotImplemented;
    if (tx->type == miopenBFloat16 && config().miopen.before(3, 4)) return miopenStatusNotImplemented;
    if (*static_cast<float*>(alpha) != 1 || *static_cast<float*>(beta) != 0) return miopenStatusUnknownError;
    const size_t channels = tx->lengths[1];
    const size_t channel_length = tx->count() / tx->lengths[0] / channels;
    const bool spatial = mode == miopenBNSpatial;
    return run(f, h,
               {input("x", *tx, x), output("y", *ty, y), input("scale", *tp, scale), input("bias", *tp, bias),
                input("mean", *tp, mean), input("variance", *tp, variance)},
               [=](std::vector<Values>& v) {
                 for (size_t i = 0; i < v[0].size(); ++i) {
                   const size_t in_sample = i % (channels * channel_length);
                   const size_t p = spatial ? in_sample / channel_length : in_sample;
                   // Computed in f32, from the square root of the absolute value.
                   const float inverse = 1 / std::sqrt(std::fabs(v[5][p] + float(epsilon)));
                   v[1][i] = std::fma(v[2][p], (v[0][i] - v[4][p]) * inverse, v[3][p]);
                 }
               });
  });
}

}  // extern "C"
