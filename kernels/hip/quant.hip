// Blocks: quantize from f32, dequantize, and look up rows of a quantized table. quantize gives a block to eight lanes,
// four elements each; to be bit-exact with the public reference, it does not fuse products and sums. What decodes gives
// a lane eight elements.
#include "ops_blocks.h"
#include "ops_index.h"
#include "ops_reduce.h"

namespace ops {

struct QuantizeArgs {
    Shape shape;   // of the blocks
    Operand x;     // first elements of the blocks
    Operand y;     // blocks
    i64 x_stride;  // between elements of a block
};

struct DequantizeArgs {
    Shape shape;  // of the blocks
    Operand x;    // blocks
    Operand y;    // first elements of the blocks
    i64 y_stride;
};

// Rows of a table of blocks; the table's row and block strides are x.stride[4] and [5].
struct QEmbeddingArgs {
    Shape shape;  // [ids, blocks of a row]
    Operand x;
    Operand y;  // strides between rows, and between the first elements of blocks
    i64 y_stride;
    Address<const void> ids;
    i64 ids_stride;
    u64 bound;           // rows of the table
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;
    u32 op;
    u32 operand;
    u32 y_kind;  // FloatKind of y
};

constexpr u32 LANES = 8;

// The value with the largest magnitude in the group, the first one on ties. The magnitude is a separate
// variable because LLVM 19.1.7 drops the second abs of abs(x) > abs(best) ? x : best.
OPS_DEVICE f32 extreme(const f32 (&x)[4]) {
    f32 best = 0.0f, most = 0.0f;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        f32 magnitude = abs(x[i]);
        bool take = magnitude > most;
        best = take ? x[i] : best;
        most = take ? magnitude : most;
    }
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        f32 other = shuffle_xor(best, mask, LANES), magnitude = abs(other);
        bool later = (lane_id() & mask) == 0;  // the other lane's elements come after this lane's
        bool take = magnitude > most || (!later && magnitude == most);
        best = take ? other : best;
        most = take ? magnitude : most;
    }
    return best;
}

// Truncates to an 8-bit integer. NaN gives 0.
OPS_DEVICE i32 to_byte(f32 x) { return x != x ? 0 : i32(x < -128.0f ? -128.0f : x > 127.0f ? 127.0f : x); }

// Truncates to an unsigned byte. NaN gives 0.
OPS_DEVICE u32 to_unsigned(f32 x) { return x != x ? 0 : u32(x < 0.0f ? 0.0f : x > 255.0f ? 255.0f : x); }

struct Either {
    OPS_METHOD u32 operator()(u32 a, u32 b) const { return a | b; }
};

// Stores the low four bits of codes: those of elements 16 positions later share a lane's bytes.
OPS_DEVICE void store_nibbles(u16* qs, u32 codes, u32 lane, bool live) {
    codes &= 0x0f0f0f0fu;
    u32 bytes = codes | shuffle(codes, lane + 4, LANES) << 4;
    if (!live || lane >= 4) return;
    qs[lane * 2] = u16(bytes);
    qs[lane * 2 + 1] = u16(bytes >> 16);
}

// Stores the fifth bits of codes.
OPS_DEVICE void store_fifth(u16* qh, u32 codes, u32 lane, bool live) {
    u32 bits = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) bits |= (codes >> (8 * i + 4) & 1) << (4 * lane + i);
    bits = reduce_lanes(bits, LANES, Either());
    if (!live || lane != 0) return;
    qh[0] = u16(bits);
    qh[1] = u16(bits >> 16);
}

// d and codes of values from -half to half - 1, of which the one of largest magnitude becomes -half.
OPS_DEVICE f32 centred(u32& codes, const f32 (&x)[4], i32 half) {
    f32 d = extreme(x) / f32(-half);
    f32 inverse = d != 0.0f ? 1.0f / d : 0.0f;
    codes = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 q = to_unsigned(add_exact(multiply_exact(x[i], inverse), f32(half) + 0.5f));
        codes |= (q < u32(2 * half) ? q : u32(2 * half - 1)) << (8 * i);
    }
    return d;
}

OPS_DEVICE void encode(Q4_0* y, const f32 (&x)[4], u32 lane, bool live) {
    u32 codes;
    f32 d = centred(codes, x, 8);
    if (live && lane == 0) y->d = to_f16(d).bits;
    store_nibbles(y->qs, codes, lane, live);
}

OPS_DEVICE void encode(Q5_0* y, const f32 (&x)[4], u32 lane, bool live) {
    u32 codes;
    f32 d = centred(codes, x, 16);
    if (live && lane == 0) y->d = to_f16(d).bits;
    store_nibbles(y->qs, codes, lane, live);
    store_fifth(y->qh, codes, lane, live);
}

