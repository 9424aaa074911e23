// The common frame of every HIP entry point.
#pragma once

#include <cstdint>
#include <new>
#include <system_error>

#include "core/faults.h"
#include "core/misuse.h"
#include "hip_api.h"

namespace standin {

constexpr uint32_t max_block_threads = 1024;
constexpr uint32_t max_grid[3] = {2147483647, 65536, 65536};

/// Stores `error` for hipGetLastError and returns it.
hipError_t remember(hipError_t error);

/// Counts the call of `function`. Returns `injected` if a fault is due, otherwise the result of `body`.
template <class Body>
hipError_t hip_call(const char* function, hipError_t injected, Body&& body) {
  if (faults().called(function)) return remember(injected);
  if (in_host_callback()) {
    misuse("%s: called from a stream's host function, where HIP allows no calls", function);
    return remember(hipErrorNotSupported);
  }
  try {
    return remember(body());
  } catch (const std::bad_alloc&) {
    return remember(hipErrorOutOfMemory);
  } catch (const std::system_error&) {  // a thread that could not be started
    return remember(hipErrorOutOfMemory);
  }
}

/// hipErrorNoDevice, hipErrorInvalidDevice or hipSuccess.
hipError_t check_device(int device);

/// The calling thread's device; valid only if check_device(current_device()) returns hipSuccess.
int current_device();

}  // namespace standin
