// A compiled kernel file, loaded into the process.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "engine/code_object.h"
#include "engine/engine.h"

namespace standin {

class LoadedModule {
 public:
  static hipError_t load(const CodeObject& object, std::shared_ptr<LoadedModule>* out);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  /// The address of a symbol and, if requested, its size; null if there is none.
  void* symbol(const std::string& name, size_t* bytes = nullptr) const;

  std::atomic<int> pending_launches{0};

 private:
  explicit LoadedModule(void* library) : library_(library) {}
  void* library_;
};

struct HostModule : EngineModule {
  std::shared_ptr<LoadedModule> loaded;
  int device = 0;
  ~HostModule() override;
};

struct HostFunction : EngineFunction {
  std::shared_ptr<LoadedModule> loaded;
  std::string name;
  void (*run)(const void*) = nullptr;
};

}  // namespace standin