// d, the smallest value and codes of values from the smallest to the largest, which becomes `most`.
OPS_DEVICE Scale ranged(u32& codes, const f32 (&x)[4], u32 most) {
    constexpr f32 LARGEST = 3.40282347e38f;
    // Of equal values the first counts: zeros have signs.
    f32 low = LARGEST, high = -LARGEST;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        f32 other_low = shuffle_xor(low, mask, LANES), other_high = shuffle_xor(high, mask, LANES);
        bool first = (lane_id() & mask) != 0;  // the other lane's elements come before this lane's
        low = other_low < low || (first && other_low == low) ? other_low : low;
        high = other_high > high || (first && other_high == high) ? other_high : high;
    }
    f32 d = (high - low) / f32(most);
    f32 inverse = d != 0.0f ? 1.0f / d : 0.0f;
    codes = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        codes |= to_unsigned(add_exact(multiply_exact(x[i] - low, inverse), 0.5f)) << (8 * i);
    }
    return Scale{d, low};
}

OPS_DEVICE void encode(Q4_1* y, const f32 (&x)[4], u32 lane, bool live) {
    u32 codes;
    Scale scale = ranged(codes, x, 15);
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        if (byte_of(codes, i) > 15) codes = (codes & ~(0xffu << (8 * i))) | 15u << (8 * i);
    }
    if (live && lane == 0) {
        y->d = to_f16(scale.d).bits;
        y->m = to_f16(scale.m).bits;
    }
    store_nibbles(y->qs, codes, lane, live);
}

OPS_DEVICE void encode(Q5_1* y, const f32 (&x)[4], u32 lane, bool live) {
    u32 codes;
    Scale scale = ranged(codes, x, 31);
    if (live && lane == 0) {
        y->d = to_f16(scale.d).bits;
        y->m = to_f16(scale.m).bits;
    }
    store_nibbles(y->qs, codes, lane, live);
    store_fifth(y->qh, codes, lane, live);
}

OPS_DEVICE void encode(Q8_0* y, const f32 (&x)[4], u32 lane, bool live) {
    f32 d = abs(extreme(x)) / 127.0f;
    f32 inverse = d != 0.0f ? 1.0f / d : 0.0f;
    u32 bytes = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) bytes |= (u32(to_byte(round(multiply_exact(x[i], inverse)))) & 0xff) << (8 * i);
    if (!live) return;
    if (lane == 0) y->d = to_f16(d).bits;
    y->qs[lane * 2] = u16(bytes);
    y->qs[lane * 2 + 1] = u16(bytes >> 16);
}

// The exponent of the scale of mxfp4: that of the largest magnitude, less two. The public reference rounds the logarithm
// to f32, which gives the next power of two for the last few numbers before it. For numbers j units below 2^n, in units of
// the 24-bit significand, that is so if j < 2^k ln 2, where 2^k is the exponent of n; half of that below a positive 2^k.
OPS_DEVICE u8 mxfp4_exponent(f32 largest) {
    if (largest == 0.0f) return 0;
    if (largest == infinity32()) return 255;
    bool tiny = largest < 1.17549435e-38f;
    u32 bits = bits_as<u32>(tiny ? largest * 16777216.0f : largest);
    i32 next = i32(bits >> 23) - 126 - (tiny ? 24 : 0);  // 2^next is the next power of two
    u32 below = 0x01000000u - ((bits & 0x007fffffu) | 0x00800000u);
    u32 size = u32(next < 0 ? -next : next);
    f32 power = size == 0 ? 0.0f : bits_as<f32>(bits_as<u32>(f32(size)) & 0x7f800000u);
    if (next > 0 && power == f32(size)) power *= 0.5f;
    bool reaches = f32(below) < power * 0.693147181f;
    return u8((reaches ? next : next - 1) - 2 + 127);
}

OPS_DEVICE void encode(MXFP4* y, const f32 (&x)[4], u32 lane, bool live) {
    u8 e = mxfp4_exponent(abs(extreme(x)));
    typename MXFP4::Eight eight;
    eight.e = e;
    f32 d = eight.scale(0).d;
    u32 codes = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        u32 best = 0;
        f32 least = abs(x[i]);
        OPS_NO_UNROLL
        for (u32 q = 1; q < 16; q++) {  // the first of equally near codes counts
            f32 error = abs(multiply_exact(f32(i32(i8(levels_of(fp4_levels(), q)))), d) - x[i]);
            best = error < least ? q : best;
            least = error < least ? error : least;
        }
        codes |= best << (8 * i);
    }
    u32 bytes = codes | shuffle(codes, lane + 4, LANES) << 4;
    if (!live) return;
    if (lane == 0) y->e = e;
    if (lane >= 4) return;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) y->qs[lane * 4 + i] = u8(byte_of(bytes, i));
}

