// Comparisons and functions of truth values: y = 1 where a relation of a and b holds, else 0; broadcast through stride 0. No
// comparison with NaN holds. As a truth value, a number other than 0 is true, so NaN is. Six relations serve ten ops: a > b is
// b < a, a >= b is b <= a, ne is the negation of eq, and logical_not that of `x or x`.
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

struct And { template <typename A> static OPS_METHOD bool of(A a, A b) { return a != A(0) && b != A(0); } };
struct Or { template <typename A> static OPS_METHOD bool of(A a, A b) { return a != A(0) || b != A(0); } };
struct Xor { template <typename A> static OPS_METHOD bool of(A a, A b) { return (a != A(0)) != (b != A(0)); } };

template <typename R, typename T> OPS_DEVICE void compare(const CompareArgs& args) {
    u8 negated = u8(args.negated);
    auto test = [=](T a, T b) OPS_INLINE { return u8(u8(R::of(comparable(a), comparable(b))) ^ negated); };
    map<u8, T, T>(args.shape, args.y, test, args.a, args.b);
}

}  // namespace ops
