#include "engine/host/queue.h"

#include <chrono>

#include "core/config.h"

namespace standin {
namespace {

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
  std::unique_lock<std::mutex> lock(queue->mutex_);
  queue->changed_.wait(lock, [&] { return queue->finished_ >= number; });
}

Queue::~Queue() { close(); }

Ticket Queue::submit(const char* label, std::function<void()> work, std::vector<Ticket> waits) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run_until_closed(); });
  pending_.push_back({label, std::move(work), std::move(waits)});
  ++submitted_;
  changed_.notify_all();
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
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Queue::run_until_closed() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closed_ || !pending_.empty(); });
    if (pending_.empty()) return;
    Work work = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    for (const Ticket& ticket : work.waits) ticket.wait();
    if (config().delay_us) std::this_thread::sleep_for(std::chrono::microseconds(config().delay_us));
    work_label = work.label;
    work.run();
    work_label = nullptr;
    work = {};  // destroys what it captured before the work counts as finished
    lock.lock();
    ++finished_;
    changed_.notify_all();
  }
}

}  // namespace standin
