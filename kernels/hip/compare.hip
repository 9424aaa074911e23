// Comparisons: y = 1 where a relation of a and b holds, else 0; broadcast through stride 0. NaN is in no relation.
// Three relations serve six ops: a > b is b < a, a >= b is b <= a, and ne is the negation of eq.
#include "ops_view.h"

namespace ops {

struct CompareArgs {
    Shape shape;
    Operand a;
    Operand b;
    Operand y;
    u64 negated;  // 1 to write the negation, else 0
};

// The number as a type that compares it exactly: the accumulator's for floats, its own for integers.
template <typename T> OPS_DEVICE auto comparable(T x) {
    if constexpr (is_float<T>::value) {
        return widen(x);
    } else {
        return x;
    }
}

struct Equal { template <typename A> static OPS_METHOD bool of(A a, A b) { return a == b; } };
struct Less { template <typename A> static OPS_METHOD bool of(A a, A b) { return a < b; } };
struct LessOrEqual { template <typename A> static OPS_METHOD bool of(A a, A b) { return a <= b; } };

template <typename R, typename T> OPS_DEVICE void compare(const CompareArgs& args) {
    u8 negated = u8(args.negated);
    auto test = [=](T a, T b) OPS_INLINE { return u8(u8(R::of(comparable(a), comparable(b))) ^ negated); };
    map<u8, T, T>(args.shape, args.y, test, args.a, args.b);
}

}  // namespace ops
