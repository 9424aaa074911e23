// Call counts and injected failures.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>

namespace standin {

class __attribute__((visibility("default"))) Faults {
 public:
  /// Reads HIP_STANDIN_FAIL.
  Faults();
  /// Counts a call; returns true if it should fail.
  bool called(const char* function);
  /// See standin_fail in standin.h.
  bool add(const char* spec);
  uint64_t count(const char* function) const;

 private:
  struct Counter {
    uint64_t calls = 0;
    uint64_t fail_at = 0;    // 0: never
    uint64_t fail_from = 0;  // 0: never
  };
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Counter> counters_;
};

__attribute__((visibility("default"))) Faults& faults();

}  // namespace standin
