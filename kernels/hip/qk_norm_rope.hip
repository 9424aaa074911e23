// rms_norm of each head, times a weight, then rope_thd on its first features. A head belongs to neighbouring lanes of a wave,
// which read it twice: for its sum of squares, and in pairs. Weight and tables are of type T or f32; which of them is
// known when the kernel runs, so that it is compiled once for a type.
#include "ops_head.h"

namespace ops {

constexpr u32 HEAD_BLOCK = 256;

struct QkNormRopeArgs {
    Shape shape;        // [b, t, h], merged where possible
    Operand x;
    Operand y;
    Operand cos;        // of row 0 for the table of the batch entry, if there are positions
    Operand sin;
    Operand positions;  // null when absent
    Operand place;      // strides only: the place of a token's position within its operand
    Address<const void> weight;
    i64 weight_step;
    i64 x_step;  // from a feature to the next
    i64 y_step;
    i64 cos_step;
    i64 sin_step;
    i64 cos_row;  // from a row of the table to the next
    i64 sin_row;
    u64 d;
    u64 half;  // pairs; the features after them are not rotated
    u64 interleaved;  // pairs (2 i, 2 i + 1), and not (i, i + half)
    u64 weight_is_f32;
    u64 tables_are_f32;
    u64 rows;
    u64 lanes;  // to a head, a power of two
    f64 eps;
    u64 bound;  // rows of the tables
    Address<ErrorSlot> error;  // null to record nothing
    u32 positions_kind;        // IndexKind
    u32 op;                    // for the record
    u32 operand;
    u32 reserved;
};

// Where the operands of a head lie.
struct HeadPlace {
    i64 x;
    i64 y;
    i64 cos;
    i64 sin;
    bool present;  // whether the tables have its row
};

OPS_DEVICE HeadPlace place_of(const QkNormRopeArgs& args, u64 row) {
    HeadPlace at{0, 0, 0, 0, true};
    i64 token = 0, place = 0;
    unravel<5>(args.shape, row, [&](u32 d, u64 i) OPS_INLINE {
        at.x += i64(i) * args.x.stride[d];
        at.y += i64(i) * args.y.stride[d];
        at.cos += i64(i) * args.cos.stride[d];
        at.sin += i64(i) * args.sin.stride[d];
        token += i64(i) * args.positions.stride[d];
        place += i64(i) * args.place.stride[d];
    });
    if (args.positions.data == nullptr) return at;
    i64 index = read_index(args.positions.data, args.positions_kind, token).value;
    at.present = index >= 0 && u64(index) < args.bound;
    if (at.present) {
        at.cos += index * args.cos_row;
        at.sin += index * args.sin_row;
    } else {
        record_index_error(args.error, args.op, args.operand, u64(place), index, args.bound);
    }
    return at;
}

template <typename T> OPS_DEVICE void qk_norm_rope(const QkNormRopeArgs& all_args) {
    using A = acc_t<T>;
    u32 width = u32(all_args.lanes);
    for_rows<HEAD_BLOCK, false>(all_args.rows, width, [&](u64 row, bool live) OPS_INLINE {
        const QkNormRopeArgs& args = reread(all_args);
        HeadPlace at = place_of(args, row);
        const T* x = static_cast<const T*>(args.x.data) + at.x;
        T* y = static_cast<T*>(args.y.data) + at.y;
        u64 lane = lane_id() & (width - 1);
        A squares = 0;
        OPS_NO_UNROLL
        for (u64 e = lane; e < args.d; e += width) {
            A v = widen(x[i64(e) * args.x_step]);
            squares = mad(v, v, squares);
        }
        A inverse = A(1) / sqrt(reduce_lanes(squares, width, Sum()) / A(args.d) + A(args.eps));
        if (!live) return;
        auto normed = [&](u64 e) OPS_INLINE {
            A weight = read_either<T>(args.weight, args.weight_is_f32, i64(e) * args.weight_step);
            return A(widen(x[i64(e) * args.x_step])) * inverse * weight;
        };
        OPS_NO_UNROLL
        for (u64 j = lane; j < args.d - args.half; j += width) {
            if (j >= args.half) {
                y[i64(j + args.half) * args.y_step] = narrow<T>(normed(j + args.half));
                continue;
            }
            u64 one = args.interleaved != 0 ? 2 * j : j, other = args.interleaved != 0 ? one + 1 : j + args.half;
            A a = normed(one), b = normed(other), c = 0, s = 0;
            if (at.present) {
                c = read_either<T>(args.cos.data, args.tables_are_f32, at.cos + i64(j) * args.cos_step);
                s = read_either<T>(args.sin.data, args.tables_are_f32, at.sin + i64(j) * args.sin_step);
            }
            y[i64(one) * args.y_step] = narrow<T>(a * c - b * s);
            y[i64(other) * args.y_step] = narrow<T>(a * s + b * c);
        }
    });
}

// The same for heads whose rows, sizes and numbers of pairs are multiples of a pack.
template <typename T> OPS_DEVICE void qk_norm_rope_packs(const QkNormRopeArgs& all_args) {
    using A = acc_t<T>;
    u32 width = u32(all_args.lanes);
    for_rows<HEAD_BLOCK, false>(all_args.rows, width, [&](u64 row, bool live) OPS_INLINE {
        const QkNormRopeArgs& args = reread(all_args);
        HeadPlace at = place_of(args, row);
        HeadPacks<T> head(args.d, args.half, args.interleaved, lane_id() & (width - 1));
        head.load(static_cast<const T*>(args.x.data) + at.x);
        A squares = reduce_lanes(head.squares(), width, Sum());
        if (!live) return;
        head.scale(A(1) / sqrt(squares / A(args.d) + A(args.eps)), args.weight, args.weight_is_f32);
        head.rotate(args.cos.data, at.cos, args.sin.data, at.sin, args.tables_are_f32, at.present);
        head.store(static_cast<T*>(args.y.data) + at.y);
    });
}

}  // namespace ops
