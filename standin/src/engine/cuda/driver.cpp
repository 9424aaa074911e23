#include "engine/cuda/driver.h"

#include <dlfcn.h>
#include <cstdio>
#include <initializer_list>

namespace standin {
namespace {

void* open_first(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

/// Resolves function pointers and records whether any is missing.
class Resolver {
 public:
  explicit Resolver(void* library) : library_(library) {}

  template <class Function>
  void required(Function& slot, const char* name) {
    optional(slot, name);
    if (slot) return;
    std::fprintf(stderr, "hip-standin: %s is missing\n", name);
    complete_ = false;
  }
  template <class Function>
  void optional(Function& slot, const char* name) {
    slot = reinterpret_cast<Function>(dlsym(library_, name));
  }
  bool complete() const { return complete_; }

 private:
  void* library_;
  bool complete_ = true;
};

CudaDriver load_driver() {
  CudaDriver d{};
  void* library = open_first({"libcuda.so.1"});
  if (!library) {
    std::fprintf(stderr, "hip-standin: HIP_STANDIN_ENGINE=cuda needs libcuda.so.1: %s\n", dlerror());
    return d;
  }
  Resolver r(library);
  r.required(d.init, "cuInit");
  r.required(d.device_count, "cuDeviceGetCount");
  r.required(d.device_get, "cuDeviceGet");
  r.required(d.device_name, "cuDeviceGetName");
  r.required(d.device_memory, "cuDeviceTotalMem_v2");
  r.required(d.device_attribute, "cuDeviceGetAttribute");
  r.required(d.context_retain, "cuDevicePrimaryCtxRetain");
  r.required(d.context_set, "cuCtxSetCurrent");
  r.required(d.context_synchronize, "cuCtxSynchronize");
  r.required(d.context_enable_peer, "cuCtxEnablePeerAccess");
  r.required(d.allocate, "cuMemAlloc_v2");
  r.required(d.release, "cuMemFree_v2");
  r.required(d.allocate_async, "cuMemAllocAsync");
  r.required(d.release_async, "cuMemFreeAsync");
  r.required(d.allocate_host, "cuMemHostAlloc");
  r.required(d.release_host, "cuMemFreeHost");
  r.required(d.register_host, "cuMemHostRegister_v2");
  r.required(d.unregister_host, "cuMemHostUnregister");
  r.required(d.memory_info, "cuMemGetInfo_v2");
  r.required(d.copy_async, "cuMemcpyAsync");
  r.required(d.fill8, "cuMemsetD8Async");
  r.required(d.fill16, "cuMemsetD16Async");
  r.required(d.fill32, "cuMemsetD32Async");
  r.required(d.stream_create, "cuStreamCreateWithPriority");
  r.required(d.stream_destroy, "cuStreamDestroy_v2");
  r.required(d.stream_synchronize, "cuStreamSynchronize");
  r.required(d.stream_query, "cuStreamQuery");
  r.required(d.stream_wait_event, "cuStreamWaitEvent");
  r.required(d.launch_host, "cuLaunchHostFunc");
  r.required(d.stream_begin_capture, "cuStreamBeginCapture_v2");
  r.required(d.stream_end_capture, "cuStreamEndCapture");
  r.required(d.graph_instantiate, "cuGraphInstantiateWithFlags");
  r.required(d.graph_launch, "cuGraphLaunch");
  r.required(d.graph_destroy, "cuGraphDestroy");
  r.required(d.graph_exec_destroy, "cuGraphExecDestroy");
  r.required(d.event_create, "cuEventCreate");
  r.required(d.event_destroy, "cuEventDestroy_v2");
  r.required(d.event_record, "cuEventRecord");
  r.required(d.event_synchronize, "cuEventSynchronize");
  r.required(d.event_query, "cuEventQuery");
  r.required(d.event_elapsed, "cuEventElapsedTime");
  r.required(d.module_load, "cuModuleLoadData");
  r.required(d.module_unload, "cuModuleUnload");
  r.required(d.module_function, "cuModuleGetFunction");
  r.required(d.module_global, "cuModuleGetGlobal_v2");
  r.required(d.function_set_attribute, "cuFuncSetAttribute");
  r.optional(d.function_parameter, "cuFuncGetParamInfo");
  r.required(d.launch, "cuLaunchKernel");
  return r.complete() ? d : CudaDriver{};
}

Nvrtc load_nvrtc(bool* usable) {
  Nvrtc n{};
  void* library = open_first({"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"});
  *usable = library != nullptr;
  if (!library) return n;
  Resolver r(library);
  r.required(n.create, "nvrtcCreateProgram");
  r.required(n.destroy, "nvrtcDestroyProgram");
  r.required(n.compile, "nvrtcCompileProgram");
  r.required(n.log_size, "nvrtcGetProgramLogSize");
  r.required(n.log, "nvrtcGetProgramLog");
  r.required(n.cubin_size, "nvrtcGetCUBINSize");
  r.required(n.cubin, "nvrtcGetCUBIN");
  *usable = r.complete();
  return n;
}

}  // namespace

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = load_driver();
  return driver;
}

const Nvrtc* nvrtc() {
  static bool usable = false;
  static const Nvrtc instance = load_nvrtc(&usable);
  return usable ? &instance : nullptr;
}

}  // namespace standin
