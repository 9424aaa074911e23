// Runs a MIOpen function: reads its operands as dense f32 arrays, calls the arithmetic, writes the results back.
#pragma once

#include <functional>
#include <vector>

#include "miopen/handle.h"
#include "miopen/tensor.h"

namespace standin {

/// A tensor in device memory; its description is copied, so the descriptor may go before the work has run.
struct Operand {
  const char* name;
  Tensor tensor;
  void* data = nullptr;
  bool written = false;
};

using Values = std::vector<float>;  // row-major, in the order of the tensor's indices

Operand input(const char* name, const Tensor& tensor, const void* data);
Operand output(const char* name, const Tensor& tensor, void* data);
/// One that the caller may leave out: then it has no elements.
Operand optional_input(const char* name, const Tensor* tensor, const void* data);
Operand optional_output(const char* name, const Tensor* tensor, void* data);

/// Checks the operands' memory and puts the work on the handle's stream. `compute` gets the operands' values in order.
miopenStatus_t run(const char* function, const MiopenHandle& handle, std::vector<Operand> operands,
                   std::function<void(std::vector<Values>&)> compute);

/// True when all have one and the same type, which is one of f16, bf16, f32, and none has gaps.
bool same_packed_float(const std::vector<const Tensor*>& tensors);

}  // namespace standin
