// q4_0 and q8_0: quantize from f32, dequantize, and look up rows of a quantized table. Eight lanes per block,
// four elements each. To be bit-exact with the public reference, quantize does not fuse products and sums.
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
    u32 reserved;
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

OPS_DEVICE void encode(Q4_0* y, const f32 (&x)[4], u32 lane, bool live) {
    f32 d = extreme(x) / -8.0f;
    f32 inverse = d != 0.0f ? 1.0f / d : 0.0f;
    u32 codes = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        i32 q = to_byte(add_exact(multiply_exact(x[i], inverse), 8.5f));
        codes |= u32(q < 15 ? q : 15) << (8 * i);
    }
    u32 upper = shuffle(codes, lane + 4, LANES);  // elements 16 positions later share this lane's bytes
    if (!live) return;
    if (lane == 0) y->d = to_f16(d).bits;
    if (lane >= 4) return;
    u32 bytes = codes | upper << 4;
    y->qs[lane * 2] = u16(bytes);
    y->qs[lane * 2 + 1] = u16(bytes >> 16);
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

// Writes the four elements of lane `lane` of a block as T. If the block is not present, it is not read,
// and zeros are written.
template <typename B, typename T>
OPS_DEVICE void decode(T* to, i64 stride, const B* block, bool present, u32 lane) {
    using A = acc_t<T>;
    i32 q[4] = {};
    A d = 0;
    if (present) {
        B::four(q, block, lane);
        d = to_f32(f16{block->d});
    }
    Pack<T, 4> out;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) out.v[i] = narrow<T>(A(q[i]) * d);
    to += i64(lane * 4) * stride;
    constexpr u32 PART = sizeof(T) == 8 ? 2 : 4;
    if (stride == 1 && is_aligned(to, sizeof(T) * PART)) {
        OPS_UNROLL
        for (u32 p = 0; p < 4; p += PART) {
            Pack<T, PART> part;
            OPS_UNROLL
            for (u32 i = 0; i < PART; i++) part.v[i] = out.v[p + i];
            store_pack<PART>(to + p, part);
        }
    } else {
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) to[i64(i) * stride] = out.v[i];
    }
}

template <typename B, typename T> OPS_DEVICE void dequantize(const DequantizeArgs& args) {
    for_blocks(args.shape.count, [&](u64 at, u32 lane, bool live) OPS_INLINE {
        const B* block = static_cast<const B*>(args.x.data) + offset_of<5>(args.shape, args.x, at);
        T* to = static_cast<T*>(args.y.data) + offset_of<5>(args.shape, args.y, at);
        if (live) decode(to, args.y_stride, block, true, lane);
    });
}

template <typename B, typename T> OPS_DEVICE void qembedding(const QEmbeddingArgs& args) {
    for_blocks(args.shape.count, [&](u64 at, u32 lane, bool live) OPS_INLINE {
        u64 row = divide(args.shape, 5, at), column = at - row * args.shape.dim[5];
        Index index = read_index(args.ids, args.ids_kind, i64(row) * args.ids_stride);
        bool present = !index.absent && index.value >= 0 && u64(index.value) < args.bound;
        if (!live) return;
        if (!present && !index.absent) {
            record_index_error(args.error, args.op, args.operand, row, index.value, args.bound);
        }
        const B* table = static_cast<const B*>(args.x.data);
        const B* block = table + (present ? index.value * args.x.stride[4] + i64(column) * args.x.stride[5] : 0);
        T* to = static_cast<T*>(args.y.data) + i64(row) * args.y.stride[4] + i64(column) * args.y.stride[5];
        decode(to, args.y_stride, block, present, lane);
    });
}

}  // namespace ops
