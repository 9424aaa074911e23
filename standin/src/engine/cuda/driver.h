// The parts of the CUDA driver's and NVRTC's C interfaces that are used, resolved at run time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace standin {

using CUresult = int;  // its values are those of hipError_t where both have an error
using CUdevice = int;
using CUdeviceptr = uint64_t;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUhostFn = void (*)(void*);

constexpr unsigned cu_stream_non_blocking = 1;
constexpr unsigned cu_event_disable_timing = 2;
constexpr int cu_stream_capture_relaxed = 2;

enum CUdevice_attribute {
  cu_attribute_clock_khz = 13,
  cu_attribute_multiprocessors = 16,
  cu_attribute_integrated = 18,
  cu_attribute_pci_bus = 33,
  cu_attribute_memory_clock_khz = 36,
  cu_attribute_memory_bus_bits = 37,
  cu_attribute_l2_bytes = 38,
  cu_attribute_compute_major = 75,
  cu_attribute_compute_minor = 76,
};
constexpr int cu_function_max_dynamic_shared = 8;

/// libcuda.so.1. Without that library, `init` is null.
struct CudaDriver {
  CUresult (*init)(unsigned);
  CUresult (*device_count)(int*);
  CUresult (*device_get)(CUdevice*, int);
  CUresult (*device_name)(char*, int, CUdevice);
  CUresult (*device_memory)(size_t*, CUdevice);
  CUresult (*device_attribute)(int*, CUdevice_attribute, CUdevice);
  CUresult (*context_retain)(CUcontext*, CUdevice);
  CUresult (*context_set)(CUcontext);
  CUresult (*context_synchronize)();
  CUresult (*context_enable_peer)(CUcontext, unsigned);
  CUresult (*allocate)(CUdeviceptr*, size_t);
  CUresult (*release)(CUdeviceptr);
  CUresult (*allocate_async)(CUdeviceptr*, size_t, CUstream);
  CUresult (*release_async)(CUdeviceptr, CUstream);
  CUresult (*allocate_host)(void**, size_t, unsigned);
  CUresult (*release_host)(void*);
  CUresult (*register_host)(void*, size_t, unsigned);
  CUresult (*unregister_host)(void*);
  CUresult (*memory_info)(size_t*, size_t*);
  CUresult (*copy_async)(CUdeviceptr, CUdeviceptr, size_t, CUstream);
  CUresult (*fill8)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*fill16)(CUdeviceptr, unsigned short, size_t, CUstream);
  CUresult (*fill32)(CUdeviceptr, unsigned, size_t, CUstream);
  CUresult (*stream_create)(CUstream*, unsigned, int);
  CUresult (*stream_destroy)(CUstream);
  CUresult (*stream_synchronize)(CUstream);
  CUresult (*stream_query)(CUstream);
  CUresult (*stream_wait_event)(CUstream, CUevent, unsigned);
  CUresult (*launch_host)(CUstream, CUhostFn, void*);
  CUresult (*stream_begin_capture)(CUstream, int);
  CUresult (*stream_end_capture)(CUstream, CUgraph*);
  CUresult (*graph_instantiate)(CUgraphExec*, CUgraph, unsigned long long);
  CUresult (*graph_launch)(CUgraphExec, CUstream);
  CUresult (*graph_destroy)(CUgraph);
  CUresult (*graph_exec_destroy)(CUgraphExec);
  CUresult (*event_create)(CUevent*, unsigned);
  CUresult (*event_destroy)(CUevent);
  CUresult (*event_record)(CUevent, CUstream);
  CUresult (*event_synchronize)(CUevent);
  CUresult (*event_query)(CUevent);
  CUresult (*event_elapsed)(float*, CUevent, CUevent);
  CUresult (*module_load)(CUmodule*, const void*);
  CUresult (*module_unload)(CUmodule);
  CUresult (*module_function)(CUfunction*, CUmodule, const char*);
  CUresult (*module_global)(CUdeviceptr*, size_t*, CUmodule, const char*);
  CUresult (*function_set_attribute)(CUfunction, int, int);
  CUresult (*function_parameter)(CUfunction, size_t, size_t*, size_t*);  // null before CUDA 12.4
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,
                     void**);
};
const CudaDriver& cuda_driver();

using nvrtcProgram = struct _nvrtcProgram*;

struct Nvrtc {
  int (*create)(nvrtcProgram*, const char* source, const char* name, int, const char* const* headers,
                const char* const* include_names);
  int (*destroy)(nvrtcProgram*);
  int (*compile)(nvrtcProgram, int, const char* const*);
  int (*log_size)(nvrtcProgram, size_t*);
  int (*log)(nvrtcProgram, char*);
  int (*cubin_size)(nvrtcProgram, size_t*);
  int (*cubin)(nvrtcProgram, char*);
};
/// Null if libnvrtc cannot be opened.
const Nvrtc* nvrtc();

}  // namespace standin
