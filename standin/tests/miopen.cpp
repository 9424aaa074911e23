// MIOpen: each function compared with its formula in double.
#include "miopen_check.h"

namespace {

void softmax_modes() {
  Handle handle;
  constexpr int n = 2, c = 3, h = 2, w = 4, size = n * c * h * w;
  Descriptor shape(miopenFloat, {n, c, h, w});
  const std::vector<float> x = wave(size, 3), old = wave(size, 1, 2);
  const float alpha = 2, beta = 0.5f;
  for (const auto mode : {MIOPEN_SOFTMAX_MODE_INSTANCE, MIOPEN_SOFTMAX_MODE_CHANNEL})
    for (const auto algorithm : {MIOPEN_SOFTMAX_FAST, MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_LOG}) {
      Buffer<float> in(x), out(old);
      must_miopen(miopenSoftmaxForward_V2(handle, &alpha, shape, in.data(), &beta, shape, out.data(), algorithm, mode));
      const std::vector<float> y = out.read();
      for (int i = 0; i < size; ++i) {
        double sum = 0;
        for (int j = 0; j < size; ++j) {
          const bool same_sample = j / (c * h * w) == i / (c * h * w);
          const bool same_place = j % (h * w) == i % (h * w);
          if (same_sample && (mode == MIOPEN_SOFTMAX_MODE_INSTANCE || same_place)) sum += std::exp(double(x[j]));
        }
        const double result = algorithm == MIOPEN_SOFTMAX_LOG ? x[i] - std::log(sum) : std::exp(double(x[i])) / sum;
        near(y[i], alpha * result + beta * old[i], "softmax");
      }
    }
}

void softmax_overflow_and_types() {
  Handle handle;
  const float one = 1, zero = 0;
  Descriptor shape(miopenFloat, {1, 2, 1, 1});
  Buffer<float> in({100, 100}), out({0, 0});
  const auto softmax = [&](miopenSoftmaxAlgorithm_t algorithm) {
    must_miopen(miopenSoftmaxForward_V2(handle, &one, shape, in.data(), &zero, shape, out.data(), algorithm,
                                        MIOPEN_SOFTMAX_MODE_CHANNEL));
    return out.read()[0];
  };
  check_equal(softmax(MIOPEN_SOFTMAX_ACCURATE), 0.5f, "the accurate form shifts");
  const float fast = softmax(MIOPEN_SOFTMAX_FAST);
  check(fast != fast, "the fast form overflows");
  // bf16 is read as f32, as in the real kernel: twice the memory, other numbers.
  Descriptor bf16(miopenBFloat16, {1, 2, 1, 1});
  Buffer<uint16_t> small({0, 0});
  check_misuse("bf16 taken for f32 reaches past the end", [&] {
    check_equal(miopenSoftmaxForward_V2(handle, &one, bf16, small.data(), &zero, bf16, small.data(),
                                        MIOPEN_SOFTMAX_ACCURATE, MIOPEN_SOFTMAX_MODE_CHANNEL),
                miopenStatusBadParm, "bf16 softmax");
  });
}

void strided_half_tensors() {
  Handle handle;
  const float one = 1, zero = 0;
  Descriptor in(miopenHalf, {1, 1, 2, 3}, {16, 16, 8, 2}), out(miopenHalf, {1, 1, 2, 3});
  std::vector<uint16_t> x(16, 0x7c00);  // infinity between the elements
  for (int i = 0; i < 6; ++i) x[size_t(i / 3 * 8 + i % 3 * 2)] = standin::float_to_f16(float(i));
  Buffer<uint16_t> from(x), to(std::vector<uint16_t>(6));
  miopenActivationDescriptor_t tanh = nullptr;
  must_miopen(miopenCreateActivationDescriptor(&tanh));
  must_miopen(miopenSetActivationDescriptor(tanh, miopenActivationTANH, 0.5, 2, 0));
  must_miopen(miopenActivationForward(handle, tanh, &one, in, from.data(), &zero, out, to.data()));
  const std::vector<uint16_t> y = to.read();
  for (int i = 0; i < 6; ++i) near(standin::f16_to_float(y[size_t(i)]), 2 * std::tanh(0.5 * i), "tanh", 1e-3);
  must_miopen(miopenDestroyActivationDescriptor(tanh));
}

// The faults of 3.5.1, which the stand-in has unless HIP_STANDIN_MIOPEN names another version.
void faults() {
  Handle handle;
  const float one = 1, zero = 0;
  {  // log_softmax ignores NaN, and a row of minus infinity has no NaN
    Descriptor row(miopenFloat, {2, 2, 1, 1});
    Buffer<float> in({-INFINITY, -INFINITY, NAN, 0}), out({0, 0, 0, 0});
    must_miopen(miopenSoftmaxForward_V2(handle, &one, row, in.data(), &zero, row, out.data(), MIOPEN_SOFTMAX_LOG,
                                        MIOPEN_SOFTMAX_MODE_CHANNEL));
    check(out.read()[0] == -INFINITY && out.read()[3] == 0, "log softmax of minus infinity and of NaN");
  }
  {  // f16 softmax rounds each power and each sum
    Descriptor row(miopenHalf, {1, 2, 1, 1});
    Buffer<uint16_t> in({standin::float_to_f16(-0.125f), 0}), out({0, 0});
    must_miopen(miopenSoftmaxForward_V2(handle, &one, row, in.data(), &zero, row, out.data(), MIOPEN_SOFTMAX_ACCURATE,
                                        MIOPEN_SOFTMAX_MODE_CHANNEL));
    check_equal(standin::f16_to_float(out.read()[0]), 0.468505859375f, "0.46875 if it were computed in f32");
  }
  {  // f16 activations overflow inside
    Descriptor shape(miopenHalf, {1, 1, 1, 1});
    Buffer<uint16_t> in({standin::float_to_f16(-12)}), out({1});
    miopenActivationDescriptor_t sigmoid = nullptr;
    must_miopen(miopenCreateActivationDescriptor(&sigmoid));
    must_miopen(miopenSetActivationDescriptor(sigmoid, miopenActivationLOGISTIC, 1, 1, 1));
    must_miopen(miopenActivationForward(handle, sigmoid, &one, shape, in.data(), &zero, shape, out.data()));
    check_equal(out.read()[0], uint16_t(0), "sigmoid(-12) in f16");
    must_miopen(miopenDestroyActivationDescriptor(sigmoid));
  }
  {  // the bits of a bf16 are negated: 1.0 gives -4.0
    const uint16_t unit = standin::float_to_bf16(1), none = 0;
    Descriptor pair(miopenBFloat16, {1, 1, 1, 2}), table(miopenBFloat16, {1, 2});
    Buffer<uint16_t> in({none, unit}), cos({none, none}), sin({unit, unit}), out({none, none});
    must_miopen(miopenRoPEForward(handle, pair, in.data(), table, cos.data(), table, sin.data(), pair, out.data()));
    check_equal(standin::bf16_to_float(out.read()[0]), -4.f, "bf16 rope");
  }
  {  // a large mean leaves no digits of the variance
    Descriptor row(miopenFloat, {1, 2}), line(miopenFloat, {2}), column(miopenFloat, {1});
    Buffer<float> in({10000.25f, 9999.75f}), out({0, 0});
    must_miopen(miopenLayerNormForward(handle, MIOPEN_ELEMENTWISE_AFFINE, row, in.data(), line, nullptr, line, nullptr,
                                       1e-5f, 1, row, out.data(), column, nullptr, column, nullptr));
    check(!(std::abs(out.read()[0] - 1) < 0.01), "layer norm with a large mean");
  }
}

void activations() {
  Handle handle;
  const float one = 1, zero = 0;
  const std::vector<float> x = wave(30, 4);
  Descriptor shape(miopenFloat, {1, 1, 5, 6});
  const struct {
    miopenActivationMode_t mode;
    double (*formula)(double);
  } cases[] = {
      {miopenActivationPASTHRU, [](double v) { return v; }},
      {miopenActivationLOGISTIC, [](double v) { return 1 / (1 + std::exp(-v)); }},
      {miopenActivationRELU, [](double v) { return std::max(v, 0.); }},
      {miopenActivationSOFTRELU, [](double v) { return std::log(1 + std::exp(v)); }},
      {miopenActivationABS, [](double v) { return std::abs(v); }},
      {miopenActivationPOWER, [](double v) { return std::pow(2 + 0.25 * v, 3.); }},
      {miopenActivationCLIPPEDRELU, [](double v) { return std::min(2., std::max(v, 0.)); }},
      {miopenActivationLEAKYRELU, [](double v) { return v > 0 ? v : 2 * v; }},
      {miopenActivationELU, [](double v) { return v > 0 ? v : 2 * (std::exp(v) - 1); }},
  };
  for (const auto& [mode, formula] : cases) {
    Buffer<float> in(x), out(std::vector<float>(x.size()));
    miopenActivationDescriptor_t activation = nullptr;
    must_miopen(miopenCreateActivationDescriptor(&activation));
    must_miopen(miopenSetActivationDescriptor(activation, mode, 2, 0.25, 3));
    must_miopen(miopenActivationForward(handle, activation, &one, shape, in.data(), &zero, shape, out.data()));
    const std::vector<float> y = out.read();
    for (size_t i = 0; i < x.size(); ++i) near(y[i], formula(x[i]), "activation");
    must_miopen(miopenDestroyActivationDescriptor(activation));
  }
}

struct Moments {
  double mean, variance, square;
};

Moments moments(const float* x, size_t count) {
  Moments m{0, 0, 0};
  for (size_t i = 0; i < count; ++i) m.mean += x[i] / double(count);
  for (size_t i = 0; i < count; ++i) m.variance += (x[i] - m.mean) * (x[i] - m.mean) / double(count);
  for (size_t i = 0; i < count; ++i) m.square += double(x[i]) * x[i] / double(count);
  return m;
}

void layer_norms() {
  Handle handle;
  constexpr size_t rows = 6, length = 20;
  const std::vector<float> x = wave(rows * length, 2), weight = wave(length, 1, 1), bias = wave(length, 1, 3);
  Descriptor shape(miopenFloat, {2, 3, 4, 5}), inner(miopenFloat, {4, 5}), outer(miopenFloat, {2, 3});
  Descriptor matrix(miopenFloat, {6, 20}), line(miopenFloat, {20}), column(miopenFloat, {6});
  Buffer<float> in(x), w(weight), b(bias), out(x);
  Buffer<float> mean{std::vector<float>(rows)}, rstd{std::vector<float>(rows)};
  must_miopen(miopenLayerNormForward(handle, MIOPEN_WEIGHT_BIAS, shape, in.data(), inner, w.data(), inner, b.data(),
                                     0.1f, 2, shape, out.data(), outer, mean.data(), outer, rstd.data()));
  for (size_t i = 0; i < x.size(); ++i) {
    const Moments m = moments(&x[i / length * length], length);
    const double scale = 1 / std::sqrt(m.variance + 0.1f);
    near(out.read()[i], (x[i] - m.mean) * scale * weight[i % length] + bias[i % length], "layer norm");
    near(mean.read()[i / length], m.mean, "mean");
    near(rstd.read()[i / length], scale, "rstd");
  }
  must_miopen(miopenT5LayerNormForward(handle, MIOPEN_WEIGHT_BIAS_T5, matrix, in.data(), line, w.data(), 0.1f, matrix,
                                       out.data(), column, nullptr));
  for (size_t i = 0; i < x.size(); ++i) {
    const Moments m = moments(&x[i / length * length], length);
    near(out.read()[i], x[i] / std::sqrt(m.square + 0.1f) * weight[i % length], "T5 layer norm");
  }
  must_miopen(miopenAddLayerNormForward(handle, MIOPEN_ELEMENTWISE_AFFINE_FUSED_ADD, matrix, in.data(), matrix,
                                        in.data(), nullptr, nullptr, nullptr, nullptr, 0.1f, 1, matrix, out.data(),
                                        nullptr, nullptr, nullptr, nullptr));
  for (size_t i = 0; i < x.size(); ++i) {
    const Moments m = moments(&x[i / length * length], length);
    near(out.read()[i], 2 * (x[i] - m.mean) / std::sqrt(4 * m.variance + 0.1f), "layer norm of a sum");
  }
}

void group_norm() {
  Handle handle;
  constexpr size_t channels = 4, pixels = 6, groups = 2, length = channels / groups * pixels;
  const std::vector<float> x = wave(2 * channels * pixels, 2), weight = wave(channels, 1, 1),
                           bias = wave(channels, 1, 3);
  Descriptor shape(miopenFloat, {2, 4, 2, 3}), per_channel(miopenFloat, {4}), statistics(miopenFloat, {2, 2});
  Buffer<float> in(x), w(weight), b(bias), out(x), mean(std::vector<float>(4)), rstd(std::vector<float>(4));
  must_miopen(miopenGroupNormForward(handle, MIOPEN_WEIGHT_BIAS, shape, in.data(), per_channel, w.data(), per_channel,
                                     b.data(), groups, 1e-5f, shape, out.data(), statistics, mean.data(), statistics,
                                     rstd.data()));
  for (size_t i = 0; i < x.size(); ++i) {
    const Moments m = moments(&x[i / length * length], length);
    const size_t c = i / pixels % channels;
    near(out.read()[i], (x[i] - m.mean) / std::sqrt(m.variance + 1e-5f) * weight[c] + bias[c], "group norm");
  }
}

void rope() {
  Handle handle;
  constexpr size_t batch = 2, tokens = 3, size = 4;
  const std::vector<float> x = wave(batch * tokens * size), angles = wave(tokens * size, 3);
  std::vector<float> cosines, sines;
  for (float angle : angles) {
    cosines.push_back(std::cos(angle));
    sines.push_back(std::sin(angle));
  }
  Descriptor shape(miopenFloat, {2, 1, 3, 4}), table(miopenFloat, {3, 4});
  Buffer<float> in(x), cos(cosines), sin(sines), out(x);
  must_miopen(miopenRoPEForward(handle, shape, in.data(), table, cos.data(), table, sin.data(), shape, out.data()));
  const std::vector<float> y = out.read();
  for (size_t i = 0; i < x.size(); i += 2) {
    const size_t row = i % angles.size();
    near(y[i], double(x[i]) * cosines[row] - double(x[i + 1]) * sines[row], "even element");
    near(y[i + 1], double(x[i + 1]) * cosines[row + 1] + double(x[i]) * sines[row + 1], "odd element");
  }
}

void refusals() {
  Handle handle;
  const float one = 1, zero = 0;
  Descriptor doubles(miopenDouble, {2, 3}), gaps(miopenFloat, {2, 3}, {4, 1}), other(miopenFloat, {3, 2});
  Buffer<double> x(std::vector<double>(8)), y(std::vector<double>(8));
  const auto t5 = [&](miopenTensorDescriptor_t x_desc, miopenTensorDescriptor_t y_desc) {
    return miopenT5LayerNormForward(handle, MIOPEN_ELEMENTWISE_AFFINE_T5, x_desc, x.data(), nullptr, nullptr, 0, y_desc,
                                    y.data(), nullptr, nullptr);
  };
  check_equal(t5(doubles, doubles), miopenStatusNotImplemented, "f64");
  check_equal(t5(gaps, gaps), miopenStatusNotImplemented, "gaps");
  check_equal(t5(gaps, other), miopenStatusBadParm, "shapes that differ");
  check_equal(miopenSoftmaxForward(nullptr, &one, gaps, x.data(), &zero, gaps, y.data()), miopenStatusBadParm,
              "no handle");
  miopenTensorDescriptor_t descriptor = nullptr;
  must_miopen(miopenCreateTensorDescriptor(&descriptor));
  check_equal(miopenSet4dTensorDescriptor(descriptor, miopenFloat, 1, 0, 1, 1), miopenStatusBadParm, "empty tensor");
  must_miopen(miopenDestroyTensorDescriptor(descriptor));
  check_misuse("a descriptor used after its end",
               [&] { check_equal(miopenDestroyTensorDescriptor(descriptor), miopenStatusBadParm, "destroyed twice"); });
  hipStream_t stream = nullptr, got = nullptr;
  must(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
  must_miopen(miopenSetStream(handle, stream));
  must_miopen(miopenGetStream(handle, &got));
  check(got == stream, "the stream that was set");
  must(hipStreamDestroy(stream));
}

}  // namespace

int main() {
  return run_tests({{"softmax_modes", softmax_modes},
                    {"softmax_overflow_and_types", softmax_overflow_and_types},
                    {"strided_half_tensors", strided_half_tensors},
                    {"faults", faults},
                    {"activations", activations},
                    {"layer_norms", layer_norms},
                    {"group_norm", group_norm},
                    {"rope", rope},
                    {"refusals", refusals}});
}
