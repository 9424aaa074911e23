// The map of device and pinned memory, for checks and messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace standin {

enum class MemoryKind { Device, PinnedHost, RegisteredHost, Global };

struct Allocation {
  uintptr_t base = 0;
  size_t bytes = 0;
  MemoryKind kind = MemoryKind::Device;
  int device = 0;
  unsigned flags = 0;
  uint64_t serial = 0;  // filled in by the table: the n-th allocation of the process

  uintptr_t end() const { return base + bytes; }
};

class __attribute__((visibility("default"))) MemoryTable {
 public:
  void add(Allocation allocation);
  /// Removes the allocation that starts at `ptr`, if there is one of this kind.
  std::optional<Allocation> remove(const void* ptr, MemoryKind kind);
  /// The live allocation that `ptr` points into.
  std::optional<Allocation> containing(const void* ptr) const;
  bool was_freed(const void* ptr) const;
  uint64_t bytes_in_use(int device) const;
  uint64_t bytes_in_use() const;
  /// Describes an address: "40 bytes past the end of allocation 12 (256 bytes)", and so on.
  std::string describe(const void* ptr) const;

 private:
  using Map = std::map<uintptr_t, Allocation>;
  static const Allocation* find(const Map& map, uintptr_t address);

  mutable std::mutex mutex_;
  Map live_;
  Map freed_;  // the latest, for messages; ranges in use again are taken out
  uint64_t serial_ = 0;
};

__attribute__((visibility("default"))) MemoryTable& memory_table();

}  // namespace standin
