// A block's LDS: shared variables by slot, and the dynamic part. Fresh memory holds NaN patterns, gaps between
// variables are watched, and the dynamic part ends at a page that cannot be touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace standin {

class SharedMemory {
 public:
  static constexpr size_t limit = 64 << 10;

  SharedMemory();
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Forgets the last block's variables.
  void begin_block(size_t dynamic_bytes);
  /// Null with a reason when the variable does not fit or was asked for before with another size.
  void* variable(uint32_t slot, uint64_t bytes, std::string* reason);
  void* dynamic() const { return dynamic_; }
  /// Whether the address is in shared memory or the pages that guard it.
  bool contains(const void* address) const;
  /// What was written past its end, or an empty text.
  std::string damage() const;

 private:
  struct Variable {
    char* ptr = nullptr;
    size_t bytes = 0;
  };
  char* map_;
  char* next_ = nullptr;
  char* dynamic_ = nullptr;
  size_t dynamic_bytes_ = 0;
  size_t used_bytes_ = 0;
  std::vector<Variable> variables_;   // by slot
  std::vector<uint32_t> used_slots_;  // of this block
};

}  // namespace standin
