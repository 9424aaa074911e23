// Functions of the stand-in itself, exported by libamdhip64.so.7 for tests.
#pragma once

#include <cstdint>

#include "hip_api.h"

#pragma GCC visibility push(default)
extern "C" {
/// Injects faults from `spec`, a list such as "hipMalloc:3,hipModuleLaunchKernel:1+": the third call of hipMalloc from
/// now fails, and so does every launch from now on. The pseudo-function "kernel" counts kernels that run, "kernel NAME"
/// those of one name, and "kernel NAME on GFX" those on devices of one target, such as gfx90a; they fail asynchronously (host engine).
/// "rccl link" counts the work of RCCL's calls as it runs; it then waits until its communicator is aborted, as if a link had failed. With
/// "rccl error", the communicator also has an asynchronous error.
/// An empty or null `spec` removes all faults. Returns 0, or -1 if the text cannot be parsed.
int standin_fail(const char* spec);

/// Marks a stream as being captured by its owner, or no longer captured. Nothing is recorded; but until the
/// mark is removed, querying the stream or an event recorded on it, or waiting for either on the host, is a
/// misuse. Returns 0, or -1 if there is no such stream.
int standin_capture(hipStream_t stream, int captured);

/// Number of calls of `function` so far, including failed ones.
uint64_t standin_counts(const char* function);

/// Live objects of a kind: "memory", "host memory", "registered memory", "stream", "event", "module", "program",
/// "rocblas handle", "hipblaslt handle", "hipblaslt layout", "hipblaslt desc", "hipblaslt preference", "miopen handle",
/// "miopen descriptor", "graph", "graph instance", "rccl communicator". Null counts all kinds.
uint64_t standin_live(const char* kind);

/// Bytes of device memory in use, over all devices.
uint64_t standin_memory_in_use(void);

/// Misuses reported so far: unknown handles and pointers, out-of-range copies, double frees, damaged red zones, and
/// faults and divergence in kernels.
uint64_t standin_misuses(void);

/// Lists live objects on standard error and returns their number.
uint64_t standin_report(void);
}
#pragma GCC visibility pop
