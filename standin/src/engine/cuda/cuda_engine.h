// The cuda engine: HIP's functions on an NVIDIA GPU, through the CUDA driver.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "engine/cuda/driver.h"
#include "engine/cuda/guarded.h"
#include "engine/engine.h"

namespace standin {

class CudaEngine : public Engine {
 public:
  CudaEngine();

  const std::vector<DeviceInfo>& devices() override { return infos_; }

  hipError_t enable_peer(int device, int peer) override;
  hipError_t allocate(int device, size_t bytes, void** out) override;
  hipError_t release(int device, void* ptr) override;
  hipError_t allocate_async(EngineStream& stream, size_t bytes, void** out) override;
  hipError_t release_async(EngineStream& stream, void* ptr) override;
  hipError_t allocate_host(size_t bytes, void** out) override;
  hipError_t release_host(void* ptr) override;
  hipError_t register_host(void* ptr, size_t bytes) override;
  hipError_t unregister_host(void* ptr) override;
  hipError_t memory_info(int device, size_t* free, size_t* total) override;
  hipError_t copy(EngineStream& stream, void* dst, const void* src, size_t bytes) override;
  hipError_t fill(EngineStream& stream, void* dst, uint32_t value, uint32_t width, size_t count) override;

  EngineStream& null_stream(int device) override;
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
  CompileResult compile(const CompileRequest& request) override;

  hipError_t run_on_host(EngineStream& stream, std::vector<DeviceRange> ranges,
                         std::function<void(void* const*)> work) override;
  void* native_stream(EngineStream& stream) override;

 private:
  struct Device {
    CUcontext context = nullptr;
    std::unique_ptr<EngineStream> null_stream;
    std::atomic<int> injected_error{0};  // of a kernel that was made to fail, for the next synchronizing call
  };
  void add_device(CUdevice device, int index);
  /// Makes the device's context current for the calling thread.
  hipError_t use(int device);
  /// The result of a synchronizing call: the driver's error, or else an injected one.
  hipError_t finish(int device, CUresult result);

  const CudaDriver& cuda_;
  std::vector<DeviceInfo> infos_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::string architecture_ = "sm_90";  // of the first device
  GuardedMemory memory_;
};

}  // namespace standin
