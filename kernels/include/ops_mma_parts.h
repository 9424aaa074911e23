// f32 on matrix units: every x is multiplied as the sum of two 16-bit parts.
#pragma once
#include "ops_mma_stage.h"

namespace ops {

// x times a power of 2, split into two parts. The first part is truncated, not rounded, so that it is finite whenever
// x is. The second has the sign of x and is never zero, so that a product with infinity is infinite and not NaN.
template <typename H> struct MmaSplit {
    H high, low;
    OPS_METHOD MmaSplit(f32 x, u32 kept) {
        f32 first = bits_as<f32>(bits_as<u32>(x) & kept), rest = abs(x - first);
        if (is_nan(x)) first = x;
        high = narrow<H>(first);
        low = narrow<H>(with_sign_of(larger(rest, abs(x) * 0x1p-24f), x));
    }
};
// How x is split. bf16 has the exponent range of f32; together, the two parts keep 16 bits of x.
template <typename H> struct MmaParts {
    static constexpr bool SCALED = false;
    static OPS_METHOD f32 scale_of(f32) { return 1.0f; }
    static OPS_METHOD MmaSplit<bf16> split(f32 x, f32) { return MmaSplit<bf16>(x, 0xffff0000u); }
};
// f16 has a smaller exponent range: neighbours along k share a power of 2 that scales the largest finite
// one to at least 2^14. Together, the two parts keep 22 bits of x, and 39 bits relative to the largest x.
template <> struct MmaParts<f16> {
    static constexpr bool SCALED = true;
    static OPS_METHOD f32 scale_of(f32 most) {
        u32 exponent = 268 - (bits_as<u32>(most) >> 23);
        return bits_as<f32>((exponent < 253 ? exponent : 253) << 23);
    }
    static OPS_METHOD MmaSplit<f16> split(f32 x, f32 scale) { return MmaSplit<f16>(x * scale, 0xffffe000u); }
};
// Exactly 1 / scale.
OPS_DEVICE f32 inverse_power(f32 scale) { return bits_as<f32>((254u << 23) - bits_as<u32>(scale)); }
// |x|, or 0 if x is not finite.
OPS_DEVICE f32 finite_magnitude(f32 x) { return abs(x) < infinity32() ? abs(x) : 0.0f; }

// MmaStage for f32. LDS holds two consecutive tiles of H, the high and the low parts, and a factor for each line.
template <typename H, u32 TILE> struct MmaStageParts : MmaStage<f32, TILE> {
    using Base = MmaStage<f32, TILE>;
    using Parts = MmaParts<H>;
    using Base::held;
    using Base::HALF;
    using MmaStage<f32, TILE>::MmaStage;

    // The scale of a line that `lanes` neighbouring lanes share; `most` is this lane's largest
    // magnitude. The first of the lanes writes the inverse to `to`.
    static OPS_METHOD f32 scale_line(f32 most, u32 lanes, f32* to) {
        if (!Parts::SCALED) return 1.0f;
        f32 scale = Parts::scale_of(reduce_lanes(most, lanes, Larger()));
        if (lane_id() % lanes == 0) *to = inverse_power(scale);
        return scale;
    }
    OPS_METHOD void store(H* tile, f32* scales) const {
        constexpr u32 APART = TILE * MMA_PITCH;
        u32 thread = opaque(thread_x());
        if (Base::along_k) {
            OPS_UNROLL
            for (u32 p = 0; p < Base::PACKS; p++) {
                keep_order();
                u32 line = thread / 4 + p * (MATMUL_BLOCK / 4);
                f32 most = 0;
                OPS_UNROLL
                for (u32 i = 0; i < 8; i++) most = larger(most, finite_magnitude(held.v[p * 8 + i]));
                f32 scale = scale_line(most, 4, scales + line);
                Pack<H, 8> high, low;
                OPS_UNROLL
                for (u32 i = 0; i < 8; i++) {
                    MmaSplit<H> x = Parts::split(held.v[p * 8 + i], scale);
                    high.v[i] = x.high;
                    low.v[i] = x.low;
                }
                H* to = tile + line * MMA_PITCH + thread % 4 * 8;
                store_pack(to, high);
                store_pack(to + APART, low);
            }
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < HALF; i++) {
                keep_order();
                u32 line = thread / 16 * HALF + i;
                f32 most = larger(finite_magnitude(held.v[i]), finite_magnitude(held.v[HALF + i]));
                f32 scale = scale_line(most, 16, scales + line);
                MmaSplit<H> a = Parts::split(held.v[i], scale), b = Parts::split(held.v[HALF + i], scale);
                H* to = tile + line * MMA_PITCH + thread % 16 * 2;
                store_pack(to, Pack<H, 2>{{a.high, b.high}});
                store_pack(to + APART, Pack<H, 2>{{a.low, b.low}});
            }
        }
    }
};

// Adds the product of a and b, `depth` elements deep, to the sums of `share`. If IN_PARTS, a is of f32.
template <bool IN_PARTS, typename Share, typename A, typename B, typename W>
OPS_DEVICE void multiply_staged(Share& share, A& a, B& b, W* tile_a, W* tile_b, f32* scales, u64 depth) {
    a.load(0, depth);
    b.load(0, depth);
    OPS_NO_UNROLL
    for (u64 k = 0; k < depth; k += MMA_DEPTH) {
        barrier();
        if constexpr (IN_PARTS) {
            a.store(tile_a, scales);
        } else {
            a.store(tile_a);
        }
        b.store(tile_b);
        barrier();
        // The next tiles are in flight while these are multiplied. Past the end, nothing is loaded.
        a.load(k + MMA_DEPTH, depth);
        b.load(k + MMA_DEPTH, depth);
        if constexpr (IN_PARTS) {
            share.template multiply_parts<MmaParts<W>::SCALED>(tile_a, tile_b, scales);
        } else {
            share.multiply(tile_a, tile_b);
        }
    }
}

}  // namespace ops
