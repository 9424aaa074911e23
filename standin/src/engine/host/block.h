// Runs one block of a kernel: its threads as fibers, its waves in lockstep where they exchange values, its shared
// memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/host/fiber.h"
#include "engine/host/shared_memory.h"
#include "ops_host_abi.h"

namespace standin {

/// A launched kernel with its own copy of the arguments.
struct KernelLaunch {
  std::string name;
  void (*run)(const void* arguments) = nullptr;
  std::vector<uint64_t> arguments;  // 64-bit words for their alignment
  LaunchShape shape{};
  uint32_t wave_size = 32;
  std::atomic<int> error{0};  // hipError_t of the first block that failed; the blocks after it are skipped
};

class BlockRunner {
 public:
  /// The instance that belongs to the calling operating-system thread.
  static BlockRunner& of_this_thread();
  /// The instance whose kernel the calling thread is executing, or null.
  static BlockRunner* executing() { return executing_; }

  /// Runs block number `block` (x fastest), with its threads in ascending or descending order: a missing
  /// barrier that one order hides shows up in the other. Failures are stored in `launch.error` and described
  /// on standard error.
  void run(KernelLaunch& launch, uint64_t block, bool descending);

  // Called by a kernel, on a fiber.
  const OpsHostIndex* index() const { return &current_->index; }
  void barrier();
  uint64_t shuffle(uint64_t value, uint32_t source_lane, uint32_t width);
  uint64_t ballot(bool predicate);
  void* shared(uint32_t slot, uint64_t bytes);
  void* dynamic_shared();

  bool on_fiber() const { return current_ != nullptr; }
  /// From a signal handler: the stack pointer at which `abandon_faulted` can run instead of the faulting code.
  void* note_fault(int signal, void* address);
  /// Ends the faulting thread and with it the block. Does not return.
  void abandon_faulted();

 private:
  enum class State : uint8_t { Fresh, Ready, Barrier, Shuffle, Ballot, Returned };
  // A switch between fibers reads only the first 32 bytes, which lie in one cache line.
  struct alignas(32) Thread {
    State state;  // what it waits for; while it runs, what it last waited for
    uint32_t lane;
    uint32_t width;  // of a shuffle or ballot
    std::unique_ptr<Fiber> fiber;
    OpsHostIndex index;
  };
  // What the lanes of a wave waited for since each of them was last run.
  struct Round {
    State kind;
    uint32_t width;
    uint32_t waiting = 0;
    bool diverged = false;
  };
  static bool runs(const Thread& thread) { return thread.state != State::Barrier && thread.state != State::Returned; }

  static void fiber_entry();
  void set_up(uint64_t block);
  void run_threads();
  /// Runs until every thread of the wave waits at a barrier or has returned.
  void run_wave(uint32_t wave);
  Thread& resume(Thread& thread);
  Fiber& begin(Thread& thread);
  [[gnu::noinline]] void start(Thread& thread);
  Thread* next_lane(Thread* after) const;
  Thread* next_to_run(Thread* after) const;
  bool go_on_with_next_lane();
  [[gnu::always_inline]] void wait(State state, uint32_t width);
  bool exchange();
  void report_divergence();
  void clean_up();
  std::string describe_fault(const Thread& thread) const;
  /// Reports a failure of the current block.
  void fail(hipError_t error, const Thread* thread, const std::string& what);
  /// Called on a fiber, which does not continue: `resume` then reports `reason_`. No object on the fiber's stack may
  /// need a destructor, so this takes no argument for the reason.
  [[noreturn]] void give_up(hipError_t error);
  /// Kept out of `shuffle`, so that the stack frame that every lane touches stays small.
  [[noreturn, gnu::noinline]] void give_up_for_width(uint32_t width);

  static __thread BlockRunner* executing_;

  KernelLaunch* launch_ = nullptr;
  bool descending_ = false;
  bool failed_ = false;
  std::vector<Thread> threads_;
  std::vector<uint32_t> order_;  // in which the waves run until the next barrier
  std::minstd_rand random_;
  uint32_t thread_count_ = 0;
  Thread* current_ = nullptr;
  Thread* wave_begin_ = nullptr;  // of the wave that is running
  Thread* wave_end_ = nullptr;
  Round round_;
  // What the lanes of the wave pass to each other. Double-buffered: lanes that are ahead write to one buffer while others still read the other.
  uint64_t values_[2][64];
  uint64_t votes_[2];
  uint32_t turn_ = 0;
  FiberPool fibers_;
  Scheduler scheduler_;
  SharedMemory shared_;
  hipError_t given_up_ = hipSuccess;
  std::string reason_;  // empty for a fault
  int fault_signal_ = 0;
  void* fault_address_ = nullptr;
};

}  // namespace standin
