// Streams.
#include "core/live.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/objects.h"

using namespace standin;

namespace {

hipError_t create(const char* function, hipStream_t* out, unsigned int flags, int priority) {
  return hip_call(function, hipErrorOutOfMemory, [&] {
    const int device = current_device();
    if (const hipError_t error = check_device(device)) return error;
    if (!out || (flags != hipStreamDefault && flags != hipStreamNonBlocking)) return hipErrorInvalidValue;
    *out = nullptr;
    auto stream = std::make_unique<ihipStream_t>();
    stream->device = device;
    if (const hipError_t error = stream->overhead.take(device)) return error;
    const bool blocking = flags == hipStreamDefault;
    stream->blocking = blocking;
    if (const hipError_t error = engine().create_stream(device, blocking, priority, &stream->engine)) return error;
    live().add(Kind::Stream, stream.get(), "of device " + std::to_string(device));
    *out = stream.release();
    return hipSuccess;
  });
}

// Calls `body` with the engine's stream behind the handle.
template <class Body>
hipError_t stream_call(const char* function, hipError_t injected, hipStream_t stream, Body&& body) {
  return hip_call(function, injected, [&] {
    StreamTarget target;
    if (const hipError_t error = resolve(function, stream, &target)) return error;
    return body(*target.engine);
  });
}

// The same for calls in which the host queries, or waits for, the stream's work.
template <class Body>
hipError_t host_call(const char* function, hipStream_t stream, Body&& body) {
  return stream_call(function, hipErrorLaunchFailure, stream, [&](EngineStream& target) {
    if (const hipError_t error = check_not_captured(function, stream)) return error;
    return body(target);
  });
}

// Checks a wait between captured and uncaptured work.
hipError_t check_wait(hipStream_t stream, hipEvent_t event) {
  const bool captured = captures().active(stream);
  if (event->captured && event->stream != stream) {
    misuse("hipStreamWaitEvent: a capture that spreads to another stream is not supported");
    captures().spoil(event->stream);
    return hipErrorNotSupported;
  }
  if (!captured || event->captured) return hipSuccess;
  misuse("hipStreamWaitEvent: captured stream %p would wait for work that is not captured", static_cast<void*>(stream));
  captures().spoil(stream);
  return hipErrorStreamCaptureIsolation;
}

}  // namespace

extern "C" {

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned int flags) {
  return create(__func__, stream, flags, 0);
}

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned int flags, int priority) {
  return create(__func__, stream, flags, priority);
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return hip_call(__func__, hipErrorInvalidHandle, [&] {
    const bool captured = captures().forget(stream);
    StreamTarget target;
    if (const hipError_t error = resolve("hipStreamDestroy", stream, &target)) return error;
    std::unique_ptr<EngineGraph> graph;
    if (captured) engine().end_capture(*target.engine, &graph);
    // False for the null stream, and for the second of two threads that destroy the same stream.
    if (!live().remove(Kind::Stream, stream)) return hipErrorInvalidHandle;
    stream->engine.reset();
    stream->overhead.give_back();
    retire(stream);
    return hipSuccess;
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return host_call(__func__, stream, [](EngineStream& target) { return engine().synchronize(target); });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return host_call(__func__, stream, [](EngineStream& target) { return engine().query(target); });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags) {
  return stream_call(__func__, hipErrorInvalidHandle, stream, [&](EngineStream& target) {
    if (const hipError_t error = check_event("hipStreamWaitEvent", event)) return error;
    if (const hipError_t error = check_recorded("hipStreamWaitEvent", event)) return error;
    if (const hipError_t error = check_wait(stream, event)) return error;
    if (event->captured) return hipSuccess;  // recorded on this stream, whose work is in order anyway
    return flags == 0 ? engine().wait_event(target, *event->engine) : hipErrorInvalidValue;
  });
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t callback, void* user_data, unsigned int flags) {
  return stream_call(__func__, hipErrorOutOfMemory, stream, [&](EngineStream& target) {
    if (!callback || flags != 0) return hipErrorInvalidValue;
    return engine().call_host(target, [=] { callback(stream, hipSuccess, user_data); });
  });
}

hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void* user_data) {
  return stream_call(__func__, hipErrorOutOfMemory, stream, [&](EngineStream& target) {
    if (!function) return hipErrorInvalidValue;
    return engine().call_host(target, [=] { function(user_data); });
  });
}

}  // extern "C"
