// An ordered queue of work with its own thread; it implements a stream.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace standin {

class Queue;

/// The point at which a queue has finished its `number`-th work item.
struct Ticket {
  std::shared_ptr<Queue> queue;
  uint64_t number = 0;

  bool reached() const;
  void wait() const;
};

class Queue : public std::enable_shared_from_this<Queue> {
 public:
  ~Queue();
  /// Runs `work` after everything submitted before and after all of `waits`. `label` names it in crash messages.
  Ticket submit(const char* label, std::function<void()> work, std::vector<Ticket> waits);
  /// The point at which everything submitted so far is done.
  Ticket tail();
  /// Finishes the submitted work and ends the thread.
  void close();

 private:
  friend struct Ticket;
  struct Work {
    const char* label;
    std::function<void()> run;
    std::vector<Ticket> waits;
  };
  void run_until_closed();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Work> pending_;
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  bool closed_ = false;
  std::thread thread_;
};

/// The work that the calling thread executes for a stream, or null.
const char* current_work();

}  // namespace standin
