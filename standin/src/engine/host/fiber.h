// Stacks for a block's threads, between which one operating-system thread switches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace standin {

#if defined(__x86_64__)
extern "C" __attribute__((visibility("hidden"))) void standin_switch(void** save, void* load);
#endif

/// A point of execution to switch to.
class Context {
 public:
  /// Saves the calling code in `from` and continues where `to` was saved.
  static void switch_between(Context& from, Context& to) {
#if defined(__x86_64__)
    standin_switch(&from.stack_pointer_, to.stack_pointer_);
#else
    swapcontext(&from.state_, &to.state_);
#endif
  }

 private:
  friend class Fiber;
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t state_;
#endif
};

/// Where fibers return to: the stack of the operating-system thread that runs them.
class Scheduler {
 private:
  friend class Fiber;
  Context context_;
  // AddressSanitizer's bookkeeping for that stack.
  void* fake_stack_ = nullptr;
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  bool left_ = false;  // by the switch in progress
};

/// A stack with a guard page below it, and the code that runs on it.
class Fiber {
 public:
  using Entry = void (*)();

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next `enter` calls `entry` on an empty stack. It must call `arrive` first, and end with a `leave` that says it has finished.
  void prepare(Entry entry);
  /// Called by the scheduler: runs the fiber, and those that it continues with, until one leaves.
  void enter(Scheduler& scheduler);
  /// Called by the fiber: returns to the scheduler. If `finished`, the fiber is not entered again before `prepare`.
  void leave(Scheduler& scheduler, bool finished);
  /// Called by the fiber: continues with another one. The lanes of a wave wait at the same place, so the
  /// processor can predict the other's return addresses, which it cannot if the scheduler runs in between.
  void continue_with(Scheduler& scheduler, Fiber& next) {
    if (sanitized_) start_switch(next);
    Context::switch_between(context_, next.context_);
    if (sanitized_) arrive(scheduler);
  }
  /// The first call that the fiber must make.
  void arrive(Scheduler& scheduler);
  /// Reclaims the stack from code that will not continue.
  void abandon();

  /// A stack pointer at which a signal handler can run other code on this stack.
  void* fresh_stack_pointer() const;
  /// Whether the address is in the guard page, which an overflowing stack reaches.
  bool overflowed_at(const void* address) const;

 private:
  void start_switch(const Fiber& next);

  static const bool sanitized_;  // whether the program is built with AddressSanitizer
  char* stack_;
  size_t unused_bytes_;  // at the top
  Context context_;
  unsigned valgrind_id_ = 0;
  void* fake_stack_ = nullptr;  // AddressSanitizer's bookkeeping
};

/// Fibers reused for the next block.
class FiberPool {
 public:
  std::unique_ptr<Fiber> take();
  void give(std::unique_ptr<Fiber> fiber) { idle_.push_back(std::move(fiber)); }

 private:
  std::vector<std::unique_ptr<Fiber>> idle_;
};

}  // namespace standin
