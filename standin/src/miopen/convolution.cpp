// Convolution in immediate mode: two solutions, one of which needs workspace from the caller.
#include <algorithm>
#include <cmath>

#include "miopen/operands.h"

namespace standin {
namespace {

struct Convolution {
  bool set = false;
  miopenConvolutionMode_t mode = miopenConvolution;
  int pad[2] = {0, 0}, stride[2] = {1, 1}, dilation[2] = {1, 1};
  int groups = 1;
};

// Solutions by id. The first unrolls the windows into the workspace and multiplies matrices; the second needs no memory.
constexpr uint64_t unrolled = 91, direct = 85;

template <class Body>
miopenStatus_t convolution_call(const char* function, miopenConvolutionDescriptor_t descriptor, Body&& body) {
  return miopen_call(function, [&] {
    if (live().contains(Kind::MiopenDescriptor, descriptor)) return body(*reinterpret_cast<Convolution*>(descriptor));
    if (descriptor) misuse("%s: %p is not a live descriptor", function, static_cast<void*>(descriptor));
    return miopenStatusBadParm;
  });
}

// A convolution whose tensors match. `x` is the operand from which windows are taken: the input or, in a
// transposed convolution, the output.
struct Problem {
  Convolution conv;
  Tensor w, x, y;

  bool transposed() const { return conv.mode == miopenTranspose; }
  const Tensor& wide() const { return transposed() ? y : x; }
  const Tensor& narrow() const { return transposed() ? x : y; }
  // Bytes of the unrolled windows of one image.
  size_t workspace(uint64_t solution) const {
    if (solution != unrolled) return 0;
    const std::vector<size_t>& n = narrow().lengths;
    const size_t of_window = wide().lengths[1] * w.lengths[2] * w.lengths[3];
    return of_window * n[2] * n[3] * element_bytes(x.type);
  }
};

bool fits(const Problem& p) {
  const std::vector<size_t>&wide = p.wide().lengths, &narrow = p.narrow().lengths, &w = p.w.lengths;
  const size_t groups = size_t(p.conv.groups);
  // The filter is [channels of `narrow`, channels of a group of `wide`, rows, columns].
  if (wide[0] != narrow[0] || w[0] != narrow[1] || w[1] * groups != wide[1] || w[0] % groups != 0) return false;
  for (size_t axis = 0; axis < 2; ++axis) {
    const long length = long(wide[axis + 2]), reach = long(p.conv.dilation[axis]) * (long(w[axis + 2]) - 1) + 1;
    const long room = length + 2 * long(p.conv.pad[axis]) - reach;
    if (room < 0 || room / p.conv.stride[axis] + 1 != long(narrow[axis + 2])) return false;
    // Transposed, the length of the result follows exactly from that of its operand.
    if (p.transposed() && room % p.conv.stride[axis] != 0) return false;
  }
  return true;
}

// Calls `body` with the problem of these descriptors, if there is a solution for it.
template <class Body>
miopenStatus_t problem_call(const char* function, miopenHandle_t handle, miopenTensorDescriptor_t w_desc,
                            miopenTensorDescriptor_t x_desc, miopenConvolutionDescriptor_t descriptor,
                            miopenTensorDescriptor_t y_desc, Body&& body) {
  return handle_call(function, handle, [&](MiopenHandle& h) {
    const Tensor *w = find(function, w_desc), *x = find(function, x_desc), *y = find(function, y_desc);
    if (!w || !x || !y || !live().contains(Kind::MiopenDescriptor, descriptor)) return miopenStatusBadParm;
    const Problem p{*reinterpret_cast<Convolution*>(descriptor), *w, *x, *y};
    const auto planes = [](const Tensor& t) { return t.lengths.size() == 4; };
    if (!p.conv.set || !planes(*w) || !planes(*x) || !planes(*y) || !fits(p)) return miopenStatusBadParm;
    if (!same_packed_float({w, x, y})) return miopenStatusNotImplemented;
    return body(h, p);
  });
}

// Calls `visit(index of wide, index of w, index of narrow)` for every product of the convolution.
template <class Visit>
void for_each_product(const Problem& p, Visit&& visit) {
  const std::vector<size_t>&wide = p.wide().lengths, &narrow = p.narrow().lengths, &w = p.w.lengths;
  const size_t group = w[0] / size_t(p.conv.groups), window = w[1] * w[2] * w[3];
  for (size_t i = 0, count = p.narrow().count(); i < count; ++i) {
    const size_t column = i % narrow[3], row = i / narrow[3] % narrow[2];
    const size_t k = i / (narrow[2] * narrow[3]) % narrow[1], image = i / (narrow[1] * narrow[2] * narrow[3]);
    for (size_t t = 0; t < window; ++t) {
      const size_t s = t % w[3], r = t / w[3] % w[2], c = t / (w[2] * w[3]);
      const long v = long(row) * p.conv.stride[0] - p.conv.pad[0] + long(r) * p.conv.dilation[0];
      const long u = long(column) * p.conv.stride[1] - p.conv.pad[1] + long(s) * p.conv.dilation[1];
      if (v < 0 || u < 0 || v >= long(wide[2]) || u >= long(wide[3])) continue;
      const size_t channel = k / group * w[1] + c;
      visit(((image * wide[1] + channel) * wide[2] + size_t(v)) * wide[3] + size_t(u), k * window + t, i);
    }
  }
}

}  // namespace
}  // namespace standin

using namespace standin;

