// Pooling of planes: maximum, and average with or without the padding. Only the forward pass that keeps no
// indices.
#include <cmath>

#include "core/half.h"
#include "miopen/operands.h"

namespace standin {
namespace {

struct Pooling {
  bool set = false;
  miopenPoolingMode_t mode = miopenPoolingMax;
  int window[2] = {0, 0}, pad[2] = {0, 0}, stride[2] = {1, 1};

  int outputs(int axis, size_t length) const {
    return (int(length) + 2 * pad[axis] - window[axis]) / stride[axis] + 1;
  }
};

template <class Body>
miopenStatus_t pooling_call(const char* function, miopenPoolingDescriptor_t descriptor, Body&& body) {
  return miopen_call(function, [&] {
    if (live().contains(Kind::MiopenDescriptor, descriptor)) return body(*reinterpret_cast<Pooling*>(descriptor));
    if (descriptor) misuse("%s: %p is not a live descriptor", function, static_cast<void*>(descriptor));
    return miopenStatusBadParm;
  });
}

// One window. The kernel computes in the type of the elements, sums included. Its maximum is fmax, which
// ignores NaN, and starts from the lowest finite number, which is also the value of the padding.
float pooled(const Pooling& p, const float* plane, size_t height, size_t width, int top, int left, Rounding round) {
  const float least = round.half ? -65504 : -3.402823466e+38f;
  float result = p.mode == miopenPoolingMax ? least : 0;
  int inside = 0;
  for (int i = top; i < top + p.window[0]; ++i)
    for (int j = left; j < left + p.window[1]; ++j) {
      const bool visible = i >= 0 && j >= 0 && i < int(height) && j < int(width);
      const float value = visible ? plane[size_t(i) * width + size_t(j)] : p.mode == miopenPoolingMax ? least : 0;
      inside += visible;
      result = p.mode == miopenPoolingMax ? std::fmax(result, value) : round(result + value);
    }
  if (p.mode == miopenPoolingMax) return result;
  const int size = p.mode == miopenPoolingAverageInclusive ? p.window[0] * p.window[1] : inside;
  return round(result * round(1 / round(size == 0 ? 1 : size)));
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

miopenStatus_t miopenCreatePoolingDescriptor(miopenPoolingDescriptor_t* descriptor) {
  return miopen_call(__func__, [&] {
    if (!descriptor) return miopenStatusBadParm;
    auto* pooling = new Pooling;
    live().add(Kind::MiopenDescriptor, pooling, "of a pooling");
    *descriptor = reinterpret_cast<miopenPoolingDescriptor_t>(pooling);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSet2dPoolingDescriptor(miopenPoolingDescriptor_t descriptor, miopenPoolingMode_t mode,
                                            int window_h, int window_w, int pad_h, int pad_w, int stride_h,
                                            int stride_w) {
  return pooling_call(__func__, descriptor, [&](Pooling& p) {
    if (mode < miopenPoolingMax || mode > miopenPoolingAverageInclusive) return miopenStatusBadParm;
    if (window_h < 1 || window_w < 1 || pad_h < 0 || pad_w < 0 || stride_h < 1 || stride_w < 1)
      return miopenStatusBadParm;
    p = {true, mode, {window_h, window_w}, {pad_h, pad_w}, {stride_h, stride_w}};
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenDestroyPoolingDescriptor(miopenPoolingDescriptor_t descriptor) {
  return pooling_call(__func__, descriptor, [&](Pooling& p) {
    if (!live().remove(Kind::MiopenDescriptor, &p)) return miopenStatusBadParm;
    retire(&p);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenPoolingForward(miopenHandle_t handle, const miopenPoolingDescriptor_t descriptor,
                                    const void* alpha, const miopenTensorDescriptor_t x_desc, const void* x,
                                    const void* beta, const miopenTensorDescriptor_t y_desc, void* y, bool do_backward,
                                    void* workspace, size_t workspace_bytes) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    constexpr const char* function = "miopenPoolingForward";
    const Tensor* tx = find(function, x_desc);
    const Tensor* ty = find(function, y_desc);
    if (!live().contains(Kind::MiopenDescriptor, descriptor) || !tx || !ty || !alpha || !beta)
      return miopenStatusBadParm;
    const Pooling p = *reinterpret_cast<Pooling*>(descriptor);
    if (!p.set || tx->lengths.size() != 4 || ty->lengths.size() != 4 || tx->type != ty->type)
      return miopenStatusBadParm;
    const std::vector<size_t>&n = tx->lengths, &m = ty->lengths;
    for (int axis = 0; axis < 2; ++axis) {
      if (n[size_t(axis)] != m[size_t(axis)]) return miopenStatusBadParm;
      // As in the real function, which also requires a window to extend beyond its padding.
      if (p.pad[axis] >= p.window[axis]) return miopenStatusBadParm;
      if (size_t(p.outputs(axis, n[size_t(axis) + 2])) != m[size_t(axis) + 2]) return miopenStatusBadParm;
    }
    if (*static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0)
      return miopenStatusNotImplemented;
    // Indices of the maxima are for training. The kernels support f16 and f32.
    if (do_backward || workspace || workspace_bytes) return miopenStatusNotImplemented;
    if ((tx->type != miopenHalf && tx->type != miopenFloat) || !same_packed_float({tx, ty}))
      return miopenStatusNotImplemented;
    const Rounding round{tx->type == miopenHalf};
    const size_t height = n[2], width = n[3], rows = m[2], columns = m[3];
    return run(function, h, {input("x", *tx, x), output("y", *ty, y)}, [=](std::vector<Values>& v) {
      for (size_t i = 0; i < v[1].size(); ++i) {
        const size_t row = i / columns % rows, column = i % columns;
        const float* plane = v[0].data() + i / (rows * columns) * height * width;
        v[1][i] = pooled(p, plane, height, width, int(row) * p.stride[0] - p.pad[0],
                         int(column) * p.stride[1] - p.pad[1], round);
      }
    });
  });
}

}  // extern "C"
