// D = alpha * op(A) * op(B) + beta * C, plus a bias for each row of D: what a descriptor and four layouts describe.
#pragma once

#include "hipblaslt/objects.h"

namespace standin {

struct LtProduct {
  const char* function;
  LtDesc desc;
  LtLayout a, b, c, d;
  uint64_t k = 0;

  bool has_bias() const { return desc.epilogue == HIPBLASLT_EPILOGUE_BIAS; }
};

/// Bytes per element; 0 for a type that the stand-in does not support.
size_t lt_element_bytes(int32_t type);

/// Checks the descriptors against each other. Contradictions are misuses.
hipblasStatus_t describe(const char* function, const void* desc, const void* a, const void* b, const void* c,
                         const void* d, LtProduct* out);

/// Whether there is a kernel for the types, the operations and the epilogue.
bool has_kernel(const LtProduct& product);

/// Bytes of workspace that the kernel needs. It splits long sums, and holds the parts there.
size_t workspace_of(const LtProduct& product);

/// A number that differs between products that need different kernels.
uint64_t kernel_of(const LtProduct& product);

/// Addresses at which the operands can be read and written.
struct LtAddresses {
  const void *a, *b, *c, *bias;
  void *d, *workspace;
};

/// The arithmetic, on the host. With beta 0, C is not read.
void compute(const LtProduct& product, float alpha, float beta, const LtAddresses& at);

}  // namespace standin
