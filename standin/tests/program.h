// Kernels for the tests: a small platform header, and functions for compiling and launching.
#pragma once

#include <string>
#include <vector>

#include "check.h"
#include "hiprtc_api.h"

/// Lets one source compile for both engines. Deliberately independent of the library's own header.
inline const char* const kernel_prelude = R"(
#if defined(OPS_HOST)
#include <stdint.h>
struct OpsHostIndex { uint32_t thread[3], block[3], block_dim[3], grid_dim[3]; };
struct OpsHostApi {
  uint32_t version, wave_size;
  const OpsHostIndex* (*index)(void);
  void (*barrier)(void);
  uint64_t (*shuffle)(uint64_t value, uint32_t source_lane, uint32_t width);
  uint64_t (*ballot)(int predicate);
  void* (*lds)(uint32_t slot, uint64_t bytes);
  void* (*dynamic_lds)(void);
};
static const OpsHostApi* api;
extern "C" void ops_host_bind(const OpsHostApi* given) { api = given; }
#define KERNEL(name, Args)                                                          \
  extern "C" void name(Args args);                                                  \
  extern "C" void name##__run(const void* args) { name(*(const Args*)args); }       \
  extern "C" { extern const uint64_t name##__args_size; const uint64_t name##__args_size = sizeof(Args); } \
  extern "C" void name([[maybe_unused]] Args args)
#define SHARED(type, name, count) type* name = (type*)api->lds(__COUNTER__, sizeof(type) * (count))
#define thread_x (api->index()->thread[0])
#define thread_y (api->index()->thread[1])
#define block_x (api->index()->block[0])
#define block_dim_x (api->index()->block_dim[0])
#define barrier() api->barrier()
#define ballot(p) api->ballot(p)
static inline float shuffle(float v, unsigned lane) {
  uint32_t bits = __builtin_bit_cast(uint32_t, v);
  return __builtin_bit_cast(float, (uint32_t)api->shuffle(bits, lane, OPS_WAVE));
}
#define DYNAMIC_SHARED(type, name) type* name = (type*)api->dynamic_lds()
#else
typedef unsigned long long uint64_t;
#define KERNEL(name, Args) extern "C" __global__ void name(Args args)
#define SHARED(type, name, count) __shared__ type name[count]
#define thread_x threadIdx.x
#define thread_y threadIdx.y
#define block_x blockIdx.x
#define block_dim_x blockDim.x
#define barrier() __syncthreads()
#define ballot(p) __ballot_sync(0xffffffffu, p)
static __device__ float shuffle(float v, unsigned lane) { return __shfl_sync(0xffffffffu, v, lane); }
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif
)";

inline std::string device_gfx() {
  hipDeviceProp_tR0600 properties;
  must(hipGetDevicePropertiesR0600(&properties, 0));
  return properties.gcnArchName;
}

inline unsigned device_wave_size() {
  hipDeviceProp_tR0600 properties;
  must(hipGetDevicePropertiesR0600(&properties, 0));
  return unsigned(properties.warpSize);
}

struct Compiled {
  hiprtcResult result;
  std::string log;
  std::string code;
};

inline Compiled compile(const std::string& source, std::vector<std::string> options) {
  hiprtcProgram program = nullptr;
  check_equal(hiprtcCreateProgram(&program, source.c_str(), "test.hip", 0, nullptr, nullptr), HIPRTC_SUCCESS, "create");
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  Compiled out;
  out.result = hiprtcCompileProgram(program, int(texts.size()), texts.data());
  size_t bytes = 0;
  check_equal(hiprtcGetProgramLogSize(program, &bytes), HIPRTC_SUCCESS, "log size");
  std::vector<char> log(bytes + 1);
  check_equal(hiprtcGetProgramLog(program, log.data()), HIPRTC_SUCCESS, "log");
  out.log = log.data();
  if (out.result == HIPRTC_SUCCESS) {
    check_equal(hiprtcGetCodeSize(program, &bytes), HIPRTC_SUCCESS, "code size");
    out.code.resize(bytes);
    check_equal(hiprtcGetCode(program, out.code.data()), HIPRTC_SUCCESS, "code");
  }
  check_equal(hiprtcDestroyProgram(&program), HIPRTC_SUCCESS, "destroy");
  return out;
}

/// A module compiled for the device, and unloaded with the object.
class Program {
 public:
  explicit Program(const std::string& source) {
    const Compiled compiled = compile(kernel_prelude + source, {"--offload-arch=" + device_gfx()});
    if (compiled.result != HIPRTC_SUCCESS) {
      std::printf("%s\n", compiled.log.c_str());
      std::exit(1);
    }
    must(hipModuleLoadData(&module_, compiled.code.data()));
  }
  ~Program() { must(hipModuleUnload(module_)); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  hipModule_t module() const { return module_; }
  hipFunction_t function(const char* name) const {
    hipFunction_t function = nullptr;
    must(hipModuleGetFunction(&function, module_, name));
    return function;
  }

 private:
  hipModule_t module_ = nullptr;
};

template <class Args>
hipError_t launch(hipFunction_t function, unsigned blocks, unsigned threads, Args args, hipStream_t stream = nullptr,
                  unsigned shared_bytes = 0) {
  size_t bytes = sizeof args;
  void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, &args, HIP_LAUNCH_PARAM_BUFFER_SIZE, &bytes, HIP_LAUNCH_PARAM_END};
  return hipModuleLaunchKernel(function, blocks, 1, 1, threads, 1, 1, shared_bytes, stream, nullptr, extra);
}
