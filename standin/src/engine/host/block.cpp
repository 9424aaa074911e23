#include "engine/host/block.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "core/config.h"
#include "core/memory_table.h"
#include "core/misuse.h"

namespace standin {
namespace {

// The value that a lane reads from a lane that takes no part: NaN in every float format.
constexpr uint64_t no_value = ~uint64_t(0);

std::string triple(const uint32_t (&v)[3]) {
  return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) + ")";
}

std::string hexadecimal(const void* ptr) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", ptr);
  return text;
}

}  // namespace

__thread BlockRunner* BlockRunner::executing_ = nullptr;

BlockRunner& BlockRunner::of_this_thread() {
  static thread_local std::unique_ptr<BlockRunner> runner;
  if (!runner) runner = std::make_unique<BlockRunner>();
  return *runner;
}

void BlockRunner::run(KernelLaunch& launch, uint64_t block, bool descending) {
  launch_ = &launch;
  descending_ = descending;
  failed_ = false;
  random_.seed(uint32_t(block));  // the same order each time the kernel is run
  set_up(block);
  executing_ = this;
  run_threads();
  executing_ = nullptr;
  if (!failed_) {
    const std::string damage = shared_.damage();
    if (!damage.empty()) fail(hipErrorIllegalAddress, nullptr, damage);
  }
  clean_up();
}

void BlockRunner::set_up(uint64_t block) {
  const LaunchShape& shape = launch_->shape;
  thread_count_ = shape.block[0] * shape.block[1] * shape.block[2];
  if (threads_.size() < thread_count_) threads_.resize(thread_count_);
  const uint32_t block_x = uint32_t(block % shape.grid[0]);
  const uint32_t block_y = uint32_t(block / shape.grid[0] % shape.grid[1]);
  const uint32_t block_z = uint32_t(block / shape.grid[0] / shape.grid[1]);
  OpsHostIndex index = {{},
                        {block_x, block_y, block_z},
                        {shape.block[0], shape.block[1], shape.block[2]},
                        {shape.grid[0], shape.grid[1], shape.grid[2]}};
  Thread* thread = threads_.data();
  for (index.thread[2] = 0; index.thread[2] < shape.block[2]; ++index.thread[2])
    for (index.thread[1] = 0; index.thread[1] < shape.block[1]; ++index.thread[1])
      for (index.thread[0] = 0; index.thread[0] < shape.block[0]; ++index.thread[0], ++thread) {
        thread->index = index;
        thread->state = State::Fresh;
      }
  shared_.begin_block(shape.shared_bytes);
}

void BlockRunner::run_threads() {
  const uint32_t waves = (thread_count_ + launch_->wave_size - 1) / launch_->wave_size;
  for (;;) {
    order_.resize(waves);
    for (uint32_t i = 0; i < waves; ++i) order_[i] = descending_ ? waves - 1 - i : i;
    if (config().shuffled) std::shuffle(order_.begin(), order_.end(), random_);
    for (uint32_t i = 0; i < waves && !failed_; ++i) {
      if (config().shuffled) descending_ = random_() % 2 != 0;
      run_wave(order_[i]);
    }
    if (failed_) return;
    // Every wave is now at the barrier or has ended.
    bool waiting = false;
    for (uint32_t t = 0; t < thread_count_; ++t) {
      if (threads_[t].state != State::Barrier) continue;
      threads_[t].state = State::Ready;
      waiting = true;
    }
    if (!waiting) return;
  }
}

void BlockRunner::run_wave(uint32_t wave) {
  Thread* const lanes = &threads_[wave * launch_->wave_size];
  const uint32_t count = std::min(launch_->wave_size, thread_count_ - wave * launch_->wave_size);
  wave_begin_ = lanes;
  wave_end_ = lanes + count;
  do {
    for (uint32_t i = 0; i < count && !failed_; ++i) {
      Thread& thread = lanes[descending_ ? count - 1 - i : i];
      if (thread.state == State::Fresh || thread.state == State::Ready) resume(thread);
    }
  } while (!failed_ && exchange(lanes, count));
}

// Makes a thread the current one, and returns the fiber to run.
Fiber& BlockRunner::begin(Thread& thread) {
  if (thread.state == State::Fresh) {
    thread.fiber = fibers_.take();
    thread.fiber->prepare(&BlockRunner::fiber_entry);
  }
  current_ = &thread;
  return *thread.fiber;
}

void BlockRunner::resume(Thread& thread) {
  begin(thread).enter(scheduler_);
  Thread& left = *current_;  // this thread, or a later one that was continued with
  current_ = nullptr;
  if (given_up_ != hipSuccess) {
    fail(given_up_, &left, reason_.empty() ? describe_fault(left) : reason_);
    given_up_ = hipSuccess;
    reason_.clear();
  }
  if (left.state == State::Returned) fibers_.give(std::move(left.fiber));
}

void BlockRunner::fiber_entry() {
  BlockRunner& runner = *executing_;
  runner.current_->fiber->arrive(runner.scheduler_);
  do {
    runner.launch_->run(runner.launch_->arguments.data());
    runner.current_->state = State::Returned;
  } while (runner.go_on_with_next_lane());
  runner.current_->fiber->leave(runner.scheduler_, true);
  std::abort();  // a fiber that has finished is not entered again
}

// The lane of the wave that runs after the current one; null after the last.
BlockRunner::Thread* BlockRunner::next_lane() const {
  if (current_ == (descending_ ? wave_begin_ : wave_end_ - 1)) return nullptr;
  return descending_ ? current_ - 1 : current_ + 1;
}

