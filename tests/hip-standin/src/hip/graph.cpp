// Stream capture and graphs: rejected, as by a device without them.
#include "hip/api.h"

using namespace standin;

namespace {

hipError_t refuse(const char* function) {
  return hip_call(function, hipErrorNotSupported, [] { return hipErrorNotSupported; });
}

}  // namespace

extern "C" {

hipError_t hipStreamBeginCapture(hipStream_t, hipStreamCaptureMode) { return refuse(__func__); }
hipError_t hipStreamEndCapture(hipStream_t, hipGraph_t*) { return refuse(__func__); }

hipError_t hipStreamIsCapturing(hipStream_t, hipStreamCaptureStatus* status) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    if (!status) return hipErrorInvalidValue;
    *status = hipStreamCaptureStatusNone;
    return hipSuccess;
  });
}

hipError_t hipGraphInstantiate(hipGraphExec_t*, hipGraph_t, hipGraphNode_t*, char*, size_t) { return refuse(__func__); }
hipError_t hipGraphLaunch(hipGraphExec_t, hipStream_t) { return refuse(__func__); }
hipError_t hipGraphDestroy(hipGraph_t) { return refuse(__func__); }
hipError_t hipGraphExecDestroy(hipGraphExec_t) { return refuse(__func__); }
hipError_t hipGraphExecUpdate(hipGraphExec_t, hipGraph_t, hipGraphNode_t*, hipGraphExecUpdateResult*) {
  return refuse(__func__);
}
hipError_t hipGraphExecKernelNodeSetParams(hipGraphExec_t, hipGraphNode_t, const hipKernelNodeParams*) {
  return refuse(__func__);
}

}  // extern "C"
