// l2_norm and gated_rms_norm over the last dimension, in 16-byte packs where shape.pack says that every operand and the weight
// allow it; swiglu_clamped, elementwise. The weight may be of any float type, which is a value here.
#include "ops_row.h"

namespace ops {

struct GatedArgs {
    Shape shape;  // the last dimension is the row
    Operand x;
    Operand gate;  // gated_rms_norm only
    Operand y;
    Address<const void> weight;  // gated_rms_norm only
    i64 weight_stride;
    u64 weight_kind;  // FloatKind
    u64 rows;
    u64 lanes;  // of a wave to a row, a power of two; the block variants ignore it
    f64 eps;
};

struct ClampedArgs {
    Shape shape;
    Operand gate;
    Operand up;
    Operand y;
    f64 alpha;
    f64 limit;
};

constexpr u32 GATED_BLOCK = 256;

template <typename W, u32 N, typename A> OPS_DEVICE Pack<A, N> weights_of(const void* data, i64 stride, u64 at) {
    const W* from = static_cast<const W*>(data);
    Pack<A, N> out;
    if constexpr (N == 1) {
        out.v[0] = A(widen(from[i64(at) * stride]));
    } else {
        constexpr u32 PART = sizeof(W) * N > PACK_BYTES ? PACK_BYTES / sizeof(W) : N;
        OPS_UNROLL
        for (u32 p = 0; p < N; p += PART) {
            Pack<W, PART> raw = load_pack<PART>(from + at + p);
            OPS_UNROLL
            for (u32 i = 0; i < PART; i++) out.v[p + i] = A(widen(raw.v[i]));
        }
    }
    return out;
}

// N elements of the weight from element `at` on.
template <u32 N, typename A> OPS_DEVICE Pack<A, N> weights_at(const GatedArgs& args, u64 at) {
    const void* data = args.weight;
    switch (u32(args.weight_kind)) {
        case FLOAT_F16: return weights_of<f16, N, A>(data, args.weight_stride, at);
        case FLOAT_BF16: return weights_of<bf16, N, A>(data, args.weight_stride, at);
        case FLOAT_F32: return weights_of<f32, N, A>(data, args.weight_stride, at);
        default: return weights_of<f64, N, A>(data, args.weight_stride, at);
    }
}

template <bool GATED, u32 N, typename G, typename T>
OPS_DEVICE void gated_row(const GatedArgs& args, G group, bool live, T* from, T* gates, T* to) {
    using A = acc_t<T>;
    Row<T, N> x{from, args.x.stride[5]}, gate{gates, args.gate.stride[5]}, y{to, args.y.stride[5]};
    u64 n = args.shape.dim[5];
    auto load = [&](u64 c) OPS_INLINE { return x.load(c); };
    CachedRow<T, N, G> cached{group, n / N, {}};
    A squares = 0;
    cached.first_pass(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) squares = mad(v.v[i], v.v[i], squares);
    });
    A total = group.template reduce<0>(squares, Sum());
    A inverse = A(1) / sqrt((GATED ? total / A(n) : total) + A(args.eps));
    if (!live) return;
    cached.again(load, [&](u64 c, const Pack<A, N>& v) OPS_INLINE {
        Pack<A, N> out;
        if constexpr (GATED) {
            Pack<A, N> weight = weights_at<N, A>(args, c * N), g = widen_pack<T, N>(gate.load(c));
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) out.v[i] = v.v[i] * inverse * weight.v[i] * (g.v[i] * sigmoid(g.v[i]));
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) out.v[i] = v.v[i] * inverse;
        }
        y.store(c, narrow_pack<T, N>(out));
    });
}

template <bool WHOLE, bool GATED, typename T> OPS_DEVICE void gated_norm(const GatedArgs& args) {
    using A = acc_t<T>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<GATED_BLOCK>());
    using G = Group<A, GATED_BLOCK, WHOLE>;
    A* slots = scratch;  // a row has one reduction: the halves of scratch are for rows in turn
    for_rows<GATED_BLOCK, WHOLE>(args.rows, u32(args.lanes), [&](u64 row, bool live) OPS_INLINE {
        slots = slots == scratch ? scratch + reduce_slots<GATED_BLOCK>() : scratch;
        T* x = static_cast<T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        T* gate = nullptr;
        if constexpr (GATED) gate = static_cast<T*>(args.gate.data) + offset_of<4>(args.shape, args.gate, row);
        if (N != 1 && args.shape.pack == N) {
            gated_row<GATED, N>(args, G(slots, args.lanes), live, x, gate, y);
        } else {
            gated_row<GATED, 1>(args, G(slots, args.lanes), live, x, gate, y);
        }
    });
}

template <typename T> OPS_DEVICE void swiglu_clamped(const ClampedArgs& args) {
    using A = acc_t<T>;
    A alpha = A(args.alpha), limit = A(args.limit);
    auto f = [=](T gate, T up) OPS_INLINE {
        A g = minimum(widen(gate), limit), u = minimum(maximum(widen(up), -limit), limit);
        return narrow<T>(g * sigmoid(alpha * g) * (u + A(1)));
    };
    map<T, T, T>(args.shape, args.y, f, args.gate, args.up);
}

}  // namespace ops
