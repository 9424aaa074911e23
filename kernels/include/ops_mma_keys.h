// Keys and values of attention on matrix units: staging into LDS, and handling of non-finite values.
#pragma once
#include "ops_mma_stage.h"
#include "ops_sequences.h"

namespace ops {

constexpr u32 MMA_KEYS = 32;  // keys per iteration

template <typename T> OPS_DEVICE bool not_finite(T x) {
    constexpr u16 EXPONENT = same<T, f16>::value ? 0x7c00 : 0x7f80;
    return (x.bits & EXPONENT) == EXPONENT;
}

// Pitch of keys in LDS.
template <u32 DMAX> OPS_DEVICE constexpr u32 mma_key_pitch() { return DMAX + 8; }
static_assert(MMA_KEYS * mma_key_pitch<64>() <= 64 * MMA_PITCH, "keys fit in the LDS that holds kinds of values");

// 0 times infinity is NaN, so a non-finite value that is hidden from some rows would spoil their sums.
// Such values are set apart, and their kind is counted only for the rows that see them. +infinity
// counts 1. -infinity counts COUNT_MINUS, which is more than the keys of a tile. NaN, or an infinity
// with a probability of 0, counts COUNT_NAN, which is more than all infinities of a tile together.
constexpr f32 COUNT_MINUS = 64.0f, COUNT_NAN = 4096.0f;
OPS_DEVICE f32 sum_of_counted(f32 count) {
    u32 n = u32(count);
    f32 plus = n % 64 != 0 ? infinity32() : 0.0f, minus = n / 64 % 64 != 0 ? -infinity32() : 0.0f;
    return plus + minus + (n / 4096 != 0 ? quiet_nan32() : 0.0f);
}
// Splits the tile of values in two: the finite values, and the kinds of the non-finite ones.
template <u32 DMAX, typename T> OPS_DEVICE void set_apart(T* values, T* kinds) {
    u32 thread = opaque(thread_x());
    OPS_NO_UNROLL
    for (u32 at = thread / MMA_KEYS * MMA_PITCH + thread % MMA_KEYS; at < DMAX * MMA_PITCH;
         at += MATMUL_BLOCK / MMA_KEYS * MMA_PITCH) {
        T value = values[at];
        f32 wide = widen(value);
        f32 kind = is_nan(wide) ? COUNT_NAN : wide > 0.0f ? 1.0f : COUNT_MINUS;
        kinds[at] = narrow<T>(not_finite(value) ? kind : 0.0f);
        if (not_finite(value)) values[at] = T{};
    }
}

// Where the keys of a tile are. Those of batch entries lie one after the other.
template <typename S> struct MmaPlaces {
    static constexpr bool LOOKS_UP = false;
    OPS_METHOD void look_up(const S&, u64) const {}
    OPS_METHOD i64 offset(const Operand& rows, u64 k0, u32 key) const { return i64(k0 + key) * rows.stride[4]; }
};
// Those of sequences are looked up tile by tile, by a thread each, and kept in LDS. There are slots for even and for odd tiles, so that the
// places of the next tile are written while those of this one are read.
template <> struct MmaPlaces<Sequence> {
    static constexpr bool LOOKS_UP = true;
    Sequence::Place* slots;
    OPS_METHOD u32 slot(u64 k0) const { return u32(k0) & MMA_KEYS; }
    OPS_METHOD void look_up(const Sequence& of, u64 k0) const {
        u32 key = opaque(thread_x());
        if (key < MMA_KEYS && k0 + key < of.keys) slots[slot(k0) + key] = place_of(of, i64(k0 + key));
    }
    OPS_METHOD i64 offset(const Operand& rows, u64 k0, u32 key) const { return key_offset(rows, slots[slot(k0) + key]); }
};

// One thread's part of the next keys and values, in registers on the way to LDS: parts of one key and of two values.
template <typename T, u32 DMAX> struct MmaKeys {
    static constexpr u32 KEY_PACKS = DMAX / 64, OF_VALUE = DMAX / 16;
    Pack<T, 8> key[KEY_PACKS];
    Pack<T, OF_VALUE> value[2];

    template <typename S>
    OPS_METHOD void load_keys(const AttentionArgs& args, const S& of, const MmaPlaces<S>& places, u64 kv_head, u64 k0, bool packs) {
        u32 thread = opaque(thread_x()), key_of = thread / 8;
        // Lanes beyond the end read the tile's first key, which exists.
        bool live = k0 + key_of < keys_of(args, of);
        const T* k = static_cast<const T*>(args.k.data) + head_offset(args.k, of, kv_head);
        k += places.offset(args.k, k0, live ? key_of : 0);
        OPS_UNROLL
        for (u32 p = 0; p < KEY_PACKS; p++) {
            key[p] = load_slice<8>(k, args.k.stride[5], p * 64 + thread % 8 * 8, live ? args.d : 0, packs);
        }
    }
    template <typename S>
    OPS_METHOD void load_values(const AttentionArgs& args, const S& of, const MmaPlaces<S>& places, u64 kv_head, u64 k0, bool packs) {
        u32 thread = opaque(thread_x());
        const T* v = static_cast<const T*>(args.v.data) + head_offset(args.v, of, kv_head);
        OPS_UNROLL
        for (u32 i = 0; i < 2; i++) {
            u32 value_of = thread % 16 * 2 + i;
            bool live = k0 + value_of < keys_of(args, of);
            value[i] = load_slice<OF_VALUE>(v + places.offset(args.v, k0, live ? value_of : 0), args.v.stride[5],
                                            thread / 16 * OF_VALUE, live ? args.dv : 0, packs);
        }
    }
    // Stores as [MMA_KEYS][DMAX].
    OPS_METHOD void store_keys(T* keys) const {
        u32 thread = opaque(thread_x());
        T* to = keys + thread / 8 * mma_key_pitch<DMAX>() + thread % 8 * 8;
        OPS_UNROLL
        for (u32 p = 0; p < KEY_PACKS; p++) store_pack(to + p * 64, key[p]);
    }
    // Stores as [DMAX][MMA_KEYS], with keys in the order of the accumulators.
    OPS_METHOD void store_values(T* values) const {
        u32 thread = opaque(thread_x());
        T* to = values + thread / 16 * OF_VALUE * MMA_PITCH + MmaPiece<T>::place(thread % 16 * 2);
        OPS_UNROLL
        for (u32 i = 0; i < OF_VALUE; i++) store_pack(to + i * MMA_PITCH, Pack<T, 2>{{value[0].v[i], value[1].v[i]}});
    }
    OPS_METHOD bool any_value_not_finite() const {
        bool any = false;
        OPS_UNROLL
        for (u32 i = 0; i < OF_VALUE; i++) any = any || not_finite(value[0].v[i]) || not_finite(value[1].v[i]);
        return any;
    }
};

}  // namespace ops
