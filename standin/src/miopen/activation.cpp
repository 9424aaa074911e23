// Activations: f16 and f32, elementwise.
#include <cmath>

#include "core/half.h"
#include "miopen/operands.h"

namespace standin {
namespace {

struct Activation {
  miopenActivationMode_t mode = miopenActivationPASTHRU;
  double alpha = 0, beta = 0, gamma = 0;

  // The kernels compute in the type of the elements. In f16, that loses digits, and exp overflows above 11.
  double operator()(double x, Rounding r) const {
    switch (mode) {
      case miopenActivationLOGISTIC: return r(1 / r(1 + r(std::exp(-x))));
      case miopenActivationTANH: return r(r(beta) * r(std::tanh(r(r(alpha) * x))));
      case miopenActivationRELU: return x > 0 ? x : 0;
      case miopenActivationSOFTRELU: return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
      case miopenActivationABS: return std::fabs(x);
      case miopenActivationPOWER: return std::pow(alpha + beta * x, gamma);
      case miopenActivationCLIPPEDRELU: return std::fmin(alpha, std::fmax(0., x));
      case miopenActivationLEAKYRELU: return x > 0 ? x : alpha * x;
      case miopenActivationELU: return x > 0 ? x : alpha * std::expm1(x);
      default: return x;
    }
  }
};

template <class Body>
miopenStatus_t activation_call(const char* function, miopenActivationDescriptor_t descriptor, Body&& body) {
  return miopen_call(function, [&] {
    if (live().contains(Kind::MiopenDescriptor, descriptor)) return body(*reinterpret_cast<Activation*>(descriptor));
    if (descriptor) misuse("%s: %p is not a live descriptor", function, static_cast<void*>(descriptor));
    return miopenStatusBadParm;
  });
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

miopenStatus_t miopenCreateActivationDescriptor(miopenActivationDescriptor_t* descriptor) {
  return miopen_call(__func__, [&] {
    if (!descriptor) return miopenStatusBadParm;
    auto* activation = new Activation;
    live().add(Kind::MiopenDescriptor, activation, "of an activation");
    *descriptor = reinterpret_cast<miopenActivationDescriptor_t>(activation);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSetActivationDescriptor(const miopenActivationDescriptor_t descriptor, miopenActivationMode_t mode,
                                             double alpha, double beta, double gamma) {
  return activation_call(__func__, descriptor, [&](Activation& a) {
    if (mode < miopenActivationPASTHRU || mode > miopenActivationELU) return miopenStatusBadParm;
    a = {mode, alpha, beta, gamma};
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenGetActivationDescriptor(const miopenActivationDescriptor_t descriptor,
                                             miopenActivationMode_t* mode, double* alpha, double* beta, double* gamma) {
  return activation_call(__func__, descriptor, [&](Activation& a) {
    if (!mode || !alpha || !beta || !gamma) return miopenStatusBadParm;
    *mode = a.mode;
    *alpha = a.alpha;
    *beta = a.beta;
    *gamma = a.gamma;
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenDestroyActivationDescriptor(miopenActivationDescriptor_t descriptor) {
  return activation_call(__func__, descriptor, [&](Activation& a) {
    if (!live().remove(Kind::MiopenDescriptor, &a)) return miopenStatusBadParm;
    retire(&a);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenActivationForward(miopenHandle_t handle, const miopenActivationDescriptor_t descriptor,
                                       const void* alpha, const miopenTensorDescriptor_t x_desc, const void* x,
                                       const void* beta, const miopenTensorDescriptor_t y_desc, void* y) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* function = "miopenActivationForward";
    const Tensor* x_tensor = find(function, x_desc);
    const Tensor* y_tensor = find(function, y_desc);
    if (!live().contains(Kind::MiopenDescriptor, descriptor) || !x_tensor || !y_tensor || !alpha || !beta)
      return miopenStatusBadParm;
    if (x_tensor->lengths != y_tensor->lengths || x_tensor->type != y_tensor->type) return miopenStatusBadParm;
    if (x_tensor->type != miopenHalf && x_tensor->type != miopenFloat) return miopenStatusNotImplemented;
    // The real function supports no other scaling.
    if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
      return miopenStatusUnknownError;
    const Activation activation = *reinterpret_cast<Activation*>(descriptor);
    const Rounding rounding{x_tensor->type == miopenHalf};
    return run(function, h, {input("x", *x_tensor, x), output("y", *y_tensor, y)},
               [activation, rounding](std::vector<Values>& v) {
                 for (size_t i = 0; i < v[0].size(); ++i) v[1][i] = float(activation(v[0][i], rounding));
               });
  });
}

}  // extern "C"
