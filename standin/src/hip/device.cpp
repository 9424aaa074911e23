// Devices and their properties.
#include <cstdio>
#include <cstring>

#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/peers.h"

static_assert(sizeof(hipDeviceProp_tR0600) == 1472, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, totalGlobalMem) == 288, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, multiProcessorCount) == 388, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, pciBusID) == 584, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, sharedMemPerBlockOptin) == 696, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, gcnArchName) == 1160, "the public layout");
static_assert(offsetof(hipDeviceProp_tR0600, isLargeBar) == 1464, "the public layout");

namespace standin {
namespace {

thread_local int device_of_thread = 0;

}  // namespace

int current_device() { return device_of_thread; }

hipError_t check_device(int device) {
  const size_t count = engine().devices().size();
  if (count == 0) return hipErrorNoDevice;
  return device < 0 || size_t(device) >= count ? hipErrorInvalidDevice : hipSuccess;
}

}  // namespace standin

using namespace standin;

namespace {

// "gfx1100" is 11.0: the last two digits are the stepping and are hexadecimal.
void compute_capability(const std::string& gfx, int* major, int* minor) {
  const std::string digits = bare_gfx(gfx).substr(3);
  *major = digits.size() >= 3 ? std::atoi(digits.substr(0, digits.size() - 2).c_str()) : 0;
  *minor = digits.size() >= 3 ? digits[digits.size() - 2] - '0' : 0;
}

void fill_in(hipDeviceProp_tR0600& p, const DeviceInfo& info) {
  std::memset(static_cast<void*>(&p), 0, sizeof p);
  std::snprintf(p.name, sizeof p.name, "%s", info.name.c_str());
  std::snprintf(p.gcnArchName, sizeof p.gcnArchName, "%s", info.gfx.c_str());
  std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "STANDIN%08d", info.pci_bus);
  p.totalGlobalMem = info.memory_bytes;
  p.sharedMemPerBlock = p.sharedMemPerMultiprocessor = p.maxSharedMemoryPerMultiProcessor = info.lds_bytes;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = int(info.wave_size);
  p.memPitch = 2147483647;
  p.maxThreadsPerBlock = max_block_threads;
  for (int& dimension : p.maxThreadsDim) dimension = max_block_threads;
  for (int i = 0; i < 3; ++i) p.maxGridSize[i] = max_grid[i];
  p.clockRate = info.clock_khz;
  p.totalConstMem = 2147483647;
  compute_capability(info.gfx, &p.major, &p.minor);
  p.multiProcessorCount = info.multiprocessors;
  p.integrated = info.integrated;
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.pciBusID = info.pci_bus;
  p.asyncEngineCount = 1;
  p.unifiedAddressing = 1;
  p.memoryClockRate = info.memory_clock_khz;
  p.memoryBusWidth = info.memory_bus_bits;
  p.l2CacheSize = info.l2_bytes;
  p.maxThreadsPerMultiProcessor = 2 * max_block_threads;
  p.streamPrioritiesSupported = 1;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
}

hipError_t attribute_value(const hipDeviceProp_tR0600& p, hipDeviceAttribute_t attribute, int* value) {
  switch (attribute) {
    case hipDeviceAttributeEccEnabled: *value = p.ECCEnabled; break;
    case hipDeviceAttributeAsyncEngineCount: *value = p.asyncEngineCount; break;
    case hipDeviceAttributeCanMapHostMemory: *value = p.canMapHostMemory; break;
    case hipDeviceAttributeClockRate: *value = p.clockRate; break;
    case hipDeviceAttributeComputeMode: *value = p.computeMode; break;
    case hipDeviceAttributeConcurrentKernels: *value = p.concurrentKernels; break;
    case hipDeviceAttributeCooperativeLaunch: *value = 0; break;
    case hipDeviceAttributeIntegrated: *value = p.integrated; break;
    case hipDeviceAttributeKernelExecTimeout: *value = 0; break;
    case hipDeviceAttributeL2CacheSize: *value = p.l2CacheSize; break;
    case hipDeviceAttributeComputeCapabilityMajor: *value = p.major; break;
    case hipDeviceAttributeComputeCapabilityMinor: *value = p.minor; break;
    case hipDeviceAttributeManagedMemory: *value = 0; break;
    case hipDeviceAttributeMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
    case hipDeviceAttributeMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
    case hipDeviceAttributeMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
    case hipDeviceAttributeMaxGridDimX: *value = p.maxGridSize[0]; break;
    case hipDeviceAttributeMaxGridDimY: *value = p.maxGridSize[1]; break;
    case hipDeviceAttributeMaxGridDimZ: *value = p.maxGridSize[2]; break;
    case hipDeviceAttributeMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case hipDeviceAttributeMemoryBusWidth: *value = p.memoryBusWidth; break;
    case hipDeviceAttributeMemoryClockRate: *value = p.memoryClockRate; break;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount: *value = p.multiProcessorCount; break;
    case hipDeviceAttributePciBusId: *value = p.pciBusID; break;
    case hipDeviceAttributePciDeviceId: *value = p.pciDeviceID; break;
    case hipDeviceAttributePciDomainID: *value = p.pciDomainID; break;
    case hipDeviceAttributeMaxRegistersPerBlock: *value = p.regsPerBlock; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = int(p.sharedMemPerBlock); break;
    case hipDeviceAttributeSharedMemPerMultiprocessor:
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor: *value = int(p.sharedMemPerMultiprocessor); break;
    case hipDeviceAttributeStreamPrioritiesSupported: *value = p.streamPrioritiesSupported; break;
    case hipDeviceAttributeTotalConstantMemory: *value = int(p.totalConstMem); break;
    case hipDeviceAttributeUnifiedAddressing: *value = p.unifiedAddressing; break;
    case hipDeviceAttributeWarpSize: *value = p.warpSize; break;
    case hipDeviceAttributeMemoryPoolsSupported: *value = p.memoryPoolsSupported; break;
    case hipDeviceAttributeWallClockRate: *value = 1000000; break;  // kernels read nanoseconds
    case hipDeviceAttributeHostRegisterSupported: *value = p.hostRegisterSupported; break;
    default: return hipErrorInvalidValue;
  }
  return hipSuccess;
}

