// Initialisation, versions, errors, and the stand-in's own functions.
#include <iterator>
#include <string>

#include "core/live.h"
#include "core/memory_table.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/objects.h"
#include "standin.h"

namespace standin {
namespace {

thread_local hipError_t last_error = hipSuccess;

struct ErrorText {
  hipError_t error;
  const char* name;
  const char* text;
};

constexpr ErrorText error_texts[] = {
    {hipSuccess, "hipSuccess", "no error"},
    {hipErrorInvalidValue, "hipErrorInvalidValue", "invalid argument"},
    {hipErrorOutOfMemory, "hipErrorOutOfMemory", "out of memory"},
    {hipErrorNotInitialized, "hipErrorNotInitialized", "initialization error"},
    {hipErrorDeinitialized, "hipErrorDeinitialized", "driver shutting down"},
    {hipErrorInvalidConfiguration, "hipErrorInvalidConfiguration", "invalid configuration argument"},
    {hipErrorInvalidDevicePointer, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {hipErrorInvalidMemcpyDirection, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {hipErrorNoDevice, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {hipErrorInvalidDevice, "hipErrorInvalidDevice", "invalid device ordinal"},
    {hipErrorInvalidImage, "hipErrorInvalidImage", "device kernel image is invalid"},
    {hipErrorInvalidContext, "hipErrorInvalidContext", "invalid device context"},
    {hipErrorNoBinaryForGpu, "hipErrorNoBinaryForGpu", "no kernel image is available for execution on the device"},
    {hipErrorFileNotFound, "hipErrorFileNotFound", "file not found"},
    {hipErrorSharedObjectInitFailed, "hipErrorSharedObjectInitFailed", "shared object initialization failed"},
    {hipErrorInvalidHandle, "hipErrorInvalidHandle", "invalid resource handle"},
    {hipErrorIllegalState, "hipErrorIllegalState", "the operation cannot be performed in the present state"},
    {hipErrorNotFound, "hipErrorNotFound", "named symbol not found"},
    {hipErrorNotReady, "hipErrorNotReady", "device not ready"},
    {hipErrorIllegalAddress, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {hipErrorLaunchOutOfResources, "hipErrorLaunchOutOfResources", "too many resources requested for launch"},
    {hipErrorLaunchTimeOut, "hipErrorLaunchTimeOut", "the launch timed out and was terminated"},
    {hipErrorPeerAccessUnsupported, "hipErrorPeerAccessUnsupported", "peer access is not supported"},
    {hipErrorPeerAccessAlreadyEnabled, "hipErrorPeerAccessAlreadyEnabled", "peer access is already enabled"},
    {hipErrorPeerAccessNotEnabled, "hipErrorPeerAccessNotEnabled", "peer access has not been enabled"},
    {hipErrorHostMemoryAlreadyRegistered, "hipErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {hipErrorHostMemoryNotRegistered, "hipErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {hipErrorLaunchFailure, "hipErrorLaunchFailure", "unspecified launch failure"},
    {hipErrorNotSupported, "hipErrorNotSupported", "operation not supported"},
    {hipErrorStreamCaptureUnsupported, "hipErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {hipErrorStreamCaptureInvalidated, "hipErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {hipErrorStreamCaptureIsolation, "hipErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {hipErrorStreamCaptureImplicit, "hipErrorStreamCaptureImplicit",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {hipErrorCapturedEvent, "hipErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
    {hipErrorStreamCaptureWrongThread, "hipErrorStreamCaptureWrongThread",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {hipErrorUnknown, "hipErrorUnknown", "unknown error"},
};

const ErrorText& text_of(hipError_t error) {
  for (const ErrorText& entry : error_texts)
    if (entry.error == error) return entry;
  return *std::prev(std::end(error_texts));
}

}  // namespace

hipError_t remember(hipError_t error) {
  if (error != hipSuccess && error != hipErrorNotReady) last_error = error;
  return error;
}

}  // namespace standin

using namespace standin;

namespace {

hipError_t version(const char* function, int* out) {
  return hip_call(function, hipErrorInvalidValue, [&] {
    if (!out) return hipErrorInvalidValue;
    const LibraryVersion& rocm = config().rocm;
    *out = int(rocm.major * 10'000'000 + rocm.minor * 100'000 + rocm.patch);
    return hipSuccess;
  });
}

}  // namespace

extern "C" {

hipError_t hipInit(unsigned int flags) {
  return hip_call(__func__, hipErrorNotInitialized, [&] {
    if (flags != 0) return hipErrorInvalidValue;
    return engine().devices().empty() ? hipErrorNoDevice : hipSuccess;
  });
}

hipError_t hipDriverGetVersion(int* out) { return version(__func__, out); }
hipError_t hipRuntimeGetVersion(int* out) { return version(__func__, out); }

hipError_t hipGetLastError() {
  const hipError_t error = last_error;
  last_error = hipSuccess;
  return error;
}

hipError_t hipPeekAtLastError() { return last_error; }
const char* hipGetErrorName(hipError_t error) { return text_of(error).name; }
const char* hipGetErrorString(hipError_t error) { return text_of(error).text; }

int standin_fail(const char* spec) { return faults().add(spec) ? 0 : -1; }
uint64_t standin_counts(const char* function) { return faults().count(function); }

uint64_t standin_live(const char* kind) {
  if (!kind) return live().count(-1);
  for (int k = 0; k < kind_count; ++k)
    if (std::string(kind_name(Kind(k))) == kind) return live().count(k);
  misuse("standin_live: no kind of object is called '%s'", kind);
  return 0;
}

int standin_capture(hipStream_t stream, int captured) {
  if (!live().contains(Kind::Stream, stream)) return -1;
  stream->captured = captured != 0;
  return 0;
}

uint64_t standin_memory_in_use() { return memory_table().bytes_in_use(); }
uint64_t standin_misuses() { return misuse_count(); }
uint64_t standin_report() { return live().report(); }

}  // extern "C"
