#include "core/faults.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

namespace standin {

Faults::Faults() {
  const char* spec = std::getenv("HIP_STANDIN_FAIL");
  if (spec && !add(spec)) {
    std::fprintf(stderr, "hip-standin: HIP_STANDIN_FAIL=%s cannot be read: expected FUNCTION:N[+][,...]\n", spec);
    std::abort();
  }
}

bool Faults::called(const char* function) {
  std::lock_guard<std::mutex> lock(mutex_);
  Counter& counter = counters_[function];
  ++counter.calls;
  const bool fail = counter.calls == counter.fail_at || (counter.fail_from != 0 && counter.calls >= counter.fail_from);
  if (fail) std::fprintf(stderr, "hip-standin: injected: call %lu of %s fails\n", counter.calls, function);
  return fail;
}

bool Faults::add(const char* spec) {
  struct Fault {
    std::string function;
    uint64_t n;
    bool onwards;
  };
  std::vector<Fault> parsed;
  std::stringstream parts(spec ? spec : "");
  for (std::string part; std::getline(parts, part, ',');) {
    const size_t colon = part.find(':');
    if (colon == 0 || colon == std::string::npos) return false;
    char* end = nullptr;
    const uint64_t n = std::strtoull(part.c_str() + colon + 1, &end, 10);
    const bool onwards = *end == '+';
    if (n == 0 || end[onwards] != '\0') return false;
    parsed.push_back({part.substr(0, colon), n, onwards});
  }
  std::lock_guard<std::mutex> lock(mutex_);
  if (parsed.empty())
    for (auto& [name, counter] : counters_) counter.fail_at = counter.fail_from = 0;
  for (const Fault& fault : parsed) {
    Counter& counter = counters_[fault.function];
    (fault.onwards ? counter.fail_from : counter.fail_at) = counter.calls + fault.n;
  }
  return true;
}

uint64_t Faults::count(const char* function) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = counters_.find(function);
  return found == counters_.end() ? 0 : found->second.calls;
}

Faults& faults() {
  static Faults* const instance = new Faults;
  return *instance;
}

}  // namespace standin
