// copy, fill and where. Elements are moved as bits, so one instance serves all types of a size. arange.
#include "ops_math.h"
#include "ops_view.h"

namespace ops {

struct CopyArgs {
    Shape shape;
    Operand x;
    Operand y;
};

struct FillArgs {
    Shape shape;
    Operand y;
    u64 value;  // the element's bits, in the low bytes
};

// Element i, in row-major order, is start + i * step: f64 in floats, i64 in integers.
struct ArangeArgs {
    Shape shape;
    Operand y;
    u64 start;
    u64 step;
};

// y = cond != 0 ? on_true : on_false
struct WhereArgs {
    Shape shape;
    Operand cond;
    Operand on_true;
    Operand on_false;
    Operand y;
};

template <typename T> OPS_DEVICE void copy(const CopyArgs& args) {
    map<T, T>(args.shape, args.y, [](T x) OPS_INLINE { return x; }, args.x);
}

template <typename T> OPS_DEVICE void fill(const FillArgs& args) {
    T value = T(args.value);
    map<T>(args.shape, args.y, [=]() OPS_INLINE { return value; });
}

template <typename T> OPS_DEVICE T arange_at(const ArangeArgs& args, u64 i) {
    if constexpr (is_float<T>::value) {
        return narrow<T>(fma(f64(i), bits_as<f64>(args.step), bits_as<f64>(args.start)));
    } else {
        return T(args.start + i * args.step);
    }
}

template <typename T> OPS_DEVICE void arange(const ArangeArgs& args) {
    bool contiguous = args.shape.rank <= 1 && args.y.stride[MAX_RANK - 1] == 1;
    T* y = args.y.data;
    OPS_NO_UNROLL
    for (u64 i = global_thread(); i < args.shape.count; i += global_threads()) {
        y[contiguous ? i64(i) : offset_of<MAX_RANK - 1>(args.shape, args.y, i)] = arange_at<T>(args, i);
    }
}

template <typename C, typename T> OPS_DEVICE void where(const WhereArgs& args) {
    auto choose = [](C cond, T yes, T no) OPS_INLINE { return cond != C(0) ? yes : no; };
    map<T, C, T, T>(args.shape, args.y, choose, args.cond, args.on_true, args.on_false);
}

}  // namespace ops
