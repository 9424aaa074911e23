// Strided operands: shapes, offsets, 16-byte accesses, and the loop that all elementwise kernels use.
#pragma once
#include "ops_types.h"

namespace ops {

constexpr u32 MAX_RANK = 6;
constexpr u32 PACK_BYTES = 16;

// Dimensions, outermost first and right-aligned: dim[6 - rank .. 6) are in use, and those before are 1.
// Division by dim[d] is a multiplication: n / dim[d] = (2 n * magic[d] >> 64) >> shift[d] for n below 2^63.
struct Shape {
    u64 dim[6];
    u64 magic[6];
    u32 shift[6];
    u32 rank;
    u32 pack;   // elements per 16-byte access along the last dimension if every operand allows it, else 1
    u64 count;  // product of the dimensions
};

// A divisor with its magic number, as in Shape.
struct Divider {
    u64 by;
    u64 magic;
    u64 shift;
};
OPS_DEVICE u64 divide(const Divider& d, u64 n) {
    return multiply_high(n << 1, d.magic) >> u32(d.shift);
}

// The memory of one operand, with its offset applied, and its strides in elements, right-aligned like the dimensions.
struct Operand {
    Address<void> data;
    i64 stride[6];
};

// ---- offsets ------------------------------------------------------------------

// n / dim[d]
OPS_DEVICE u64 divide(const Shape& shape, u32 d, u64 n) {
    return multiply_high(n << 1, shape.magic[d]) >> shape.shift[d];
}

// Splits a linear index over dim[0 ..= LAST] into coordinates, innermost first, and calls visit(dimension,
// coordinate) for each. Not unrolled on purpose: the values read for one dimension are dropped before the next.
template <u32 LAST, typename F> OPS_DEVICE void unravel(const Shape& shape, u64 index, F visit) {
    u32 first = MAX_RANK - shape.rank;
    OPS_NO_UNROLL
    for (u32 d = LAST; d > first; d--) {
        u64 rest = divide(shape, d, index);
        visit(d, index - rest * shape.dim[d]);
        index = rest;
    }
    if (first <= LAST) visit(first, index);  // the outermost coordinate is what remains
}

// The offset of a linear index over dim[0 ..= LAST].
template <u32 LAST> OPS_DEVICE i64 offset_of(const Shape& shape, const Operand& operand, u64 index) {
    i64 offset = 0;
    unravel<LAST>(shape, index, [&](u32 d, u64 at) OPS_INLINE { offset += i64(at) * operand.stride[d]; });
    return offset;
}

// ---- packs: N elements moved as one access --------------------------------------

template <typename T, u32 N> struct alignas(sizeof(T) * N > PACK_BYTES ? PACK_BYTES : sizeof(T) * N) Pack {
    T v[N];
};

template <u32 BYTES> struct Raw;
#if defined(OPS_CUDA)
template <> struct Raw<16> { using type = uint4; };
template <> struct Raw<8> { using type = uint2; };
template <> struct Raw<4> { using type = u32; };
template <> struct Raw<2> { using type = u16; };
template <> struct Raw<1> { using type = u8; };
#else
template <> struct Raw<16> { typedef u32 type __attribute__((vector_size(16), may_alias)); };
template <> struct Raw<8> { typedef u32 type __attribute__((vector_size(8), may_alias)); };
template <> struct Raw<4> { typedef u32 type __attribute__((may_alias)); };
template <> struct Raw<2> { typedef u16 type __attribute__((may_alias)); };
template <> struct Raw<1> { typedef u8 type __attribute__((may_alias)); };
#endif

// The address must be aligned to the pack's size, up to 16 bytes.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_pack(const T* from) {
    using R = typename Raw<sizeof(T) * N>::type;
    return bits_as<Pack<T, N>>(*reinterpret_cast<const R*>(from));
}
template <u32 N, typename T> OPS_DEVICE void store_pack(T* to, const Pack<T, N>& pack) {
    using R = typename Raw<sizeof(T) * N>::type;
    *reinterpret_cast<R*>(to) = bits_as<R>(pack);
}

OPS_DEVICE bool is_aligned(const void* at, u64 bytes) { return (reinterpret_cast<u64>(at) & (bytes - 1)) == 0; }

// ---- elementwise ----------------------------------------------------------------

