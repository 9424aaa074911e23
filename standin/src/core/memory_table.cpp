#include "core/memory_table.h"

#include <algorithm>

#include "core/live.h"

namespace standin {
namespace {

constexpr size_t freed_kept = 1 << 16;

Kind live_kind(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::PinnedHost: return Kind::HostMemory;
    case MemoryKind::RegisteredHost: return Kind::RegisteredMemory;
    default: return Kind::Memory;
  }
}

std::string name(const Allocation& a) {
  static const char* const kinds[] = {"allocation", "pinned host allocation", "registered host range", "module global"};
  return std::string(kinds[int(a.kind)]) + " " + std::to_string(a.serial) + " (" + std::to_string(a.bytes) + " bytes)";
}

}  // namespace

const Allocation* MemoryTable::find(const Map& map, uintptr_t address) {
  auto after = map.upper_bound(address);
  if (after == map.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return address < candidate.end() ? &candidate : nullptr;
}

void MemoryTable::add(Allocation allocation) {
  std::lock_guard<std::mutex> lock(mutex_);
  allocation.serial = ++serial_;
  auto stale = freed_.lower_bound(allocation.base);
  if (stale != freed_.begin() && std::prev(stale)->second.end() > allocation.base) --stale;
  while (stale != freed_.end() && stale->first < allocation.end()) stale = freed_.erase(stale);
  live_[allocation.base] = allocation;
  if (allocation.kind != MemoryKind::Global)
    live().add(live_kind(allocation.kind), reinterpret_cast<void*>(allocation.base), name(allocation));
}

std::optional<Allocation> MemoryTable::remove(const void* ptr, MemoryKind kind) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = live_.find(uintptr_t(ptr));
  if (found == live_.end() || found->second.kind != kind) return std::nullopt;
  const Allocation allocation = found->second;
  live_.erase(found);
  live().remove(live_kind(kind), ptr);
  if (kind == MemoryKind::RegisteredHost) return allocation;  // the caller's own memory, still good
  if (freed_.size() >= freed_kept) {
    const auto by_age = [](const auto& a, const auto& b) { return a.second.serial < b.second.serial; };
    freed_.erase(std::min_element(freed_.begin(), freed_.end(), by_age));
  }
  freed_[allocation.base] = allocation;
  return allocation;
}

std::optional<Allocation> MemoryTable::containing(const void* ptr) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const Allocation* found = find(live_, uintptr_t(ptr));
  return found ? std::optional<Allocation>(*found) : std::nullopt;
}

bool MemoryTable::was_freed(const void* ptr) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return find(freed_, uintptr_t(ptr)) != nullptr;
}

uint64_t MemoryTable::bytes_in_use(int device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t total = 0;
  for (const auto& [base, a] : live_)
    if (a.kind == MemoryKind::Device && (device < 0 || a.device == device)) total += a.bytes;
  return total;
}

uint64_t MemoryTable::bytes_in_use() const { return bytes_in_use(-1); }

std::string MemoryTable::describe(const void* ptr) const {
  constexpr uintptr_t nearby = 1 << 20;
  const uintptr_t address = uintptr_t(ptr);
  std::lock_guard<std::mutex> lock(mutex_);
  if (const Allocation* a = find(live_, address)) return std::to_string(address - a->base) + " bytes into " + name(*a);
  if (const Allocation* a = find(freed_, address))
    return std::to_string(address - a->base) + " bytes into " + name(*a) + ", which was freed";
  const auto after = live_.upper_bound(address);
  if (after != live_.begin()) {
    const Allocation& before = std::prev(after)->second;
    if (address - before.end() < nearby)
      return std::to_string(address - before.end()) + " bytes past the end of " + name(before);
  }
  if (after != live_.end() && after->first - address < nearby)
    return std::to_string(after->first - address) + " bytes before " + name(after->second);
  return "not near any allocation";
}

MemoryTable& memory_table() {
  static MemoryTable* const instance = new MemoryTable;
  return *instance;
}

}  // namespace standin
