// Maxima and averages over windows of planes: a thread per window.
#include "ops_planes.h"

namespace ops {

// Windows along one dimension.
struct Windows {
    i64 size;
    i64 stride;
    i64 padding;
};

struct PoolArgs {
    Planes planes;
    Windows down;
    Windows across;
    f64 elements;  // of a window, padding included
};

// The part of a window that lies on the plane.
struct Span {
    i64 from;
    i64 to;
};
OPS_DEVICE Span span_of(const Windows& windows, u64 at, u64 extent) {
    i64 from = i64(at) * windows.stride - windows.padding, to = from + windows.size;
    return Span{from < 0 ? 0 : from, to > i64(extent) ? i64(extent) : to};
}

OPS_DEVICE f32 lowest(f32) { return -infinity32(); }
OPS_DEVICE f64 lowest(f64) { return -infinity64(); }

template <typename T> OPS_DEVICE void max_pool2d(const PoolArgs& args) {
    using A = acc_t<T>;
    for_planes<T>(args.planes, [&](const Plane<T>& x, u64 row, u64 column) OPS_INLINE {
        Span rows = span_of(args.down, row, args.planes.height);
        Span columns = span_of(args.across, column, args.planes.width);
        A best = lowest(A(0));
        OPS_NO_UNROLL
        for (i64 r = rows.from; r < rows.to; r++) {
            OPS_NO_UNROLL
            for (i64 c = columns.from; c < columns.to; c++) {
                A v = widen(x.at(r, c));
                // Nothing is larger than a NaN.
                best = v > best || is_nan(v) ? v : best;
            }
        }
        return narrow<T>(best);
    });
}

// Elements that are added in the type of arithmetic before their sum is added to the total in f64.
constexpr i64 TURNS = 16;

template <typename T> OPS_DEVICE void avg_pool2d(const PoolArgs& args) {
    using A = acc_t<T>;
    for_planes<T>(args.planes, [&](const Plane<T>& x, u64 row, u64 column) OPS_INLINE {
        Span rows = span_of(args.down, row, args.planes.height);
        Span columns = span_of(args.across, column, args.planes.width);
        f64 total = 0;
        OPS_NO_UNROLL
        for (i64 r = rows.from; r < rows.to; r++) {
            i64 c = columns.from;
            OPS_NO_UNROLL
            while (c < columns.to) {
                i64 end = columns.to - c < TURNS ? columns.to : c + TURNS;
                A part = 0;
                OPS_NO_UNROLL
                for (; c < end; c++) part += widen(x.at(r, c));
                total += part;
            }
        }
        return narrow<T>(total / args.elements);
    });
}

}  // namespace ops
