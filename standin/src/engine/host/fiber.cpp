#include "engine/host/fiber.h"

#include <sys/mman.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#else
#define VALGRIND_STACK_REGISTER(begin, end) 0
#define VALGRIND_STACK_DEREGISTER(id) (void)(id)
#endif

// Present if the program is built with AddressSanitizer, whether or not this library is.
extern "C" {
__attribute__((weak)) void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t bytes);
__attribute__((weak)) void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void* begin, size_t bytes);
}

namespace standin {
namespace {

constexpr size_t guard_bytes = 4096;
constexpr size_t stack_bytes = 128 << 10;

// Stacks begin at pages. If all were used from the top, the lanes of a wave would compete for a few lines of the cache.
size_t next_unused_bytes() {
  static std::atomic<size_t> stacks{0};
  constexpr size_t line = 64, lines_of_a_page = 64, lines_of_a_lane = 5;
  return stacks++ * lines_of_a_lane % lines_of_a_page * line;
}

}  // namespace

#if defined(__x86_64__)

// In the System V calling convention the callee saves these registers, and the caller saves all others.
asm(R"(
    .text
    .p2align 4
    .hidden standin_switch
    .globl standin_switch
    .type standin_switch, @function
standin_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size standin_switch, . - standin_switch
)");

void Fiber::prepare(Entry entry) {
  fake_stack_ = nullptr;
  // From the top: a return address of 0 where stack traces end, the entry for `ret`, six registers.
  void** top = static_cast<void**>(fresh_stack_pointer());
  top[0] = nullptr;
  top[-1] = reinterpret_cast<void*>(entry);
  for (int i = 2; i <= 7; ++i) top[-i] = nullptr;
  context_.stack_pointer_ = top - 7;
}

#else

void Fiber::prepare(Entry entry) {
  fake_stack_ = nullptr;
  getcontext(&context_.state_);
  context_.state_.uc_stack.ss_sp = stack_;
  context_.state_.uc_stack.ss_size = stack_bytes - unused_bytes_;
  context_.state_.uc_link = nullptr;
  makecontext(&context_.state_, entry, 0);
}

#endif

const bool Fiber::sanitized_ = __sanitizer_start_switch_fiber && __sanitizer_finish_switch_fiber;

Fiber::Fiber() {
  void* map = mmap(nullptr, guard_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (map == MAP_FAILED || mprotect(map, guard_bytes, PROT_NONE) != 0) {
    std::fprintf(stderr, "hip-standin: no memory for a thread's stack\n");
    std::abort();
  }
  stack_ = static_cast<char*>(map) + guard_bytes;
  unused_bytes_ = next_unused_bytes();
  valgrind_id_ = VALGRIND_STACK_REGISTER(stack_, stack_ + stack_bytes);
}

Fiber::~Fiber() {
  VALGRIND_STACK_DEREGISTER(valgrind_id_);
  munmap(stack_ - guard_bytes, guard_bytes + stack_bytes);
}

// As at the first instruction of a function: 8 bytes past a multiple of 16.
void* Fiber::fresh_stack_pointer() const { return stack_ + stack_bytes - unused_bytes_ - 8; }

bool Fiber::overflowed_at(const void* address) const { return address < stack_ && address >= stack_ - guard_bytes; }

void Fiber::enter(Scheduler& scheduler) {
  scheduler.left_ = true;
  if (sanitized_) __sanitizer_start_switch_fiber(&scheduler.fake_stack_, stack_, stack_bytes);
  Context::switch_between(scheduler.context_, context_);
  if (sanitized_) __sanitizer_finish_switch_fiber(scheduler.fake_stack_, nullptr, nullptr);
}

void Fiber::leave(Scheduler& scheduler, bool finished) {
  if (sanitized_)
    __sanitizer_start_switch_fiber(finished ? nullptr : &fake_stack_, scheduler.stack_, scheduler.stack_bytes_);
  Context::switch_between(context_, scheduler.context_);
  arrive(scheduler);
}

void Fiber::start_switch(const Fiber& next) { __sanitizer_start_switch_fiber(&fake_stack_, next.stack_, stack_bytes); }

void Fiber::arrive(Scheduler& scheduler) {
  if (!sanitized_) return;
  const void* left = nullptr;
  size_t left_bytes = 0;
  __sanitizer_finish_switch_fiber(fake_stack_, &left, &left_bytes);
  if (!scheduler.left_) return;
  scheduler.left_ = false;
  scheduler.stack_ = left;
  scheduler.stack_bytes_ = left_bytes;
}

void Fiber::abandon() {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(stack_, stack_bytes);
}

std::unique_ptr<Fiber> FiberPool::take() {
  if (idle_.empty()) return std::make_unique<Fiber>();
  std::unique_ptr<Fiber> fiber = std::move(idle_.back());
  idle_.pop_back();
  return fiber;
}

}  // namespace standin
