// Blocks that share a piece of work: the last one to finish its part goes on with what all of them wrote.
#pragma once
#include "ops_platform.h"

namespace ops {

// What the thread wrote before is visible to the whole device before anything that it writes later.
OPS_DEVICE void release_to_device() {
#if defined(OPS_CUDA)
    __threadfence();
#elif defined(OPS_AMD)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
// What other blocks released before a value that the thread has read is visible to the thread's later reads.
OPS_DEVICE void acquire_from_device() {
#if defined(OPS_CUDA)
    __threadfence();
#elif defined(OPS_AMD)
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "agent");
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}
OPS_DEVICE u32 count_arrival(u32* counter) {
#if defined(OPS_CUDA)
    return atomicAdd(counter, 1u);
#elif defined(OPS_AMD)
    return __hip_atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT);
#else
    return __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
#endif
}

// Whether the calling block is the last of `expected` blocks that arrive at a counter, which is 0 before the first and 0 again after
// the last. All threads of the block call it, and those of the last block then see what all blocks wrote before. Nobody waits, so it
// does not matter which blocks are resident. `shared` is in LDS.
OPS_DEVICE bool is_last_to_arrive(u32* counter, u32 expected, u32* shared) {
    release_to_device();
    barrier();
    if (opaque(thread_x()) == 0) {
        u32 last = count_arrival(counter) + 1 == expected ? 1 : 0;
        if (last != 0) *counter = 0;
        *shared = last;
    }
    barrier();
    bool last = *shared != 0;
    if (last) acquire_from_device();
    return last;
}

}  // namespace ops
