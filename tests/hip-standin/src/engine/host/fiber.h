// Stacks that one operating-system thread switches between: a block's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace standin {

/// A place in the code to switch to.
class Context {
 public:
  /// Leaves the calling code in `from` and goes on where `to` was left.
  static void switch_between(Context& from, Context& to);

 private:
  friend class Fiber;
#if defined(__x86_64__)
  void* stack_pointer_ = nullptr;
#else
  ucontext_t state_;
#endif
};

/// A stack with a guard page below it, and what runs on it.
class Fiber {
 public:
  using Entry = void (*)();

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next `enter` calls `entry` on an empty stack. `entry` must end with `leave(true)`.
  void prepare(Entry entry);
  /// From the scheduler: runs the fiber until it leaves.
  void enter();
  /// From the fiber: back to the scheduler; `finished` when it is not to be entered again before `prepare`.
  void leave(bool finished);
  /// Takes the stack back from code that will not go on.
  void abandon();

  /// Where a signal handler can put the stack pointer to run code on this stack anew.
  void* fresh_stack_pointer() const;
  /// Whether the address lies in the guard page, where an overflowing stack ends up.
  bool overflowed_at(const void* address) const;

 private:
  char* stack_;
  Context own_;
  Context scheduler_;
  unsigned valgrind_id_ = 0;
  // What AddressSanitizer knows of the two stacks.
  void* own_fake_stack_ = nullptr;
  void* scheduler_fake_stack_ = nullptr;
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_bytes_ = 0;
  friend void announce_arrival(Fiber&);
};

/// To be called first by an entry function.
void announce_arrival(Fiber& fiber);

/// Fibers kept for the next block.
class FiberPool {
 public:
  std::unique_ptr<Fiber> take();
  void give(std::unique_ptr<Fiber> fiber) { idle_.push_back(std::move(fiber)); }

 private:
  std::vector<std::unique_ptr<Fiber>> idle_;
};

}  // namespace standin
