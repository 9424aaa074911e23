// y = cap * tanh(x / cap) on `count` elements in a row.
//
// OPS_KERNEL and the functions of the header are those of rocm-ops; they make the kernel run on the stand-in for ROCm, too. Its
// arguments are one structure, which the Rust side declares in the same way.
#include "ops_math.h"

namespace ops {

struct SoftCapArgs {
    Address<const f32> x;
    Address<f32> y;
    u64 count;
    f32 cap;
    u32 unused;
};

OPS_KERNEL(soft_cap_f32, SoftCapArgs, 256) {
    const f32* x = args.x;
    f32* y = args.y;
    u64 at = u64(block_x()) * block_dim() + thread_x();
    if (at < args.count) y[at] = args.cap * tanh(x[at] / args.cap);
}

}  // namespace ops
