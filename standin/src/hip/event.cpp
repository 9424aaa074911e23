// Events.
#include "core/live.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/objects.h"

using namespace standin;

namespace {

// Calls `body` with the engine's event behind the handle.
template <class Body>
hipError_t event_call(const char* function, hipError_t injected, hipEvent_t event, Body&& body) {
  return hip_call(function, injected, [&] {
    if (const hipError_t error = check_event(function, event)) return error;
    return body(*event->engine);
  });
}

// The same for calls in which the host queries, or waits for, the work that the event was recorded after.
template <class Body>
hipError_t recorded_call(const char* function, hipEvent_t event, Body&& body) {
  return event_call(function, hipErrorLaunchFailure, event, [&](EngineEvent& e) {
    if (const hipError_t error = check_recorded(function, event)) return error;
    if (const hipError_t error = check_not_captured(function, event->stream)) return error;
    if (event->captured) return hipErrorCapturedEvent;
    return body(e);
  });
}

}  // namespace

extern "C" {

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned int flags) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] {
    constexpr unsigned known = hipEventBlockingSync | hipEventDisableTiming;
    const int device = current_device();
    if (const hipError_t error = check_device(device)) return error;
    if (!event || (flags & ~known) != 0) return hipErrorInvalidValue;
    *event = nullptr;
    auto created = std::make_unique<ihipEvent_t>();
    created->device = device;
    const bool timing = (flags & hipEventDisableTiming) == 0;
    if (const hipError_t error = engine().create_event(device, timing, &created->engine)) return error;
    live().add(Kind::Event, created.get(), "of device " + std::to_string(device));
    *event = created.release();
    return hipSuccess;
  });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return event_call(__func__, hipErrorInvalidHandle, event, [&](EngineEvent&) {
    if (!live().remove(Kind::Event, event)) return hipErrorInvalidHandle;
    event->engine.reset();
    retire(event);
    return hipSuccess;
  });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return event_call(__func__, hipErrorInvalidHandle, event, [&](EngineEvent& e) {
    StreamTarget target;
    if (const hipError_t error = resolve("hipEventRecord", stream, &target)) return error;
    if (target.device != event->device) {
      misuse("hipEventRecord: an event of device %d on a stream of device %d", event->device, target.device);
      return hipErrorInvalidHandle;
    }
    event->stream = stream;
    event->captured = captures().active(stream);
    if (event->captured) return hipSuccess;  // a place in the graph, which nothing outside can reach
    return engine().record(e, *target.engine);
  });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return recorded_call(__func__, event, [](EngineEvent& e) { return engine().synchronize(e); });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return recorded_call(__func__, event, [](EngineEvent& e) { return engine().query(e); });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t start, hipEvent_t stop) {
  return event_call(__func__, hipErrorInvalidHandle, start, [&](EngineEvent& from) {
    if (const hipError_t error = check_event("hipEventElapsedTime", stop)) return error;
    for (const hipEvent_t event : {start, stop})
      if (const hipError_t error = check_recorded("hipEventElapsedTime", event)) return error;
    return milliseconds ? engine().elapsed(from, *stop->engine, milliseconds) : hipErrorInvalidValue;
  });
}

}  // extern "C"
