// A rocBLAS handle, and the common frame of every entry point.
#pragma once

#include <new>

#include "core/faults.h"
#include "core/live.h"
#include "core/misuse.h"
#include "hip/objects.h"
#include "rocblas_api.h"

struct _rocblas_handle {
  int device = 0;
  standin::Overhead overhead;  // the library's own workspace
  void* workspace = nullptr;   // the caller's
  size_t workspace_bytes = 0;
  hipStream_t stream = nullptr;
  rocblas_pointer_mode pointer_mode = rocblas_pointer_mode_host;
};

namespace standin {

/// Calls `body` with the handle if it is alive and no fault is due.
template <class Body>
rocblas_status rocblas_call(const char* function, rocblas_handle handle, Body&& body) {
  if (faults().called(function)) return rocblas_status_internal_error;
  if (!live().contains(Kind::RocblasHandle, handle)) {
    if (handle) misuse("%s: %p is not a live handle", function, static_cast<void*>(handle));
    return rocblas_status_invalid_handle;
  }
  try {
    return body(*handle);
  } catch (const std::bad_alloc&) {
    return rocblas_status_memory_error;
  }
}

inline rocblas_status from_hip(hipError_t error) {
  switch (error) {
    case hipSuccess: return rocblas_status_success;
    case hipErrorOutOfMemory: return rocblas_status_memory_error;
    case hipErrorInvalidValue: return rocblas_status_invalid_pointer;
    case hipErrorInvalidHandle: return rocblas_status_invalid_handle;
    default: return rocblas_status_internal_error;
  }
}

}  // namespace standin
