// Modules, functions and launches.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "core/live.h"
#include "core/memory_table.h"
#include "engine/engine.h"
#include "hip/api.h"
#include "hip/capture.h"
#include "hip/objects.h"
#include "hip/peers.h"

using namespace standin;

namespace {

hipError_t check_module(const char* function, hipModule_t module) {
  if (live().contains(Kind::Module, module)) return hipSuccess;
  misuse("%s: %p is not a loaded module", function, static_cast<void*>(module));
  return hipErrorInvalidHandle;
}

hipError_t check_function(const char* caller, hipFunction_t function) {
  if (live().contains(Kind::Function, function)) return hipSuccess;
  misuse("%s: %p is not a function of a loaded module", caller, static_cast<void*>(function));
  return hipErrorInvalidHandle;
}

// AMD's runtime answers these functions for the thread's current device without checking that the module is loaded
// there, and may dereference a null pointer.
hipError_t check_current(const char* caller, const char* what, int device) {
  if (current_device() == device) return hipSuccess;
  misuse("%s: %s was loaded on device %d, and device %d is current", caller, what, device, current_device());
  return hipErrorInvalidContext;
}

hipError_t check_module_here(const char* caller, hipModule_t module) {
  if (const hipError_t error = check_module(caller, module)) return error;
  return check_current(caller, "the module", module->device);
}

hipError_t check_function_here(const char* caller, hipFunction_t function) {
  if (const hipError_t error = check_function(caller, function)) return error;
  return check_current(caller, function->name.c_str(), function->device);
}

hipError_t load(hipModule_t* out, const void* image, size_t bytes) {
  const int device = current_device();
  if (const hipError_t error = check_device(device)) return error;
  if (!out || !image) return hipErrorInvalidValue;
  if (const hipError_t error = captures().check_unsafe("hipModuleLoadData")) return error;
  auto module = std::make_unique<ihipModule_t>();
  module->device = device;
  if (const hipError_t error = module->overhead.take(device)) return error;
  if (const hipError_t error = engine().load(device, image, bytes, &module->engine)) return error;
  live().add(Kind::Module, module.get(), "of device " + std::to_string(device));
  *out = module.release();
  return hipSuccess;
}

// Checks a launch's shape against the limits of every AMD GPU.
hipError_t check_shape(const std::string& kernel, const LaunchShape& shape) {
  const auto reject = [&](const char* what) {
    misuse("hipModuleLaunchKernel: %s: %s: grid (%u, %u, %u), block (%u, %u, %u), %u bytes of LDS", kernel.c_str(),
           what, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1], shape.block[2],
           shape.shared_bytes);
    return hipErrorInvalidConfiguration;
  };
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    if (shape.grid[i] == 0 || shape.block[i] == 0) return reject("a size is zero");
    if (shape.grid[i] > max_grid[i]) return reject("the grid is too large");
    if (shape.block[i] > max_block_threads) return reject("the block is too large");
    if (uint64_t(shape.grid[i]) * shape.block[i] > UINT32_MAX)
      return reject("more than 2^32 - 1 threads in a direction");
    threads *= shape.block[i];
  }
  if (threads > max_block_threads) return reject("more than 1024 threads in a block");
  if (shape.shared_bytes > engine().devices()[0].lds_bytes) return reject("more dynamic LDS than there is");
  return hipSuccess;
}

struct Arguments {
  const void* buffer = nullptr;
  size_t bytes = 0;
};

// Parses `extra`: pairs of a name and a value, up to an end mark.
hipError_t read_extra(void** extra, Arguments* out) {
  const size_t* bytes = nullptr;
  for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
      out->buffer = extra[i + 1];
    else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE)
      bytes = static_cast<const size_t*>(extra[i + 1]);
    else
      return hipErrorInvalidValue;
  }
  if (!out->buffer || !bytes) return hipErrorInvalidValue;
  out->bytes = *bytes;
  return hipSuccess;
}

hipError_t check_arguments(const ihipModuleSymbol_t& function, void** params, void** extra, Arguments* arguments) {
  const size_t wanted = function.engine->argument_bytes;
  if (params && extra) return hipErrorInvalidValue;
  if (extra) {
    if (const hipError_t error = read_extra(extra, arguments)) return error;
    if (wanted != 0 && arguments->bytes != wanted) {
      misuse("hipModuleLaunchKernel: %s: %zu bytes of arguments, the kernel takes %zu", function.name.c_str(),
             arguments->bytes, wanted);
      return hipErrorInvalidValue;
    }
  } else if (wanted != 0 && (!params || !params[0])) {
    misuse("hipModuleLaunchKernel: %s: no arguments, the kernel takes %zu bytes", function.name.c_str(), wanted);
    return hipErrorInvalidValue;
  }
  return hipSuccess;
}

}  // namespace

extern "C" {

hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return hip_call(__func__, hipErrorOutOfMemory, [&] { return load(module, image, SIZE_MAX); });
}

hipError_t hipModuleLoad(hipModule_t* module, const char* file) {
  return hip_call(__func__, hipErrorFileNotFound, [&] {
    if (!file) return hipErrorInvalidValue;
    std::ifstream stream(file, std::ios::binary);
    if (!stream) return hipErrorFileNotFound;
    const std::string image{std::istreambuf_iterator<char>(stream), {}};
    return load(module, image.data(), image.size());
  });
}

