#include "engine/host/queue.h"

#include <algorithm>
#include <chrono>

#include "core/config.h"

namespace standin {
namespace {

using Clock = std::chrono::steady_clock;

// Waking a thread takes longer than most work, so for some time after the last work a queue's thread looks for more by itself.
constexpr auto looks_every = std::chrono::milliseconds(1);
constexpr auto stays_awake = std::chrono::milliseconds(20);

thread_local const char* work_label = nullptr;

}  // namespace

const char* current_work() { return work_label; }

bool Ticket::reached() const {
  if (!queue) return true;
  std::lock_guard<std::mutex> lock(queue->mutex_);
  return queue->finished_ >= number;
}

void Ticket::wait() const {
  if (!queue) return;
  Queue& q = *queue;
  std::unique_lock<std::mutex> lock(q.mutex_);
  while (q.finished_ < number) {
    if (!q.running_) {
      q.run_next(lock);
    } else {
      q.awaited_ = std::min(q.awaited_, number);
      q.finished_work_.wait(lock);
    }
  }
}

Queue::~Queue() { close(); }

Ticket Queue::submit(const char* label, std::function<void()> work, std::vector<Ticket> waits) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run_until_closed(); });
  pending_.push_back({label, std::move(work), std::move(waits)});
  ++submitted_;
  if (asleep_) {
    asleep_ = false;
    submitted_or_closed_.notify_one();
  }
  return {shared_from_this(), submitted_};
}

Ticket Queue::tail() {
  std::lock_guard<std::mutex> lock(mutex_);
  return {shared_from_this(), submitted_};
}

void Queue::close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    submitted_or_closed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void Queue::run_until_closed() {
  std::unique_lock<std::mutex> lock(mutex_);
  auto last_work = Clock::now();
  for (;;) {
    if (running_ || !pending_.empty()) last_work = Clock::now();
    if (running_) {
      submitted_or_closed_.wait_for(lock, looks_every);
    } else if (!pending_.empty()) {
      run_next(lock);
    } else if (closed_) {
      return;
    } else if (Clock::now() - last_work < stays_awake) {
      submitted_or_closed_.wait_for(lock, looks_every);
    } else {
      asleep_ = true;
      submitted_or_closed_.wait(lock, [&] { return !asleep_ || closed_; });
    }
  }
}

void Queue::run_next(std::unique_lock<std::mutex>& lock) {
  Work work = std::move(pending_.front());
  pending_.pop_front();
  running_ = true;
  lock.unlock();
  for (const Ticket& ticket : work.waits) ticket.wait();
  if (config().delay_us) std::this_thread::sleep_for(std::chrono::microseconds(config().delay_us));
  const char* const outer = work_label;
  work_label = work.label;
  work.run();
  work_label = outer;
  work = {};  // destroys what it captured before the work counts as finished
  lock.lock();
  running_ = false;
  ++finished_;
  if (finished_ >= awaited_) {
    awaited_ = ~uint64_t(0);
    finished_work_.notify_all();
  }
}

}  // namespace standin
