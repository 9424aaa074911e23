#include "hip/peers.h"

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "core/config.h"
#include "core/memory_table.h"
#include "core/misuse.h"

namespace standin {
namespace {

std::mutex peers_mutex;
std::set<std::pair<int, int>>& enabled_peers() {
  static auto* const pairs = new std::set<std::pair<int, int>>;
  return *pairs;
}

// Memory that takes what kernels write to an allocation of another device, as seen from one device.
uintptr_t lost_memory(int device, const Allocation& allocation) {
  static auto* const blocks = new std::map<std::pair<int, uint64_t>, std::unique_ptr<char[]>>;
  std::lock_guard<std::mutex> lock(peers_mutex);
  auto& block = (*blocks)[{device, allocation.serial}];
  if (!block) block = std::make_unique<char[]>(allocation.bytes + 16);
  return (uintptr_t(block.get()) + 15) & ~uintptr_t(15);
}

}  // namespace

bool enable_peer(int device, int peer) {
  std::lock_guard<std::mutex> lock(peers_mutex);
  return enabled_peers().insert({device, peer}).second;
}

hipError_t check_peers(const char* kernel, int device, const void* arguments, size_t bytes, std::vector<char>* replaced,
                       bool* hangs) {
  const char* const start = static_cast<const char*>(arguments);
  for (size_t at = 0; at + sizeof(uintptr_t) <= bytes; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, start + at, sizeof word);
    const auto allocation = memory_table().containing(reinterpret_cast<void*>(word));
    if (!allocation || allocation->kind != MemoryKind::Device || allocation->device == device) continue;
    std::unique_lock<std::mutex> lock(peers_mutex);
    const bool allowed = enabled_peers().count({device, allocation->device}) != 0;
    lock.unlock();
    if (!allowed) {
      misuse("kernel %s: device %d uses memory of device %d without hipDeviceEnablePeerAccess", kernel, device,
             allocation->device);
      return hipErrorIllegalAddress;
    }
    if (allocation->flags != hipDeviceMallocUncached && allocation->flags != hipDeviceMallocFinegrained)
      misuse("kernel %s: device %d uses memory of device %d that is coarse-grained", kernel, device, allocation->device);
    *hangs = config().peers == PeerAccess::Hangs;
    if (config().peers != PeerAccess::Lost) continue;
    if (replaced->empty()) replaced->assign(start, start + bytes);
    const uintptr_t elsewhere = lost_memory(device, *allocation) + (word - allocation->base);
    std::memcpy(replaced->data() + at, &elsewhere, sizeof elsewhere);
  }
  return hipSuccess;
}

}  // namespace standin
