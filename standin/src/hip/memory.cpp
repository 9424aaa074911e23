// Allocation, copies and fills: this file does the checks and records, and an engine does the work.
#include <cstring>

#include "core/memory_table.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/objects.h"

using namespace standin;

namespace {

hipError_t say_unknown(const char* function, const void* ptr, hipError_t error) {
  misuse("%s: %p is not the start of such an allocation: %s%s", function, ptr, memory_table().describe(ptr).c_str(),
         memory_table().was_freed(ptr) ? " (freed twice?)" : "");
  return error;
}

bool is_device_memory(const void* ptr) {
  const auto allocation = memory_table().containing(ptr);
  return allocation && (allocation->kind == MemoryKind::Device || allocation->kind == MemoryKind::Global);
}

// A host pointer into pinned memory must stay inside it; other host memory belongs to the caller.
hipError_t check_host_range(const char* function, const char* role, const void* ptr, size_t bytes) {
  if (!ptr) return hipErrorInvalidValue;
  if (is_device_memory(ptr)) {
    misuse("%s: %s %p should be host memory, but is %s", function, role, ptr, memory_table().describe(ptr).c_str());
    return hipErrorInvalidValue;
  }
  // The host engine never reuses a pinned address; with CUDA, the address may belong to the caller by now.
  const bool stale = config().engine == EngineKind::Host && memory_table().was_freed(ptr);
  if (memory_table().containing(ptr) || stale) return check_device_range(function, role, ptr, bytes);
  return hipSuccess;
}

hipError_t check_either_range(const char* function, const char* role, const void* ptr, size_t bytes) {
  if (memory_table().containing(ptr)) return check_device_range(function, role, ptr, bytes);
  return check_host_range(function, role, ptr, bytes);
}

hipError_t check_copy(const char* function, const void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  using Check = hipError_t (*)(const char*, const char*, const void*, size_t);
  Check check_dst = check_device_range;
  Check check_src = check_device_range;
  switch (kind) {
    case hipMemcpyHostToHost: check_dst = check_src = check_host_range; break;
    case hipMemcpyHostToDevice: check_src = check_host_range; break;
    case hipMemcpyDeviceToHost: check_dst = check_host_range; break;
    case hipMemcpyDeviceToDevice:
    case hipMemcpyDeviceToDeviceNoCU: break;
    case hipMemcpyDefault: check_dst = check_src = check_either_range; break;
    default: return hipErrorInvalidMemcpyDirection;
  }
  if (const hipError_t error = check_dst(function, "destination", dst, bytes)) return error;
  return check_src(function, "source", src, bytes);
}

hipError_t copy(const char* function, void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream,
                bool wait) {
  return hip_call(function, hipErrorInvalidValue, [&] {
    StreamTarget target;
    if (const hipError_t error = wait ? captures().check_unsafe(function) : hipSuccess) return error;
    if (const hipError_t error = resolve(function, stream, &target)) return error;
    if (bytes != 0) {
      if (const hipError_t error = check_copy(function, dst, src, bytes, kind)) return error;
      if (const hipError_t error = engine().copy(*target.engine, dst, src, bytes)) return error;
    }
    return wait ? engine().synchronize(*target.engine) : hipSuccess;
  });
}

hipError_t fill(const char* function, void* dst, uint32_t value, uint32_t width, size_t count, hipStream_t stream,
                bool wait = false) {
  return hip_call(function, hipErrorInvalidValue, [&] {
    StreamTarget target;
    if (const hipError_t error = wait ? captures().check_unsafe(function) : hipSuccess) return error;
    if (const hipError_t error = resolve(function, stream, &target)) return error;
    if (count > SIZE_MAX / width || uintptr_t(dst) % width != 0) return hipErrorInvalidValue;
    if (count != 0) {
      if (const hipError_t error = check_device_range(function, "destination", dst, count * width)) return error;
      if (const hipError_t error = engine().fill(*target.engine, dst, value, width, count)) return error;
    }
    return wait ? engine().synchronize(*target.engine) : hipSuccess;
  });
}

// Memory owned by a graph is not supported.
hipError_t check_no_memory(const char* function, hipStream_t stream) {
  if (!captures().active(stream)) return hipSuccess;
  misuse("%s: allocation inside of a captured graph is not supported", function);
  captures().spoil(stream);
  return hipErrorNotSupported;
}

hipError_t allocate(const char* function, void** ptr, size_t bytes, unsigned flags) {
  return hip_call(function, hipErrorOutOfMemory, [&] {
    const int device = current_device();
    if (const hipError_t error = check_device(device)) return error;
    if (const hipError_t error = captures().check_unsafe(function)) return error;
    if (!ptr || flags > hipDeviceMallocUncached) return hipErrorInvalidValue;
    *ptr = nullptr;
    if (bytes == 0) return hipSuccess;
    if (const hipError_t error = engine().allocate(device, bytes, ptr)) return error;
    memory_table().add({uintptr_t(*ptr), bytes, MemoryKind::Device, device, flags});
    return hipSuccess;
  });
}

hipError_t synchronize_all() {
  for (size_t device = 0; device < engine().devices().size(); ++device)
    if (const hipError_t error = engine().synchronize_device(int(device))) return error;
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipMalloc(void** ptr, size_t bytes) { return allocate(__func__, ptr, bytes, hipDeviceMallocDefault); }

hipError_t hipExtMallocWithFlags(void** ptr, size_t bytes, unsigned int flags) {
  return allocate(__func__, ptr, bytes, flags);
}

hipError_t hipFree(void* ptr) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (const hipError_t error = captures().check_unsafe("hipFree")) return error;
    if (!ptr) return hipSuccess;
    const auto allocation = memory_table().remove(ptr, MemoryKind::Device);
    if (!allocation) return say_unknown("hipFree", ptr, hipErrorInvalidValue);
    // Like the real function, finish the work that still uses the memory first.
    const hipError_t earlier = engine().synchronize_device(allocation->device);
    const hipError_t error = engine().release(allocation->device, ptr);
    return earlier ? earlier : error;
  });
}

