#include "engine/host/kernel_api.h"

#include "engine/host/block.h"

namespace standin {
namespace {

const OpsHostIndex* index() { return BlockRunner::executing()->index(); }
void barrier() { BlockRunner::executing()->barrier(); }
uint64_t shuffle(uint64_t value, uint32_t source_lane, uint32_t width) {
  return BlockRunner::executing()->shuffle(value, source_lane, width);
}
uint64_t ballot(int predicate) { return BlockRunner::executing()->ballot(predicate != 0); }
void* lds(uint32_t slot, uint64_t bytes) { return BlockRunner::executing()->shared(slot, bytes); }
void* dynamic_lds() { return BlockRunner::executing()->dynamic_shared(); }

constexpr OpsHostApi api(uint32_t wave_size) {
  return {ops_host_abi_version, wave_size, index, barrier, shuffle, ballot, lds, dynamic_lds};
}

constexpr OpsHostApi wave32 = api(32);
constexpr OpsHostApi wave64 = api(64);

}  // namespace

const OpsHostApi* kernel_api(uint32_t wave_size) { return wave_size == 64 ? &wave64 : &wave32; }

}  // namespace standin
