// Maps one kernel source onto AMD (clang and hipRTC), CUDA (NVRTC) and a host C++ compiler. On a device it needs
// no other header. The build sets the wave size with -DOPS_WAVE=32 or 64: gfx9 has 64, gfx10 to gfx12 and CUDA
// have 32, the host takes either. Thread blocks are one-dimensional and exactly as large as OPS_KERNEL says.
#pragma once

#if !defined(OPS_WAVE) || (OPS_WAVE != 32 && OPS_WAVE != 64)
#error "define OPS_WAVE as 32 or 64"
#endif

#if defined(__HIP__) || defined(__HIPCC_RTC__)
#define OPS_AMD 1
#elif defined(__CUDACC__)
#define OPS_CUDA 1
#else
#define OPS_HOST 1
#include "ops_host.h"
#endif

#if defined(OPS_AMD)
#if defined(__GFX9__) ? OPS_WAVE != 64 : OPS_WAVE != 32
#error "OPS_WAVE is not the wave size of this target"
#endif
#define OPS_DEVICE static __attribute__((device)) __attribute__((always_inline)) inline
#define OPS_METHOD __attribute__((device)) __attribute__((always_inline)) inline
#define OPS_TABLE static __attribute__((constant)) const
// Goes after a lambda's parameters. A lambda that captures by reference must be inlined to keep its
// captures in registers.
#define OPS_INLINE __attribute__((always_inline))
// Aligned for 16-byte accesses.
#define OPS_LDS(type, name, count) __attribute__((shared)) __attribute__((aligned(16))) static type name[count]
// A family can define this to limit its registers to those available at a given number of waves per SIMD.
#if !defined(OPS_REGISTERS)
#define OPS_REGISTERS
#endif
#define OPS_KERNEL(name, Args, block) OPS_KERNEL_WITH(name, Args, block, OPS_REGISTERS)
// A kernel whose registers leave room for `waves` waves per SIMD. The table of instances says so of kernels for which
// newer compilers than clang 19 would otherwise use many more.
#define OPS_BOUNDED_KERNEL(name, Args, block, waves) \
    OPS_KERNEL_WITH(name, Args, block, __attribute__((amdgpu_waves_per_eu(waves))))
#define OPS_KERNEL_WITH(name, Args, block, registers)                                             \
    OPS_DEVICE void name##_body(const Args& args);                                                \
    extern "C" __attribute__((global)) __attribute__((amdgpu_flat_work_group_size(block, block))) \
    registers void name(Args) {                                                                   \
        name##_body(*(const Args*)__builtin_amdgcn_kernarg_segment_ptr());                        \
    }                                                                                             \
    OPS_DEVICE void name##_body(const Args& args)
#elif defined(OPS_CUDA)
#define OPS_DEVICE static __device__ __forceinline__
#define OPS_METHOD __device__ __forceinline__
#define OPS_TABLE static __constant__ const
#define OPS_LDS(type, name, count) __shared__ __align__(16) type name[count]
#define OPS_KERNEL(name, Args, block) \
    extern "C" __global__ __launch_bounds__(block) void name(const __grid_constant__ Args args)
#else
#define OPS_DEVICE static inline
#define OPS_METHOD inline
#define OPS_TABLE static const
// Only in a kernel's own body: each line that declares an array is one slot.
#define OPS_LDS(type, name, count) \
    type* const name = static_cast<type*>(ops::host_api->lds(__COUNTER__, sizeof(type) * (count)))
#define OPS_KERNEL(name, Args, block)                                     \
    extern "C" void name(Args args);                                      \
    extern "C" void name##__run(const void* args) {                       \
        name(*static_cast<const Args*>(args));                            \
    }                                                                     \
    extern "C" {                                                          \
    extern const uint64_t name##__args_size;                              \
    const uint64_t name##__args_size = sizeof(Args);                      \
    }                                                                     \
    extern "C" void name(Args args)
#endif
#if !defined(OPS_AMD)
#define OPS_BOUNDED_KERNEL(name, Args, block, waves) OPS_KERNEL(name, Args, block)
#endif

#if !defined(OPS_INLINE)
#define OPS_INLINE
#endif

#if defined(OPS_HOST) && !defined(__clang__)
#define OPS_UNROLL
#define OPS_NO_UNROLL
#else
#define OPS_UNROLL _Pragma("unroll")
#define OPS_NO_UNROLL _Pragma("unroll 1")
#endif

