// Shared by the tests of MIOpen: handles, descriptors and comparisons.
#pragma once

#include <cmath>
#include <numeric>

#include "check.h"
#include "core/half.h"
#include "miopen_api.h"

inline void must_miopen(miopenStatus_t status, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (status == miopenStatusSuccess) return;
  std::printf("%s:%d: %s\n", file, line, miopenGetErrorString(status));
  std::exit(1);
}

class Handle {
 public:
  Handle() { must_miopen(miopenCreate(&handle_)); }
  ~Handle() { must_miopen(miopenDestroy(handle_)); }
  operator miopenHandle_t() const { return handle_; }

 private:
  miopenHandle_t handle_ = nullptr;
};

class Descriptor {
 public:
  Descriptor(miopenDataType_t type, std::vector<int> lengths, std::vector<int> strides = {}) {
    must_miopen(miopenCreateTensorDescriptor(&descriptor_));
    must_miopen(miopenSetTensorDescriptor(descriptor_, type, int(lengths.size()), lengths.data(),
                                          strides.empty() ? nullptr : strides.data()));
  }
  ~Descriptor() { must_miopen(miopenDestroyTensorDescriptor(descriptor_)); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator miopenTensorDescriptor_t() const { return descriptor_; }

 private:
  miopenTensorDescriptor_t descriptor_ = nullptr;
};

inline std::vector<float> wave(size_t count, float scale = 1, float phase = 0) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = scale * std::sin(1.7f * float(i) + phase);
  return values;
}

inline void near(float got, double wanted, const char* what, double tolerance = 2e-6, const char* file = __builtin_FILE(),
          int line = __builtin_LINE()) {
  check(std::abs(got - wanted) <= tolerance * std::max(1., std::abs(wanted)), what, file, line);
}
