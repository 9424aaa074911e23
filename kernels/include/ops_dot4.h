// Dot product of four pairs of signed bytes, added to an integer. The build selects the instruction:
// -DOPS_DOT4=1 is v_dot4_i32_i8, 2 is v_dot4_i32_iu8.
#pragma once
#include "ops_platform.h"

#if defined(OPS_AMD) && !defined(OPS_DOT4)
#error "define OPS_DOT4 as 1 or 2"
#endif

namespace ops {

OPS_DEVICE i32 dot4(u32 a, u32 b, i32 c) {
#if defined(OPS_AMD) && OPS_DOT4 == 1
    return __builtin_amdgcn_sdot4(i32(a), i32(b), c, false);
#elif defined(OPS_AMD) && OPS_DOT4 == 2
    return __builtin_amdgcn_sudot4(true, i32(a), true, i32(b), c, false);
#elif defined(OPS_CUDA)
    return __dp4a(i32(a), i32(b), c);
#else
    for (u32 i = 0; i < 4; i++) c += i32(i8(a >> (8 * i))) * i32(i8(b >> (8 * i)));
    return c;
#endif
}

}  // namespace ops
