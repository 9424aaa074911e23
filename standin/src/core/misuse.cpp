#include "core/misuse.h"

#include <unistd.h>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/config.h"
#include "core/live.h"
#include "standin.h"

namespace standin {
namespace {

std::atomic<uint64_t> misuses{0};
thread_local bool inside_callback = false;

constexpr int strict_status = 86;

// Runs when the process exits or the library is unloaded (linker flags prevent unloading before that).
__attribute__((destructor)) void at_exit() {
  const uint64_t alive = live().count(-1);
  if (alive != 0 && config().report_leaks) live().report();
  if (config().strict && (alive != 0 || misuse_count() != 0)) {
    std::fprintf(stderr, "hip-standin: strict: %lu objects alive, %lu misuses\n", alive, misuse_count());
    std::fflush(nullptr);
    _exit(strict_status);
  }
}

}  // namespace

void misuse(const char* format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "hip-standin: misuse: %s\n", line);
  misuses.fetch_add(1);
}

uint64_t misuse_count() { return misuses.load(); }

bool in_host_callback() { return inside_callback; }

HostCallbackScope::HostCallbackScope() { inside_callback = true; }
HostCallbackScope::~HostCallbackScope() { inside_callback = false; }

}  // namespace standin