hipError_t hipModuleUnload(hipModule_t module) {
  return hip_call(__func__, hipErrorInvalidHandle, [&] {
    if (const hipError_t error = check_module("hipModuleUnload", module)) return error;
    if (const hipError_t error = captures().check_unsafe("hipModuleUnload")) return error;
    if (!live().remove(Kind::Module, module)) return hipErrorInvalidHandle;
    for (hipFunction_t function : module->functions) {
      live().remove(Kind::Function, function);
      function->engine.reset();
      retire(function);
    }
    for (void* global : module->globals) memory_table().remove(global, MemoryKind::Global);
    module->engine.reset();
    module->overhead.give_back();
    retire(module);
    return hipSuccess;
  });
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return hip_call(__func__, hipErrorNotFound, [&] {
    if (const hipError_t error = check_module_here("hipModuleGetFunction", module)) return error;
    if (!function || !name) return hipErrorInvalidValue;
    auto found = std::make_unique<ihipModuleSymbol_t>();
    found->device = module->device;
    found->name = name;
    if (const hipError_t error = engine().function(*module->engine, name, &found->engine)) return error;
    std::lock_guard<std::mutex> lock(module->mutex);
    module->functions.push_back(found.get());
    live().add(Kind::Function, found.get());
    *function = found.release();
    return hipSuccess;
  });
}

hipError_t hipModuleGetGlobal(hipDeviceptr_t* ptr, size_t* bytes, hipModule_t module, const char* name) {
  return hip_call(__func__, hipErrorNotFound, [&] {
    if (const hipError_t error = check_module_here("hipModuleGetGlobal", module)) return error;
    if (!name) return hipErrorInvalidValue;
    void* address = nullptr;
    size_t size = 0;
    if (const hipError_t error = engine().global(*module->engine, name, &address, &size)) return error;
    {
      std::lock_guard<std::mutex> lock(module->mutex);
      module->globals.push_back(address);
      memory_table().add({uintptr_t(address), size, MemoryKind::Global, module->device});
    }
    if (ptr) *ptr = address;
    if (bytes) *bytes = size;
    return hipSuccess;
  });
}

hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t function) {
  return hip_call(__func__, hipErrorInvalidHandle, [&] {
    if (const hipError_t error = check_function_here("hipFuncGetAttribute", function)) return error;
    if (!value) return hipErrorInvalidValue;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = int(max_block_threads); return hipSuccess;
      case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = int(engine().devices()[size_t(function->device)].lds_bytes);
        return hipSuccess;
      // Values that only a compiler for the real GPU knows stay zero.
      default: *value = 0; return attribute < HIP_FUNC_ATTRIBUTE_MAX ? hipSuccess : hipErrorInvalidValue;
    }
  });
}

hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    return function && attribute < hipFuncAttributeMax && value >= 0 ? hipSuccess : hipErrorInvalidValue;
  });
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                 unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                 unsigned int shared_bytes, hipStream_t stream, void** params, void** extra) {
  return hip_call(__func__, hipErrorLaunchFailure, [&] {
    if (const hipError_t error = check_function_here("hipModuleLaunchKernel", function)) return error;
    StreamTarget target;
    if (const hipError_t error = resolve("hipModuleLaunchKernel", stream, &target)) return error;
    if (target.device != function->device) {
      misuse("hipModuleLaunchKernel: %s was loaded on device %d, the stream is of device %d", function->name.c_str(),
             function->device, target.device);
      return hipErrorInvalidHandle;
    }
    const LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    if (const hipError_t error = check_shape(function->name, shape)) return error;
    Arguments arguments;
    if (const hipError_t error = check_arguments(*function, params, extra, &arguments)) return error;
    const void* block = params ? params[0] : arguments.buffer;
    std::vector<char> replaced;
    bool hangs = false;
    if (block && engine().devices().size() > 1) {
      const size_t bytes = function->engine->argument_bytes;
      if (const hipError_t error = check_peers(function->name.c_str(), target.device, block, bytes, &replaced, &hangs))
        return error;
    }
    if (hangs)
      if (const hipError_t error = engine().call_host(*target.engine, [] { std::this_thread::sleep_for(std::chrono::hours(1)); }))
        return error;
    if (!replaced.empty()) block = replaced.data();
    void* replaced_params[] = {const_cast<void*>(block)};
    captures().note(stream, function);
    if (params) return engine().launch(*function->engine, shape, *target.engine, replaced_params, nullptr, 0);
    return engine().launch(*function->engine, shape, *target.engine, nullptr, block, arguments.bytes);
  });
}

hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t, unsigned int, unsigned int, unsigned int, unsigned int,
                                            unsigned int, unsigned int, unsigned int, hipStream_t, void**) {
  return hip_call(__func__, hipErrorNotSupported, [] { return hipErrorNotSupported; });
}

hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, hipFunction_t function, int block_size,
                                                              size_t shared_bytes) {
  return hip_call(__func__, hipErrorInvalidValue, [&] {
    constexpr int threads_at_once = 2048;
    if (const hipError_t error = check_function_here("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", function))
      return error;
    const size_t lds = engine().devices()[size_t(function->device)].lds_bytes;
    if (!blocks || block_size <= 0 || uint64_t(block_size) > max_block_threads) return hipErrorInvalidValue;
    *blocks = threads_at_once / block_size;
    if (shared_bytes > 0) *blocks = int(std::min<size_t>(size_t(*blocks), lds / shared_bytes));
    return hipSuccess;
  });
}

}  // extern "C"
