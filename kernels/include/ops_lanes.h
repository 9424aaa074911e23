// Exchanges between lanes whose distance is known when the kernel is compiled: AMD's instructions for them need no address.
#pragma once
#include "ops_platform.h"

namespace ops {

// The value of lane `lane ^ MASK` of the wave, for a constant mask.
OPS_DEVICE u32 exchange_bits(u32 value, u32 mask) {
#if defined(OPS_AMD)
    switch (mask) {
    case 1: return u32(__builtin_amdgcn_mov_dpp(int(value), 0xb1, 15, 15, true));  // quad_perm:[1,0,3,2]
    case 2: return u32(__builtin_amdgcn_mov_dpp(int(value), 0x4e, 15, 15, true));  // quad_perm:[2,3,0,1]
#if defined(__GFX9__)
    case 4: return u32(__builtin_amdgcn_ds_swizzle(int(value), 4 << 10 | 31));
    case 8: return u32(__builtin_amdgcn_ds_swizzle(int(value), 8 << 10 | 31));
#else
    case 4: return u32(__builtin_amdgcn_mov_dpp(int(value), 0x164, 15, 15, true));  // row_xmask:4
    case 8: return u32(__builtin_amdgcn_mov_dpp(int(value), 0x168, 15, 15, true));  // row_xmask:8
#endif
    case 16: return u32(__builtin_amdgcn_ds_swizzle(int(value), 16 << 10 | 31));
    }
#endif
#if defined(OPS_CUDA)
    return __shfl_xor_sync(0xffffffffu, value, int(mask));
#else
    return shuffle_bits(value, lane_id() ^ mask, OPS_WAVE);
#endif
}

// The value of lane SOURCE of the caller's group of WIDTH lanes, likewise.
template <u32 WIDTH, u32 SOURCE> OPS_DEVICE u32 broadcast(u32 value) {
    static_assert(WIDTH <= 32 && SOURCE < WIDTH, "a group is in one half of a wave");
#if defined(OPS_AMD) && !defined(__GFX9__)
    if constexpr (WIDTH == 16) return u32(__builtin_amdgcn_mov_dpp(int(value), 0x150 + SOURCE, 15, 15, true));  // row_share
#endif
#if defined(OPS_AMD)
    return u32(__builtin_amdgcn_ds_swizzle(int(value), SOURCE << 5 | (32 - WIDTH)));
#else
    return shuffle_bits(value, SOURCE, WIDTH);
#endif
}
template <u32 WIDTH, u32 SOURCE> OPS_DEVICE f32 broadcast(f32 value) {
    return bits_as<f32>(broadcast<WIDTH, SOURCE>(bits_as<u32>(value)));
}
template <u32 WIDTH, u32 SOURCE> OPS_DEVICE f64 broadcast(f64 value) { return shuffle(value, SOURCE, WIDTH); }
OPS_DEVICE f32 exchange(f32 value, u32 mask) { return bits_as<f32>(exchange_bits(bits_as<u32>(value), mask)); }
OPS_DEVICE f64 exchange(f64 value, u32 mask) { return shuffle_xor(value, mask, OPS_WAVE); }

}  // namespace ops
