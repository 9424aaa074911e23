// A head of a query or key, which neighbouring lanes of a wave hold: its norm and its rotation.
#pragma once
#include "ops_index.h"
#include "ops_row.h"

namespace ops {

// An element of T or of f32.
template <typename T> OPS_DEVICE acc_t<T> read_either(const void* data, u64 is_f32, i64 at) {
    if (is_f32 != 0) return acc_t<T>(static_cast<const f32*>(data)[at]);
    return acc_t<T>(widen(static_cast<const T*>(data)[at]));
}

// N such elements; each part of 16 bytes is aligned.
template <typename T, u32 N> OPS_DEVICE Pack<acc_t<T>, N> read_pack_of_either(const void* data, u64 is_f32, i64 at) {
    if (is_f32 == 0) return widen_pack<T, N>(load_pack<N>(static_cast<const T*>(data) + at));
    constexpr u32 PART = PACK_BYTES / sizeof(f32);
    Pack<acc_t<T>, N> out;
    OPS_UNROLL
    for (u32 p = 0; p < N; p += PART) {
        Pack<f32, PART> part = load_pack<PART>(static_cast<const f32*>(data) + at + p);
        OPS_UNROLL
        for (u32 i = 0; i < PART; i++) out.v[p + i] = part.v[i];
    }
    return out;
}

// A lane's features, if a head is read in packs of 16 bytes: two packs that are rotated together, or one that is not rotated.
template <typename T> struct HeadPacks {
    static constexpr u32 N = PACK_BYTES / sizeof(T);
    using A = acc_t<T>;
    u64 lane;
    u64 first;   // the first feature of `a`
    u64 second;  // the first feature of `b`
    bool interleaved;  // pairs (2 i, 2 i + 1), and not (i, i + half)
    bool present;
    bool rotated;
    Pack<A, N> a, b;

    OPS_METHOD HeadPacks(u64 d, u64 half, u64 interleaved, u64 lane) : lane(lane), interleaved(interleaved != 0), a{}, b{} {
        u64 pairs = half / N;
        rotated = lane < pairs;
        present = lane < d / N - pairs;
        first = (rotated ? interleaved != 0 ? 2 * lane : lane : lane + pairs) * N;
        second = first + (interleaved != 0 ? N : half);
    }
    OPS_METHOD void load(const T* x) {
        if (present) a = widen_pack<T, N>(load_pack<N>(x + first));
        if (rotated) b = widen_pack<T, N>(load_pack<N>(x + second));
    }
    OPS_METHOD A squares() const {
        A sum = 0;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) sum = mad(b.v[i], b.v[i], mad(a.v[i], a.v[i], sum));
        return sum;
    }
    OPS_METHOD void scale(A inverse, const void* weight, u64 is_f32) {
        if (!present) return;
        auto scale_pack = [&](Pack<A, N>& pack, u64 at) OPS_INLINE {
            Pack<A, N> by = read_pack_of_either<T, N>(weight, is_f32, i64(at));
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) pack.v[i] = pack.v[i] * inverse * by.v[i];
        };
        scale_pack(a, first);
        if (rotated) scale_pack(b, second);
    }
    // The tables' rows begin at these elements; without `angles`, both are taken for zeros.
    OPS_METHOD void rotate(const void* cos, i64 cos_at, const void* sin, i64 sin_at, u64 are_f32, bool angles) {
        if (!rotated) return;
        Pack<A, N> c{}, s{};
        if (angles) {
            c = read_pack_of_either<T, N>(cos, are_f32, cos_at + i64(lane * N));
            s = read_pack_of_either<T, N>(sin, are_f32, sin_at + i64(lane * N));
        }
        auto turn = [&](A& one, A& two, u32 i) OPS_INLINE {
            A x = one, y = two;
            one = x * c.v[i] - y * s.v[i];
            two = x * s.v[i] + y * c.v[i];
        };
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            if (!interleaved) {
                turn(a.v[i], b.v[i], i);
            } else if (i < N / 2) {
                turn(a.v[2 * i], a.v[2 * i + 1], i);
            } else {
                turn(b.v[2 * i - N], b.v[2 * i + 1 - N], i);
            }
        }
    }
    template <typename C> OPS_METHOD void store(C* y) const {
        auto store_at = [&](const Pack<A, N>& pack, u64 at) OPS_INLINE { store_pack<N>(y + at, narrow_pack<C, N, A>(pack)); };
        if (present) store_at(a, first);
        if (rotated) store_at(b, second);
    }
};

}  // namespace ops
