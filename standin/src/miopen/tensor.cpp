#include "miopen/tensor.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "miopen/handle.h"

namespace standin {

size_t Tensor::count() const {
  return std::accumulate(lengths.begin(), lengths.end(), size_t(1), std::multiplies<size_t>());
}

size_t Tensor::extent_bytes() const {
  size_t last = 0;
  for (size_t i = 0; i < lengths.size(); ++i) last += (lengths[i] - 1) * strides[i];
  return (last + 1) * element_bytes(type);
}

bool Tensor::packed() const { return strides == packed_strides(lengths); }

size_t element_bytes(miopenDataType_t type) {
  switch (type) {
    case miopenHalf:
    case miopenBFloat16: return 2;
    case miopenFloat:
    case miopenInt32: return 4;
    case miopenDouble:
    case miopenInt64: return 8;
    case miopenInt8: return 1;
    default: return 0;
  }
}

std::vector<size_t> packed_strides(const std::vector<size_t>& lengths) {
  std::vector<size_t> strides(lengths.size(), 1);
  for (size_t i = lengths.size(); i-- > 1;) strides[i - 1] = strides[i] * lengths[i];
  return strides;
}

const Tensor* find(const char* function, miopenTensorDescriptor_t descriptor) {
  if (live().contains(Kind::MiopenDescriptor, descriptor)) return reinterpret_cast<const Tensor*>(descriptor);
  if (descriptor) misuse("%s: %p is not a live descriptor", function, static_cast<void*>(descriptor));
  return nullptr;
}

}  // namespace standin

using namespace standin;

namespace {

// Calls `body` with the tensor behind the descriptor.
template <class Body>
miopenStatus_t tensor_call(const char* function, miopenTensorDescriptor_t descriptor, Body&& body) {
  return miopen_call(function, [&] {
    const Tensor* tensor = find(function, descriptor);
    return tensor ? body(const_cast<Tensor&>(*tensor)) : miopenStatusBadParm;
  });
}

template <class Int>
miopenStatus_t set(const char* function, miopenTensorDescriptor_t descriptor, miopenDataType_t type, int count,
                   const Int* lengths, const Int* strides) {
  return tensor_call(function, descriptor, [&](Tensor& tensor) {
    const auto positive = [&](const Int* values) {
      return std::all_of(values, values + count, [](Int value) { return value > 0; });
    };
    if (element_bytes(type) == 0 || count <= 0 || !lengths || !positive(lengths)) return miopenStatusBadParm;
    if (strides && !std::all_of(strides, strides + count, [](Int s) { return !(s < Int(0)); }))
      return miopenStatusBadParm;
    tensor.type = type;
    tensor.lengths.assign(lengths, lengths + count);
    tensor.strides = strides ? std::vector<size_t>(strides, strides + count) : packed_strides(tensor.lengths);
    return miopenStatusSuccess;
  });
}

}  // namespace

extern "C" {

miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* descriptor) {
  return miopen_call(__func__, [&] {
    if (!descriptor) return miopenStatusBadParm;
    auto* tensor = new Tensor;
    live().add(Kind::MiopenDescriptor, tensor, "of a tensor");
    *descriptor = reinterpret_cast<miopenTensorDescriptor_t>(tensor);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t descriptor) {
  return tensor_call(__func__, descriptor, [&](Tensor& tensor) {
    if (!live().remove(Kind::MiopenDescriptor, &tensor)) return miopenStatusBadParm;
    tensor = {};
    retire(&tensor);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSet4dTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int n, int c,
                                           int h, int w) {
  const int lengths[] = {n, c, h, w};
  return set<int>(__func__, descriptor, type, 4, lengths, nullptr);
}

miopenStatus_t miopenSet4dTensorDescriptorEx(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int n, int c,
                                             int h, int w, int n_stride, int c_stride, int h_stride, int w_stride) {
  const int lengths[] = {n, c, h, w};
  const int strides[] = {n_stride, c_stride, h_stride, w_stride};
  return set(__func__, descriptor, type, 4, lengths, strides);
}

miopenStatus_t miopenGet4dTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t* type, int* n, int* c,
                                           int* h, int* w, int* n_stride, int* c_stride, int* h_stride, int* w_stride) {
  return tensor_call(__func__, descriptor, [&](Tensor& tensor) {
    int* const lengths[] = {n, c, h, w};
    int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
    if (!type || tensor.lengths.size() != 4) return miopenStatusBadParm;
    *type = tensor.type;
    for (size_t i = 0; i < 4; ++i) {
      if (!lengths[i] || !strides[i]) return miopenStatusBadParm;
      *lengths[i] = int(tensor.lengths[i]);
      *strides[i] = int(tensor.strides[i]);
    }
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSetNdTensorDescriptorWithLayout(miopenTensorDescriptor_t descriptor, miopenDataType_t type,
                                                     miopenTensorLayout_t layout, const int* lengths, int count) {
  const bool rows_last = layout == miopenTensorNCHW || layout == miopenTensorNCDHW;
  if (!rows_last) return miopen_call(__func__, [] { return miopenStatusNotImplemented; });
  return set<int>(__func__, descriptor, type, count, lengths, nullptr);
}

miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int count,
                                         const int* lengths, const int* strides) {
  return set(__func__, descriptor, type, count, lengths, strides);
}

miopenStatus_t miopenSetTensorDescriptorV2(miopenTensorDescriptor_t descriptor, miopenDataType_t type, int count,
                                           const size_t* lengths, const size_t* strides) {
  return set(__func__, descriptor, type, count, lengths, strides);
}

miopenStatus_t miopenGetTensorDescriptorSize(miopenTensorDescriptor_t descriptor, int* count) {
  return tensor_call(__func__, descriptor, [&](Tensor& tensor) {
    if (!count) return miopenStatusBadParm;
    *count = int(tensor.lengths.size());
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenGetTensorDescriptor(miopenTensorDescriptor_t descriptor, miopenDataType_t* type, int* lengths,
                                         int* strides) {
  return tensor_call(__func__, descriptor, [&](Tensor& tensor) {
    if (type) *type = tensor.type;
    const auto narrow = [](size_t value) { return int(value); };
    if (lengths) std::transform(tensor.lengths.begin(), tensor.lengths.end(), lengths, narrow);
    if (strides) std::transform(tensor.strides.begin(), tensor.strides.end(), strides, narrow);
    return miopenStatusSuccess;
  });
}

}  // extern "C"
