// A test is a function. A failed check is printed with its location and makes the program fail.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "hip_api.h"
#include "standin.h"

inline int failures = 0;

inline void check(bool holds, const char* what, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  std::printf("%s:%d: %s\n", file, line, what);
  ++failures;
}

template <class A, class B>
void check_equal(const A& got, const B& wanted, const char* what, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  if (got == static_cast<A>(wanted)) return;
  std::printf("%s:%d: %s: got %s, wanted %s\n", file, line, what, std::to_string(got).c_str(),
              std::to_string(static_cast<A>(wanted)).c_str());
  ++failures;
}

/// For calls that must succeed before the test can continue.
inline void must(hipError_t error, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (error == hipSuccess) return;
  std::printf("%s:%d: %s\n", file, line, hipGetErrorName(error));
  std::exit(1);
}

/// Expects exactly one more misuse to be reported while `body` runs.
inline void check_misuse(const char* what, const std::function<void()>& body, const char* file = __builtin_FILE(),
                         int line = __builtin_LINE()) {
  const uint64_t before = standin_misuses();
  body();
  check(standin_misuses() > before, what, file, line);
}

inline bool on_host_engine() {
  const char* engine = std::getenv("HIP_STANDIN_ENGINE");
  return !engine || std::string(engine) == "host";
}

/// Runs the tests; returns the program's exit status.
inline int run_tests(const std::vector<std::pair<const char*, void (*)()>>& tests) {
  for (const auto& [name, test] : tests) {
    const int before = failures;
    test();
    std::printf("%s %s\n", failures == before ? "ok  " : "FAIL", name);
  }
  std::fflush(stdout);
  return failures == 0 ? 0 : 1;
}

/// Device memory with the contents of a vector.
template <class T>
class Buffer {
 public:
  explicit Buffer(const std::vector<T>& values) : count_(values.size()) {
    must(hipMalloc(&ptr_, bytes()));
    must(hipMemcpy(ptr_, values.data(), bytes(), hipMemcpyHostToDevice));
  }
  ~Buffer() { must(hipFree(ptr_)); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() const { return static_cast<T*>(ptr_); }
  size_t bytes() const { return count_ * sizeof(T); }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    must(hipMemcpy(values.data(), ptr_, bytes(), hipMemcpyDeviceToHost));
    return values;
  }

 private:
  void* ptr_ = nullptr;
  size_t count_;
};
