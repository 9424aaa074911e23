#include "engine/host/module.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "core/misuse.h"
#include "engine/host/kernel_api.h"

namespace standin {

hipError_t LoadedModule::load(const CodeObject& object, std::shared_ptr<LoadedModule>* out) {
  std::string path = (std::filesystem::temp_directory_path() / "hip-standin-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return hipErrorOutOfMemory;
  size_t written = 0;
  while (written < object.payload.size()) {
    const ssize_t n = write(file, object.payload.data() + written, object.payload.size() - written);
    if (n <= 0) break;
    written += size_t(n);
  }
  close(file);
  void* library = written == object.payload.size() ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  if (!library) {
    const char* reason = dlerror();
    std::fprintf(stderr, "hip-standin: hipModuleLoadData: %s\n", reason ? reason : "cannot write a temporary file");
    return hipErrorSharedObjectInitFailed;
  }
  std::shared_ptr<LoadedModule> module(new LoadedModule(library));
  const auto* wave_size = static_cast<const uint32_t*>(module->symbol("ops_host_wave_size"));
  if (wave_size && *wave_size != object.wave_size) {
    std::fprintf(stderr, "hip-standin: hipModuleLoadData: built for waves of %u, not of %u\n", *wave_size,
                 object.wave_size);
    return hipErrorInvalidImage;
  }
  const auto bind = reinterpret_cast<void (*)(const OpsHostApi*)>(module->symbol("ops_host_bind"));
  // A module whose kernels call no host function need not export it.
  if (bind) bind(kernel_api(object.wave_size));
  *out = std::move(module);
  return hipSuccess;
}

LoadedModule::~LoadedModule() { dlclose(library_); }

void* LoadedModule::symbol(const std::string& name, size_t* bytes) const {
  void* address = dlsym(library_, name.c_str());
  if (address && bytes) {
    Dl_info info;
    ElfW(Sym)* entry = nullptr;
    *bytes = dladdr1(address, &info, reinterpret_cast<void**>(&entry), RTLD_DL_SYMENT) && entry ? entry->st_size : 0;
  }
  return address;
}

HostModule::~HostModule() {
  const int pending = loaded->pending_launches;
  if (pending) misuse("hipModuleUnload: %d launches of the module are still pending", pending);
}

}  // namespace standin
