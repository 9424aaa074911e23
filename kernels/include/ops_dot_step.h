// The product of one step of a weight, 32 values, with the digits of as many values of x. Everything is exact except the
// sum over groups of one scale, and minima.
#pragma once
#include "ops_blocks.h"
#include "ops_digits.h"
#include "ops_qlinear.h"

namespace ops {

// What is the same for all columns: the sums of x in each group of one scale, as exact integers of two digits and one.
template <u32 DIGITS, typename B> struct GroupSums {
    static constexpr u32 GROUPS = Step<B>::GROUPS;
    static_assert(GROUPS <= 2, "a step has one scale or two");
    i32 upper[GROUPS], last[GROUPS];
    OPS_METHOD GroupSums(const SplitStep<DIGITS>& x) {
        if (GROUPS == 1) {
            upper[0] = x.head.upper;
            last[0] = x.head.last;
            return;
        }
        sum_digits<0, 8 / GROUPS>(x, upper[0], last[0]);
        if constexpr (GROUPS == 2) sum_digits<4, 8>(x, upper[1], last[1]);
    }
    OPS_METHOD f32 sum(u32 h) const { return DIGITS == 3 ? mad(f32(upper[h]), 256.0f, f32(last[h])) : f32(upper[h]); }
};

// The dot product of group h: an integer, as f32. `offset` is what the codes lack.
template <u32 DIGITS, u32 GROUPS>
OPS_DEVICE f32 dot_group(const u32 (&w)[8], const SplitStep<DIGITS>& x, u32 h, i32 offset_upper, i32 offset_last) {
    constexpr u32 WORDS = 8 / GROUPS;
    i32 sum = 0, last = offset_last;
    OPS_UNROLL
    for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) sum = dot4(w[i], x.word(0, i), sum);
    sum = i32(u32(sum) << 8) + offset_upper;
    OPS_UNROLL
    for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) sum = dot4(w[i], x.word(1, i), sum);
    if constexpr (DIGITS == 3) {
        OPS_UNROLL
        for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) last = dot4(w[i], x.word(2, i), last);
        return mad(f32(sum), 256.0f, f32(last));
    }
    return f32(sum);
}

// Adds the products of one step of a row of x with one step of the weight. The codes keep their offset, which the sum of x then takes away,
// unless CENTRED says that they lost it.
template <u32 DIGITS, bool CENTRED, typename B>
OPS_DEVICE f32 add_step(f32 total, const Step<B>& w, const SplitStep<DIGITS>& x, const GroupSums<DIGITS, B>& sums) {
    constexpr u32 GROUPS = Step<B>::GROUPS;
    constexpr i32 OFFSET = CENTRED ? 0 : B::OFFSET;
    static_assert(!B::MIN || B::OFFSET == 0, "a minimum replaces the offset");
    if (GROUPS == 1 && !B::MIN) {
        i32 upper = OFFSET == 0 ? 0 : -OFFSET * sums.upper[0], last = OFFSET == 0 ? 0 : -OFFSET * sums.last[0];
        f32 product = dot_group<DIGITS, GROUPS>(w.words, x, 0, upper, last);
        return mad(w.scale[0].d, product * x.head.scale, total);
    }
    // Groups and minima are added before the scale of x is applied: that is infinite if x is, and other terms are 0.
    f32 step = 0;
    OPS_UNROLL
    for (u32 h = 0; h < GROUPS; h++) {
        i32 upper = OFFSET == 0 ? 0 : -OFFSET * sums.upper[h], last = OFFSET == 0 ? 0 : -OFFSET * sums.last[h];
        step = mad(w.scale[h].d, dot_group<DIGITS, GROUPS>(w.words, x, h, upper, last), step);
        if (B::MIN) step = mad(w.scale[h].m, sums.sum(h), step);
    }
    return mad(step, x.head.scale, total);
}

// Writes element `at` of y, whose type is a value: the products are the same for both 16-bit types.
template <u32 DIGITS> OPS_DEVICE void write_sum(const QLinearArgs& args, i64 at, f32 value) {
    void* y = args.y.data;
    if (DIGITS == 3) {
        static_cast<f32*>(y)[at] = value;
    } else if (args.y_kind == FLOAT_F16) {
        static_cast<f16*>(y)[at] = narrow<f16>(value);
    } else {
        static_cast<bf16*>(y)[at] = narrow<bf16>(value);
    }
}

}  // namespace ops