// An operand's position in an elementwise loop.
template <typename T> struct Cursor {
    T* at;
    const Operand& operand;

    OPS_METHOD Cursor(const Operand& o) : at(static_cast<T*>(o.data)), operand(o) {}

    OPS_METHOD void move(u32 d, u64 coordinate) { at += i64(coordinate) * operand.stride[d]; }
    OPS_METHOD void advance() { at += operand.stride[5]; }
    // N elements along the last dimension. A broadcast operand gives one value N times.
    template <u32 N> OPS_METHOD Pack<T, N> pack() const {
        if (operand.stride[5] != 0) return load_pack<N>(at);
        Pack<T, N> out;
        T value = *at;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) out.v[i] = value;
        return out;
    }
};

template <u32 N, typename Y, typename F, typename... X> OPS_DEVICE Pack<Y, N> map_pack(F f, const Pack<X, N>&... in) {
    Pack<Y, N> out;
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out.v[i] = f(in.v[i]...);
    return out;
}

// map_pack for one operand of 16-bit elements and an f with many instructions: two elements per
// iteration. The words are shifted by one per iteration, so that no register is indexed dynamically.
template <u32 N, typename Y, typename F, typename X> OPS_DEVICE Pack<Y, N> map_pack_in_turns(F f, const Pack<X, N>& in) {
    constexpr u32 WORDS = N / 2;
    Pack<u32, WORDS> from = bits_as<Pack<u32, WORDS>>(in), to{};
    OPS_NO_UNROLL
    for (u32 turn = 0; turn < WORDS; turn++) {
        Pack<X, 2> two = bits_as<Pack<X, 2>>(from.v[0]);
        u32 done = bits_as<u32>(Pack<Y, 2>{{f(two.v[0]), f(two.v[1])}});
        OPS_UNROLL
        for (u32 w = 0; w + 1 < WORDS; w++) {
            from.v[w] = from.v[w + 1];
            to.v[w] = to.v[w + 1];
        }
        to.v[WORDS - 1] = done;
    }
    return bits_as<Pack<Y, N>>(to);
}

// Whether to use map_pack_in_turns for f.
template <typename F, typename = void> struct InTurns { static constexpr bool value = false; };
template <typename F> struct InTurns<F, typename choose<F::in_turns, void, void>::type> {
    static constexpr bool value = F::in_turns;
};

// Applies f to `step` elements from a linear index on, or to fewer at the end.
template <u32 N, typename Y, typename F, typename... X>
OPS_DEVICE void map_at(const Shape& shape, u64 index, u64 step, F f, Cursor<Y> y, Cursor<X>... x) {
    unravel<5>(shape, index, [&](u32 d, u64 at) OPS_INLINE {
        y.move(d, at);
        (x.move(d, at), ...);
    });
    u64 left = shape.count - index;
    if (step == N && left >= N) {
        if constexpr (InTurns<F>::value) {
            store_pack<N>(y.at, map_pack_in_turns<N, Y>(f, x.template pack<N>()...));
        } else {
            store_pack<N>(y.at, map_pack<N, Y>(f, x.template pack<N>()...));
        }
        return;
    }
    if (left > step) left = step;
    OPS_NO_UNROLL
    for (u64 i = 0; i < left; i++) {
        *y.at = f(*x.at...);
        y.advance();
        (x.advance(), ...);
    }
}

template <typename T, typename... Rest> struct Widest {
    static constexpr u32 rest = Widest<Rest...>::bytes;
    static constexpr u32 bytes = sizeof(T) > rest ? u32(sizeof(T)) : rest;
};
template <typename T> struct Widest<T> { static constexpr u32 bytes = sizeof(T); };

// y = f(x...) at every index of the shape, one pack at a time if shape.pack allows it. In that case, a
// row longer than one pack must consist of whole packs, unless it is the only row. y may be the same
// memory as an x of the same type and strides.
template <typename Y, typename... X, typename F, typename... O>
OPS_DEVICE void map(const Shape& shape, const Operand& out, F f, const O&... in) {
    constexpr u32 N = PACK_BYTES / Widest<Y, X...>::bytes;
    u64 step = shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < shape.count; i += global_threads() * step) {
        map_at<N, Y>(shape, i, step, f, Cursor<Y>(out), Cursor<X>(in)...);
    }
}

}  // namespace ops
