// The host engine: devices simulated in this process.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/engine.h"
#include "engine/host/arena.h"
#include "engine/host/block.h"
#include "engine/host/module.h"
#include "engine/host/pool.h"
#include "engine/host/queue.h"

namespace standin {

class HostEngine;

/// A piece of work of a graph.
struct HostNode {
  std::function<void()> begin;  // when it is given to a stream; may be empty
  std::function<void()> run;
};

struct HostGraph : EngineGraph {
  std::vector<HostNode> nodes;
};

struct HostGraphExec : EngineGraphExec {
  std::shared_ptr<const std::vector<HostNode>> nodes;
  std::mutex mutex;
  Ticket last;  // a graph does not run concurrently with itself
};

struct HostStream : EngineStream {
  HostStream(HostEngine& engine, int device, bool blocking, bool is_null);
  ~HostStream() override;

  HostEngine& engine;
  const int device;
  const bool blocking;  // ordered with the null stream
  const bool is_null;
  const std::shared_ptr<Queue> queue;
  std::unique_ptr<HostGraph> captured;  // while the stream is captured; under the engine's order_
};

struct HostEvent : EngineEvent {
  using Clock = std::chrono::steady_clock;
  struct Recording {
    Ticket ticket;
    std::shared_ptr<Clock::time_point> time;  // written before the ticket is reached
    int device = 0;
  };
  Recording latest() const;

  bool timing = true;
  int device = 0;
  mutable std::mutex mutex;
  Recording recording;  // without a queue until recorded
};

class HostEngine : public Engine {
 public:
  HostEngine();

  const std::vector<DeviceInfo>& devices() override { return infos_; }

  hipError_t allocate(int device, size_t bytes, void** out) override;
  hipError_t release(int device, void* ptr) override;
  hipError_t allocate_async(EngineStream& stream, size_t bytes, void** out) override;
  hipError_t release_async(EngineStream& stream, void* ptr) override;
  hipError_t allocate_host(size_t bytes, void** out) override;
  hipError_t release_host(void* ptr) override;
  hipError_t register_host(void*, size_t) override { return hipSuccess; }
  hipError_t unregister_host(void*) override { return hipSuccess; }
  hipError_t memory_info(int device, size_t* free, size_t* total) override;
  hipError_t copy(EngineStream& stream, void* dst, const void* src, size_t bytes) override;
  hipError_t fill(EngineStream& stream, void* dst, uint32_t value, uint32_t width, size_t count) override;

  EngineStream& null_stream(int device) override { return *devices_[size_t(device)]->null_stream; }
  hipError_t create_stream(int device, bool blocking, int priority, std::unique_ptr<EngineStream>* out) override;
  hipError_t synchronize(EngineStream& stream) override;
  hipError_t query(EngineStream& stream) override;
  hipError_t wait_event(EngineStream& stream, EngineEvent& event) override;
  hipError_t call_host(EngineStream& stream, std::function<void()> function) override;
  hipError_t synchronize_device(int device) override;

  hipError_t create_event(int device, bool timing, std::unique_ptr<EngineEvent>* out) override;
  hipError_t record(EngineEvent& event, EngineStream& stream) override;
  hipError_t synchronize(EngineEvent& event) override;
  hipError_t query(EngineEvent& event) override;
  hipError_t elapsed(EngineEvent& start, EngineEvent& stop, float* milliseconds) override;

  hipError_t load(int device, const void* image, size_t bytes, std::unique_ptr<EngineModule>* out) override;
  hipError_t function(EngineModule& module, const char* name, std::unique_ptr<EngineFunction>* out) override;
  hipError_t global(EngineModule& module, const char* name, void** ptr, size_t* bytes) override;
  hipError_t launch(EngineFunction& function, const LaunchShape& shape, EngineStream& stream, void** params,
                    const void* arguments, size_t argument_bytes) override;
  hipError_t begin_capture(EngineStream& stream) override;
  hipError_t end_capture(EngineStream& stream, std::unique_ptr<EngineGraph>* out) override;
  hipError_t instantiate(EngineGraph& graph, std::unique_ptr<EngineGraphExec>* out) override;
  hipError_t launch(EngineGraphExec& exec, EngineStream& stream) override;
  bool is_running(EngineGraphExec& exec) override;
  CompileResult compile(const CompileRequest& request) override;

  hipError_t run_on_host(EngineStream& stream, std::vector<DeviceRange> ranges,
                         std::function<void(void* const*)> work) override;
  void* native_stream(EngineStream&) override { return nullptr; }

 private:
  friend struct HostStream;
  struct Device {
    std::atomic<size_t> used{0};
    std::atomic<int> pending_error{0};  // hipError_t that the next synchronizing call reports
    std::unique_ptr<HostStream> null_stream;
    std::vector<HostStream*> streams;  // without the null stream; under order_
  };

  /// `begin` is called when the work is given to a queue: now, or each time a graph that captured it is
  /// launched.
  Ticket enqueue(HostStream& stream, const char* label, std::function<void()> work, std::vector<Ticket> waits = {},
                 std::function<void()> begin = {});
  /// The address of new memory, counted for the device, that faults until it is committed.
  hipError_t reserve(int device, size_t bytes, void** out);
  void free_now(void* ptr);
  hipError_t take_error(int device);
  void run_kernel(KernelLaunch& launch, int device);

  std::vector<DeviceInfo> infos_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::mutex order_;  // makes the order between the null stream and the others one order
  Arena device_memory_;
  Arena host_memory_;
  Pool pool_;
};

}  // namespace standin
