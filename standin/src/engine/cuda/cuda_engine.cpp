#include "engine/cuda/cuda_engine.h"

#include <cstdio>
#include <cstdlib>

#include "core/faults.h"
#include "core/misuse.h"
#include "engine/code_object.h"
#include "engine/cuda/compiler.h"

namespace standin {
namespace {

struct CudaStream : EngineStream {
  CudaStream(int device, CUstream stream) : device(device), stream(stream) {}
  ~CudaStream() override {
    if (stream) cuda_driver().stream_destroy(stream);
  }
  int device;
  CUstream stream;  // null: the device's own
};

struct CudaEvent : EngineEvent {
  CudaEvent(int device, CUevent event) : device(device), event(event) {}
  ~CudaEvent() override { cuda_driver().event_destroy(event); }
  int device;
  CUevent event;
  std::atomic<bool> recorded{false};
};

struct CudaModule : EngineModule {
  CudaModule(int device, CUmodule module) : device(device), module(module) {}
  ~CudaModule() override { cuda_driver().module_unload(module); }
  int device;
  CUmodule module;
};

struct CudaGraph : EngineGraph {
  CudaGraph(int device, CUgraph graph) : device(device), graph(graph) {}
  ~CudaGraph() override { cuda_driver().graph_destroy(graph); }
  int device;
  CUgraph graph;
};

struct CudaGraphExec : EngineGraphExec {
  explicit CudaGraphExec(CUgraphExec exec) : exec(exec) {}
  ~CudaGraphExec() override { cuda_driver().graph_exec_destroy(exec); }
  CUgraphExec exec;
};

struct CudaFunction : EngineFunction {
  CUfunction function = nullptr;
};

CudaStream& cuda(EngineStream& stream) { return static_cast<CudaStream&>(stream); }
CudaEvent& cuda(EngineEvent& event) { return static_cast<CudaEvent&>(event); }
CudaModule& cuda(EngineModule& module) { return static_cast<CudaModule&>(module); }

hipError_t from_cuda(CUresult result) { return hipError_t(result); }

// The end of the argument block, for checking the caller's size; 0 if the driver does not report it.
size_t argument_bytes(CUfunction function) {
  const auto parameter = cuda_driver().function_parameter;
  size_t end = 0, offset = 0, bytes = 0;
  for (size_t i = 0; parameter && parameter(function, i, &offset, &bytes) == 0; ++i) end = offset + bytes;
  return end;
}

}  // namespace

// Devices

CudaEngine::CudaEngine() : cuda_(cuda_driver()) {
  int count = 0;
  if (config().devices.empty() || !cuda_.init || cuda_.init(0) != 0 || cuda_.device_count(&count) != 0) return;
  if (config().devices[0].wave_size != 32) {
    std::fprintf(stderr, "hip-standin: HIP_STANDIN_ENGINE=cuda has waves of 32 only\n");
    std::abort();
  }
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    if (cuda_.device_get(&device, i) == 0) add_device(device, i);
  }
}

void CudaEngine::add_device(CUdevice device, int index) {
  auto state = std::make_unique<Device>();
  if (cuda_.context_retain(&state->context, device) != 0) return;
  const auto attribute = [&](CUdevice_attribute which) {
    int value = 0;
    cuda_.device_attribute(&value, which, device);
    return value;
  };
  char name[128] = "";
  cuda_.device_name(name, sizeof name, device);
  DeviceInfo info;
  info.name = std::string("Stand-in on ") + name;
  info.gfx = config().devices[0].gfx;
  info.wave_size = 32;
  cuda_.device_memory(&info.memory_bytes, device);
  info.multiprocessors = attribute(cu_attribute_multiprocessors);
  info.clock_khz = attribute(cu_attribute_clock_khz);
  info.memory_clock_khz = attribute(cu_attribute_memory_clock_khz);
  info.memory_bus_bits = attribute(cu_attribute_memory_bus_bits);
  info.l2_bytes = attribute(cu_attribute_l2_bytes);
  info.integrated = attribute(cu_attribute_integrated) != 0;
  info.pci_bus = attribute(cu_attribute_pci_bus);
  if (index == 0)
    architecture_ =
        "sm_" + std::to_string(attribute(cu_attribute_compute_major) * 10 + attribute(cu_attribute_compute_minor));
  state->null_stream = std::make_unique<CudaStream>(int(infos_.size()), nullptr);
  infos_.push_back(std::move(info));
  devices_.push_back(std::move(state));
}

