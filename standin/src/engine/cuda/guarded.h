// Device memory between two red zones of known bytes. The cuda engine uses it instead of guard pages.
#pragma once

#include <mutex>
#include <string>
#include <unordered_map>

#include "engine/cuda/driver.h"

namespace standin {

class GuardedMemory {
 public:
  static constexpr size_t guard_bytes = 256;

  /// The size to request from the driver for `bytes` of the caller's.
  static size_t padded(size_t bytes) { return bytes + 2 * guard_bytes; }
  /// Fills the red zones, and the memory with 0xff; returns the caller's pointer.
  CUresult prepare(CUdeviceptr base, size_t bytes, CUstream stream, void** out);
  /// Waits for the stream and checks the red zones; returns the driver's pointer, or 0 for an unknown one.
  CUdeviceptr take_back(void* ptr, CUstream stream);

 private:
  std::mutex mutex_;
  std::unordered_map<void*, size_t> bytes_;
};

}  // namespace standin
