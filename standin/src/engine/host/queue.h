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
  /// Runs the queue's next work in the calling thread where the queue's own thread is not running any: switching to it and
  /// back takes longer than most work.
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
  /// Runs the first pending work, with the lock released meanwhile.
  void run_next(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable submitted_or_closed_;
  std::condition_variable finished_work_;
  std::deque<Work> pending_;
  uint64_t submitted_ = 0;
  uint64_t finished_ = 0;
  uint64_t awaited_ = ~uint64_t(0);  // the smallest count of finished work for which a thread sleeps
  bool running_ = false;             // a thread runs work
  bool asleep_ = false;              // the queue's thread does not look for work until it is notified
  bool closed_ = false;
  std::thread thread_;
};

/// The work that the calling thread executes for a stream, or null.
const char* current_work();

}  // namespace standin
