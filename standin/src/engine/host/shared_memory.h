// A block's LDS: shared variables by slot, and the dynamic part. Fresh memory holds NaN patterns, gaps between
// variables are checked, and the dynamic part ends at an inaccessible page.
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
  /// Null with a reason if the variable does not fit or was requested before with another size.
  void* variable(uint32_t slot, uint64_t bytes, std::string* reason);
  void* dynamic() const { return dynamic_; }
  /// Whether the address is in shared memory or in its guard pages.
  bool contains(const void* address) const;
  /// Describes a write past the end of a variable; empty if there was none.
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