// A thread that never waited leaves its stack unchanged, so the next lane can start on it without a switch.
bool BlockRunner::go_on_with_next_lane() {
  Thread* const next = next_lane();
  if (!next || next->state != State::Fresh) return false;
  next->fiber = std::move(current_->fiber);
  current_ = next;
  return true;
}

// Runs the next lane, or returns to the scheduler if that has nothing to run.
void BlockRunner::wait(State state) {
  Fiber& fiber = *current_->fiber;
  current_->state = state;
  Thread* const next = next_lane();
  if (next && (next->state == State::Fresh || next->state == State::Ready))
    fiber.continue_with(scheduler_, begin(*next));
  else
    fiber.leave(scheduler_, false);
}

void BlockRunner::barrier() { wait(State::Barrier); }

uint64_t BlockRunner::shuffle(uint64_t value, uint32_t source_lane, uint32_t width) {
  if (width == 0 || (width & (width - 1)) != 0 || width > launch_->wave_size) give_up_for_width(width);
  Thread& self = *current_;
  self.value = value;
  self.source = source_lane;
  self.width = width;
  wait(State::Shuffle);
  return self.value;
}

uint64_t BlockRunner::ballot(bool predicate) {
  Thread& self = *current_;
  self.value = predicate;
  self.width = launch_->wave_size;
  wait(State::Ballot);
  return self.value;
}

// Completes the shuffle or ballot at which the wave waits; false if it waits at none.
bool BlockRunner::exchange(Thread* lanes, uint32_t count) {
  const Thread* first = nullptr;      // that waits for its wave
  const Thread* elsewhere = nullptr;  // that waits for its block
  for (uint32_t i = 0; i < count; ++i) {
    const Thread& lane = lanes[i];
    if (lane.state == State::Barrier) elsewhere = &lane;
    if (lane.state != State::Shuffle && lane.state != State::Ballot) continue;
    if (!first) first = &lane;
    if (lane.state != first->state || lane.width != first->width) elsewhere = &lane;
  }
  if (!first) return false;
  const char* const what = first->state == State::Shuffle ? "shuffle" : "ballot";
  if (elsewhere) {
    const char* const other = elsewhere->state == State::Barrier ? "at a barrier" : "in another wave operation";
    fail(hipErrorLaunchFailure, first,
         std::string("divergence: waits in a ") + what + " while thread " + triple(elsewhere->index.thread) +
             " of the same wave waits " + other);
    return false;
  }
  uint64_t values[64];
  uint64_t votes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    values[i] = lanes[i].state == first->state ? lanes[i].value : no_value;
    if (lanes[i].state == State::Ballot && lanes[i].value) votes |= uint64_t(1) << i;
  }
  const bool is_ballot = first->state == State::Ballot;
  for (uint32_t i = 0; i < count; ++i) {
    Thread& lane = lanes[i];
    if (lane.state != State::Shuffle && lane.state != State::Ballot) continue;
    const uint32_t source = (i & ~(lane.width - 1)) + (lane.source & (lane.width - 1));
    lane.value = is_ballot ? votes : source < count ? values[source] : no_value;
    lane.state = State::Ready;
  }
  return true;
}

void* BlockRunner::shared(uint32_t slot, uint64_t bytes) {
  void* ptr = shared_.variable(slot, bytes, &reason_);
  if (!ptr) give_up(hipErrorLaunchFailure);
  return ptr;
}

void* BlockRunner::dynamic_shared() { return shared_.dynamic(); }

void BlockRunner::fail(hipError_t error, const Thread* thread, const std::string& what) {
  failed_ = true;
  int none = 0;
  launch_->error.compare_exchange_strong(none, int(error));
  const std::string where = thread ? ", thread " + triple(thread->index.thread) : "";
  misuse("kernel %s, block %s%s: %s", launch_->name.c_str(), triple(threads_[0].index.block).c_str(), where.c_str(),
         what.c_str());
  if (config().abort_on_fault) std::abort();
}

void BlockRunner::give_up(hipError_t error) {
  given_up_ = error;
  current_->fiber->leave(scheduler_, true);
  std::abort();
}

void BlockRunner::give_up_for_width(uint32_t width) {
  reason_ = "shuffle over " + std::to_string(width) + " lanes of a wave of " + std::to_string(launch_->wave_size);
  give_up(hipErrorLaunchFailure);
}

void* BlockRunner::note_fault(int signal, void* address) {
  fault_signal_ = signal;
  fault_address_ = address;
  current_->fiber->abandon();
  return current_->fiber->fresh_stack_pointer();
}

void BlockRunner::abandon_faulted() { give_up(hipErrorIllegalAddress); }

std::string BlockRunner::describe_fault(const Thread& thread) const {
  if (fault_signal_ == SIGFPE) return "integer division by zero";
  if (fault_signal_ == SIGILL) return "trap";
  if (!fault_address_)  // the processor does not say which address was misaligned or impossible
    return "touched a null pointer, an address that no pointer can have, or misaligned memory with a wide access";
  if (thread.fiber->overflowed_at(fault_address_)) return "used more stack than a thread has";
  if (shared_.contains(fault_address_)) return "touched shared memory outside all of its variables";
  return "touched " + hexadecimal(fault_address_) + ": " + memory_table().describe(fault_address_);
}

void BlockRunner::clean_up() {
  for (uint32_t t = 0; t < thread_count_; ++t) {
    if (!threads_[t].fiber) continue;
    threads_[t].fiber->abandon();
    fibers_.give(std::move(threads_[t].fiber));
  }
}

}  // namespace standin