// Calls `body` with the engine's properties of `device`.
template <class Body>
hipError_t device_call(const char* function, int device, const void* out, Body&& body) {
  return hip_call(function, hipErrorInvalidDevice, [&] {
    if (const hipError_t error = check_device(device)) return error;
    if (!out) return hipErrorInvalidValue;
    return body(engine().devices()[size_t(device)]);
  });
}

}  // namespace

extern "C" {

hipError_t hipGetDeviceCount(int* count) {
  return hip_call(__func__, hipErrorNoDevice, [&] {
    if (!count) return hipErrorInvalidValue;
    *count = int(engine().devices().size());
    return *count ? hipSuccess : hipErrorNoDevice;
  });
}

hipError_t hipSetDevice(int device) {
  return hip_call(__func__, hipErrorInvalidDevice, [&] {
    if (const hipError_t error = check_device(device)) return error;
    device_of_thread = device;
    return hipSuccess;
  });
}

hipError_t hipGetDevice(int* device) {
  return device_call(__func__, device_of_thread, device, [&](const DeviceInfo&) {
    *device = device_of_thread;
    return hipSuccess;
  });
}

hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return device_call(__func__, ordinal, device, [&](const DeviceInfo&) {
    *device = ordinal;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetName(char* name, int length, hipDevice_t device) {
  return device_call(__func__, device, name, [&](const DeviceInfo& info) {
    if (length <= 0) return hipErrorInvalidValue;
    std::snprintf(name, size_t(length), "%s", info.name.c_str());
    return hipSuccess;
  });
}

hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return device_call(__func__, device, uuid, [&](const DeviceInfo& info) {
    hipDeviceProp_tR0600 properties;
    fill_in(properties, info);
    *uuid = properties.uuid;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetPCIBusId(char* id, int length, int device) {
  return device_call(__func__, device, id, [&](const DeviceInfo& info) {
    if (length <= 0) return hipErrorInvalidValue;
    std::snprintf(id, size_t(length), "0000:%02x:00.0", unsigned(info.pci_bus));
    return hipSuccess;
  });
}

hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return device_call(__func__, device, bytes, [&](const DeviceInfo& info) {
    *bytes = info.memory_bytes;
    return hipSuccess;
  });
}

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return device_call(__func__, device, value, [&](const DeviceInfo& info) {
    hipDeviceProp_tR0600 properties;
    fill_in(properties, info);
    return attribute_value(properties, attribute, value);
  });
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* properties, int device) {
  return device_call(__func__, device, properties, [&](const DeviceInfo& info) {
    fill_in(*properties, info);
    return hipSuccess;
  });
}

hipError_t hipDeviceSynchronize() {
  return hip_call(__func__, hipErrorLaunchFailure, [&] {
    if (const hipError_t error = check_device(device_of_thread)) return error;
    if (const hipError_t error = captures().check_device("hipDeviceSynchronize", device_of_thread)) return error;
    return engine().synchronize_device(device_of_thread);
  });
}

hipError_t hipDeviceCanAccessPeer(int* can_access, int device, int peer) {
  return device_call(__func__, device, can_access, [&](const DeviceInfo& info) {
    if (const hipError_t error = check_device(peer)) return error;
    const bool integrated = info.integrated || engine().devices()[size_t(peer)].integrated;
    *can_access = device != peer && !integrated && config().peers != PeerAccess::None;
    return hipSuccess;
  });
}

hipError_t hipDeviceEnablePeerAccess(int peer, unsigned int flags) {
  return device_call(__func__, peer, "", [&](const DeviceInfo&) {
    if (flags != 0) return hipErrorInvalidValue;
    if (peer == device_of_thread) return hipErrorInvalidDevice;
    if (config().peers == PeerAccess::None) return hipErrorPeerAccessUnsupported;
    if (!enable_peer(device_of_thread, peer)) return hipErrorPeerAccessAlreadyEnabled;
    return engine().enable_peer(device_of_thread, peer);
  });
}

// The default pool has no state here: any non-null handle identifies its device.
hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  return device_call(__func__, device, pool, [&](const DeviceInfo&) {
    static char pools[64];
    if (size_t(device) >= sizeof pools) return hipErrorInvalidDevice;
    *pool = reinterpret_cast<hipMemPool_t>(&pools[device]);
    return hipSuccess;
  });
}

hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    const bool known = attribute >= hipMemPoolReuseFollowEventDependencies && attribute <= hipMemPoolAttrUsedMemHigh;
    return pool && value && known ? hipSuccess : hipErrorInvalidValue;
  });
}

}  // extern "C"
