// MIOpen's batch norm, pooling and convolution, compared with their formulas in double.
#include "miopen_check.h"

namespace {

void batch_norm() {
  Handle handle;
  constexpr size_t channels = 3, pixels = 4;
  float one = 1, zero = 0;
  Descriptor shape(miopenFloat, {2, 3, 2, 2}), parameters(miopenFloat, {1});
  must_miopen(miopenDeriveBNTensorDescriptor(parameters, shape, miopenBNSpatial));
  const std::vector<float> x = wave(2 * channels * pixels), scale = {1, 2, 3}, bias = {4, 5, 6}, mean = {7, 8, 9},
                           variance = {1, 4, 9};
  Buffer<float> in(x), out(x), s(scale), b(bias), m(mean), v(variance);
  must_miopen(miopenBatchNormalizationForwardInference(handle, miopenBNSpatial, &one, &zero, shape, in.data(), shape,
                                                       out.data(), parameters, s.data(), b.data(), m.data(), v.data(),
                                                       0.5));
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t c = i / pixels % channels;
    near(out.read()[i], scale[c] * (x[i] - mean[c]) / std::sqrt(variance[c] + 0.5) + bias[c], "batch norm");
  }
}


class Pooling {
 public:
  Pooling(miopenPoolingMode_t mode, int rows, int columns, int pad, int stride) {
    must_miopen(miopenCreatePoolingDescriptor(&descriptor_));
    must_miopen(miopenSet2dPoolingDescriptor(descriptor_, mode, rows, columns, pad, pad, stride, stride));
  }
  ~Pooling() { must_miopen(miopenDestroyPoolingDescriptor(descriptor_)); }
  Pooling(const Pooling&) = delete;
  Pooling& operator=(const Pooling&) = delete;
  operator miopenPoolingDescriptor_t() const { return descriptor_; }

 private:
  miopenPoolingDescriptor_t descriptor_ = nullptr;
};

template <class T>
std::vector<T> pool(const Pooling& pooling, miopenDataType_t type, const std::vector<T>& x, int height, int width,
                    int rows, int columns, miopenStatus_t wanted = miopenStatusSuccess) {
  Handle handle;
  const float one = 1, zero = 0;
  const int planes = int(x.size()) / (height * width);
  Descriptor from(type, {1, planes, height, width}), to(type, {1, planes, rows, columns});
  Buffer<T> in(x), out(std::vector<T>(size_t(planes * rows * columns)));
  check_equal(miopenPoolingForward(handle, pooling, &one, from, in.data(), &zero, to, out.data(), false, nullptr, 0),
              wanted, "pooling");
  return out.read();
}

void pooling() {
  const std::vector<float> x = {-1, -2, -3, -4, -5, -6, -7, -8, -9};
  Pooling max(miopenPoolingMax, 2, 2, 1, 2), with(miopenPoolingAverageInclusive, 2, 2, 1, 2),
      without(miopenPoolingAverage, 2, 2, 1, 2);
  check(pool(max, miopenFloat, x, 3, 3, 2, 2) == std::vector<float>({-1, -2, -4, -5}), "maximum");
  check(pool(with, miopenFloat, x, 3, 3, 2, 2) == std::vector<float>({-0.25f, -1.25f, -2.75f, -7}), "with padding");
  check(pool(without, miopenFloat, x, 3, 3, 2, 2) == std::vector<float>({-1, -2.5f, -5.5f, -7}), "without padding");
  pool(max, miopenFloat, x, 3, 3, 3, 2, miopenStatusBadParm);
  pool(max, miopenBFloat16, std::vector<uint16_t>(9), 3, 3, 2, 2, miopenStatusNotImplemented);
}

// The faults of every version: NaN is ignored, minus infinity becomes the lowest finite number, f16 is summed
// in f16.
void pooling_faults() {
  Pooling max(miopenPoolingMax, 1, 2, 0, 2), average(miopenPoolingAverageInclusive, 1, 3, 0, 3);
  const std::vector<float> most = pool<float>(max, miopenFloat, {NAN, 1, -INFINITY, -INFINITY}, 1, 4, 1, 2);
  check(most == std::vector<float>({1, -3.402823466e+38f}), "maximum of NaN and of infinities");
  const auto half = [](float v) { return standin::float_to_f16(v); };
  const std::vector<uint16_t> sum = pool<uint16_t>(average, miopenHalf, {half(2048), half(1), half(1)}, 1, 3, 1, 1);
  check(standin::f16_to_float(sum[0]) < 683, "683.3 in f32");
}

class Convolution {
 public:
  Convolution(miopenConvolutionMode_t mode, int pad, int stride, int dilation, int groups) {
    must_miopen(miopenCreateConvolutionDescriptor(&descriptor_));
    must_miopen(
        miopenInitConvolutionDescriptor(descriptor_, mode, pad, pad, stride, stride, dilation, dilation));
    must_miopen(miopenSetConvolutionGroupCount(descriptor_, groups));
  }
  ~Convolution() { must_miopen(miopenDestroyConvolutionDescriptor(descriptor_)); }
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;
  operator miopenConvolutionDescriptor_t() const { return descriptor_; }

 private:
  miopenConvolutionDescriptor_t descriptor_ = nullptr;
};

