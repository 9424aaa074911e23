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

/// A point of execution to switch to.
class Context {
 public:
  /// Saves the calling code in `from` and continues where `to` was saved.
  static void switch_between(Context& from, Context& to);

 private:
  friend class Fiber;
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t state_;
#endif
};

/// A stack with a guard page below it, and the code that runs on it.
class Fiber {
 public:
  using Entry = void (*)();

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next `enter` calls `entry` on an empty stack. `entry` must end with `leave(true)`.
  void prepare(Entry entry);
  /// Called by the scheduler: runs the fiber until it leaves.
  void enter();
  /// Called by the fiber: returns to the scheduler. If `finished`, the fiber is not entered again before `prepare`.
  void leave(bool finished);
  /// Reclaims the stack from code that will not continue.
  void abandon();

  /// A stack pointer at which a signal handler can run other code on this stack.
  void* fresh_stack_pointer() const;
  /// Whether the address is in the guard page, which an overflowing stack reaches.
  bool overflowed_at(const void* address) const;

 private:
  char* stack_;
  Context own_;
  Context scheduler_;
  unsigned valgrind_id_ = 0;
  // AddressSanitizer's bookkeeping for the two stacks.
  void* own_fake_stack_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
  friend void announce_arrival(Fiber&);
};

/// An entry function must call this first.
void announce_arrival(Fiber& fiber);

/// Fibers reused for the next block.
class FiberPool {
 public:
  std::unique_ptr<Fiber> take();
  void give(std::unique_ptr<Fiber> fiber) { idle_.push_back(std::move(fiber)); }

 private:
  std::vector<std::unique_ptr<Fiber>> idle_;
};

}  // namespace standin
