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
  const uint32_t wave_size = launch_->wave_size;
  for (index.thread[2] = 0; index.thread[2] < shape.block[2]; ++index.thread[2])
    for (index.thread[1] = 0; index.thread[1] < shape.block[1]; ++index.thread[1])
      for (index.thread[0] = 0; index.thread[0] < shape.block[0]; ++index.thread[0], ++thread) {
        thread->index = index;
        thread->state = State::Fresh;
        thread->lane = uint32_t(thread - threads_.data()) % wave_size;
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

// The lane of the wave that comes after another one, or the first if there is none; null after the last.
inline BlockRunner::Thread* BlockRunner::next_lane(Thread* after) const {
  if (!after) return descending_ ? wave_end_ - 1 : wave_begin_;
  if (after == (descending_ ? wave_begin_ : wave_end_ - 1)) return nullptr;
  return descending_ ? after - 1 : after + 1;
}

// The same, without lanes that wait for the block or have returned.
inline BlockRunner::Thread* BlockRunner::next_to_run(Thread* after) const {
  do after = next_lane(after);
  while (after && !runs(*after));
  return after;
}

void BlockRunner::run_wave(uint32_t wave) {
  const uint32_t count = std::min(launch_->wave_size, thread_count_ - wave * launch_->wave_size);
  wave_begin_ = &threads_[wave * launch_->wave_size];
  wave_end_ = wave_begin_ + count;
  for (auto& values : values_) std::fill(values + count, std::end(values), no_value);
  votes_[turn_] = 0;
  round_ = {};
  Thread* next = next_to_run(nullptr);
  while (next && !failed_) {
    next = next_to_run(&resume(*next));
    if (next || failed_ || round_.waiting == 0) continue;
    if (round_.diverged) report_divergence();
    if (exchange()) next = next_to_run(nullptr);
  }
}

void BlockRunner::start(Thread& thread) {
  thread.fiber = fibers_.take();
  thread.fiber->prepare(&BlockRunner::fiber_entry);
}

// Makes a thread the current one, and returns the fiber to run.
inline Fiber& BlockRunner::begin(Thread& thread) {
  if (thread.state == State::Fresh) start(thread);
  current_ = &thread;
  return *thread.fiber;
}

// Runs a thread, and those that it continues with; returns the last one.
BlockRunner::Thread& BlockRunner::resume(Thread& thread) {
  begin(thread).enter(scheduler_);
  Thread& left = *current_;
  current_ = nullptr;
  if (given_up_ != hipSuccess) {
    fail(given_up_, &left, reason_.empty() ? describe_fault(left) : reason_);
    given_up_ = hipSuccess;
    reason_.clear();
  }
  if (left.state == State::Returned) fibers_.give(std::move(left.fiber));
  return left;
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

// A thread that never waited leaves its stack unchanged, so the next lane can start on it without a switch.
bool BlockRunner::go_on_with_next_lane() {
  Thread* const next = next_lane(current_);
  if (!next || next->state != State::Fresh) return false;
  next->fiber = std::move(current_->fiber);
  current_ = next;
  return true;
}

// Runs the next lane. After the last one, completes what the lanes wait for and begins again with the first; returns to the scheduler
// if the wave waits for its block, or if its lanes wait for different things.
inline void BlockRunner::wait(State state, uint32_t width) {
  Thread& self = *current_;
  self.state = state;
  self.width = width;
  if (round_.waiting++ == 0) {
    round_.kind = state;
    round_.width = width;
  } else if (round_.kind != state || round_.width != width) {
    round_.diverged = true;
  }
  Thread* next = next_to_run(&self);
  if (!next && exchange()) next = next_to_run(nullptr);
  if (!next)
    self.fiber->leave(scheduler_, false);
  else if (next != &self)
    self.fiber->continue_with(scheduler_, begin(*next));
}

void BlockRunner::barrier() { wait(State::Barrier, 0); }

uint64_t BlockRunner::shuffle(uint64_t value, uint32_t source_lane, uint32_t width) {
  if (width == 0 || (width & (width - 1)) != 0 || width > launch_->wave_size) give_up_for_width(width);
  const uint32_t lane = current_->lane;
  uint64_t* const values = values_[turn_];
  const uint64_t* const result = &values[(lane & ~(width - 1)) + (source_lane & (width - 1))];
  values[lane] = value;
  wait(State::Shuffle, width);
  return *result;
}

uint64_t BlockRunner::ballot(bool predicate) {
  uint64_t& votes = votes_[turn_];
  votes |= uint64_t(predicate) << current_->lane;
  wait(State::Ballot, launch_->wave_size);
  return votes;
}

// Completes the shuffle or ballot at which all lanes that have not returned wait; false if they wait at a barrier, or for different things.
bool BlockRunner::exchange() {
  if (round_.diverged || round_.kind == State::Barrier) return false;
  if (round_.waiting != uint32_t(wave_end_ - wave_begin_))
    for (const Thread* lane = wave_begin_; lane < wave_end_; ++lane)
      if (lane->state == State::Returned) values_[turn_][lane->lane] = no_value;
  turn_ = 1 - turn_;
  votes_[turn_] = 0;
  round_ = {};
  return true;
}

void BlockRunner::report_divergence() {
  const auto exchanges = [](const Thread& lane) { return lane.state == State::Shuffle || lane.state == State::Ballot; };
  const Thread* const first = std::find_if(wave_begin_, wave_end_, exchanges);
  const Thread* other = first;
  for (const Thread* lane = wave_begin_; lane < wave_end_; ++lane)
    if (lane->state == State::Barrier || (exchanges(*lane) && (lane->state != first->state || lane->width != first->width)))
      other = lane;
  fail(hipErrorLaunchFailure, first,
       std::string("divergence: waits in a ") + (first->state == State::Shuffle ? "shuffle" : "ballot") + " while thread " +
           triple(other->index.thread) + " of the same wave waits " +
           (other->state == State::Barrier ? "at a barrier" : "in another wave operation"));
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