// y[image, k, j] += x[image, c, i] * w for every i and t with i = j * stride - pad + t * dilation, or, transposed, with the
// roles of i and j exchanged.
void convolve(miopenConvolutionMode_t mode, int pad, int stride, int dilation, int groups, std::vector<int> x_shape,
              std::vector<int> w_shape, std::vector<int> y_shape) {
  Handle handle;
  Convolution convolution(mode, pad, stride, dilation, groups);
  const auto count = [](const std::vector<int>& shape) {
    return size_t(std::accumulate(shape.begin(), shape.end(), 1, std::multiplies<int>()));
  };
  const std::vector<float> x = wave(count(x_shape)), w = wave(count(w_shape), 1, 2);
  Descriptor x_desc(miopenFloat, x_shape), w_desc(miopenFloat, w_shape), y_desc(miopenFloat, y_shape);
  const bool transposed = mode == miopenTranspose;
  const std::vector<int>&wide = transposed ? y_shape : x_shape, &narrow = transposed ? x_shape : y_shape;
  std::vector<double> want(count(y_shape));
  for (int b = 0; b < wide[0]; ++b)
    for (int k = 0; k < narrow[1]; ++k)
      for (int c = 0; c < w_shape[1]; ++c)
        for (int row = 0; row < narrow[2]; ++row)
          for (int column = 0; column < narrow[3]; ++column)
            for (int r = 0; r < w_shape[2]; ++r)
              for (int s = 0; s < w_shape[3]; ++s) {
                const int v = row * stride - pad + r * dilation, u = column * stride - pad + s * dilation;
                if (v < 0 || u < 0 || v >= wide[2] || u >= wide[3]) continue;
                const int channel = k / (narrow[1] / groups) * w_shape[1] + c;
                const int i = ((b * wide[1] + channel) * wide[2] + v) * wide[3] + u;
                const int j = ((b * narrow[1] + k) * narrow[2] + row) * narrow[3] + column;
                const int t = ((k * w_shape[1] + c) * w_shape[2] + r) * w_shape[3] + s;
                want[size_t(transposed ? i : j)] += double(x[size_t(transposed ? j : i)]) * w[size_t(t)];
              }
  size_t found = 0;
  must_miopen(miopenConvolutionForwardGetSolutionCount(handle, w_desc, x_desc, convolution, y_desc, &found));
  std::vector<miopenConvSolution_t> solutions(found);
  must_miopen(miopenConvolutionForwardGetSolution(handle, w_desc, x_desc, convolution, y_desc, found, &found,
                                                  solutions.data()));
  check(found == 2 && solutions[0].time <= solutions[1].time, "solutions, fastest first");
  for (const miopenConvSolution_t& solution : solutions) {
    size_t bytes = 1;
    must_miopen(miopenConvolutionForwardGetSolutionWorkspaceSize(handle, w_desc, x_desc, convolution, y_desc,
                                                                 solution.solution_id, &bytes));
    check_equal(bytes, solution.workspace_size, "bytes of workspace");
    must_miopen(miopenConvolutionForwardCompileSolution(handle, w_desc, x_desc, convolution, y_desc,
                                                        solution.solution_id));
    Buffer<float> from(x), filter(w), to(std::vector<float>(count(y_shape)));
    Buffer<char> workspace{std::vector<char>(bytes + 1)};
    const auto run = [&](size_t given) {
      return miopenConvolutionForwardImmediate(handle, w_desc, filter.data(), x_desc, from.data(), convolution, y_desc,
                                               to.data(), workspace.data(), given, solution.solution_id);
    };
    must_miopen(run(bytes));
    const std::vector<float> y = to.read();
    for (size_t i = 0; i < y.size(); ++i) near(y[i], want[i], "convolution", 1e-5);
    if (bytes != 0) check_equal(run(bytes - 1), miopenStatusBadParm, "too little workspace");
  }
}

void convolutions() {
  convolve(miopenConvolution, 0, 1, 1, 1, {1, 2, 5, 4}, {3, 2, 2, 3}, {1, 3, 4, 2});
  convolve(miopenConvolution, 1, 2, 2, 2, {2, 4, 7, 9}, {6, 2, 3, 3}, {2, 6, 3, 4});
  convolve(miopenTranspose, 1, 2, 1, 2, {2, 4, 3, 4}, {4, 3, 3, 3}, {2, 6, 5, 7});
}

void refused_convolutions() {
  Handle handle;
  Convolution convolution(miopenConvolution, 0, 1, 1, 1);
  Descriptor x(miopenFloat, {1, 2, 5, 5}), w(miopenFloat, {3, 2, 2, 2}), y(miopenFloat, {1, 3, 4, 4});
  Descriptor other(miopenFloat, {1, 3, 5, 4}), doubles(miopenDouble, {1, 2, 5, 5});
  size_t count = 0;
  const auto ask = [&](miopenTensorDescriptor_t x_desc, miopenTensorDescriptor_t y_desc) {
    return miopenConvolutionForwardGetSolutionCount(handle, w, x_desc, convolution, y_desc, &count);
  };
  check_equal(ask(x, y), miopenStatusSuccess, "a convolution");
  check_equal(ask(x, other), miopenStatusBadParm, "extents that do not follow");
  check_equal(ask(doubles, y), miopenStatusNotImplemented, "types that differ");
}

}  // namespace

int main() {
  return run_tests({{"batch_norm", batch_norm},
                    {"pooling", pooling},
                    {"pooling_faults", pooling_faults},
                    {"convolutions", convolutions},
                    {"refused_convolutions", refused_convolutions}});
}
