// Order-preserving keys: unsigned integers that compare as the elements do. NaN is the largest key, whichever end is wanted,
// and both zeros have one key.
#pragma once
#include "ops_types.h"

namespace ops {

template <u32 BYTES> struct UnsignedOf;
template <> struct UnsignedOf<1> { using type = u8; };
template <> struct UnsignedOf<2> { using type = u16; };
template <> struct UnsignedOf<4> { using type = u32; };
template <> struct UnsignedOf<8> { using type = u64; };
template <typename T> using bits_t = typename UnsignedOf<sizeof(T)>::type;
// Keys of small types are widened: registers have 32 bits.
template <typename T> using key_t = typename choose<sizeof(T) == 8, u64, u32>::type;

// The bits of infinity; all larger magnitudes are NaN.
template <typename T> struct InfinityBits;
template <> struct InfinityBits<f16> { static constexpr u32 value = 0x7c00; };
template <> struct InfinityBits<bf16> { static constexpr u32 value = 0x7f80; };
template <> struct InfinityBits<f32> { static constexpr u32 value = 0x7f800000; };
template <> struct InfinityBits<f64> { static constexpr u64 value = 0x7ff0000000000000ull; };

template <typename T> struct is_signed { static constexpr bool value = false; };
template <> struct is_signed<i8> { static constexpr bool value = true; };
template <> struct is_signed<i16> { static constexpr bool value = true; };
template <> struct is_signed<i32> { static constexpr bool value = true; };
template <> struct is_signed<i64> { static constexpr bool value = true; };

template <typename T> OPS_DEVICE constexpr key_t<T> top_bit() { return key_t<T>(1) << (8 * sizeof(T) - 1); }
template <typename T> OPS_DEVICE constexpr key_t<T> all_bits() { return top_bit<T>() | (top_bit<T>() - 1); }

// `flip` reverses the order of everything but NaN.
template <typename T> OPS_DEVICE key_t<T> key_of(T x, bool flip) {
    using K = key_t<T>;
    constexpr K top = top_bit<T>(), all = all_bits<T>();
    K bits = K(bits_as<bits_t<T>>(x)), key = bits;
    if constexpr (is_float<T>::value) {
        K magnitude = bits & (top - 1);
        if (magnitude > K(InfinityBits<T>::value)) return all;
        if (magnitude == 0) bits = 0;
        key = (bits & top) != 0 ? bits ^ all : bits | top;
    } else if constexpr (is_signed<T>::value) {
        key = bits ^ top;
    }
    return flip ? key ^ all : key;
}

// The element with this key.
template <typename T> OPS_DEVICE T element_of(key_t<T> key, bool flip) {
    using K = key_t<T>;
    constexpr K top = top_bit<T>(), all = all_bits<T>();
    if (is_float<T>::value && key == all) return bits_as<T>(bits_t<T>(top - 1));
    if (flip) key ^= all;
    if constexpr (is_float<T>::value) {
        key = (key & top) != 0 ? key ^ top : key ^ all;
    } else if constexpr (is_signed<T>::value) {
        key ^= top;
    }
    return bits_as<T>(bits_t<T>(key));
}

}  // namespace ops
