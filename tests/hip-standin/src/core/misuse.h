// Reports of what a caller did wrong.
#pragma once

#include <cstdint>

namespace standin {

/// Says what went wrong on standard error and counts it. In strict mode the process then exits with status 86 at its
/// end.
__attribute__((visibility("default"), format(printf, 1, 2))) void misuse(const char* format, ...);

uint64_t misuse_count();

/// True while the calling thread runs a stream callback or host function, from which HIP forbids calls.
bool in_host_callback();

/// Marks the calling thread for as long as it lives.
class HostCallbackScope {
 public:
  HostCallbackScope();
  ~HostCallbackScope();
};

}  // namespace standin
