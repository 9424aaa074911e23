// The product of one step of a weight, 32 values, with as many values of x in bytes. Everything is exact except the
// sum over groups of one scale, and minima.
#pragma once
#include "ops_blocks.h"
#include "ops_bytes.h"
#include "ops_columns.h"
#include "ops_qlinear.h"

namespace ops {

// What is the same for all columns: the sum of x in each group of one scale, times what the codes have too much, or as a number for minima.
template <typename B> struct GroupSums {
    static constexpr u32 GROUPS = Step<B>::GROUPS;
    static_assert(GROUPS <= 2, "a step has one scale or two");
    static_assert(!B::MIN || B::OFFSET == 0, "a minimum replaces the offset");
    i32 offset[GROUPS];
    f32 sum[GROUPS];
    OPS_METHOD GroupSums(const Head& head) {
        OPS_UNROLL
        for (u32 h = 0; h < GROUPS; h++) {
            i32 total = GROUPS == 1 ? head.sum() : head.sum(h);
            offset[h] = -B::OFFSET * total;
            sum[h] = f32(total);
        }
    }
};

// Adds the products of one step of a row of x with one step of the weight. The codes keep their offset, which the sum of x takes away.
template <typename B> OPS_DEVICE f32 add_step(f32 total, const Step<B>& w, const ByteStep& x, const GroupSums<B>& sums) {
    constexpr u32 GROUPS = Step<B>::GROUPS, WORDS = 8 / GROUPS;
    f32 step = 0;
    OPS_UNROLL
    for (u32 h = 0; h < GROUPS; h++) {
        i32 dot = sums.offset[h];
        OPS_UNROLL
        for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) dot = dot4(w.words[i], x.word(i), dot);
        if (GROUPS == 1 && !B::MIN) return mad(w.scale[0].d, f32(dot) * x.head.scale, total);
        step = mad(w.scale[h].d, f32(dot), step);
        if (B::MIN) step = mad(w.scale[h].m, sums.sum[h], step);
    }
    // Groups and minima are added before the scale of x is applied: that is infinite if x is, and other terms are 0.
    return mad(step, x.head.scale, total);
}

// Element `at` of what is added to y. Its type is a value.
OPS_DEVICE f32 added_at(const QLinearArgs& args, i64 at) {
    const void* data = args.added.data;
    if (data == nullptr) return 0;
    if (args.added_kind == FLOAT_F32) return static_cast<const f32*>(data)[at];
    if (args.added_kind == FLOAT_F16) return widen(static_cast<const f16*>(data)[at]);
    return widen(static_cast<const bf16*>(data)[at]);
}

// Writes element `at` of y, whose type is a value: the products are the same for all types.
OPS_DEVICE void write_sum(const QLinearArgs& args, i64 at, f32 value) {
    void* y = args.y.data;
    if (args.y_kind == FLOAT_F32) {
        static_cast<f32*>(y)[at] = value;
    } else if (args.y_kind == FLOAT_F16) {
        static_cast<f16*>(y)[at] = narrow<f16>(value);
    } else {
        static_cast<bf16*>(y)[at] = narrow<bf16>(value);
    }
}

}  // namespace ops
