// Prints, for every elementary function of the kernels, its largest error in ulp over random arguments
// against long double: one line each, `name type ulp`.
#define OPS_WAVE 32
#include "ops_near.h"
#include "ops_trig.h"

#include <math.h>
#include <stdio.h>

namespace {

uint64_t state = 0x9e3779b97f4a7c15;
uint64_t random_bits() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1d;
}

// Half the arguments are uniform in the range, half have any exponent.
template <typename A, typename Bits> A argument(A low, A high) {
    if (random_bits() & 1) return low + (high - low) * A(random_bits() >> 11) / A(1ull << 53);
    for (;;) {
        A x = ops::bits_as<A>(Bits(random_bits()));
        if (x >= low && x <= high) return x;
    }
}

template <typename A> A next_up(A x) { return sizeof(A) == 4 ? A(nextafterf(float(x), INFINITY)) : A(nextafter(double(x), INFINITY)); }

template <typename A, typename Bits, typename F, typename G>
void measure(const char* name, F f, G truth, A low, A high) {
    double worst = 0;
    for (int i = 0; i < 200000; i++) {
        A x = argument<A, Bits>(low, high);
        long double want = truth((long double)x);
        A got = f(x), rounded = A(want);
        if (isinf(rounded) || isinf(got)) {
            if (got != rounded) worst = INFINITY;
            continue;
        }
        double ulp = double(next_up(A(fabs(double(rounded)))) - A(fabs(double(rounded))));
        double error = double(fabsl((long double)got - want)) / ulp;
        if (!(error <= worst)) worst = error;
    }
    printf("%s %s %.3f\n", name, sizeof(A) == 4 ? "f32" : "f64", worst);
}

}  // namespace

#define BOTH(name, truth, low32, high32, low64, high64)                                                        \
    measure<float, uint32_t>(#name, [](float x) { return ops::name(x); }, [](long double x) { return truth; }, \
                             low32, high32);                                                                   \
    measure<double, uint64_t>(#name, [](double x) { return ops::name(x); }, [](long double x) { return truth; }, \
                              low64, high64);

int main() {
    BOTH(exp, expl(x), -110.0f, 90.0f, -750.0, 712.0)
    BOTH(expm1, expm1l(x), -110.0f, 90.0f, -750.0, 712.0)
    BOTH(expm1, expm1l(x), -1.0f, 1.0f, -1.0, 1.0)
    BOTH(log1p, log1pl(x), -1.0f, 1.0f, -1.0, 1.0)
    BOTH(log1p, log1pl(x), -1.0f, 3e38f, -1.0, 1e308)
    BOTH(softplus, (x > 0 ? x : 0) + log1pl(expl(-fabsl(x))), -85.0f, 20.0f, -700.0, 40.0)
    BOTH(log, logl(x), 0.0f, 10.0f, 0.0, 10.0)
    BOTH(log, logl(x), 0.0f, 3e38f, 0.0, 1e308)
    BOTH(tanh, tanhl(x), -12.0f, 12.0f, -25.0, 25.0)
    BOTH(sigmoid, 1 / (1 + expl(-x)), -103.0f, 90.0f, -740.0, 90.0)
    BOTH(erf, erfl(x), -5.0f, 5.0f, -7.0, 7.0)
    measure<float, uint32_t>("normal_cdf", [](float x) { return ops::normal_cdf(x); },
                             [](long double x) { return erfcl(-x / sqrtl(2)) / 2; }, -14.5f, 6.0f);
    BOTH(sin, sinl(x), -70000.0f, 70000.0f, -1048577.0, 1048577.0)
    BOTH(cos, cosl(x), -70000.0f, 70000.0f, -1048577.0, 1048577.0)
    BOTH(sin, sinl(x), -1e18f, 1e18f, -1e18, 1e18)
    BOTH(cos, cosl(x), -1e18f, 1e18f, -1e18, 1e18)
    return 0;
}
