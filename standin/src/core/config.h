// Settings from the environment, read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

namespace standin {

enum class EngineKind { Host, Cuda };

/// A version of a library, compared number by number.
struct LibraryVersion {
  uint32_t major, minor, patch;

  bool before(uint32_t other_major, uint32_t other_minor, uint32_t other_patch = 0) const {
    return std::tie(major, minor, patch) < std::tie(other_major, other_minor, other_patch);
  }
};

/// What kernels reach in another device's memory once access to it is enabled.
enum class PeerAccess {
  Works,
  None,   // no device offers it
  Lost,   // it is offered, but what kernels write does not arrive
  Hangs,  // it is offered, but the first kernel that uses it never ends
};

/// One device that the host engine simulates.
struct DeviceChoice {
  std::string gfx;  // as in gcnArchName, including feature suffixes
  uint32_t wave_size;
  bool integrated;
};

struct Config {
  EngineKind engine = EngineKind::Host;
  std::vector<DeviceChoice> devices;
  size_t memory_bytes = size_t(4) << 30;  // HIP_STANDIN_MEMORY, per device
  size_t shown_bytes = 0;                 // HIP_STANDIN_MEMORY_SHOWN, if reported differently
  size_t overhead_bytes = 0;              // HIP_STANDIN_OVERHEAD, per stream, module and library handle
  size_t alignment = 16;                  // HIP_STANDIN_ALIGN, of device allocations
  uint32_t compute_units = 0;             // HIP_STANDIN_COMPUTE_UNITS, of every device; 0: by its kind
  uint32_t threads = 2;                   // HIP_STANDIN_THREADS, to run a launch's blocks
  bool shuffled = false;                  // HIP_STANDIN_ORDER=shuffled
  uint32_t delay_us = 0;                  // HIP_STANDIN_DELAY_US, before each piece of work on a stream
  bool stub_launches = false;             // HIP_STANDIN_LAUNCH=stub
  bool abort_on_fault = false;            // HIP_STANDIN_FAULT=abort
  bool abort_on_bad_arch = false;         // HIP_STANDIN_BAD_ARCH=abort
  bool report_leaks = true;               // HIP_STANDIN_REPORT=0 turns it off
  bool strict = false;                    // HIP_STANDIN_STRICT=1
  PeerAccess peers = PeerAccess::Works;   // HIP_STANDIN_PEERS
  bool no_tensile = false;                // HIP_STANDIN_NO_TENSILE=1
  LibraryVersion rocm = {7, 2, 0};        // HIP_STANDIN_VERSION: the version of HIP and hipRTC
  LibraryVersion miopen = {3, 5, 1};      // HIP_STANDIN_MIOPEN: the version whose faults are simulated
  std::string replaced, replacement;      // HIP_STANDIN_REPLACE=TEXT=>TEXT, in every source compiled
  std::string compiler = "g++";           // HIP_STANDIN_CXX
  std::string compiler_flags;             // HIP_STANDIN_CXXFLAGS
  std::string code_store;                 // HIP_STANDIN_CODE, the folder; empty: none
};

__attribute__((visibility("default"))) const Config& config();

/// `gfx90a:sramecc+:xnack-` without its feature suffixes.
__attribute__((visibility("default"))) std::string bare_gfx(const std::string& gfx);

/// Whether code compiled for `target` runs on `device`: the targets are the same, or `target` is a generic
/// target that covers it, and the device has every feature with the setting that `target` names.
bool code_runs_on(const std::string& target, const std::string& device);

/// 64 for gfx9 (GCN and CDNA), otherwise 32.
uint32_t natural_wave_size(const std::string& gfx);

/// Whether `gfx` is a valid target, with or without feature suffixes: gfx1100, gfx90a:xnack-, gfx11-generic.
bool plausible_gfx(const std::string& gfx);

}  // namespace standin
