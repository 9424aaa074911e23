// Prints, for every function whose result is rounded to f16, the log2 of its largest relative error over
// all finite f16 whose result f16 can tell from zero: one line each, `name log2`.
#define OPS_WAVE 32
#include "ops_f16_math.h"

#include <math.h>
#include <stdio.h>

namespace {

template <typename F, typename G> void measure(const char* name, F f, G truth) {
    double worst = 0;
    for (unsigned bits = 0; bits < 65536; bits++) {
        float x = ops::to_f32(ops::f16{static_cast<ops::u16>(bits)});
        if (!(fabsf(x) <= 65504.0f)) continue;
        double want = double(truth((long double)x));
        if (fabs(want) < 0x1p-25 || fabs(want) >= 65520) continue;
        double error = fabs(double(f(x)) - want) / fabs(want);
        if (!(error <= worst)) worst = error;
    }
    printf("%s %.2f\n", name, log2(worst));
}

}  // namespace

int main() {
    using F = float;
    using L = long double;
    measure("exp", [](F x) { return ops::exp_f16(x); }, [](L x) { return expl(x); });
    measure("sigmoid", [](F x) { return ops::sigmoid_f16(x); }, [](L x) { return 1 / (1 + expl(-x)); });
    measure("tanh", [](F x) { return ops::tanh_f16(x); }, [](L x) { return tanhl(x); });
    measure("gelu_erf", [](F x) { return x * ops::normal_cdf_f16(x); }, [](L x) { return x * erfcl(-x / sqrtl(2)) / 2; });
    measure("erf", [](F x) { return ops::erf_f16(x); }, [](L x) { return erfl(x); });
    measure("log", [](F x) { return ops::log_f16(x); }, [](L x) { return x > 0 ? logl(x) : 0; });
    auto near_1 = [](auto x) { return fabsl(x - 1) < 0.25; };
    measure("log near 1", [&](F x) { return near_1(x) ? ops::log_near_1_f16(x - 1) : 0; },
            [&](L x) { return near_1(x) ? logl(x) : 0; });
    measure("sin", [](F x) { return ops::sin_f16(x); }, [](L x) { return sinl(x); });
    measure("cos", [](F x) { return ops::cos_f16(x); }, [](L x) { return cosl(x); });
    float odd[] = {ops::sin_f16(INFINITY), ops::cos_f16(-INFINITY), ops::tanh_f16(NAN), ops::normal_cdf_f16(NAN),
                   ops::erf_f16(NAN),        ops::log_f16(NAN),         ops::log_f16(-1.0f)};
    for (float v : odd) {
        if (v == v) printf("a number where there is none 0\n");
    }
    if (ops::erf_f16(-INFINITY) != -1 || ops::log_f16(0) != -INFINITY || ops::log_f16(INFINITY) != INFINITY) printf("limits 0\n");
    return 0;
}
