// Tensor descriptors.
#pragma once

#include <cstdint>
#include <vector>

#include "miopen_api.h"

namespace standin {

struct Tensor {
  miopenDataType_t type = miopenFloat;
  std::vector<size_t> lengths;
  std::vector<size_t> strides;

  size_t count() const;
  /// Bytes from the start of the first element to the end of the last.
  size_t extent_bytes() const;
  /// Row-major without gaps.
  bool packed() const;
};

/// 0 for a type that the stand-in does not support.
size_t element_bytes(miopenDataType_t type);

std::vector<size_t> packed_strides(const std::vector<size_t>& lengths);

/// The tensor behind a descriptor, or null.
const Tensor* find(const char* function, miopenTensorDescriptor_t descriptor);

}  // namespace standin
