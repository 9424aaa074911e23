// Upsampling of planes, to the nearest element or between four: a thread per element.
#include "ops_planes.h"

namespace ops {

// Where elements stand along a dimension of x: i at (i * step + start) / by, or at 0 if that is negative.
struct Source {
    u64 step;
    i64 start;
    Divider by;
    f64 inverse;  // 1 / by
    u64 last;     // index of the last element of x
};

struct UpsampleArgs {
    Planes planes;
    Source down;
    Source across;
};

// A place between two elements: the one before it, and the weight of the next one. The weight is 0 if there is no next one.
template <typename A> struct Between {
    u64 before;
    A weight;
};
template <typename A> OPS_DEVICE Between<A> place_of(const Source& source, u64 i) {
    i64 place = i64(i * source.step) + source.start;
    u64 from = place < 0 ? 0 : u64(place);
    u64 before = divide(source.by, from), rest = from - before * source.by.by;
    if (before >= source.last) return Between<A>{source.last, A(0)};
    return Between<A>{before, A(rest) * A(source.inverse)};
}

// Elements are moved as bits.
template <typename T> OPS_DEVICE void upsample_nearest(const UpsampleArgs& args) {
    for_planes<T>(args.planes, [&](const Plane<T>& x, u64 row, u64 column) OPS_INLINE {
        return x.at(place_of<f32>(args.down, row).before, place_of<f32>(args.across, column).before);
    });
}

// An element of weight 0 does not count, not even if it is NaN.
template <typename A> OPS_DEVICE A mixed(A a, A b, A weight) {
    return weight == A(0) ? a : a * (A(1) - weight) + b * weight;
}

template <typename T> OPS_DEVICE void upsample_bilinear(const UpsampleArgs& args) {
    using A = acc_t<T>;
    for_planes<T>(args.planes, [&](const Plane<T>& x, u64 row, u64 column) OPS_INLINE {
        Between<A> down = place_of<A>(args.down, row), across = place_of<A>(args.across, column);
        u64 left = across.before, right = left + (across.weight == A(0) ? 0 : 1);
        u64 above = down.before, below = above + (down.weight == A(0) ? 0 : 1);
        A top = mixed(A(widen(x.at(above, left))), A(widen(x.at(above, right))), across.weight);
        A bottom = mixed(A(widen(x.at(below, left))), A(widen(x.at(below, right))), across.weight);
        return narrow<T>(mixed(top, bottom, down.weight));
    });
}

}  // namespace ops
