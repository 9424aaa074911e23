// copy, fill and where. Elements are moved as bits, so one instance serves all types of a size.
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

template <typename C, typename T> OPS_DEVICE void where(const WhereArgs& args) {
    auto choose = [](C cond, T yes, T no) OPS_INLINE { return cond != C(0) ? yes : no; };
    map<T, C, T, T>(args.shape, args.y, choose, args.cond, args.on_true, args.on_false);
}

}  // namespace ops
