// Every object that a caller holds: what makes a handle valid, and what is left at the end.
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
  MiopenHandle,
  MiopenDescriptor,
};
constexpr int kind_count = 11;

const char* kind_name(Kind kind);

/// Handles are addresses that are never handed out twice, so a stale one is always told from a live one.
class __attribute__((visibility("default"))) LiveObjects {
 public:
  void add(Kind kind, const void* handle, std::string note = "");
  /// False when the handle is not alive.
  bool remove(Kind kind, const void* handle);
  bool contains(Kind kind, const void* handle) const;
  /// -1 counts all kinds but functions, which go with their module.
  uint64_t count(int kind) const;
  /// Lists what is alive on standard error; returns how many objects.
  uint64_t report() const;

 private:
  mutable std::mutex mutex_;
  std::map<const void*, std::string> objects_[kind_count];
};

__attribute__((visibility("default"))) LiveObjects& live();

}  // namespace standin