hipError_t CudaEngine::use(int device) { return from_cuda(cuda_.context_set(devices_[size_t(device)]->context)); }

hipError_t CudaEngine::finish(int device, CUresult result) {
  if (result != 0) return from_cuda(result);
  return hipError_t(devices_[size_t(device)]->injected_error.exchange(hipSuccess));
}

hipError_t CudaEngine::enable_peer(int device, int peer) {
  if (const hipError_t error = use(device)) return error;
  return from_cuda(cuda_.context_enable_peer(devices_[size_t(peer)]->context, 0));
}

// Memory

hipError_t CudaEngine::allocate(int device, size_t bytes, void** out) {
  if (const hipError_t error = use(device)) return error;
  CUdeviceptr base = 0;
  if (const CUresult error = cuda_.allocate(&base, GuardedMemory::padded(bytes))) return from_cuda(error);
  if (const CUresult error = memory_.prepare(base, bytes, nullptr, out)) return from_cuda(error);
  // Streams that do not wait for the null stream may use the memory as soon as this returns.
  return from_cuda(cuda_.stream_synchronize(nullptr));
}

hipError_t CudaEngine::release(int device, void* ptr) {
  if (const hipError_t error = use(device)) return error;
  const CUdeviceptr base = memory_.take_back(ptr, nullptr);
  return base ? from_cuda(cuda_.release(base)) : hipErrorInvalidValue;
}

hipError_t CudaEngine::allocate_async(EngineStream& stream, size_t bytes, void** out) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  CUdeviceptr base = 0;
  if (const CUresult error = cuda_.allocate_async(&base, GuardedMemory::padded(bytes), cuda(stream).stream))
    return from_cuda(error);
  return from_cuda(memory_.prepare(base, bytes, cuda(stream).stream, out));
}

hipError_t CudaEngine::release_async(EngineStream& stream, void* ptr) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  const CUdeviceptr base = memory_.take_back(ptr, cuda(stream).stream);
  return base ? from_cuda(cuda_.release_async(base, cuda(stream).stream)) : hipErrorInvalidValue;
}

hipError_t CudaEngine::allocate_host(size_t bytes, void** out) {
  if (const hipError_t error = use(0)) return error;
  return from_cuda(cuda_.allocate_host(out, bytes, 0));
}

hipError_t CudaEngine::release_host(void* ptr) {
  if (const hipError_t error = use(0)) return error;
  return from_cuda(cuda_.release_host(ptr));
}

hipError_t CudaEngine::register_host(void* ptr, size_t bytes) {
  if (const hipError_t error = use(0)) return error;
  return from_cuda(cuda_.register_host(ptr, bytes, 0));
}

hipError_t CudaEngine::unregister_host(void* ptr) {
  if (const hipError_t error = use(0)) return error;
  return from_cuda(cuda_.unregister_host(ptr));
}

hipError_t CudaEngine::memory_info(int device, size_t* free, size_t* total) {
  if (const hipError_t error = use(device)) return error;
  return from_cuda(cuda_.memory_info(free, total));
}

hipError_t CudaEngine::copy(EngineStream& stream, void* dst, const void* src, size_t bytes) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return from_cuda(cuda_.copy_async(CUdeviceptr(dst), CUdeviceptr(src), bytes, cuda(stream).stream));
}

hipError_t CudaEngine::fill(EngineStream& stream, void* dst, uint32_t value, uint32_t width, size_t count) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  const CUdeviceptr to = CUdeviceptr(dst);
  switch (width) {
    case 1: return from_cuda(cuda_.fill8(to, uint8_t(value), count, cuda(stream).stream));
    case 2: return from_cuda(cuda_.fill16(to, uint16_t(value), count, cuda(stream).stream));
    default: return from_cuda(cuda_.fill32(to, value, count, cuda(stream).stream));
  }
}

// Streams

EngineStream& CudaEngine::null_stream(int device) { return *devices_[size_t(device)]->null_stream; }

