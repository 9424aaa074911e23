// The registry of every object that a caller owns. It validates handles and finds leaks.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace standin {

enum class Kind {
  Memory,
  HostMemory,
  RegisteredMemory,
  Stream,
  Event,
  Module,
  Function,
  Program,
  RocblasHandle,
  HipblasltHandle,
  HipblasltLayout,
  HipblasltDesc,
  HipblasltPreference,
  MiopenHandle,
  MiopenDescriptor,
  Graph,
  GraphExec,
  RcclComm,
};
constexpr int kind_count = 18;

__attribute__((visibility("default"))) const char* kind_name(Kind kind);

/// Handles are addresses that are never reused, so a stale handle is always distinguishable from a live one.
class __attribute__((visibility("default"))) LiveObjects {
 public:
  void add(Kind kind, const void* handle, std::string note = "");
  /// False if the handle is not alive.
  bool remove(Kind kind, const void* handle);
  bool contains(Kind kind, const void* handle) const;
  /// -1 counts all kinds except functions, which belong to their module.
  uint64_t count(int kind) const;
  /// Lists live objects on standard error and returns their number.
  uint64_t report() const;

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::string> objects_[kind_count];
};

__attribute__((visibility("default"))) LiveObjects& live();

}  // namespace standin