namespace ops {

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;
typedef float f32;
typedef double f64;

template <typename A, typename B> struct same { static constexpr bool value = false; };
template <typename A> struct same<A, A> { static constexpr bool value = true; };
template <bool C, typename A, typename B> struct choose { using type = A; };
template <typename A, typename B> struct choose<false, A, B> { using type = B; };

// A pointer in the kernel arguments. On AMD its type marks it as a pointer to global memory. Accesses
// through a generic pointer are FLAT instructions, which wait for LDS as well as for memory.
template <typename T> struct Address {
#if defined(OPS_AMD)
    __attribute__((address_space(1))) T* at;
#else
    T* at;
#endif
    template <typename X> OPS_METHOD operator X*() const { return (X*)at; }
    OPS_METHOD bool operator==(decltype(nullptr)) const { return at == nullptr; }
    OPS_METHOD bool operator!=(decltype(nullptr)) const { return at != nullptr; }
};

// ---- thread and block indices ----------------------------------------------

#if defined(OPS_AMD)
OPS_DEVICE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
OPS_DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
OPS_DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
OPS_DEVICE u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
OPS_DEVICE u32 block_dim() { return __builtin_amdgcn_workgroup_size_x(); }
OPS_DEVICE u32 grid_x() { return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x(); }
#elif defined(OPS_CUDA)
OPS_DEVICE u32 thread_x() { return threadIdx.x; }
OPS_DEVICE u32 block_x() { return blockIdx.x; }
OPS_DEVICE u32 block_y() { return blockIdx.y; }
OPS_DEVICE u32 block_z() { return blockIdx.z; }
OPS_DEVICE u32 block_dim() { return blockDim.x; }
OPS_DEVICE u32 grid_x() { return gridDim.x; }
#else
static const OpsHostApi* host_api;
// A thread's indices stay where they are until it returns, so that the compiler need not ask for them twice.
__attribute__((const, noinline, unused)) static const OpsHostIndex* host_index() { return host_api->index(); }
OPS_DEVICE u32 thread_x() { return host_index()->thread[0]; }
OPS_DEVICE u32 block_x() { return host_index()->block[0]; }
OPS_DEVICE u32 block_y() { return host_index()->block[1]; }
OPS_DEVICE u32 block_z() { return host_index()->block[2]; }
OPS_DEVICE u32 block_dim() { return host_index()->block_dim[0]; }
OPS_DEVICE u32 grid_x() { return host_index()->grid_dim[0]; }
#endif

OPS_DEVICE u32 lane_id() { return thread_x() & (OPS_WAVE - 1); }
OPS_DEVICE u32 wave_id() { return thread_x() / OPS_WAVE; }
// First index and step of a grid-stride loop, in 64 bits so that no count overflows.
OPS_DEVICE u64 global_thread() { return u64(block_x()) * block_dim() + thread_x(); }
OPS_DEVICE u64 global_threads() { return u64(grid_x()) * block_dim(); }

// Returns `value`, hidden from the optimiser, so that computations that depend on it stay inside the loop. Otherwise
// the compiler hoists the address arithmetic of every path out of row loops, which exhausts the registers.
OPS_DEVICE u32 opaque(u32 value) {
#if defined(OPS_AMD)
    asm volatile("" : "+v"(value));
#endif
    return value;
}

// Like `opaque`, and in addition not available before `result` is, so that dependent instructions wait for `result`.
OPS_DEVICE u32 opaque_after(u32 value, f32& result) {
#if defined(OPS_AMD)
    asm volatile("" : "+v"(value), "+v"(result));
#else
    (void)result;
#endif
    return value;
}

// The value of the first lane, for a value that all lanes of a wave share: what depends on it alone is computed once for a wave. The
// compiler does not see this of values from memory that a kernel may write.
OPS_DEVICE u32 same_in_wave(u32 value) {
#if defined(OPS_AMD)
    return u32(__builtin_amdgcn_readfirstlane(int(value)));
#else
    return value;
#endif
}

// Returns the same kernel argument through an address hidden from the optimiser, so that its fields are
// loaded where they are used. Otherwise the compiler loads every stride and size that the loop body may
// need before the loop, and there are not enough scalar registers to keep them.
template <typename T> OPS_DEVICE const T& reread(const T& argument) {
#if defined(OPS_AMD)
    typedef const __attribute__((address_space(4))) T Constant;
    Constant* at = (Constant*)&argument;
    asm volatile("" : "+s"(at));
    return *(const T*)at;
#else
    return argument;
#endif
}

// ---- barriers and lanes -----------------------------------------------------

OPS_DEVICE void barrier() {
#if defined(OPS_AMD)
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
#elif defined(OPS_CUDA)
    __syncthreads();
#else
    host_api->barrier();
#endif
}

// The value of lane `source` within the caller's group of `width` lanes (a power of two). All lanes of
// the wave must take part.
OPS_DEVICE u32 shuffle_bits(u32 value, u32 source, u32 width) {
#if defined(OPS_AMD)
    u32 from = (lane_id() & ~(width - 1)) | (source & (width - 1));
    return u32(__builtin_amdgcn_ds_bpermute(int(from << 2), int(value)));
#elif defined(OPS_CUDA)
    return __shfl_sync(0xffffffffu, value, int(source), int(width));
#else
    return u32(host_api->shuffle(value, source, width));
#endif
}

OPS_DEVICE u64 shuffle_bits(u64 value, u32 source, u32 width) {
#if defined(OPS_HOST)
    return host_api->shuffle(value, source, width);
#else
    u32 low = shuffle_bits(u32(value), source, width);
    u32 high = shuffle_bits(u32(value >> 32), source, width);
    return u64(high) << 32 | low;
#endif
}

// One bit for each lane of the wave.
OPS_DEVICE u64 ballot(bool predicate) {
#if defined(OPS_AMD) && OPS_WAVE == 64
    return __builtin_amdgcn_ballot_w64(predicate);
#elif defined(OPS_AMD)
    return __builtin_amdgcn_ballot_w32(predicate);
#elif defined(OPS_CUDA)
    return __ballot_sync(0xffffffffu, predicate);
#else
    return host_api->ballot(predicate);
#endif
}

// ---- bits -------------------------------------------------------------------

template <typename To, typename From> OPS_DEVICE To bits_as(From from) {
    static_assert(sizeof(To) == sizeof(From), "bits_as needs types of the same size");
#if defined(OPS_CUDA)
    union Both {
        From from;
        To to;
        OPS_METHOD Both() {}
    } both;
    both.from = from;
    return both.to;
#else
    return __builtin_bit_cast(To, from);
#endif
}

OPS_DEVICE u32 shuffle(u32 v, u32 source, u32 width) { return shuffle_bits(v, source, width); }
OPS_DEVICE i32 shuffle(i32 v, u32 source, u32 width) { return i32(shuffle_bits(u32(v), source, width)); }
OPS_DEVICE u64 shuffle(u64 v, u32 source, u32 width) { return shuffle_bits(v, source, width); }
OPS_DEVICE f32 shuffle(f32 v, u32 source, u32 width) {
    return bits_as<f32>(shuffle_bits(bits_as<u32>(v), source, width));
}
OPS_DEVICE f64 shuffle(f64 v, u32 source, u32 width) {
    return bits_as<f64>(shuffle_bits(bits_as<u64>(v), source, width));
}
// The value of lane `lane ^ mask`. `mask` must be less than `width`.
template <typename T> OPS_DEVICE T shuffle_xor(T v, u32 mask, u32 width) {
    return shuffle(v, (lane_id() ^ mask) & (width - 1), width);
}

OPS_DEVICE u64 multiply_high(u64 a, u64 b) {
#if defined(OPS_CUDA)
    return __umul64hi(a, b);
#else
    return u64((unsigned __int128)a * b >> 64);
#endif
}

OPS_DEVICE u32 leading_zeros(u64 v) {
#if defined(OPS_CUDA)
    return u32(__clzll((i64)v));
#else
    return v == 0 ? 64u : u32(__builtin_clzll(v));
#endif
}

// ---- atomics ---------------------------------------------------------------

OPS_DEVICE bool compare_and_swap(u32* at, u32 expected, u32 desired) {
#if defined(OPS_CUDA)
    return atomicCAS(at, expected, desired) == expected;
#else
    return __atomic_compare_exchange_n(at, &expected, desired, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
#endif
}

// Adds to an integer in LDS. Sums of integers do not depend on the order in which threads add.
OPS_DEVICE void add_in_lds(u64* at, u64 value) {
#if defined(OPS_CUDA)
    atomicAdd(at, value);
#elif defined(OPS_AMD)
    __hip_atomic_fetch_add(at, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_WORKGROUP);
#else
    __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
#endif
}

// Everything the thread wrote before is visible to the host once it sees the value.
OPS_DEVICE void store_release(u32* at, u32 value) {
#if defined(OPS_CUDA)
    __threadfence_system();
    *(volatile u32*)at = value;
#else
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
#endif
}

}  // namespace ops

#if defined(OPS_HOST)
extern "C" {
extern const uint32_t ops_host_wave_size;
const uint32_t ops_host_wave_size = OPS_WAVE;
__attribute__((visibility("default"))) void ops_host_bind(const OpsHostApi* api) { ops::host_api = api; }
}
#endif
