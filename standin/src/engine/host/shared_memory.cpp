#include "engine/host/shared_memory.h"

#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/host/marks.h"

namespace standin {
namespace {

constexpr size_t gap = 64;                    // watched, after each variable
constexpr size_t slots = 1 << 16;             // the largest number of slots in a module
constexpr size_t variables_in_a_block = 256;  // the largest number of slots that one block uses
constexpr size_t static_bytes = SharedMemory::limit + variables_in_a_block * (gap + 16);
constexpr size_t static_pages = (static_bytes + page - 1) / page * page;
constexpr size_t dynamic_pages = SharedMemory::limit;
// guard, variables, guard, dynamic part, guard
constexpr size_t map_bytes = page + static_pages + page + dynamic_pages + page;

size_t round_up(size_t value) { return (value + 15) / 16 * 16; }

bool intact(const char* begin, const char* end) {
  return std::all_of(begin, end, [](char byte) { return static_cast<unsigned char>(byte) == red_zone; });
}

}  // namespace

SharedMemory::SharedMemory() {
  void* map = mmap(nullptr, map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  map_ = static_cast<char*>(map);
  if (map == MAP_FAILED || mprotect(map_ + page, static_pages, PROT_READ | PROT_WRITE) != 0 ||
      mprotect(map_ + 2 * page + static_pages, dynamic_pages, PROT_READ | PROT_WRITE) != 0) {
    std::fprintf(stderr, "hip-standin: no memory for LDS\n");
    std::abort();
  }
}

SharedMemory::~SharedMemory() { munmap(map_, map_bytes); }

void SharedMemory::begin_block(size_t dynamic_bytes) {
  for (const uint32_t slot : used_slots_) variables_[slot] = {};
  used_slots_.clear();
  next_ = map_ + page;
  used_bytes_ = dynamic_bytes;
  dynamic_ = nullptr;
  dynamic_bytes_ = dynamic_bytes;
  if (dynamic_bytes == 0) return;
  char* const end = map_ + map_bytes - page;
  dynamic_ = end - round_up(dynamic_bytes);
  std::memset(dynamic_, unwritten, dynamic_bytes);
  std::memset(dynamic_ + dynamic_bytes, red_zone, size_t(end - dynamic_) - dynamic_bytes);
}

void* SharedMemory::variable(uint32_t slot, uint64_t bytes, std::string* reason) {
  if (slot >= slots || used_slots_.size() == variables_in_a_block) {
    *reason = "shared variable " + std::to_string(slot) + ": a block may have " + std::to_string(variables_in_a_block);
    return nullptr;
  }
  if (slot >= variables_.size()) variables_.resize(slot + 1);
  Variable& v = variables_[slot];
  if (v.ptr && v.bytes == bytes) return v.ptr;
  if (v.ptr) {
    *reason = "shared variable " + std::to_string(slot) + " is " + std::to_string(v.bytes) +
              " bytes for one thread and " + std::to_string(bytes) + " for another";
    return nullptr;
  }
  if (bytes > limit - std::min(used_bytes_, limit)) {
    *reason =
        std::to_string(used_bytes_ + bytes) + " bytes of LDS are more than the " + std::to_string(limit) + " there are";
    return nullptr;
  }
  v = {next_, size_t(bytes)};
  used_slots_.push_back(slot);
  used_bytes_ += bytes;
  next_ += round_up(bytes) + gap;
  std::memset(v.ptr, unwritten, bytes);
  std::memset(v.ptr + bytes, red_zone, size_t(next_ - v.ptr) - bytes);
  return v.ptr;
}

bool SharedMemory::contains(const void* address) const { return address >= map_ && address < map_ + map_bytes; }

std::string SharedMemory::damage() const {
  for (const uint32_t slot : used_slots_) {
    const Variable& v = variables_[slot];
    if (!intact(v.ptr + v.bytes, v.ptr + round_up(v.bytes) + gap))
      return "wrote past the end of shared variable " + std::to_string(slot) + " (" + std::to_string(v.bytes) +
             " bytes)";
  }
  if (dynamic_ && !intact(dynamic_ + dynamic_bytes_, dynamic_ + round_up(dynamic_bytes_)))
    return "wrote past the end of its dynamic shared memory (" + std::to_string(dynamic_bytes_) + " bytes)";
  return "";
}

}  // namespace standin
