#include "engine/cuda/guarded.h"

#include <algorithm>

#include "core/misuse.h"

namespace standin {
namespace {

constexpr unsigned char unwritten = 0xff;  // NaN in every float format
constexpr unsigned char red_zone = 0xa5;

}  // namespace

CUresult GuardedMemory::prepare(CUdeviceptr base, size_t bytes, CUstream stream, void** out) {
  const CudaDriver& cuda = cuda_driver();
  const CUdeviceptr ptr = base + guard_bytes;
  if (const CUresult error = cuda.fill8(base, red_zone, guard_bytes, stream)) return error;
  if (const CUresult error = cuda.fill8(ptr, unwritten, bytes, stream)) return error;
  if (const CUresult error = cuda.fill8(ptr + bytes, red_zone, guard_bytes, stream)) return error;
  *out = reinterpret_cast<void*>(ptr);
  std::lock_guard<std::mutex> lock(mutex_);
  bytes_[*out] = bytes;
  return 0;
}

CUdeviceptr GuardedMemory::take_back(void* ptr, CUstream stream) {
  size_t bytes = 0;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = bytes_.find(ptr);
    if (found == bytes_.end()) return 0;
    bytes = found->second;
    bytes_.erase(found);
  }
  const CudaDriver& cuda = cuda_driver();
  const CUdeviceptr address = CUdeviceptr(ptr);
  unsigned char before[guard_bytes], after[guard_bytes];
  const bool read = cuda.copy_async(CUdeviceptr(before), address - guard_bytes, guard_bytes, stream) == 0 &&
                    cuda.copy_async(CUdeviceptr(after), address + bytes, guard_bytes, stream) == 0 &&
                    cuda.stream_synchronize(stream) == 0;
  const auto damaged = [](const unsigned char(&guard)[guard_bytes]) {
    return std::any_of(guard, guard + guard_bytes, [](unsigned char byte) { return byte != red_zone; });
  };
  if (read && damaged(before)) misuse("device memory at %p (%zu bytes) was written before its start", ptr, bytes);
  if (read && damaged(after)) misuse("device memory at %p (%zu bytes) was written past its end", ptr, bytes);
  return address - guard_bytes;
}

}  // namespace standin