extern "C" {

miopenStatus_t miopenCreateConvolutionDescriptor(miopenConvolutionDescriptor_t* descriptor) {
  return miopen_call(__func__, [&] {
    if (!descriptor) return miopenStatusBadParm;
    auto* convolution = new Convolution;
    live().add(Kind::MiopenDescriptor, convolution, "of a convolution");
    *descriptor = reinterpret_cast<miopenConvolutionDescriptor_t>(convolution);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenInitConvolutionDescriptor(miopenConvolutionDescriptor_t descriptor, miopenConvolutionMode_t mode,
                                               int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                                               int dilation_w) {
  return convolution_call(__func__, descriptor, [&](Convolution& c) {
    if (mode != miopenConvolution && mode != miopenTranspose) return miopenStatusBadParm;
    if (std::min(pad_h, pad_w) < 0 || std::min({stride_h, stride_w, dilation_h, dilation_w}) < 1)
      return miopenStatusBadParm;
    c = {true, mode, {pad_h, pad_w}, {stride_h, stride_w}, {dilation_h, dilation_w}, c.groups};
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSetConvolutionGroupCount(miopenConvolutionDescriptor_t descriptor, int groups) {
  return convolution_call(__func__, descriptor, [&](Convolution& c) {
    if (groups < 1) return miopenStatusBadParm;
    c.groups = groups;
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenDestroyConvolutionDescriptor(miopenConvolutionDescriptor_t descriptor) {
  return convolution_call(__func__, descriptor, [&](Convolution& c) {
    if (!live().remove(Kind::MiopenDescriptor, &c)) return miopenStatusBadParm;
    retire(&c);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenConvolutionForwardGetSolutionCount(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                        const miopenTensorDescriptor_t x_desc,
                                                        const miopenConvolutionDescriptor_t descriptor,
                                                        const miopenTensorDescriptor_t y_desc, size_t* count) {
  return problem_call(__func__, handle, w_desc, x_desc, descriptor, y_desc, [&](MiopenHandle&, const Problem&) {
    if (!count) return miopenStatusBadParm;
    *count = 2;
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenConvolutionForwardGetSolution(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                   const miopenTensorDescriptor_t x_desc,
                                                   const miopenConvolutionDescriptor_t descriptor,
                                                   const miopenTensorDescriptor_t y_desc, const size_t most,
                                                   size_t* count, miopenConvSolution_t* solutions) {
  return problem_call(__func__, handle, w_desc, x_desc, descriptor, y_desc, [&](MiopenHandle&, const Problem& p) {
    if (!count || !solutions) return miopenStatusBadParm;
    // Fastest first, in the real function's order.
    const miopenConvSolution_t all[] = {{0.5f, p.workspace(unrolled), unrolled, miopenConvolutionAlgoGEMM},
                                        {2.0f, 0, direct, miopenConvolutionAlgoDirect}};
    *count = std::min(most, size_t(2));
    std::copy_n(all, *count, solutions);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenConvolutionForwardGetSolutionWorkspaceSize(
    miopenHandle_t handle, const miopenTensorDescriptor_t w_desc, const miopenTensorDescriptor_t x_desc,
    const miopenConvolutionDescriptor_t descriptor, const miopenTensorDescriptor_t y_desc, const uint64_t solution,
    size_t* bytes) {
  return problem_call(__func__, handle, w_desc, x_desc, descriptor, y_desc, [&](MiopenHandle&, const Problem& p) {
    if (!bytes || (solution != unrolled && solution != direct)) return miopenStatusBadParm;
    *bytes = p.workspace(solution);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenConvolutionForwardCompileSolution(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                       const miopenTensorDescriptor_t x_desc,
                                                       const miopenConvolutionDescriptor_t descriptor,
                                                       const miopenTensorDescriptor_t y_desc,
                                                       const uint64_t solution) {
  return problem_call(__func__, handle, w_desc, x_desc, descriptor, y_desc, [&](MiopenHandle&, const Problem&) {
    return solution == unrolled || solution == direct ? miopenStatusSuccess : miopenStatusBadParm;
  });
}

miopenStatus_t miopenConvolutionForwardImmediate(miopenHandle_t handle, const miopenTensorDescriptor_t w_desc,
                                                 const void* w, const miopenTensorDescriptor_t x_desc, const void* x,
                                                 const miopenConvolutionDescriptor_t descriptor,
                                                 const miopenTensorDescriptor_t y_desc, void* y, void* workspace,
                                                 const size_t workspace_bytes, const uint64_t solution) {
  constexpr const char* f = "miopenConvolutionForwardImmediate";
  return problem_call(f, handle, w_desc, x_desc, descriptor, y_desc, [&](MiopenHandle& h, const Problem& p) {
    if (solution != unrolled && solution != direct) return miopenStatusBadParm;
    const size_t needed = p.workspace(solution);
    if (workspace_bytes < needed || (needed != 0 && !workspace)) return miopenStatusBadParm;
    std::vector<Operand> operands = {input("w", p.w, w), input("x", p.x, x), output("y", p.y, y)};
    // Writes the workspace, so that one that is too small, or not the caller's, is noticed.
    if (needed != 0) {
      const std::vector<size_t> words = {needed / element_bytes(p.x.type)};
      operands.push_back(output("workspace", Tensor{p.x.type, words, packed_strides(words)}, workspace));
    }
    return run(f, h, operands, [p](std::vector<Values>& v) {
      std::vector<double> sums(v[2].size());
      for_each_product(p, [&](size_t wide, size_t filter, size_t narrow) {
        const size_t from = p.transposed() ? narrow : wide, to = p.transposed() ? wide : narrow;
        sums[to] += double(v[1][from]) * v[0][filter];
      });
      for (size_t i = 0; i < sums.size(); ++i) v[2][i] = float(sums[i]);
      if (v.size() > 3) std::fill(v[3].begin(), v[3].end(), -1.f);
    });
  });
}

}  // extern "C"
