// Unit test kernels for the matrix units: d = a b + c with one instruction and one wave. Given matrices that change
// under every transpose and exchange of lanes, they show whether the layouts in ops_mma.h match the hardware.
#include "ops_mma.h"

namespace ops {

// a [SIZE][DEPTH] and b [DEPTH][SIZE] of type T, c and d [SIZE][SIZE] of its accumulator type, all row-major.
struct MmaUnitArgs {
    Address<const void> a;
    Address<const void> b;
    Address<const void> c;
    Address<void> d;
};

template <u32 SIZE, typename T> OPS_DEVICE void mma_unit(const MmaUnitArgs& args) {
    using Unit = Mma<T, SIZE>;
    using Sum = typename Unit::Sum;
    constexpr u32 PITCH = Unit::DEPTH + PACK_BYTES / sizeof(T);
    OPS_LDS(T, tile_a, 32 * (32 + PACK_BYTES / sizeof(T)));
    OPS_LDS(T, tile_b, 32 * (32 + PACK_BYTES / sizeof(T)));
    const T* a = static_cast<const T*>(args.a);
    const T* b = static_cast<const T*>(args.b);
    for (u32 at = thread_x(); at < SIZE * Unit::DEPTH; at += block_dim()) {
        tile_a[at / Unit::DEPTH * PITCH + at % Unit::DEPTH] = a[at];
        tile_b[at % SIZE * PITCH + at / SIZE] = b[at];
    }
    barrier();
    if (wave_id() != 0) return;
    typename Unit::Product product;
    const Sum* c = static_cast<const Sum*>(args.c);
    OPS_UNROLL
    for (u32 i = 0; i < Unit::SUMS; i++) product.v[i] = c[Unit::row(i) * SIZE + Unit::column()];
    Unit::multiply_add(Unit::load(tile_a, PITCH), Unit::load(tile_b, PITCH), product);
    Sum* d = static_cast<Sum*>(args.d);
    OPS_UNROLL
    for (u32 i = 0; i < Unit::SUMS; i++) d[Unit::row(i) * SIZE + Unit::column()] = product.v[i];
}

}  // namespace ops
