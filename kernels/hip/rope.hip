// Rotary position embedding: (a, b) -> (a cos - b sin, a sin + b cos) for every pair of every head. The
// shape counts pairs. The tables, of type C (x's own type or f32), are ordinary operands with stride 0
// along the heads. y may be x itself.
#include "ops_index.h"
#include "ops_math.h"
#include "ops_view.h"

namespace ops {

struct RopeArgs {
    Shape shape;  // [b, h, t, d / 2] or [b, t, h, d / 2], merged where possible
    Operand x;    // first elements of the pairs
    Operand y;
    Operand cos;
    Operand sin;
    i64 x_partner;  // from a pair's first element to its second
    i64 y_partner;
};

template <typename A> OPS_DEVICE A turned_first(A a, A b, A cos, A sin) { return a * cos - b * sin; }
template <typename A> OPS_DEVICE A turned_second(A a, A b, A cos, A sin) { return a * sin + b * cos; }

// Pairs whose elements are apart: rope and rope_thd, and rope_i at odd strides.
template <typename T, typename C> OPS_DEVICE void rope(const RopeArgs& args) {
    using A = acc_t<T>;
    constexpr u32 N = PACK_BYTES / Widest<T, C>::bytes;
    u64 step = args.shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        Cursor<T> x(args.x), y(args.y);
        Cursor<C> cos(args.cos), sin(args.sin);
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            x.move(d, at);
            y.move(d, at);
            cos.move(d, at);
            sin.move(d, at);
        });
        T* x2 = x.at + args.x_partner;
        T* y2 = y.at + args.y_partner;
        if (step == 1) {
            A a = widen(*x.at), b = widen(*x2), c = widen(*cos.at), s = widen(*sin.at);
            *y.at = narrow<T>(turned_first(a, b, c, s));
            *y2 = narrow<T>(turned_second(a, b, c, s));
            continue;
        }
        Pack<T, N> a = load_pack<N>(x.at), b = load_pack<N>(x2), first, second;
        Pack<C, N> c = load_pack<N>(cos.at), s = load_pack<N>(sin.at);
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) {
            A one = widen(a.v[k]), two = widen(b.v[k]), ck = widen(c.v[k]), sk = widen(s.v[k]);
            first.v[k] = narrow<T>(turned_first(one, two, ck, sk));
            second.v[k] = narrow<T>(turned_second(one, two, ck, sk));
        }
        store_pack<N>(y.at, first);
        store_pack<N>(y2, second);
    }
}

template <typename T> struct Pair {
    T first;
    T second;
};

// Pairs of adjacent elements; strides count pairs.
template <typename T, typename C> OPS_DEVICE void rope_pairs(const RopeArgs& args) {
    using A = acc_t<T>;
    auto turn = [](Pair<T> x, C cos, C sin) OPS_INLINE {
        A a = widen(x.first), b = widen(x.second), c = widen(cos), s = widen(sin);
        return Pair<T>{narrow<T>(turned_first(a, b, c, s)), narrow<T>(turned_second(a, b, c, s))};
    };
    map<Pair<T>, Pair<T>, C, C>(args.shape, args.y, turn, args.x, args.cos, args.sin);
}

struct RopeAtArgs {
    Shape shape;  // [b, h, t, columns] or [b, t, h, columns], merged where possible, but not the columns
    Operand x;    // first elements of the pairs
    Operand y;
    Operand cos;  // of row 0 for the table of the batch entry, if there are positions
    Operand sin;
    Operand positions;  // null when absent
    Operand place;      // strides only: the place of a token's position within its operand
    i64 x_partner;
    i64 y_partner;
    i64 x_step;  // from a feature to the next
    i64 y_step;
    i64 cos_row;  // from a row of the table to the next
    i64 sin_row;
    u64 half;   // columns that are pairs; each of the others is one feature, which is copied
    u64 bound;  // rows of the tables
    Address<ErrorSlot> error;  // null to record nothing
    u32 positions_kind;        // IndexKind
    u32 op;                    // for the record
    u32 operand;
    u32 reserved;
};

// Rotates N pairs by angles that are present, and by zeros otherwise.
template <u32 N, typename T, typename C>
OPS_DEVICE void rotate_pairs(const T* x, const T* x2, const C* cos, const C* sin, bool present, T* y, T* y2) {
    using A = acc_t<T>;
    Pack<T, N> a = load_pack<N>(x), b = load_pack<N>(x2), first, second;
    Pack<C, N> c{}, s{};
    if (present) {
        c = load_pack<N>(cos);
        s = load_pack<N>(sin);
    }
    OPS_UNROLL
    for (u32 k = 0; k < N; k++) {
        A one = widen(a.v[k]), two = widen(b.v[k]), ck = widen(c.v[k]), sk = widen(s.v[k]);
        first.v[k] = narrow<T>(turned_first(one, two, ck, sk));
        second.v[k] = narrow<T>(turned_second(one, two, ck, sk));
    }
    store_pack<N>(y, first);
    store_pack<N>(y2, second);
}

// Rows of the tables by position, and heads of which only the first features are rotated.
template <typename T, typename C> OPS_DEVICE void rope_at(const RopeAtArgs& args) {
    constexpr u32 N = PACK_BYTES / Widest<T, C>::bytes;
    u64 step = args.shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        Cursor<T> x(args.x), y(args.y);
        Cursor<C> cos(args.cos), sin(args.sin);
        i64 token = 0, place = 0, column = 0;
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            x.move(d, at);
            y.move(d, at);
            cos.move(d, at);
            sin.move(d, at);
            token += i64(at) * args.positions.stride[d];
            place += i64(at) * args.place.stride[d];
            if (d + 1 == MAX_RANK) column = i64(at);
        });
        if (u64(column) >= args.half) {
            i64 feature = column + i64(args.half);
            const T* from = x.at + (feature * args.x_step - column * args.x.stride[5]);
            T* to = y.at + (feature * args.y_step - column * args.y.stride[5]);
            if (step == 1) {
                *to = *from;
            } else {
                store_pack<N>(to, load_pack<N>(from));
            }
            continue;
        }
        bool present = true;
        if (args.positions.data != nullptr) {
            i64 row = read_index(args.positions.data, args.positions_kind, token).value;
            present = row >= 0 && u64(row) < args.bound;
            if (!present) record_index_error(args.error, args.op, args.operand, u64(place), row, args.bound);
            cos.at += present ? row * args.cos_row : 0;
            sin.at += present ? row * args.sin_row : 0;
        }
        T* x2 = x.at + args.x_partner;
        T* y2 = y.at + args.y_partner;
        if (step == 1) {
            rotate_pairs<1>(x.at, x2, cos.at, sin.at, present, y.at, y2);
        } else {
            rotate_pairs<N>(x.at, x2, cos.at, sin.at, present, y.at, y2);
        }
    }
}

}  // namespace ops
