// Handles, versions and status names.
#include "miopen/handle.h"

#include <cstdio>
#include <memory>

using namespace standin;

namespace {

miopenStatus_t create(const char* function, miopenHandle_t* out, hipStream_t stream) {
  return miopen_call(function, [&] {
    if (!out) return miopenStatusBadParm;
    int device = 0;
    if (hipGetDevice(&device) != hipSuccess) {
      std::fprintf(stderr, "hip-standin: MIOpen: No device\n");
      return miopenStatusUnknownError;
    }
    StreamTarget target;
    if (resolve(function, stream, &target) != hipSuccess) return miopenStatusBadParm;
    auto handle = std::make_unique<MiopenHandle>();
    handle->device = target.device;
    handle->stream = stream;
    if (handle->overhead.take(target.device)) return miopenStatusAllocFailed;
    live().add(Kind::MiopenHandle, handle.get());
    *out = reinterpret_cast<miopenHandle_t>(handle.release());
    return miopenStatusSuccess;
  });
}

}  // namespace

extern "C" {

const char* miopenGetErrorString(miopenStatus_t status) {
  static const char* const names[] = {"miopenStatusSuccess",        "miopenStatusNotInitialized",
                                      "miopenStatusInvalidValue",   "miopenStatusBadParm",
                                      "miopenStatusAllocFailed",    "miopenStatusInternalError",
                                      "miopenStatusNotImplemented", "miopenStatusUnknownError",
                                      "miopenStatusUnsupportedOp",  "miopenStatusGpuOperationsSkipped",
                                      "miopenStatusVersionMismatch"};
  return status >= 0 && status <= miopenStatusVersionMismatch ? names[status] : "Unknown error status";
}

miopenStatus_t miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  return miopen_call(__func__, [&] {
    if (major) *major = config().miopen.major;
    if (minor) *minor = config().miopen.minor;
    if (patch) *patch = config().miopen.patch;
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenCreate(miopenHandle_t* handle) { return create(__func__, handle, nullptr); }

miopenStatus_t miopenCreateWithStream(miopenHandle_t* handle, miopenAcceleratorQueue_t stream) {
  return create(__func__, handle, stream);
}

miopenStatus_t miopenDestroy(miopenHandle_t handle) {
  return handle_call(__func__, handle, [](MiopenHandle& h) {
    if (!live().remove(Kind::MiopenHandle, &h)) return miopenStatusBadParm;
    h.overhead.give_back();
    retire(&h);
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenSetStream(miopenHandle_t handle, miopenAcceleratorQueue_t stream) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    StreamTarget target;
    if (resolve("miopenSetStream", stream, &target) != hipSuccess) return miopenStatusBadParm;
    if (target.device != h.device) {
      misuse("miopenSetStream: a handle of device %d, a stream of device %d", h.device, target.device);
      return miopenStatusBadParm;
    }
    h.stream = stream;
    return miopenStatusSuccess;
  });
}

miopenStatus_t miopenGetStream(miopenHandle_t handle, miopenAcceleratorQueue_t* stream) {
  return handle_call(__func__, handle, [&](MiopenHandle& h) {
    if (!stream) return miopenStatusBadParm;
    *stream = h.stream;
    return miopenStatusSuccess;
  });
}

// No function here needs a workspace.
miopenStatus_t miopenSetAllocator(miopenHandle_t handle, miopenAllocatorFunction, miopenDeallocatorFunction, void*) {
  return handle_call(__func__, handle, [](MiopenHandle&) { return miopenStatusSuccess; });
}

miopenStatus_t miopenEnableProfiling(miopenHandle_t handle, bool) {
  return handle_call(__func__, handle, [](MiopenHandle&) { return miopenStatusSuccess; });
}

miopenStatus_t miopenGetKernelTime(miopenHandle_t handle, float* milliseconds) {
  return handle_call(__func__, handle, [&](MiopenHandle&) {
    if (!milliseconds) return miopenStatusBadParm;
    *milliseconds = 0;
    return miopenStatusSuccess;
  });
}

}  // extern "C"
