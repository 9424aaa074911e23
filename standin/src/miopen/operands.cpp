#include "miopen/operands.h"

#include "core/half.h"

namespace standin {
namespace {

float load(const void* data, miopenDataType_t type, size_t index) {
  switch (type) {
    case miopenHalf: return f16_to_float(static_cast<const uint16_t*>(data)[index]);
    case miopenBFloat16: return bf16_to_float(static_cast<const uint16_t*>(data)[index]);
    default: return static_cast<const float*>(data)[index];
  }
}

void store(void* data, miopenDataType_t type, size_t index, float value) {
  switch (type) {
    case miopenHalf: static_cast<uint16_t*>(data)[index] = float_to_f16(value); break;
    case miopenBFloat16: static_cast<uint16_t*>(data)[index] = float_to_bf16(value); break;
    default: static_cast<float*>(data)[index] = value;
  }
}

// Calls `visit(i, offset)` with the index of each element, in index order, and its offset.
template <class Visit>
void for_each_element(const Tensor& tensor, Visit&& visit) {
  std::vector<size_t> index(tensor.lengths.size());
  size_t offset = 0;
  for (size_t i = 0, count = tensor.count(); i < count; ++i) {
    visit(i, offset);
    for (size_t axis = index.size(); axis-- > 0;) {
      offset += tensor.strides[axis];
      if (++index[axis] < tensor.lengths[axis]) break;
      offset -= tensor.strides[axis] * tensor.lengths[axis];
      index[axis] = 0;
    }
  }
}

miopenStatus_t from_hip(hipError_t error) {
  switch (error) {
    case hipSuccess: return miopenStatusSuccess;
    case hipErrorOutOfMemory: return miopenStatusAllocFailed;
    case hipErrorInvalidValue: return miopenStatusBadParm;
    default: return miopenStatusUnknownError;
  }
}

}  // namespace

Operand input(const char* name, const Tensor& tensor, const void* data) {
  return {name, tensor, const_cast<void*>(data), false};
}

Operand output(const char* name, const Tensor& tensor, void* data) { return {name, tensor, data, true}; }

Operand optional_input(const char* name, const Tensor* tensor, const void* data) {
  return tensor && data ? input(name, *tensor, data) : Operand{name, {}, nullptr, false};
}

Operand optional_output(const char* name, const Tensor* tensor, void* data) {
  return tensor && data ? output(name, *tensor, data) : Operand{name, {}, nullptr, false};
}

miopenStatus_t run(const char* function, const MiopenHandle& handle, std::vector<Operand> operands,
                   std::function<void(std::vector<Values>&)> compute) {
  StreamTarget stream;
  if (const hipError_t error = resolve(function, handle.stream, &stream)) return from_hip(error);
  std::vector<DeviceRange> ranges;
  for (const Operand& operand : operands) {
    const size_t bytes = operand.tensor.lengths.empty() ? 0 : operand.tensor.extent_bytes();
    if (bytes != 0 && !operand.data) return miopenStatusBadParm;
    if (const hipError_t error = check_device_range(function, operand.name, operand.data, bytes))
      return from_hip(error);
    ranges.push_back({operand.data, bytes});
  }
  return from_hip(engine().run_on_host(*stream.engine, ranges, [=](void* const* at) {
    std::vector<Values> values(operands.size());
    for (size_t o = 0; o < operands.size(); ++o) {
      const Tensor& tensor = operands[o].tensor;
      if (tensor.lengths.empty()) continue;
      values[o].resize(tensor.count());
      for_each_element(tensor, [&](size_t i, size_t offset) { values[o][i] = load(at[o], tensor.type, offset); });
    }
    compute(values);
    for (size_t o = 0; o < operands.size(); ++o) {
      const Tensor& tensor = operands[o].tensor;
      if (!operands[o].written) continue;
      for_each_element(tensor, [&](size_t i, size_t offset) { store(at[o], tensor.type, offset, values[o][i]); });
    }
  }));
}

bool same_packed_float(const std::vector<const Tensor*>& tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* tensor : tensors) {
    if (!tensor) continue;
    if (!first) first = tensor;
    if (tensor->type != first->type || !tensor->packed()) return false;
  }
  return first && (first->type == miopenHalf || first->type == miopenBFloat16 || first->type == miopenFloat);
}

}  // namespace standin
