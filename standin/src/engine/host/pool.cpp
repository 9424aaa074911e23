#include "engine/host/pool.h"

#include <algorithm>
#include <chrono>

namespace standin {
namespace {

using Clock = std::chrono::steady_clock;

// Most launches take less time than waking a thread.
constexpr auto alone_at_first = std::chrono::microseconds(50);

}  // namespace

Pool::Pool(uint32_t threads) : helpers_(threads - 1) {}

void Pool::run(uint64_t count, const std::function<void(uint64_t)>& body) {
  uint64_t done = 0;
  const auto start = Clock::now();
  while (done < count && (helpers_ == 0 || Clock::now() - start < alone_at_first)) body(done++);
  if (done == count) return;
  auto job = std::make_shared<Job>();
  job->count = count;
  job->next = done;
  job->finished = done;
  job->body = &body;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (threads_.size() < helpers_) threads_.emplace_back([this] { help(); });
    jobs_.push_back(job);
    changed_.notify_all();
  }
  take_part(*job);
  std::unique_lock<std::mutex> lock(mutex_);
  jobs_.erase(std::find(jobs_.begin(), jobs_.end(), job));
  changed_.wait(lock, [&] { return job->finished == count; });
}

void Pool::take_part(Job& job) {
  uint64_t mine = 0;
  for (;;) {
    const uint64_t index = job.next.fetch_add(1);
    if (index >= job.count) break;
    (*job.body)(index);
    ++mine;
  }
  if (mine == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  job.finished += mine;
  if (job.finished == job.count) changed_.notify_all();
}

void Pool::help() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    std::shared_ptr<Job> job;
    changed_.wait(lock, [&] {
      const auto open = std::find_if(jobs_.begin(), jobs_.end(), [](const auto& j) { return j->next < j->count; });
      if (open != jobs_.end()) job = *open;
      return job != nullptr;
    });
    lock.unlock();
    take_part(*job);
    lock.lock();
  }
}

}  // namespace standin
