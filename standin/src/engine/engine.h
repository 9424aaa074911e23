// The interface of the engines that execute the HIP functions. The functions in src/hip check handles, pointers and
// sizes and keep the records; an engine does the work. There are two: the host engine (threads and fibers) and the cuda
// engine (an NVIDIA GPU).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/config.h"
#include "hip_api.h"

namespace standin {

struct DeviceInfo {
  std::string name;
  std::string gfx;
  uint32_t wave_size = 32;
  size_t memory_bytes = 0;
  int multiprocessors = 1;
  int clock_khz = 0;
  int memory_clock_khz = 0;
  int memory_bus_bits = 0;
  int l2_bytes = 0;
  size_t lds_bytes = 64 << 10;
  bool integrated = false;
  int pci_bus = 0;
};

struct EngineStream {
  virtual ~EngineStream() = default;
};
struct EngineEvent {
  virtual ~EngineEvent() = default;
};
struct EngineFunction {
  virtual ~EngineFunction() = default;
  /// Bytes of the kernel's argument block; 0 if the engine does not know.
  size_t argument_bytes = 0;
};
struct EngineModule {
  virtual ~EngineModule() = default;
};

/// The work that a stream was given while it was being captured.
struct EngineGraph {
  virtual ~EngineGraph() = default;
};
/// A graph that is ready to be launched.
struct EngineGraphExec {
  virtual ~EngineGraphExec() = default;
};

struct LaunchShape {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
};

/// A range of device memory that work on the host reads and writes.
struct DeviceRange {
  void* ptr;
  size_t bytes;
};

struct CompileRequest {
  std::string source;
  std::string name;
  std::vector<std::pair<std::string, std::string>> headers;  // include name, text
  std::vector<std::string> options;
};

struct CompileResult {
  bool ok = false;
  std::string log;
  std::string code_object;
};

/// Work is ordered as on a GPU: each stream runs its work in order, the null stream waits for the device's blocking
/// streams, and they wait for it. The next synchronizing call reports a failure of running work.
class __attribute__((visibility("default"))) Engine {
 public:
  virtual ~Engine() = default;

  virtual const std::vector<DeviceInfo>& devices() = 0;

  virtual hipError_t allocate(int device, size_t bytes, void** out) = 0;
  virtual hipError_t release(int device, void* ptr) = 0;
  /// Usable by work that `stream` runs after this call, and by other work ordered after that.
  virtual hipError_t allocate_async(EngineStream& stream, size_t bytes, void** out) = 0;
  virtual hipError_t release_async(EngineStream& stream, void* ptr) = 0;
  virtual hipError_t allocate_host(size_t bytes, void** out) = 0;
  virtual hipError_t release_host(void* ptr) = 0;
  virtual hipError_t register_host(void* ptr, size_t bytes) = 0;
  virtual hipError_t unregister_host(void* ptr) = 0;
  virtual hipError_t memory_info(int device, size_t* free, size_t* total) = 0;

  /// Lets kernels of `device` use memory of `peer`.
  virtual hipError_t enable_peer(int, int) { return hipSuccess; }

  virtual hipError_t copy(EngineStream& stream, void* dst, const void* src, size_t bytes) = 0;
  /// `count` elements of `width` (1, 2 or 4) bytes.
  virtual hipError_t fill(EngineStream& stream, void* dst, uint32_t value, uint32_t width, size_t count) = 0;

  virtual EngineStream& null_stream(int device) = 0;
  virtual hipError_t create_stream(int device, bool blocking, int priority, std::unique_ptr<EngineStream>* out) = 0;
  virtual hipError_t synchronize(EngineStream& stream) = 0;
  virtual hipError_t query(EngineStream& stream) = 0;
  virtual hipError_t wait_event(EngineStream& stream, EngineEvent& event) = 0;
  virtual hipError_t call_host(EngineStream& stream, std::function<void()> function) = 0;
  virtual hipError_t synchronize_device(int device) = 0;

  virtual hipError_t create_event(int device, bool timing, std::unique_ptr<EngineEvent>* out) = 0;
  virtual hipError_t record(EngineEvent& event, EngineStream& stream) = 0;
  virtual hipError_t synchronize(EngineEvent& event) = 0;
  virtual hipError_t query(EngineEvent& event) = 0;
  virtual hipError_t elapsed(EngineEvent& start, EngineEvent& stop, float* milliseconds) = 0;

  /// `bytes` is SIZE_MAX if only the image itself contains its length.
  virtual hipError_t load(int device, const void* image, size_t bytes, std::unique_ptr<EngineModule>* out) = 0;
  virtual hipError_t function(EngineModule& module, const char* name, std::unique_ptr<EngineFunction>* out) = 0;
  virtual hipError_t global(EngineModule& module, const char* name, void** ptr, size_t* bytes) = 0;
  /// Takes either `params` or `arguments`, never both.
  virtual hipError_t launch(EngineFunction& function, const LaunchShape& shape, EngineStream& stream, void** params,
                            const void* arguments, size_t argument_bytes) = 0;
  /// From now until end_capture, work given to the stream is recorded instead of run.
  virtual hipError_t begin_capture(EngineStream& stream) = 0;
  virtual hipError_t end_capture(EngineStream& stream, std::unique_ptr<EngineGraph>* out) = 0;
  virtual hipError_t instantiate(EngineGraph& graph, std::unique_ptr<EngineGraphExec>* out) = 0;
  virtual hipError_t launch(EngineGraphExec& exec, EngineStream& stream) = 0;
  /// Whether work of a launch is still pending, if the engine knows.
  virtual bool is_running(EngineGraphExec&) { return false; }
  virtual CompileResult compile(const CompileRequest& request) = 0;

  /// Runs `work` on the host in stream order, with addresses at which the ranges can be read and written.
  virtual hipError_t run_on_host(EngineStream& stream, std::vector<DeviceRange> ranges,
                                 std::function<void(void* const*)> work) = 0;
  /// The engine's native stream (a CUstream), for libraries that it forwards to; null for the host engine.
  virtual void* native_stream(EngineStream& stream) = 0;
};

/// The engine named by HIP_STANDIN_ENGINE, created on the first call.
__attribute__((visibility("default"))) Engine& engine();

std::unique_ptr<Engine> make_host_engine();
std::unique_ptr<Engine> make_cuda_engine();

}  // namespace standin