hipError_t CudaEngine::create_stream(int device, bool blocking, int priority, std::unique_ptr<EngineStream>* out) {
  if (const hipError_t error = use(device)) return error;
  CUstream stream = nullptr;
  if (const CUresult error = cuda_.stream_create(&stream, blocking ? 0 : cu_stream_non_blocking, priority))
    return from_cuda(error);
  *out = std::make_unique<CudaStream>(device, stream);
  return hipSuccess;
}

hipError_t CudaEngine::synchronize(EngineStream& stream) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return finish(cuda(stream).device, cuda_.stream_synchronize(cuda(stream).stream));
}

hipError_t CudaEngine::query(EngineStream& stream) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return finish(cuda(stream).device, cuda_.stream_query(cuda(stream).stream));
}

hipError_t CudaEngine::wait_event(EngineStream& stream, EngineEvent& event) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return from_cuda(cuda_.stream_wait_event(cuda(stream).stream, cuda(event).event, 0));
}

hipError_t CudaEngine::call_host(EngineStream& stream, std::function<void()> function) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  auto kept = std::make_unique<std::function<void()>>(std::move(function));
  const auto call = [](void* data) {
    const std::unique_ptr<std::function<void()>> mine(static_cast<std::function<void()>*>(data));
    HostCallbackScope scope;
    (*mine)();
  };
  const CUresult result = cuda_.launch_host(cuda(stream).stream, call, kept.get());
  if (result == 0) kept.release();
  return from_cuda(result);
}

hipError_t CudaEngine::synchronize_device(int device) {
  if (const hipError_t error = use(device)) return error;
  return finish(device, cuda_.context_synchronize());
}

void* CudaEngine::native_stream(EngineStream& stream) {
  return use(cuda(stream).device) ? nullptr : cuda(stream).stream;
}

// Events

hipError_t CudaEngine::create_event(int device, bool timing, std::unique_ptr<EngineEvent>* out) {
  if (const hipError_t error = use(device)) return error;
  CUevent event = nullptr;
  if (const CUresult error = cuda_.event_create(&event, timing ? 0 : cu_event_disable_timing)) return from_cuda(error);
  *out = std::make_unique<CudaEvent>(device, event);
  return hipSuccess;
}

hipError_t CudaEngine::record(EngineEvent& event, EngineStream& stream) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  cuda(event).recorded = true;
  return from_cuda(cuda_.event_record(cuda(event).event, cuda(stream).stream));
}

hipError_t CudaEngine::synchronize(EngineEvent& event) {
  if (const hipError_t error = use(cuda(event).device)) return error;
  return finish(cuda(event).device, cuda_.event_synchronize(cuda(event).event));
}

hipError_t CudaEngine::query(EngineEvent& event) {
  if (const hipError_t error = use(cuda(event).device)) return error;
  return finish(cuda(event).device, cuda_.event_query(cuda(event).event));
}

hipError_t CudaEngine::elapsed(EngineEvent& start, EngineEvent& stop, float* milliseconds) {
  if (!cuda(start).recorded || !cuda(stop).recorded) return hipErrorInvalidHandle;
  if (const hipError_t error = use(cuda(start).device)) return error;
  return from_cuda(cuda_.event_elapsed(milliseconds, cuda(start).event, cuda(stop).event));
}

// Modules

hipError_t CudaEngine::load(int device, const void* image, size_t bytes, std::unique_ptr<EngineModule>* out) {
  CodeObject object;
  if (const hipError_t error = unpack(image, bytes, EngineKind::Cuda, &object)) return error;
  if (!code_runs_on(object.gfx, infos_[size_t(device)].gfx)) return hipErrorNoBinaryForGpu;
  if (const hipError_t error = use(device)) return error;
  CUmodule module = nullptr;
  if (const CUresult error = cuda_.module_load(&module, object.payload.data())) return from_cuda(error);
  *out = std::make_unique<CudaModule>(device, module);
  return hipSuccess;
}

hipError_t CudaEngine::function(EngineModule& module, const char* name, std::unique_ptr<EngineFunction>* out) {
  if (const hipError_t error = use(cuda(module).device)) return error;
  auto function = std::make_unique<CudaFunction>();
  if (const CUresult error = cuda_.module_function(&function->function, cuda(module).module, name))
    return from_cuda(error);
  function->argument_bytes = argument_bytes(function->function);
  *out = std::move(function);
  return hipSuccess;
}

