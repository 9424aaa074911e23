// The interface between a kernel module compiled for the host (g++ or clang++) and the engine that runs it.
// Both sides include this file, so it uses plain C types only.
//
// A host module is a shared object with, for every kernel `name`:
//   extern "C" void name__run(const void* args);      one thread of one block
//   extern "C" const uint64_t name__args_size;        bytes behind `args`
// and once per module:
//   extern "C" void ops_host_bind(const OpsHostApi*); called after dlopen, before any launch
//   extern "C" const uint32_t ops_host_wave_size;     OPS_WAVE the module was built with
#pragma once
#include <stddef.h>
#include <stdint.h>

#define OPS_HOST_API_VERSION 1u

#ifdef __cplusplus
extern "C" {
#endif

// Thread and block indices of the current fiber.
typedef struct OpsHostIndex {
    uint32_t thread[3];
    uint32_t block[3];
    uint32_t block_dim[3];
    uint32_t grid_dim[3];
} OpsHostIndex;

// Functions that the engine provides. The pointer given to ops_host_bind stays valid as long as the module is loaded.
typedef struct OpsHostApi {
    uint32_t version;    // OPS_HOST_API_VERSION
    uint32_t wave_size;  // 32 or 64, equal to the module's ops_host_wave_size

    // Indices of the calling fiber. The fiber may keep the pointer until it returns.
    const OpsHostIndex* (*index)(void);

    // Returns when every live fiber of the block has called it.
    void (*barrier)(void);

    // Every live fiber of the wave passes a value and receives the value of lane
    // (lane & ~(width - 1)) | (source_lane & (width - 1)) of its wave.
    // width is a power of two, at most wave_size. A lane is the linear thread index (x fastest) modulo
    // wave_size. The value of a lane that has returned is undefined.
    uint64_t (*shuffle)(uint64_t value, uint32_t source_lane, uint32_t width);

    // Bit i of the result is set if lane i of the wave is live and passed a nonzero value.
    uint64_t (*ballot)(int predicate);

    // The block's memory for one static LDS array. Every fiber of a block gets the same address,
    // aligned to 16 bytes. The memory is poisoned when the block starts. Within one launch, a slot
    // stands for one array and always requests the same number of bytes.
    void* (*lds)(uint32_t slot, uint64_t bytes);

    // The block's dynamic LDS, of the size given at launch, also aligned to 16 bytes and poisoned.
    void* (*dynamic_lds)(void);
} OpsHostApi;

#ifdef __cplusplus
}
#endif
