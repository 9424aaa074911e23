// Bitwise functions of integers, and shifts; broadcast through stride 0; y may be an operand itself.
#include "ops_view.h"

namespace ops {

struct BitwiseArgs {
    Shape shape;
    Operand a;
    Operand b;
    Operand y;
};

struct BitwiseNotArgs {
    Shape shape;
    Operand x;
    Operand y;
};

// Unsigned, and at least as wide as the type. Negative numbers of places become large ones.
template <typename T> using wrap_t = typename choose<sizeof(T) == 8, u64, u32>::type;

struct And { template <typename T> static OPS_METHOD T of(T a, T b) { return T(a & b); } };
struct Or { template <typename T> static OPS_METHOD T of(T a, T b) { return T(a | b); } };
struct Xor { template <typename T> static OPS_METHOD T of(T a, T b) { return T(a ^ b); } };
struct ShiftLeft {
    template <typename T> static OPS_METHOD T of(T a, T by) {
        constexpr u32 BITS = 8 * sizeof(T);
        wrap_t<T> places = wrap_t<T>(by);
        return places < BITS ? T(wrap_t<T>(a) << places) : T(0);
    }
};
struct ShiftRight {
    template <typename T> static OPS_METHOD T of(T a, T by) {
        constexpr u32 BITS = 8 * sizeof(T);
        wrap_t<T> places = wrap_t<T>(by);
        return T(places < BITS ? a >> places : a >> (BITS - 1) >> 1);
    }
};

template <typename F, typename T> OPS_DEVICE void bitwise(const BitwiseArgs& args) {
    map<T, T, T>(args.shape, args.y, [](T a, T b) OPS_INLINE { return F::of(a, b); }, args.a, args.b);
}

template <typename T> OPS_DEVICE void bitwise_not(const BitwiseNotArgs& args) {
    map<T, T>(args.shape, args.y, [](T x) OPS_INLINE { return T(~x); }, args.x);
}

}  // namespace ops
