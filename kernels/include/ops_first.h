// argmax and argmin as reductions: the index of the first of the largest elements, where NaN is the largest.
#pragma once
#include "ops_key.h"
#include "ops_math.h"
#include "ops_view.h"

namespace ops {

struct ReduceArgs;

template <typename K> struct Ranked {
    K key;
    u32 index;
};
template <typename K> OPS_DEVICE Ranked<K> shuffle_xor(Ranked<K> v, u32 mask, u32 width) {
    return Ranked<K>{shuffle_xor(v.key, mask, width), shuffle_xor(v.index, mask, width)};
}

// The first of a lane's largest floats. They are compared as they are, which takes fewer instructions than keys do.
template <typename A> struct FirstFloat {
    A best;
    u32 index;
};

// Whether `value` takes the place of `best`, which has a smaller index: if it is larger, or the first NaN.
template <typename A> OPS_DEVICE bool replaces(A value, A best) { return !(value <= best) & (best == best); }

template <typename T> struct IndexOf {
    using Out = u32;
    using Total = Ranked<key_t<T>>;
    using Wide = typename choose<sizeof(T) == 8, f64, f32>::type;
    using Lane = typename choose<is_float<T>::value, FirstFloat<Wide>, Total>::type;
    static OPS_METHOD Total start() { return Total{0, ~0u}; }
    // A lane's elements come in the order of their indices. If none is larger than the start, the result is the first of them.
    static OPS_METHOD Lane start_lane(u64 first) {
        if constexpr (is_float<T>::value) {
            return Lane{-Wide(infinity32()), u32(first)};
        } else {
            return Lane{0, u32(first)};
        }
    }
    static OPS_METHOD Wide value_of(T x, bool flip) {
        Wide value = Wide(widen(x));
        return flip ? -value : value;
    }
    static OPS_METHOD void take(Lane& lane, T x, u64 index, bool flip) {
        if constexpr (is_float<T>::value) {
            Wide value = value_of(x, flip);
            if (replaces(value, lane.best)) lane = Lane{value, u32(index)};
        } else {
            key_t<T> key = key_of(x, flip);
            if (key > lane.key) lane = Lane{key, u32(index)};
        }
    }
    // Keys of 16-bit floats are those of the same values in f32.
    static OPS_METHOD Total total(const Lane& lane, bool) {
        if constexpr (is_float<T>::value) {
            return Total{key_of(lane.best, false), lane.index};
        } else {
            return lane;
        }
    }
    static OPS_METHOD Total join(Total a, Total b) {
        return b.key > a.key || (b.key == a.key && b.index < a.index) ? b : a;
    }
    static OPS_METHOD u32 finish(Total total, const ReduceArgs&) { return total.index; }
};

// The same for packs of 16-bit floats: a lane compares the largest of each pack, and keeps the pack that it is in. Where in the pack
// it is, is found at the end.
template <typename T> struct IndexOfPacks : IndexOf<T> {
    static constexpr u32 N = PACK_BYTES / sizeof(T);
    using Total = typename IndexOf<T>::Total;
    struct Lane {
        f32 best;
        u32 index;  // of the pack's first element
        Pack<u32, N / 2> words;
    };
    static OPS_METHOD Lane start_lane(u64 first) { return Lane{-infinity32(), u32(first), {}}; }
    static OPS_METHOD void take_pack(Lane& lane, const Pack<T, N>& pack, u64 index, bool flip) {
        f32 value[N];
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) value[k] = IndexOf<T>::value_of(pack.v[k], flip);
        f32 most = value[0];
        bool unordered = is_nan(value[0]);
        OPS_UNROLL
        for (u32 k = 1; k < N; k++) {
            most = larger(most, value[k]);
            unordered |= is_nan(value[k]);
        }
        if (unordered) most = quiet_nan32();
        bool wins = replaces(most, lane.best);
        lane.best = wins ? most : lane.best;
        lane.index = wins ? u32(index) : lane.index;
        Pack<u32, N / 2> words = bits_as<Pack<u32, N / 2>>(pack);
        OPS_UNROLL
        for (u32 w = 0; w < N / 2; w++) lane.words.v[w] = wins ? words.v[w] : lane.words.v[w];
    }
    static OPS_METHOD Total total(const Lane& lane, bool flip) {
        Pack<T, N> pack = bits_as<Pack<T, N>>(lane.words);
        u32 at = 0;  // also if all elements are the smallest there is, and no pack was kept
        OPS_UNROLL
        for (u32 k = N; k-- > 0;) {
            f32 value = IndexOf<T>::value_of(pack.v[k], flip);
            if (value == lane.best || (is_nan(value) && is_nan(lane.best))) at = k;
        }
        return Total{key_of(lane.best, false), lane.index + at};
    }
};

}  // namespace ops
