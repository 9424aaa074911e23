// Memory that kernels on other devices and the host use while a kernel runs. It is uncached device memory or coherent host memory; for
// other memory, AMD promises nothing before a kernel ends.
#pragma once
#include "ops_platform.h"
#if defined(OPS_HOST)
#include <sched.h>
#include <time.h>
#endif

namespace ops {

// What the thread wrote before is visible to the whole system before anything that it writes later.
OPS_DEVICE void release_to_system() {
#if defined(OPS_CUDA)
    __threadfence_system();
#elif defined(OPS_AMD)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "");
#else
    __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
}
// What others released before a value that the thread has read is visible to the thread's later reads.
OPS_DEVICE void acquire_from_system() {
#if defined(OPS_CUDA)
    __threadfence_system();
#elif defined(OPS_AMD)
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
#else
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

// The same for a whole block: after a barrier, one thread stores a flag that publishes what all threads of the block wrote before it. CUDA's
// fences are cumulative over barriers (PTX ISA, "causality order"), so that thread's fence suffices there. AMD documents no such rule for
// memory of other devices.
OPS_DEVICE void release_before_barrier() {
#if !defined(OPS_CUDA)
    release_to_system();
#endif
}
OPS_DEVICE void acquire_after_barrier() {
#if !defined(OPS_CUDA)
    acquire_from_system();
#endif
}

template <typename W> OPS_DEVICE void store_to_system(W* at, W value) {
#if defined(OPS_CUDA)
    __threadfence_system();
    *(volatile W*)at = value;
#elif defined(OPS_AMD)
    __hip_atomic_store(at, value, __ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM);
#else
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}
// Orders nothing: use acquire_from_system after it.
template <typename W> OPS_DEVICE W look_in_system(const W* at) {
#if defined(OPS_CUDA)
    return *(const volatile W*)at;
#elif defined(OPS_AMD)
    return __hip_atomic_load(at, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#else
    return __atomic_load_n(at, __ATOMIC_RELAXED);
#endif
}

// A clock of constant frequency: hipDeviceAttributeWallClockRate on AMD, otherwise nanoseconds.
OPS_DEVICE u64 wall_clock() {
#if defined(OPS_CUDA)
    u64 now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
#elif defined(OPS_AMD) && (defined(__GFX11__) || defined(__GFX12__))
    return u64(__builtin_amdgcn_s_sendmsg_rtnl(0x83));  // MSG_RTN_GET_REALTIME
#elif defined(OPS_AMD)
    return u64(__builtin_amdgcn_s_memrealtime());
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return u64(now.tv_sec) * 1000000000u + u64(now.tv_nsec);
#endif
}

// Lets others run while a thread waits.
OPS_DEVICE void pause_briefly() {
#if defined(OPS_AMD)
    __builtin_amdgcn_s_sleep(1);
#elif defined(OPS_HOST)
    sched_yield();
#endif
}

}  // namespace ops
