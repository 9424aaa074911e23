// Streams that are being captured, and HIP's rules about them.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "hip_api.h"

namespace standin {

/// The captures in progress. A call that is forbidden during a capture invalidates it: later work for the
/// stream fails, and so does ending the capture, after which the stream is usable again.
class Captures {
 public:
  hipError_t begin(hipStream_t stream, hipStreamCaptureMode mode);
  /// Ends the capture of a stream. hipErrorStreamCaptureInvalidated if it was invalidated; the capture has
  /// ended even then. `functions` are the kernels that it launches.
  hipError_t end(hipStream_t stream, std::vector<hipFunction_t>* functions);
  /// Forgets the capture of a stream that is being destroyed; returns whether there was one.
  bool forget(hipStream_t stream);

  hipStreamCaptureStatus status(hipStream_t stream) const;
  bool active(hipStream_t stream) const { return status(stream) != hipStreamCaptureStatusNone; }
  void spoil(hipStream_t stream);
  /// Notes a kernel that a captured stream was given.
  void note(hipStream_t stream, hipFunction_t function);

  /// Checks a call that gives work to a stream; null is the null stream of `device`.
  hipError_t check_work(const char* function, hipStream_t stream, int device);
  /// Checks a call that HIP forbids while a stream is captured: in any thread if the mode is global, in the capturing thread
  /// if it is thread-local.
  hipError_t check_unsafe(const char* function);
  /// Checks a wait for all of a device's streams, which is forbidden while any of them is being captured, in
  /// any mode.
  hipError_t check_device(const char* function, int device);

 private:
  struct Capture {
    hipStream_t stream;
    std::thread::id thread;
    hipStreamCaptureMode mode;
    bool spoiled;
    std::vector<hipFunction_t> functions;
  };
  const Capture* find(hipStream_t stream) const;
  Capture* find(hipStream_t stream);
  /// Invalidates the captures for which `forbids` holds; returns whether there is one.
  template <class Forbids>
  bool spoil_where(const char* function, Forbids&& forbids);

  std::atomic<size_t> count_{0};  // makes calls cheap while nothing is being captured
  mutable std::mutex mutex_;
  std::vector<Capture> all_;
};

__attribute__((visibility("default"))) Captures& captures();

}  // namespace standin
