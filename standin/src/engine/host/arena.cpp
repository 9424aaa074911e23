#include "engine/host/arena.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/host/marks.h"

namespace standin {
namespace {

// Filling touches every page, so allocations larger than this are filled only at the start.
constexpr size_t filled_at_most = size_t(64) << 20;

uintptr_t round_up(uintptr_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

bool intact(uintptr_t from, uintptr_t to) {
  const auto* begin = reinterpret_cast<const unsigned char*>(from);
  const auto* end = reinterpret_cast<const unsigned char*>(to);
  return std::all_of(begin, end, [](unsigned char byte) { return byte == red_zone; });
}

}  // namespace

Arena::Arena(size_t reserve_bytes, size_t alignment) : alignment_(alignment) {
  constexpr size_t least = size_t(1) << 30;
  void* base = MAP_FAILED;
  for (; base == MAP_FAILED && reserve_bytes >= least; reserve_bytes /= 2) {
    base = mmap(nullptr, reserve_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base != MAP_FAILED) end_ = uintptr_t(base) + reserve_bytes;
  }
  if (base == MAP_FAILED) {
    std::fprintf(stderr, "hip-standin: cannot reserve address space for device memory\n");
    std::abort();
  }
  begin_ = uintptr_t(base);
  cursor_ = begin_ + page;  // the first page guards the first allocation
}

// The first address after the cursor where `slot_bytes` fit, wrapping around at the end. 0 if there is none.
uintptr_t Arena::find_gap(size_t slot_bytes) const {
  const auto search = [&](uintptr_t from, uintptr_t to) -> uintptr_t {
    for (auto next = slots_.lower_bound(from);; ++next) {
      const uintptr_t gap_end = next == slots_.end() ? to : std::min(to, next->first);
      if (gap_end >= from && gap_end - from >= slot_bytes) return from;
      if (next == slots_.end() || next->first >= to) return 0;
      from = next->second.data_end + page;
    }
  };
  const uintptr_t found = search(cursor_, end_);
  return found ? found : search(begin_ + page, cursor_);
}

void* Arena::reserve(size_t bytes, int owner) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes == 0 || bytes > end_ - begin_) return nullptr;
  const size_t data_bytes = round_up(round_up(bytes, alignment_), page);
  const uintptr_t data_begin = find_gap(data_bytes + page);
  if (!data_begin) return nullptr;
  const uintptr_t data_end = data_begin + data_bytes;
  const uintptr_t ptr = data_end - round_up(bytes, alignment_);
  cursor_ = data_end + page;
  slots_[data_begin] = {data_begin, data_end, ptr, bytes, owner, false};
  begin_of_[ptr] = data_begin;
  return reinterpret_cast<void*>(ptr);
}

bool Arena::commit(void* ptr) {
  Slot slot;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = begin_of_.find(uintptr_t(ptr));
    if (found == begin_of_.end()) return false;
    Slot& stored = slots_[found->second];
    stored.committed = true;
    slot = stored;
  }
  void* data = reinterpret_cast<void*>(slot.data_begin);
  if (mprotect(data, slot.data_end - slot.data_begin, PROT_READ | PROT_WRITE) != 0) return false;
  std::memset(data, red_zone, slot.ptr - slot.data_begin);
  std::memset(ptr, unwritten, std::min(slot.bytes, filled_at_most));
  const uintptr_t end = slot.ptr + slot.bytes;
  std::memset(reinterpret_cast<void*>(end), red_zone, slot.data_end - end);
  return true;
}

std::optional<Arena::Released> Arena::release(void* ptr) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = begin_of_.find(uintptr_t(ptr));
  if (found == begin_of_.end()) return std::nullopt;
  const Slot slot = slots_[found->second];
  const char* damage = nullptr;
  if (slot.committed) {
    if (!intact(slot.data_begin, slot.ptr)) damage = "before its start";
    if (!intact(slot.ptr + slot.bytes, slot.data_end)) damage = "past its end";
    void* data = reinterpret_cast<void*>(slot.data_begin);
    const size_t data_bytes = slot.data_end - slot.data_begin;
    madvise(data, data_bytes, MADV_DONTNEED);
    mprotect(data, data_bytes, PROT_NONE);
  }
  slots_.erase(found->second);
  begin_of_.erase(found);
  return Released{slot.owner, slot.bytes, damage};
}

bool Arena::contains(const void* ptr) const { return uintptr_t(ptr) >= begin_ && uintptr_t(ptr) < end_; }

}  // namespace standin