hipError_t hipMallocAsync(void** ptr, size_t bytes, hipStream_t stream) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] {
    StreamTarget target;
    if (const hipError_t error = resolve("hipMallocAsync", stream, &target)) return error;
    if (const hipError_t error = check_no_memory("hipMallocAsync", stream)) return error;
    if (!ptr) return hipErrorInvalidValue;
    *ptr = nullptr;
    if (bytes == 0) return hipSuccess;
    if (const hipError_t error = engine().allocate_async(*target.engine, bytes, ptr)) return error;
    memory_table().add({uintptr_t(*ptr), bytes, MemoryKind::Device, target.device});
    return hipSuccess;
  });
}

hipError_t hipFreeAsync(void* ptr, hipStream_t stream) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    StreamTarget target;
    if (const hipError_t error = resolve("hipFreeAsync", stream, &target)) return error;
    if (const hipError_t error = check_no_memory("hipFreeAsync", stream)) return error;
    if (!ptr) return hipSuccess;
    if (!memory_table().remove(ptr, MemoryKind::Device)) return say_unknown("hipFreeAsync", ptr, hipErrorInvalidValue);
    return engine().release_async(*target.engine, ptr);
  });
}

hipError_t hipHostMalloc(void** ptr, size_t bytes, unsigned int flags) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] {
    if (const hipError_t error = check_device(current_device())) return error;
    if (const hipError_t error = captures().check_unsafe("hipHostMalloc")) return error;
    if (!ptr) return hipErrorInvalidValue;
    *ptr = nullptr;
    if (bytes == 0) return hipSuccess;
    if (const hipError_t error = engine().allocate_host(bytes, ptr)) return error;
    memory_table().add({uintptr_t(*ptr), bytes, MemoryKind::PinnedHost, current_device(), flags});
    return hipSuccess;
  });
}

hipError_t hipHostFree(void* ptr) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (const hipError_t error = captures().check_unsafe("hipHostFree")) return error;
    if (!ptr) return hipSuccess;
    if (!memory_table().remove(ptr, MemoryKind::PinnedHost))
      return say_unknown("hipHostFree", ptr, hipErrorInvalidValue);
    const hipError_t earlier = synchronize_all();
    const hipError_t error = engine().release_host(ptr);
    return earlier ? earlier : error;
  });
}

