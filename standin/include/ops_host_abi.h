// The interface between the host engine and kernels compiled for it. The kernels have their own copy of these two
// structs (`kernels/include/ops_host.h`); the version detects a mismatch between the two.
//
// A kernel NAME exports `NAME__run(const void* args)` and `const uint64_t NAME__args_size`; a module exports
// `ops_host_bind(const OpsHostApi*)`, called once after loading.
#pragma once

#include <cstdint>

constexpr uint32_t ops_host_abi_version = 1;

/// Position of the calling thread in its launch, in the order x, y, z.
struct OpsHostIndex {
  uint32_t thread[3];
  uint32_t block[3];
  uint32_t block_dim[3];
  uint32_t grid_dim[3];
};

struct OpsHostApi {
  uint32_t version;
  uint32_t wave_size;
  const OpsHostIndex* (*index)(void);
  /// Waits for all threads of the block that have not returned.
  void (*barrier)(void);
  /// Returns the value that lane `source_lane` of the caller's group of `width` lanes passed. `width` is a power of
  /// two, at most the wave size; the source is taken modulo `width`. Every lane of the wave that has not returned must
  /// take part.
  uint64_t (*shuffle)(uint64_t value, uint32_t source_lane, uint32_t width);
  /// Bit i is set if lane i takes part with a true predicate.
  uint64_t (*ballot)(int predicate);
  /// The block's shared variable number `slot`, `bytes` long, aligned to 16 bytes.
  void* (*lds)(uint32_t slot, uint64_t bytes);
  /// The launch's dynamic shared memory, aligned to 16 bytes; null if the launch requested none.
  void* (*dynamic_lds)(void);
};
