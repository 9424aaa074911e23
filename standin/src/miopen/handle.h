// A MIOpen handle, and the common frame of every entry point.
#pragma once

#include <map>
#include <new>
#include <string>

#include "core/config.h"
#include "core/faults.h"
#include "core/live.h"
#include "core/misuse.h"
#include "hip/objects.h"
#include "miopen_api.h"

namespace standin {

struct MiopenHandle {
  int device = 0;
  hipStream_t stream = nullptr;
  Overhead overhead;
  /// For each problem of softmax, the type of the first call; see softmax.cpp.
  std::map<std::string, miopenDataType_t> softmax_types;
};

template <class Body>
miopenStatus_t miopen_call(const char* function, Body&& body) {
  if (faults().called(function)) return miopenStatusInternalError;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return miopenStatusAllocFailed;
  }
}

/// Calls `body` with the handle if it is alive and no fault is due.
template <class Body>
miopenStatus_t handle_call(const char* function, miopenHandle_t handle, Body&& body) {
  return miopen_call(function, [&] {
    if (live().contains(Kind::MiopenHandle, handle)) return body(*reinterpret_cast<MiopenHandle*>(handle));
    if (handle) misuse("%s: %p is not a live handle", function, static_cast<void*>(handle));
    return miopenStatusBadParm;
  });
}

}  // namespace standin
