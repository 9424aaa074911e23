// Which devices may use each other's memory, and what becomes of kernels that do.
#pragma once

#include <cstddef>
#include <vector>

#include "hip_api.h"

namespace standin {

/// Notes that kernels of a device may use memory of another; false if they already might.
bool enable_peer(int device, int peer);

/// Looks for addresses of other devices' memory in a kernel's arguments. It is a misuse if access to that device was not enabled, or
/// if the memory is coarse-grained: AMD makes writes to such memory visible to a running kernel of another device only when a kernel ends.
/// If HIP_STANDIN_PEERS says that access fails, `replaced` is filled with arguments that lead elsewhere. `hangs` says that the kernel
/// must not end.
hipError_t check_peers(const char* kernel, int device, const void* arguments, size_t bytes, std::vector<char>* replaced,
                       bool* hangs);

}  // namespace standin