hipError_t hipHostRegister(void* ptr, size_t bytes, unsigned int flags) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] {
    if (const hipError_t error = check_device(current_device())) return error;
    if (const hipError_t error = captures().check_unsafe("hipHostRegister")) return error;
    if (!ptr || bytes == 0) return hipErrorInvalidValue;
    if (memory_table().containing(ptr)) return hipErrorHostMemoryAlreadyRegistered;
    if (const hipError_t error = engine().register_host(ptr, bytes)) return error;
    memory_table().add({uintptr_t(ptr), bytes, MemoryKind::RegisteredHost, current_device(), flags});
    return hipSuccess;
  });
}

hipError_t hipHostUnregister(void* ptr) {
  return hip_call(__func__, hipErrorHostMemoryNotRegistered, [&] {
    if (const hipError_t error = captures().check_unsafe("hipHostUnregister")) return error;
    if (!memory_table().remove(ptr, MemoryKind::RegisteredHost))
      return say_unknown("hipHostUnregister", ptr, hipErrorHostMemoryNotRegistered);
    return engine().unregister_host(ptr);
  });
}

hipError_t hipMemGetInfo(size_t* free, size_t* total) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (const hipError_t error = check_device(current_device())) return error;
    if (!free || !total) return hipErrorInvalidValue;
    return engine().memory_info(current_device(), free, total);
  });
}

hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* ptr) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (!attributes || !ptr) return hipErrorInvalidValue;
    std::memset(attributes, 0, sizeof *attributes);
    const auto allocation = memory_table().containing(ptr);
    if (!allocation) return hipErrorInvalidValue;
    const bool on_device = is_device_memory(ptr);
    attributes->type = on_device ? hipMemoryTypeDevice : hipMemoryTypeHost;
    attributes->device = allocation->device;
    attributes->devicePointer = const_cast<void*>(ptr);
    attributes->hostPointer = on_device ? nullptr : const_cast<void*>(ptr);
    attributes->allocationFlags = allocation->flags;
    return hipSuccess;
  });
}

hipError_t hipMemcpy(void* dst, const void* src, size_t bytes, hipMemcpyKind kind) {
  return copy(__func__, dst, src, bytes, kind, nullptr, true);
}

// Always asynchronous, even for pageable host memory: the strictest behaviour that HIP permits.
hipError_t hipMemcpyAsync(void* dst, const void* src, size_t bytes, hipMemcpyKind kind, hipStream_t stream) {
  return copy(__func__, dst, src, bytes, kind, stream, false);
}

hipError_t hipMemcpyDtoDAsync(hipDeviceptr_t dst, hipDeviceptr_t src, size_t bytes, hipStream_t stream) {
  return copy(__func__, dst, src, bytes, hipMemcpyDeviceToDevice, stream, false);
}

hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src, int src_device, size_t bytes,
                              hipStream_t stream) {
  if (check_device(dst_device) || check_device(src_device)) return remember(hipErrorInvalidDevice);
  return copy(__func__, dst, src, bytes, hipMemcpyDeviceToDevice, stream, false);
}

hipError_t hipMemset(void* dst, int value, size_t bytes) {
  return fill(__func__, dst, uint8_t(value), 1, bytes, nullptr, true);
}

hipError_t hipMemsetAsync(void* dst, int value, size_t bytes, hipStream_t stream) {
  return fill(__func__, dst, uint8_t(value), 1, bytes, stream);
}

hipError_t hipMemsetD8Async(hipDeviceptr_t dst, unsigned char value, size_t count, hipStream_t stream) {
  return fill(__func__, dst, value, 1, count, stream);
}

hipError_t hipMemsetD16Async(hipDeviceptr_t dst, unsigned short value, size_t count, hipStream_t stream) {
  return fill(__func__, dst, value, 2, count, stream);
}

hipError_t hipMemsetD32Async(hipDeviceptr_t dst, int value, size_t count, hipStream_t stream) {
  return fill(__func__, dst, uint32_t(value), 4, count, stream);
}

}  // extern "C"
