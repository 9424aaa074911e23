// Rotary position embedding as in MIOpen: neighbours form a pair, and element i uses row i % numel(cos) of a table that
// has a value per element, not per pair.
#include "core/half.h"
#include "miopen/operands.h"

using namespace standin;

namespace {

// MIOpen's bf16 is an unsigned integer to its compiler. Up to 3.5.1 the kernel negates that, and so the bits.
float negated(float value, bool bits) {
  return bits ? bf16_to_float(uint16_t(0x10000 - float_to_bf16(value))) : -value;
}

}  // namespace

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
    if (config().miopen.before(3, 3)) return miopenStatusNotImplemented;  // the real library lacks the function
    if (tx->lengths != ty->lengths || tcos->count() != tsin->count()) return miopenStatusBadParm;
    if (tx->count() % 2 != 0) return miopenStatusBadParm;
    if (!same_packed_float({tx, tcos, tsin, ty})) return miopenStatusNotImplemented;
    return run(f, h, {input("x", *tx, x), input("cos", *tcos, cos), input("sin", *tsin, sin), output("y", *ty, y)},
               [bits = tx->type == miopenBFloat16 && config().miopen.before(3, 5, 2)](std::vector<Values>& v) {
                 const Values &in = v[0], &cosines = v[1], &sines = v[2];
                 for (size_t i = 0; i < in.size(); ++i) {
                   const float rotated = i % 2 == 0 ? negated(in[i + 1], bits) : in[i - 1];
                   const size_t row = i % cosines.size();
                   v[3][i] = in[i] * cosines[row] + rotated * sines[row];
                 }
               });
  });
}
