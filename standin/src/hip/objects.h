// The objects behind HIP's handles. A handle is checked against the list of live objects before it is dereferenced, and
// its memory is never reused.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace standin {

/// Device memory that an object takes in addition to what the program allocates: HIP_STANDIN_OVERHEAD bytes.
class __attribute__((visibility("default"))) Overhead {
 public:
  Overhead() = default;
  Overhead(const Overhead&) = delete;
  ~Overhead() { give_back(); }
  hipError_t take(int device);
  void give_back();

 private:
  int device_ = 0;
  void* memory_ = nullptr;
};

}  // namespace standin

struct ihipStream_t {
  int device = 0;
  bool blocking = false;
  std::atomic<bool> captured{false};  // as far as standin_capture says
  standin::Overhead overhead;
  std::unique_ptr<standin::EngineStream> engine;
};

struct ihipEvent_t {
  int device = 0;
  std::atomic<hipStream_t> stream{nullptr};  // that it was recorded on last; null for the null stream
  std::atomic<bool> captured{false};        // by a stream that was being captured
  std::unique_ptr<standin::EngineEvent> engine;
};

struct ihipModule_t {
  int device = 0;
  standin::Overhead overhead;
  std::unique_ptr<standin::EngineModule> engine;
  std::mutex mutex;
  std::vector<hipFunction_t> functions;  // unloaded with their module
  std::vector<void*> globals;
};

struct ihipModuleSymbol_t {
  int device = 0;
  std::string name;
  std::unique_ptr<standin::EngineFunction> engine;
};

struct ihipGraph {
  int device = 0;
  std::unique_ptr<standin::EngineGraph> engine;
  std::vector<hipFunction_t> functions;
};

struct hipGraphExec {
  int device = 0;
  standin::Overhead overhead;
  std::unique_ptr<standin::EngineGraphExec> engine;
  std::vector<hipFunction_t> functions;
};

namespace standin {

/// The engine's stream and device behind a handle: a live stream, or the null stream of the current device.
struct StreamTarget {
  EngineStream* engine = nullptr;
  int device = 0;
};
__attribute__((visibility("default"))) hipError_t resolve(const char* function, hipStream_t stream, StreamTarget* out);

hipError_t check_event(const char* function, hipEvent_t event);

/// Checks that the stream that the event was recorded on last is alive: AMD's runtime follows the event to its stream.
hipError_t check_recorded(const char* function, hipEvent_t event);

/// Checks that the host may query, or wait for, work of the stream: not while it is being captured, because
/// that invalidates the capture.
hipError_t check_not_captured(const char* function, hipStream_t stream);

/// Checks that `bytes` at `ptr` are live memory that the device can access.
__attribute__((visibility("default"))) hipError_t check_device_range(const char* function, const char* role,
                                                                     const void* ptr, size_t bytes);

/// Keeps the memory of a destroyed object, so that its address is not reused.
__attribute__((visibility("default"))) void retire(const void* handle);

}  // namespace standin
