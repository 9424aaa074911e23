// The stand-in's own functions, exported by libamdhip64.so.7 for tests.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
extern "C" {
/// Adds faults from `spec`, a list like "hipMalloc:3,hipModuleLaunchKernel:1+": the third call from now of hipMalloc
/// fails, and every launch from now on. The pseudo-function "kernel" counts kernels that run: they fail asynchronously.
/// An empty or null `spec` removes every fault. Returns 0, or -1 when the text cannot be read.
int standin_fail(const char* spec);

/// Calls of `function` so far, failed ones included.
uint64_t standin_counts(const char* function);

/// Objects alive of a kind: "memory", "host memory", "registered memory", "stream", "event", "module", "program",
/// "rocblas handle", "miopen handle", "miopen descriptor"; null counts all kinds.
uint64_t standin_live(const char* kind);

/// Bytes of device memory in use, over all devices.
uint64_t standin_memory_in_use(void);

/// Misuses reported so far: unknown handles and pointers, out-of-range copies, double frees, damaged red zones, faults
/// and divergence in kernels.
uint64_t standin_misuses(void);

/// Lists what is alive on standard error and returns how many objects that is.
uint64_t standin_report(void);
}
#pragma GCC visibility pop
