// How every HIP entry point begins and ends.
#pragma once

#include <new>
#include <system_error>

#include "core/faults.h"
#include "core/misuse.h"
#include "hip_api.h"

namespace standin {

/// Keeps `error` for hipGetLastError and returns it.
hipError_t remember(hipError_t error);

/// Counts the call of `function`, fails it with `injected` when a fault is due, else returns what `body` returns.
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

/// hipErrorNoDevice, hipErrorInvalidDevice or nothing.
hipError_t check_device(int device);

/// The calling thread's device; valid once check_device(current_device()) is hipSuccess.
int current_device();

}  // namespace standin
