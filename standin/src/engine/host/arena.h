// Memory in which every overrun is detected. Each allocation ends at an inaccessible page, the bytes before it are
// checked, and freed addresses stay inaccessible until the whole arena has been used once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace standin {

class Arena {
 public:
  /// Only reserves address space. `alignment` is a power of two, at most a page.
  Arena(size_t reserve_bytes, size_t alignment);

  /// An address for `bytes` (at least 1) that faults until `commit`; null if no gap is left. `owner` is stored with it.
  void* reserve(size_t bytes, int owner);
  /// Makes the memory accessible and fills it with 0xff, which is NaN in every float format, so that a read
  /// of unwritten memory is noticed.
  bool commit(void* ptr);
  /// Makes the memory inaccessible again and checks the bytes around it. Returns the owner, or nothing if `ptr` is not
  /// the start of an allocation.
  struct Released {
    int owner;
    size_t bytes;
    const char* damage;  // where memory outside the allocation was written, or null
  };
  std::optional<Released> release(void* ptr);

  bool contains(const void* ptr) const;

 private:
  struct Slot {
    uintptr_t data_begin;  // first page; the guard page follows data_end
    uintptr_t data_end;
    uintptr_t ptr;
    size_t bytes;
    int owner;
    bool committed;
  };
  uintptr_t find_gap(size_t slot_bytes) const;

  uintptr_t begin_ = 0;
  uintptr_t end_ = 0;
  uintptr_t cursor_ = 0;
  size_t alignment_;
  mutable std::mutex mutex_;
  std::map<uintptr_t, Slot> slots_;          // by data_begin
  std::map<uintptr_t, uintptr_t> begin_of_;  // ptr -> data_begin
};

}  // namespace standin