hipError_t CudaEngine::global(EngineModule& module, const char* name, void** ptr, size_t* bytes) {
  if (const hipError_t error = use(cuda(module).device)) return error;
  CUdeviceptr address = 0;
  const CUresult error = cuda_.module_global(&address, bytes, cuda(module).module, name);
  *ptr = reinterpret_cast<void*>(address);
  return from_cuda(error);
}

hipError_t CudaEngine::launch(EngineFunction& function, const LaunchShape& shape, EngineStream& stream, void** params,
                              const void* arguments, size_t bytes) {
  constexpr uint32_t shared_without_asking = 48 << 10;
  const int device = cuda(stream).device;
  if (const hipError_t error = use(device)) return error;
  if (faults().called("kernel")) {
    devices_[size_t(device)]->injected_error = hipErrorLaunchFailure;
    return hipSuccess;
  }
  if (config().stub_launches) return hipSuccess;
  const CUfunction f = static_cast<CudaFunction&>(function).function;
  if (shape.shared_bytes > shared_without_asking) {
    const CUresult error = cuda_.function_set_attribute(f, cu_function_max_dynamic_shared, int(shape.shared_bytes));
    if (error) return from_cuda(error);
  }
  // Like HIP, except for the end mark, which is 0 here.
  void* extra[] = {reinterpret_cast<void*>(1), const_cast<void*>(arguments), reinterpret_cast<void*>(2), &bytes,
                   nullptr};
  return from_cuda(cuda_.launch(f, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
                                shape.block[2], shape.shared_bytes, cuda(stream).stream, params,
                                arguments ? extra : nullptr));
}

// Graphs. HIP's rules have already been checked, so CUDA's own checks are turned off.

hipError_t CudaEngine::begin_capture(EngineStream& stream) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return from_cuda(cuda_.stream_begin_capture(cuda(stream).stream, cu_stream_capture_relaxed));
}

hipError_t CudaEngine::end_capture(EngineStream& stream, std::unique_ptr<EngineGraph>* out) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  CUgraph graph = nullptr;
  if (const CUresult error = cuda_.stream_end_capture(cuda(stream).stream, &graph)) return from_cuda(error);
  *out = std::make_unique<CudaGraph>(cuda(stream).device, graph);
  return hipSuccess;
}

hipError_t CudaEngine::instantiate(EngineGraph& graph, std::unique_ptr<EngineGraphExec>* out) {
  const auto& captured = static_cast<CudaGraph&>(graph);
  if (const hipError_t error = use(captured.device)) return error;
  CUgraphExec exec = nullptr;
  if (const CUresult error = cuda_.graph_instantiate(&exec, captured.graph, 0)) return from_cuda(error);
  *out = std::make_unique<CudaGraphExec>(exec);
  return hipSuccess;
}

hipError_t CudaEngine::launch(EngineGraphExec& exec, EngineStream& stream) {
  if (const hipError_t error = use(cuda(stream).device)) return error;
  return from_cuda(cuda_.graph_launch(static_cast<CudaGraphExec&>(exec).exec, cuda(stream).stream));
}

CompileResult CudaEngine::compile(const CompileRequest& request) { return compile_for_cuda(request, architecture_); }

// Downloads the ranges, runs the work on the copies and uploads them, while the caller waits.
hipError_t CudaEngine::run_on_host(EngineStream& stream, std::vector<DeviceRange> ranges,
                                   std::function<void(void* const*)> work) {
  std::vector<std::vector<char>> copies;
  std::vector<void*> addresses;
  for (const DeviceRange& range : ranges) {
    copies.emplace_back(range.bytes);
    addresses.push_back(copies.back().data());
    if (range.bytes == 0) continue;
    if (const hipError_t error = copy(stream, copies.back().data(), range.ptr, range.bytes)) return error;
  }
  if (const hipError_t error = synchronize(stream)) return error;
  work(addresses.data());
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes == 0) continue;
    if (const hipError_t error = copy(stream, ranges[i].ptr, copies[i].data(), ranges[i].bytes)) return error;
  }
  return synchronize(stream);
}

std::unique_ptr<Engine> make_cuda_engine() { return std::make_unique<CudaEngine>(); }

}  // namespace standin
