// Reports misuse by the caller.
#pragma once

#include <cstdint>

namespace standin {

/// Reports the misuse on standard error and counts it. In strict mode, the exit status of the process becomes 86.
__attribute__((visibility("default"), format(printf, 1, 2))) void misuse(const char* format, ...);

uint64_t misuse_count();

/// True while the calling thread runs a stream callback or host function, where HIP forbids calls.
bool in_host_callback();

/// Marks the calling thread for the lifetime of the object.
class HostCallbackScope {
 public:
  HostCallbackScope();
  ~HostCallbackScope();
};

}  // namespace standin