// Calls visit(block, lane, live) for the blocks of the shape. All lanes run the same number of iterations.
template <typename F> OPS_DEVICE void for_blocks(u64 count, F visit) {
    u64 step = global_threads() / LANES;
    u32 lane = lane_id() % LANES;
    for (u64 first = (global_thread() - lane_id()) / LANES; first < count; first += step) {
        u64 at = first + lane_id() / LANES;
        visit(at < count ? at : count - 1, lane, at < count);
    }
}

template <typename B> OPS_DEVICE void quantize(const QuantizeArgs& args) {
    for_blocks(args.shape.count, [&](u64 at, u32 lane, bool live) OPS_INLINE {
        const f32* from = static_cast<const f32*>(args.x.data) + offset_of<5>(args.shape, args.x, at);
        B* to = static_cast<B*>(args.y.data) + offset_of<5>(args.shape, args.y, at);
        f32 x[4];
        if (args.x_stride == 1 && is_aligned(from, 16)) {
            Pack<f32, 4> four = load_pack<4>(from + lane * 4);
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) x[i] = four.v[i];
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) x[i] = from[i64(lane * 4 + i) * args.x_stride];
        }
        encode(to, x, lane, live);
    });
}

// Writes eight values as T.
template <typename T> OPS_DEVICE void write_eight(T* to, i64 stride, const f32 (&values)[8]) {
    Pack<T, 8> out;
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) out.v[i] = narrow<T>(acc_t<T>(values[i]));
    constexpr u32 PART = PACK_BYTES / sizeof(T) < 8 ? PACK_BYTES / sizeof(T) : 8;
    if (stride == 1 && is_aligned(to, PACK_BYTES)) {
        OPS_UNROLL
        for (u32 p = 0; p < 8; p += PART) {
            Pack<T, PART> part;
            OPS_UNROLL
            for (u32 i = 0; i < PART; i++) part.v[i] = out.v[p + i];
            store_pack<PART>(to + p, part);
        }
    } else {
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) to[i64(i) * stride] = out.v[i];
    }
}

// Calls visit(block, part) for the parts of eight values of all blocks.
template <typename B, typename F> OPS_DEVICE void for_parts(u64 blocks, F visit) {
    constexpr u32 PARTS = B::VALUES / 8;
    u64 count = blocks * PARTS;
    for (u64 at = global_thread(); at < count; at += global_threads()) visit(at / PARTS, u32(at % PARTS));
}

template <typename B> OPS_DEVICE void dequantize(const DequantizeArgs& args) {
    for_parts<B>(args.shape.count, [&](u64 at, u32 part) OPS_INLINE {
        const B* block = static_cast<const B*>(args.x.data) + offset_of<5>(args.shape, args.x, at);
        f32* to = static_cast<f32*>(args.y.data) + offset_of<5>(args.shape, args.y, at);
        f32 values[8];
        values_of(values, block, part);
        write_eight(to + i64(part * 8) * args.y_stride, args.y_stride, values);
    });
}

template <typename T> OPS_DEVICE void write_row(const QEmbeddingArgs& args, i64 at, const f32 (&values)[8]) {
    write_eight(static_cast<T*>(args.y.data) + at, args.y_stride, values);
}

// The output's type is a value: a kernel of its own for each type would compile four times what is the same.
template <typename B> OPS_DEVICE void qembedding(const QEmbeddingArgs& args) {
    for_parts<B>(args.shape.count, [&](u64 at, u32 part) OPS_INLINE {
        u64 row = divide(args.shape, 5, at), column = at - row * args.shape.dim[5];
        Index index = read_index(args.ids, args.ids_kind, i64(row) * args.ids_stride);
        bool present = !index.absent && index.value >= 0 && u64(index.value) < args.bound;
        if (!present && !index.absent) {
            record_index_error(args.error, args.op, args.operand, row, index.value, args.bound);
        }
        f32 values[8] = {};
        const B* table = static_cast<const B*>(args.x.data);
        if (present) {
            values_of(values, table + index.value * args.x.stride[4] + i64(column) * args.x.stride[5], part);
        }
        i64 to = i64(row) * args.y.stride[4] + i64(column) * args.y.stride[5] + i64(part * 8) * args.y_stride;
        if (args.y_kind == FLOAT_F16) return write_row<f16>(args, to, values);
        if (args.y_kind == FLOAT_BF16) return write_row<bf16>(args, to, values);
        if (args.y_kind == FLOAT_F32) return write_row<f32>(args, to, values);
        write_row<f64>(args, to, values);
    });
}

}  // namespace ops
