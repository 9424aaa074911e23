// Handles, their settings, versions and status names.
#include "rocblas/handle.h"

#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

using namespace standin;

namespace {

constexpr char version[] = "5.2.0.standin";

// Where the real library has its kernels: ROCBLAS_TENSILE_LIBPATH, or else a folder next to it.
std::filesystem::path tensile_folder() {
  if (const char* given = std::getenv("ROCBLAS_TENSILE_LIBPATH")) return given;
  Dl_info info;
  if (!dladdr(reinterpret_cast<void*>(&rocblas_create_handle), &info)) return {};
  return std::filesystem::path(info.dli_fname).parent_path() / "rocblas" / "library";
}

bool has_tensile_library(const std::string& gfx) {
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(tensile_folder(), missing)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("TensileLibrary", 0) == 0 && name.find(bare_gfx(gfx)) != std::string::npos) return true;
  }
  return false;
}

// The real library ends the process if it has no kernels for the device.
void require_tensile_library(const std::string& gfx) {
  if (config().engine == EngineKind::Cuda) return;
  if (!config().no_tensile && has_tensile_library(gfx)) return;
  std::fprintf(stderr, "hip-standin: rocBLAS error: no Tensile library for %s in %s\n", gfx.c_str(),
               tensile_folder().c_str());
  std::abort();
}

}  // namespace

extern "C" {

rocblas_status rocblas_create_handle(rocblas_handle* handle) {
  if (faults().called(__func__)) return rocblas_status_memory_error;
  if (!handle) return rocblas_status_invalid_handle;
  *handle = nullptr;
  int device = 0;
  if (hipGetDevice(&device) != hipSuccess) return rocblas_status_internal_error;
  require_tensile_library(engine().devices()[size_t(device)].gfx);
  std::unique_ptr<_rocblas_handle> created(new (std::nothrow) _rocblas_handle);
  if (!created || created->overhead.take(device)) return rocblas_status_memory_error;
  created->device = device;
  live().add(Kind::RocblasHandle, created.get());
  *handle = created.release();
  return rocblas_status_success;
}

rocblas_status rocblas_destroy_handle(rocblas_handle handle) {
  return rocblas_call(__func__, handle, [](_rocblas_handle& h) {
    if (!live().remove(Kind::RocblasHandle, &h)) return rocblas_status_invalid_handle;
    h.overhead.give_back();
    retire(&h);
    return rocblas_status_success;
  });
}

rocblas_status rocblas_set_stream(rocblas_handle handle, hipStream_t stream) {
  return rocblas_call(__func__, handle, [&](_rocblas_handle& h) {
    StreamTarget target;
    if (const hipError_t error = resolve("rocblas_set_stream", stream, &target)) return from_hip(error);
    if (target.device != h.device) {
      misuse("rocblas_set_stream: a handle of device %d, a stream of device %d", h.device, target.device);
      return rocblas_status_invalid_value;
    }
    h.stream = stream;
    return rocblas_status_success;
  });
}

rocblas_status rocblas_get_stream(rocblas_handle handle, hipStream_t* stream) {
  return rocblas_call(__func__, handle, [&](_rocblas_handle& h) {
    if (!stream) return rocblas_status_invalid_pointer;
    *stream = h.stream;
    return rocblas_status_success;
  });
}

rocblas_status rocblas_set_pointer_mode(rocblas_handle handle, rocblas_pointer_mode mode) {
  return rocblas_call(__func__, handle, [&](_rocblas_handle& h) {
    if (mode != rocblas_pointer_mode_host && mode != rocblas_pointer_mode_device) return rocblas_status_invalid_value;
    h.pointer_mode = mode;
    return rocblas_status_success;
  });
}

// In the real library these affect how it computes, not the result; here they do nothing.
rocblas_status rocblas_set_atomics_mode(rocblas_handle handle, rocblas_atomics_mode) {
  return rocblas_call(__func__, handle, [](_rocblas_handle&) { return rocblas_status_success; });
}
rocblas_status rocblas_set_math_mode(rocblas_handle handle, rocblas_math_mode) {
  return rocblas_call(__func__, handle, [](_rocblas_handle&) { return rocblas_status_success; });
}

rocblas_status rocblas_set_workspace(rocblas_handle handle, void* address, size_t bytes) {
  return rocblas_call(__func__, handle, [&](_rocblas_handle& h) {
    if (!address && bytes == 0) {  // back to the library's own
      h.workspace = nullptr;
      return from_hip(h.overhead.take(h.device));
    }
    if (const hipError_t error = check_device_range("rocblas_set_workspace", "workspace", address, bytes))
      return from_hip(error);
    h.overhead.give_back();
    h.workspace = address;
    h.workspace_bytes = bytes;
    return rocblas_status_success;
  });
}

void rocblas_initialize() {
  faults().called(__func__);
  int device = 0;
  if (hipGetDevice(&device) == hipSuccess) require_tensile_library(engine().devices()[size_t(device)].gfx);
}

rocblas_status rocblas_get_version_string_size(size_t* bytes) {
  if (faults().called(__func__)) return rocblas_status_internal_error;
  if (!bytes) return rocblas_status_invalid_pointer;
  *bytes = sizeof version;
  return rocblas_status_success;
}

rocblas_status rocblas_get_version_string(char* text, size_t bytes) {
  if (faults().called(__func__)) return rocblas_status_internal_error;
  if (!text) return rocblas_status_invalid_pointer;
  if (bytes < sizeof version) return rocblas_status_invalid_size;
  std::memcpy(text, version, sizeof version);
  return rocblas_status_success;
}

const char* rocblas_status_to_string(rocblas_status status) {
  switch (status) {
    case rocblas_status_success: return "rocblas_status_success";
    case rocblas_status_invalid_handle: return "rocblas_status_invalid_handle";
    case rocblas_status_not_implemented: return "rocblas_status_not_implemented";
    case rocblas_status_invalid_pointer: return "rocblas_status_invalid_pointer";
    case rocblas_status_invalid_size: return "rocblas_status_invalid_size";
    case rocblas_status_memory_error: return "rocblas_status_memory_error";
    case rocblas_status_internal_error: return "rocblas_status_internal_error";
    case rocblas_status_perf_degraded: return "rocblas_status_perf_degraded";
    case rocblas_status_size_query_mismatch: return "rocblas_status_size_query_mismatch";
    case rocblas_status_size_increased: return "rocblas_status_size_increased";
    case rocblas_status_size_unchanged: return "rocblas_status_size_unchanged";
    case rocblas_status_invalid_value: return "rocblas_status_invalid_value";
    case rocblas_status_continue: return "rocblas_status_continue";
    case rocblas_status_check_numerics_fail: return "rocblas_status_check_numerics_fail";
    case rocblas_status_excluded_from_build: return "rocblas_status_excluded_from_build";
    case rocblas_status_arch_mismatch: return "rocblas_status_arch_mismatch";
    default: return "<undefined rocblas_status value>";
  }
}

}  // extern "C"
