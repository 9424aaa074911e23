// Runs a MIOpen function: reads its operands as dense f32 arrays, calls the arithmetic, and writes the results back.
#pragma once

#include <functional>
#include <vector>

#include "miopen/handle.h"
#include "miopen/tensor.h"

namespace standin {

/// A tensor in device memory. Its description is copied, so the descriptor may be destroyed before the work has run.
struct Operand {
  const char* name;
  Tensor tensor;
  void* data = nullptr;
  bool written = false;
};

using Values = std::vector<float>;  // row-major, in the order of the tensor's indices

Operand input(const char* name, const Tensor& tensor, const void* data);
Operand output(const char* name, const Tensor& tensor, void* data);
/// An optional operand: if the caller omits it, it has no elements.
Operand optional_input(const char* name, const Tensor* tensor, const void* data);
Operand optional_output(const char* name, const Tensor* tensor, void* data);

/// Checks the operands' memory and enqueues the work on the handle's stream. `compute` gets the operands' values in
/// order.
miopenStatus_t run(const char* function, const MiopenHandle& handle, std::vector<Operand> operands,
                   std::function<void(std::vector<Values>&)> compute);

/// True if all operands have the same type, it is f16, bf16 or f32, and none has gaps.
bool same_packed_float(const std::vector<const Tensor*>& tensors);

}  // namespace standin
