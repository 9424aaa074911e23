// Elementwise ops with two operands: y = f(a, b), broadcast through stride 0; y may be a or b itself.
// maximum and minimum return NaN if either operand is NaN. Integers wrap; x / 0 = 0 and MIN / -1 = MIN.
#include "ops_view.h"
#include "ops_pow.h"

namespace ops {

struct BinaryArgs {
    Shape shape;
    Operand a;
    Operand b;
    Operand y;
};

template <typename T> using wrap_t = typename choose<sizeof(T) == 8, u64, u32>::type;

struct Add {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return a + b; }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return T(wrap_t<T>(a) + wrap_t<T>(b)); }
};
struct Sub {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return a - b; }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return T(wrap_t<T>(a) - wrap_t<T>(b)); }
};
struct Mul {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return a * b; }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return T(wrap_t<T>(a) * wrap_t<T>(b)); }
};
struct Div {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return a / b; }
    template <typename T> static OPS_METHOD T integers(T a, T b) {
        if (b == T(0)) return T(0);
        if (T(-1) < T(0) && b == T(-1)) return T(wrap_t<T>(0) - wrap_t<T>(a));
        return T(a / b);
    }
};
struct Maximum {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return maximum(a, b); }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return a > b ? a : b; }
};
struct Minimum {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return minimum(a, b); }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return a < b ? a : b; }
};
struct Pow {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return power(a, b); }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return integer_power<T, wrap_t<T>>(a, b); }
};
// silu(gate) * up
struct SwiGlu {
    template <typename A> static OPS_METHOD A floats(A gate, A up) { return gate * sigmoid(gate) * up; }
};
// gelu(gate) * up
struct GeGlu {
    template <typename A> static OPS_METHOD A floats(A gate, A up) { return gate * sigmoid(gelu_exponent(gate)) * up; }
};

template <typename T, typename F> struct Apply {
    OPS_METHOD T operator()(T a, T b) const {
        if constexpr (is_float<T>::value) {
            return narrow<T>(F::floats(widen(a), widen(b)));
        } else {
            return F::integers(a, b);
        }
    }
};

template <typename F, typename T> OPS_DEVICE void binary(const BinaryArgs& args) {
    map<T, T, T>(args.shape, args.y, Apply<T, F>(), args.a, args.b);
}

}  // namespace ops
