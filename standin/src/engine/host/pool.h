// Threads that share a launch's blocks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace standin {

class Pool {
 public:
  /// `threads` in total, including the caller's.
  explicit Pool(uint32_t threads);
  /// Calls `body(0)` to `body(count - 1)`, each once, and returns when all are done.
  void run(uint64_t count, const std::function<void(uint64_t)>& body);

 private:
  struct Job {
    uint64_t count;
    const std::function<void(uint64_t)>* body;
    std::atomic<uint64_t> next{0};
    uint64_t finished = 0;  // under mutex_
  };
  void help();
  void take_part(Job& job);

  uint32_t helpers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<Job>> jobs_;
  std::vector<std::thread> threads_;  // started by the first job, and left running until the process ends
};

}  // namespace standin
