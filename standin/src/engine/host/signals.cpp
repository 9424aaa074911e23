#include "engine/host/signals.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/memory_table.h"
#include "engine/host/block.h"
#include "engine/host/queue.h"

namespace standin {
namespace {

constexpr int handled[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction previous[64];
const Arena* device_arena = nullptr;

void abandon() { BlockRunner::executing()->abandon_faulted(); }

// The process is about to end, so locks held by other threads do not matter and signal safety is not a concern.
void explain(int signal, const void* address) {
  if (const char* work = current_work())
    std::fprintf(stderr,
                 "hip-standin: signal %d at %p while a stream ran %s: %s; was host memory freed before the stream was "
                 "done with it?\n",
                 signal, address, work, memory_table().describe(address).c_str());
  else if (device_arena->contains(address))
    std::fprintf(stderr, "hip-standin: host code touched device memory at %p: %s\n", address,
                 memory_table().describe(address).c_str());
}

void pass_on(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = previous[signal];
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // Returning executes the faulting instruction again, now with the default action.
    struct sigaction none{};
    none.sa_handler = SIG_DFL;
    sigaction(signal, &none, nullptr);
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  BlockRunner* runner = BlockRunner::executing();
#if defined(__x86_64__)
  if (runner && runner->on_fiber()) {
    auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    registers[REG_RSP] = greg_t(runner->note_fault(signal, info->si_addr));
    registers[REG_RIP] = greg_t(&abandon);
    return;
  }
#else
  if (runner) std::fprintf(stderr, "hip-standin: signal %d at %p in a kernel\n", signal, info->si_addr);
#endif
  explain(signal, info->si_addr);
  pass_on(signal, info, context);
}

}  // namespace

void install_fault_handlers(const Arena* device_memory) {
  static const bool installed = [&] {
    device_arena = device_memory;
    struct sigaction action{};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    for (int signal : handled) sigaction(signal, &action, &previous[signal]);
    return true;
  }();
  (void)installed;
}

void prepare_thread_for_faults() {
  static thread_local bool prepared = false;
  if (prepared) return;
  prepared = true;
  stack_t present;
  if (sigaltstack(nullptr, &present) == 0 && !(present.ss_flags & SS_DISABLE)) return;
  constexpr size_t bytes = 64 << 10;
  void* stack = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (stack == MAP_FAILED) return;
  stack_t wanted{};
  wanted.ss_sp = stack;
  wanted.ss_size = bytes;
  sigaltstack(&wanted, nullptr);
}

}  // namespace standin
