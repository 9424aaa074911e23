#include "hip/capture.h"

#include <algorithm>

#include "core/misuse.h"
#include "hip/objects.h"

namespace standin {

const Captures::Capture* Captures::find(hipStream_t stream) const {
  for (const Capture& capture : all_)
    if (capture.stream == stream) return &capture;
  return nullptr;
}

Captures::Capture* Captures::find(hipStream_t stream) {
  return const_cast<Capture*>(static_cast<const Captures*>(this)->find(stream));
}

hipError_t Captures::begin(hipStream_t stream, hipStreamCaptureMode mode) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (find(stream)) return hipErrorIllegalState;
  all_.push_back({stream, std::this_thread::get_id(), mode, false, {}});
  count_ = all_.size();
  return hipSuccess;
}

hipError_t Captures::end(hipStream_t stream, std::vector<hipFunction_t>* functions) {
  std::lock_guard<std::mutex> lock(mutex_);
  Capture* const capture = find(stream);
  if (!capture) return hipErrorIllegalState;
  if (capture->mode != hipStreamCaptureModeRelaxed && capture->thread != std::this_thread::get_id()) {
    misuse("hipStreamEndCapture: the capture of stream %p was begun by another thread", static_cast<void*>(stream));
    capture->spoiled = true;
    return hipErrorStreamCaptureWrongThread;
  }
  const bool spoiled = capture->spoiled;
  *functions = std::move(capture->functions);
  all_.erase(all_.begin() + (capture - all_.data()));
  count_ = all_.size();
  return spoiled ? hipErrorStreamCaptureInvalidated : hipSuccess;
}

bool Captures::forget(hipStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  Capture* const capture = find(stream);
  const bool found = capture != nullptr;
  if (found) all_.erase(all_.begin() + (capture - all_.data()));
  count_ = all_.size();
  return found;
}

hipStreamCaptureStatus Captures::status(hipStream_t stream) const {
  if (count_ == 0) return hipStreamCaptureStatusNone;
  std::lock_guard<std::mutex> lock(mutex_);
  const Capture* const capture = find(stream);
  if (!capture) return hipStreamCaptureStatusNone;
  return capture->spoiled ? hipStreamCaptureStatusInvalidated : hipStreamCaptureStatusActive;
}

void Captures::spoil(hipStream_t stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Capture* const capture = find(stream)) capture->spoiled = true;
}

void Captures::note(hipStream_t stream, hipFunction_t function) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (Capture* const capture = find(stream)) capture->functions.push_back(function);
}

template <class Forbids>
bool Captures::spoil_where(const char* function, Forbids&& forbids) {
  if (count_ == 0) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  bool any = false;
  for (Capture& capture : all_) {
    if (!forbids(capture)) continue;
    misuse("%s: not allowed while stream %p is being captured, which it spoils", function,
           static_cast<void*>(capture.stream));
    capture.spoiled = any = true;
  }
  return any;
}

hipError_t Captures::check_work(const char* function, hipStream_t stream, int device) {
  if (stream != nullptr)
    return status(stream) == hipStreamCaptureStatusInvalidated ? hipErrorStreamCaptureInvalidated : hipSuccess;
  // The null stream waits for all blocking streams.
  const auto waits = [&](const Capture& c) { return c.stream->blocking && c.stream->device == device; };
  return spoil_where(function, waits) ? hipErrorStreamCaptureImplicit : hipSuccess;
}

hipError_t Captures::check_unsafe(const char* function) {
  const auto forbids = [](const Capture& c) {
    return c.mode == hipStreamCaptureModeGlobal ||
           (c.mode == hipStreamCaptureModeThreadLocal && c.thread == std::this_thread::get_id());
  };
  return spoil_where(function, forbids) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

hipError_t Captures::check_device(const char* function, int device) {
  const auto is_there = [&](const Capture& c) { return c.stream->device == device; };
  return spoil_where(function, is_there) ? hipErrorStreamCaptureUnsupported : hipSuccess;
}

Captures& captures() {
  static Captures* const instance = new Captures;
  return *instance;
}

}  // namespace standin
