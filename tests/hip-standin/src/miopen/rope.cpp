// Rotary position embedding as in MIOpen: neighbours form a pair, and element i uses row i % numel(cos) of a table that
// has a value per element, not per pair.
#include "miopen/operands.h"

using namespace standin;

extern "C" miopenStatus_t miopenRoPEForward(miopenHandle_t handle, const miopenTensorDescriptor_t x_desc, const void* x,
                                            const miopenTensorDescriptor_t cos_desc, const void* cos,
                                            const miopenTensorDescriptor_t sin_desc, const void* sin,
                                            const miopenTensorDescriptor_t y_desc, void* y) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* f = "miopenRoPEForward";
    const Tensor* tensors[] = {find(f, x_desc), find(f, cos_desc), find(f, sin_desc), find(f, y_desc)};
    for (const Tensor* tensor : tensors)
      if (!tensor) return miopenStatusBadParm;
    const auto [tx, tcos, tsin, ty] = tensors;
    if (tx->lengths != ty->lengths || tcos->count() != tsin->count()) return miopenStatusBadParm;
    if (tx->count() % 2 != 0) return miopenStatusBadParm;
    if (!same_packed_float({tx, tcos, tsin, ty})) return miopenStatusNotImplemented;
    return run(f, h, {input("x", *tx, x), input("cos", *tcos, cos), input("sin", *tsin, sin), output("y", *ty, y)},
               [](std::vector<Values>& v) {
                 const Values &in = v[0], &cosines = v[1], &sines = v[2];
                 for (size_t i = 0; i < in.size(); ++i) {
                   const float rotated = i % 2 == 0 ? -in[i + 1] : in[i - 1];
                   const size_t row = i % cosines.size();
                   v[3][i] = in[i] * cosines[row] + rotated * sines[row];
                 }
               });
  });
}
