#include "engine/host/host_engine.h"

#include <algorithm>
#include <cstring>

#include "core/faults.h"
#include "core/misuse.h"
#include "engine/host/compiler.h"
#include "engine/host/signals.h"

namespace standin {
namespace {

constexpr size_t device_address_space = size_t(64) << 30;
constexpr size_t host_address_space = size_t(16) << 30;

HostStream& host(EngineStream& stream) { return static_cast<HostStream&>(stream); }
HostEvent& host(EngineEvent& event) { return static_cast<HostEvent&>(event); }

DeviceInfo describe(const DeviceChoice& choice, int index) {
  DeviceInfo info;
  info.name = std::string("Stand-in ") + (choice.integrated ? "integrated " : "") + bare_gfx(choice.gfx);
  info.gfx = choice.gfx;
  info.wave_size = choice.wave_size;
  info.memory_bytes = config().shown_bytes;
  info.multiprocessors = int(config().compute_units ? config().compute_units : choice.integrated ? 2 : 16);
  info.clock_khz = 2000000;
  info.memory_clock_khz = 1000000;
  info.memory_bus_bits = choice.integrated ? 64 : 256;
  info.l2_bytes = 4 << 20;
  info.integrated = choice.integrated;
  info.pci_bus = 3 + index;
  return info;
}

}  // namespace

HostStream::HostStream(HostEngine& engine, int device, bool blocking, bool is_null)
    : engine(engine), device(device), blocking(blocking), is_null(is_null), queue(std::make_shared<Queue>()) {}

HostStream::~HostStream() {
  queue->close();
  std::lock_guard<std::mutex> lock(engine.order_);
  auto& streams = engine.devices_[size_t(device)]->streams;
  streams.erase(std::remove(streams.begin(), streams.end(), this), streams.end());
}

HostEvent::Recording HostEvent::latest() const {
  std::lock_guard<std::mutex> lock(mutex);
  return recording;
}

HostEngine::HostEngine()
    : device_memory_(device_address_space, config().alignment),
      host_memory_(host_address_space, 64),
      pool_(config().threads) {
  for (const DeviceChoice& choice : config().devices) {
    const int index = int(infos_.size());
    infos_.push_back(describe(choice, index));
    devices_.push_back(std::make_unique<Device>());
    devices_.back()->null_stream = std::make_unique<HostStream>(*this, index, true, true);
  }
  install_fault_handlers(&device_memory_);
}

Ticket HostEngine::enqueue(HostStream& stream, const char* label, std::function<void()> work,
                           std::vector<Ticket> waits, std::function<void()> begin) {
  std::lock_guard<std::mutex> lock(order_);
  if (stream.captured) {
    stream.captured->nodes.push_back({std::move(begin), std::move(work)});
    return {};
  }
  if (begin) begin();
  Device& device = *devices_[size_t(stream.device)];
  if (stream.is_null) {
    for (HostStream* other : device.streams)
      if (other->blocking) waits.push_back(other->queue->tail());
  } else if (stream.blocking) {
    waits.push_back(device.null_stream->queue->tail());
  }
  return stream.queue->submit(label, std::move(work), std::move(waits));
}

hipError_t HostEngine::take_error(int device) {
  return hipError_t(devices_[size_t(device)]->pending_error.exchange(hipSuccess));
}

// Memory

hipError_t HostEngine::reserve(int device, size_t bytes, void** out) {
  std::atomic<size_t>& used = devices_[size_t(device)]->used;
  size_t before = used.load();
  do {
    if (bytes > config().memory_bytes - before) return hipErrorOutOfMemory;
  } while (!used.compare_exchange_weak(before, before + bytes));
  *out = device_memory_.reserve(bytes, device);
  if (*out) return hipSuccess;
  used -= bytes;
  return hipErrorOutOfMemory;
}

void HostEngine::free_now(void* ptr) {
  const auto released = device_memory_.release(ptr);
  if (!released) return;
  devices_[size_t(released->owner)]->used -= released->bytes;
  if (released->damage)
    misuse("device memory at %p (%zu bytes) was written %s", ptr, released->bytes, released->damage);
}

hipError_t HostEngine::allocate(int device, size_t bytes, void** out) {
  void* ptr = nullptr;
  if (const hipError_t error = reserve(device, bytes, &ptr)) return error;
  if (!device_memory_.commit(ptr)) {
    free_now(ptr);
    return hipErrorOutOfMemory;
  }
  *out = ptr;
  return hipSuccess;
}

hipError_t HostEngine::release(int, void* ptr) {
  free_now(ptr);
  return hipSuccess;
}

hipError_t HostEngine::allocate_async(EngineStream& stream, size_t bytes, void** out) {
  const int device = host(stream).device;
  hipError_t error = reserve(device, bytes, out);
  if (error == hipErrorOutOfMemory) {  // memory freed on this stream counts, even before the stream reaches that point
    host(stream).queue->tail().wait();
    error = reserve(device, bytes, out);
  }
  if (error) return error;
  enqueue(host(stream), "hipMallocAsync", [this, ptr = *out] { device_memory_.commit(ptr); });
  return hipSuccess;
}

hipError_t HostEngine::release_async(EngineStream& stream, void* ptr) {
  enqueue(host(stream), "hipFreeAsync", [this, ptr] { free_now(ptr); });
  return hipSuccess;
}

hipError_t HostEngine::allocate_host(size_t bytes, void** out) {
  *out = host_memory_.reserve(bytes, 0);
  return *out && host_memory_.commit(*out) ? hipSuccess : hipErrorOutOfMemory;
}

hipError_t HostEngine::release_host(void* ptr) {
  const auto released = host_memory_.release(ptr);
  if (released && released->damage)
    misuse("pinned memory at %p (%zu bytes) was written %s", ptr, released->bytes, released->damage);
  return hipSuccess;
}

hipError_t HostEngine::memory_info(int device, size_t* free, size_t* total) {
  *total = config().shown_bytes;
  *free = *total - devices_[size_t(device)]->used;
  return hipSuccess;
}

hipError_t HostEngine::copy(EngineStream& stream, void* dst, const void* src, size_t bytes) {
  enqueue(host(stream), "a copy", [=] { std::memmove(dst, src, bytes); });
  return hipSuccess;
}

hipError_t HostEngine::fill(EngineStream& stream, void* dst, uint32_t value, uint32_t width, size_t count) {
  enqueue(host(stream), "a fill", [=] {
    switch (width) {
      case 1: std::memset(dst, int(value), count); break;
      case 2: std::fill_n(static_cast<uint16_t*>(dst), count, uint16_t(value)); break;
      default: std::fill_n(static_cast<uint32_t*>(dst), count, value);
    }
  });
  return hipSuccess;
}

// Streams

hipError_t HostEngine::create_stream(int device, bool blocking, int, std::unique_ptr<EngineStream>* out) {
  auto stream = std::make_unique<HostStream>(*this, device, blocking, false);
  std::lock_guard<std::mutex> lock(order_);
  devices_[size_t(device)]->streams.push_back(stream.get());
  *out = std::move(stream);
  return hipSuccess;
}

hipError_t HostEngine::synchronize(EngineStream& stream) {
  HostStream& s = host(stream);
  // For the null stream, this includes the other blocking streams: a separate work item waits for them.
  const Ticket end = s.is_null ? enqueue(s, "a marker", [] {}) : s.queue->tail();
  end.wait();
  return take_error(s.device);
}

hipError_t HostEngine::query(EngineStream& stream) {
  HostStream& s = host(stream);
  return s.queue->tail().reached() ? take_error(s.device) : hipErrorNotReady;
}

hipError_t HostEngine::wait_event(EngineStream& stream, EngineEvent& event) {
  const HostEvent::Recording recording = host(event).latest();
  if (recording.ticket.queue) enqueue(host(stream), "a wait for an event", [] {}, {recording.ticket});
  return hipSuccess;
}

hipError_t HostEngine::call_host(EngineStream& stream, std::function<void()> function) {
  enqueue(host(stream), "a host function", [function = std::move(function)] {
    HostCallbackScope scope;
    function();
  });
  return hipSuccess;
}

hipError_t HostEngine::synchronize_device(int device) {
  std::vector<Ticket> ends;
  {
    std::lock_guard<std::mutex> lock(order_);
    Device& d = *devices_[size_t(device)];
    ends.push_back(d.null_stream->queue->tail());
    for (HostStream* stream : d.streams) ends.push_back(stream->queue->tail());
  }
  for (const Ticket& end : ends) end.wait();
  return take_error(device);
}

// Events

hipError_t HostEngine::create_event(int device, bool timing, std::unique_ptr<EngineEvent>* out) {
  auto event = std::make_unique<HostEvent>();
  event->device = device;
  event->timing = timing;
  *out = std::move(event);
  return hipSuccess;
}

hipError_t HostEngine::record(EngineEvent& event, EngineStream& stream) {
  HostStream& s = host(stream);
  HostEvent& e = host(event);
  auto time = std::make_shared<HostEvent::Clock::time_point>();
  std::lock_guard<std::mutex> lock(e.mutex);
  const Ticket ticket = enqueue(s, "an event", [time] { *time = HostEvent::Clock::now(); });
  e.recording = {ticket, time, s.device};
  return hipSuccess;
}

hipError_t HostEngine::synchronize(EngineEvent& event) {
  const HostEvent::Recording recording = host(event).latest();
  recording.ticket.wait();
  return recording.ticket.queue ? take_error(recording.device) : hipSuccess;
}

hipError_t HostEngine::query(EngineEvent& event) {
  const HostEvent::Recording recording = host(event).latest();
  if (!recording.ticket.reached()) return hipErrorNotReady;
  return recording.ticket.queue ? take_error(recording.device) : hipSuccess;
}

hipError_t HostEngine::elapsed(EngineEvent& start, EngineEvent& stop, float* milliseconds) {
  const HostEvent::Recording a = host(start).latest();
  const HostEvent::Recording b = host(stop).latest();
  if (!host(start).timing || !host(stop).timing || !a.ticket.queue || !b.ticket.queue) return hipErrorInvalidHandle;
  if (!a.ticket.reached() || !b.ticket.reached()) return hipErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(*b.time - *a.time).count();
  return hipSuccess;
}

// Modules

hipError_t HostEngine::load(int device, const void* image, size_t bytes, std::unique_ptr<EngineModule>* out) {
  CodeObject object;
  if (const hipError_t error = unpack(image, bytes, EngineKind::Host, &object)) return error;
  const DeviceInfo& info = infos_[size_t(device)];
  if (!code_runs_on(object.gfx, info.gfx) || object.wave_size != info.wave_size) {
    std::fprintf(stderr, "hip-standin: hipModuleLoadData: code for %s with waves of %u, the device is %s with %u\n",
                 object.gfx.c_str(), object.wave_size, info.gfx.c_str(), info.wave_size);
    return hipErrorNoBinaryForGpu;
  }
  auto module = std::make_unique<HostModule>();
  module->device = device;
  if (const hipError_t error = LoadedModule::load(object, &module->loaded)) return error;
  *out = std::move(module);
  return hipSuccess;
}

hipError_t HostEngine::function(EngineModule& module, const char* name, std::unique_ptr<EngineFunction>* out) {
  auto& loaded = static_cast<HostModule&>(module).loaded;
  const auto* bytes = static_cast<const uint64_t*>(loaded->symbol(std::string(name) + "__args_size"));
  void* run = loaded->symbol(std::string(name) + "__run");
  if (!run || !bytes) return hipErrorNotFound;
  auto function = std::make_unique<HostFunction>();
  function->loaded = loaded;
  function->name = name;
  function->run = reinterpret_cast<void (*)(const void*)>(run);
  function->argument_bytes = *bytes;
  *out = std::move(function);
  return hipSuccess;
}

hipError_t HostEngine::global(EngineModule& module, const char* name, void** ptr, size_t* bytes) {
  *ptr = static_cast<HostModule&>(module).loaded->symbol(name, bytes);
  return *ptr ? hipSuccess : hipErrorNotFound;
}

hipError_t HostEngine::launch(EngineFunction& function, const LaunchShape& shape, EngineStream& stream, void** params,
                              const void* arguments, size_t) {
  // Nothing is enqueued either, so that the host time of a launch can be measured.
  if (config().stub_launches) return hipSuccess;
  const auto& f = static_cast<HostFunction&>(function);
  HostStream& s = host(stream);
  // A kernel takes one argument block, so `params` has only one entry.
  const void* source = params ? params[0] : arguments;
  auto launch = std::make_shared<KernelLaunch>();
  launch->name = f.name;
  launch->run = f.run;
  launch->shape = shape;
  launch->wave_size = infos_[size_t(s.device)].wave_size;
  launch->arguments.resize((f.argument_bytes + 7) / 8);
  if (f.argument_bytes) std::memcpy(launch->arguments.data(), source, f.argument_bytes);
  const auto run = [this, launch, loaded = f.loaded, device = s.device] {
    run_kernel(*launch, device);
    --loaded->pending_launches;
  };
  enqueue(s, "a kernel", run, {}, [loaded = f.loaded] { ++loaded->pending_launches; });
  return hipSuccess;
}

// Graphs

hipError_t HostEngine::begin_capture(EngineStream& stream) {
  std::lock_guard<std::mutex> lock(order_);
  host(stream).captured = std::make_unique<HostGraph>();
  return hipSuccess;
}

hipError_t HostEngine::end_capture(EngineStream& stream, std::unique_ptr<EngineGraph>* out) {
  std::lock_guard<std::mutex> lock(order_);
  *out = std::move(host(stream).captured);
  return *out ? hipSuccess : hipErrorIllegalState;
}

hipError_t HostEngine::instantiate(EngineGraph& graph, std::unique_ptr<EngineGraphExec>* out) {
  auto exec = std::make_unique<HostGraphExec>();
  exec->nodes = std::make_shared<const std::vector<HostNode>>(static_cast<HostGraph&>(graph).nodes);
  *out = std::move(exec);
  return hipSuccess;
}

hipError_t HostEngine::launch(EngineGraphExec& exec, EngineStream& stream) {
  auto& graph = static_cast<HostGraphExec&>(exec);
  std::lock_guard<std::mutex> lock(graph.mutex);
  const auto begin = [nodes = graph.nodes] {
    for (const HostNode& node : *nodes)
      if (node.begin) node.begin();
  };
  const auto run = [nodes = graph.nodes] {
    for (const HostNode& node : *nodes) node.run();
  };
  graph.last = enqueue(host(stream), "a graph", run, {graph.last}, begin);
  return hipSuccess;
}

bool HostEngine::is_running(EngineGraphExec& exec) {
  auto& graph = static_cast<HostGraphExec&>(exec);
  std::lock_guard<std::mutex> lock(graph.mutex);
  return !graph.last.reached();
}

void HostEngine::run_kernel(KernelLaunch& launch, int device) {
  static std::atomic<uint64_t> serial{0};
  const uint64_t number = serial++;
  int error = hipSuccess;
  launch.error = hipSuccess;  // of the run before, in a graph
  const bool any_fails = faults().called("kernel");
  const std::string name = "kernel " + launch.name;
  const bool this_fails = faults().called(name.c_str());
  const bool this_fails_here = faults().called((name + " on " + bare_gfx(infos_[size_t(device)].gfx)).c_str());
  if (any_fails || this_fails || this_fails_here) {
    error = hipErrorLaunchFailure;
  } else {
    const LaunchShape& shape = launch.shape;
    pool_.run(uint64_t(shape.grid[0]) * shape.grid[1] * shape.grid[2], [&](uint64_t block) {
      if (launch.error != hipSuccess) return;
      prepare_thread_for_faults();
      BlockRunner::of_this_thread().run(launch, block, (number + block) % 2 == 1);
    });
    error = launch.error;
  }
  int none = hipSuccess;
  if (error != hipSuccess) devices_[size_t(device)]->pending_error.compare_exchange_strong(none, error);
}

CompileResult HostEngine::compile(const CompileRequest& request) { return compile_for_host(request); }

hipError_t HostEngine::run_on_host(EngineStream& stream, std::vector<DeviceRange> ranges,
                                   std::function<void(void* const*)> work) {
  enqueue(host(stream), "a library function", [ranges = std::move(ranges), work = std::move(work)] {
    std::vector<void*> addresses;
    for (const DeviceRange& range : ranges) addresses.push_back(range.ptr);
    work(addresses.data());
  });
  return hipSuccess;
}

std::unique_ptr<Engine> make_host_engine() { return std::make_unique<HostEngine>(); }

}  // namespace standin
