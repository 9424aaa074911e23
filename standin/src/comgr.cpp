// comgr, the compiler behind hipRTC: just enough to report that it exists, and its version.
#include <cstddef>

extern "C" {

__attribute__((visibility("default"))) void amd_comgr_get_version(size_t* major, size_t* minor) {
  if (major) *major = 3;
  if (minor) *minor = 0;
}

}  // extern "C"
