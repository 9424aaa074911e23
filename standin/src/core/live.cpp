#include "core/live.h"

#include <cstdio>

namespace standin {

const char* kind_name(Kind kind) {
  static const char* const names[kind_count] = {
      "memory",           "host memory",      "registered memory",    "stream",        "event",
      "module",           "function",         "program",              "rocblas handle", "hipblaslt handle",
      "hipblaslt layout", "hipblaslt desc",   "hipblaslt preference", "miopen handle", "miopen descriptor",
      "graph",            "graph instance",   "rccl communicator"};
  return names[int(kind)];
}

void LiveObjects::add(Kind kind, const void* handle, std::string note) {
  std::lock_guard<std::mutex> lock(mutex_);
  objects_[int(kind)][handle] = std::move(note);
}

bool LiveObjects::remove(Kind kind, const void* handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  return objects_[int(kind)].erase(handle) == 1;
}

bool LiveObjects::contains(Kind kind, const void* handle) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return objects_[int(kind)].count(handle) == 1;
}

uint64_t LiveObjects::count(int kind) const {
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t total = 0;
  for (int k = 0; k < kind_count; ++k)
    if (kind == k || (kind < 0 && Kind(k) != Kind::Function)) total += objects_[k].size();
  return total;
}

uint64_t LiveObjects::report() const {
  constexpr int listed_at_most = 20;
  std::lock_guard<std::mutex> lock(mutex_);
  uint64_t total = 0;
  for (int k = 0; k < kind_count; ++k) {
    if (Kind(k) == Kind::Function) continue;
    int listed = 0;
    for (const auto& [handle, note] : objects_[k]) {
      if (++listed > listed_at_most) break;
      std::fprintf(stderr, "hip-standin: alive: %s %p %s\n", kind_name(Kind(k)), handle, note.c_str());
    }
    if (objects_[k].size() > size_t(listed_at_most))
      std::fprintf(stderr, "hip-standin: alive: %s: %zu in all\n", kind_name(Kind(k)), objects_[k].size());
    total += objects_[k].size();
  }
  return total;
}

LiveObjects& live() {
  static LiveObjects* const instance = new LiveObjects;
  return *instance;
}

}  // namespace standin
