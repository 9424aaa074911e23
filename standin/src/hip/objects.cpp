#include "hip/objects.h"

#include <mutex>
#include <vector>

#include "core/live.h"
#include "core/memory_table.h"
#include "core/misuse.h"
#include "hip/api.h"
#include "hip/capture.h"

namespace standin {

hipError_t Overhead::take(int device) {
  if (config().overhead_bytes == 0) return hipSuccess;
  device_ = device;
  return engine().allocate(device, config().overhead_bytes, &memory_);
}

void Overhead::give_back() {
  if (memory_) engine().release(device_, memory_);
  memory_ = nullptr;
}

void retire(const void* handle) {
  static std::mutex mutex;
  static auto* const retired = new std::vector<const void*>;
  std::lock_guard<std::mutex> lock(mutex);
  retired->push_back(handle);
}

hipError_t resolve(const char* function, hipStream_t stream, StreamTarget* out) {
  if (stream == nullptr || stream == hipStreamLegacy) {
    if (const hipError_t error = check_device(current_device())) return error;
    if (const hipError_t error = captures().check_work(function, nullptr, current_device())) return error;
    *out = {&engine().null_stream(current_device()), current_device()};
    return hipSuccess;
  }
  if (stream == hipStreamPerThread) {
    misuse("%s: the per-thread default stream is not supported", function);
    return hipErrorNotSupported;
  }
  if (!live().contains(Kind::Stream, stream)) {
    misuse("%s: %p is not a live stream", function, static_cast<void*>(stream));
    return hipErrorInvalidHandle;
  }
  *out = {stream->engine.get(), stream->device};
  return captures().check_work(function, stream, stream->device);
}

hipError_t check_event(const char* function, hipEvent_t event) {
  if (live().contains(Kind::Event, event)) return hipSuccess;
  misuse("%s: %p is not a live event", function, static_cast<void*>(event));
  return hipErrorInvalidHandle;
}

hipError_t check_recorded(const char* function, hipEvent_t event) {
  const hipStream_t stream = event->stream;
  if (!stream || stream == hipStreamLegacy || live().contains(Kind::Stream, stream)) return hipSuccess;
  misuse("%s: %p was recorded on stream %p, which was destroyed", function, static_cast<void*>(event),
         static_cast<void*>(stream));
  return hipErrorInvalidHandle;
}

hipError_t check_not_captured(const char* function, hipStream_t stream) {
  if (!stream || stream == hipStreamLegacy || !live().contains(Kind::Stream, stream)) return hipSuccess;
  if (!stream->captured && !captures().active(stream)) return hipSuccess;
  captures().spoil(stream);
  misuse("%s: stream %p is being captured, which this call spoils", function, static_cast<void*>(stream));
  return hipErrorStreamCaptureUnsupported;
}

hipError_t check_device_range(const char* function, const char* role, const void* ptr, size_t bytes) {
  if (bytes == 0) return hipSuccess;
  const auto allocation = memory_table().containing(ptr);
  if (allocation && bytes <= allocation->end() - uintptr_t(ptr)) return hipSuccess;
  misuse("%s: %s %p, %zu bytes: %s%s", function, role, ptr, bytes, allocation ? "reaches past the end, being " : "",
         memory_table().describe(ptr).c_str());
  return hipErrorInvalidValue;
}

}  // namespace standin
