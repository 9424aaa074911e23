// Shared by the kernels of convolutions: arguments, terms, and the bias.
#pragma once
#include "ops_view.h"

namespace ops {

// The extents and options of one axis.
struct ConvAxis {
    u64 x;
    u64 y;
    u64 kernel;
    u64 padding;
    u64 dilation;
    Divider stride;
};

struct ConvArgs {
    Operand x;       // strides of batch, channel, row, column, right-aligned
    Operand weight;  // strides of group, output, input, row, column
    Operand y;       // as x
    Address<const void> bias;  // null when absent
    i64 bias_stride;
    u64 bias_is_f32;  // otherwise it is of type T
    ConvAxis rows;
    ConvAxis columns;
    u64 inputs;       // channels of a group
    Divider outputs;  // channels of a group
    Divider channels; // output channels of all groups
    Divider pixels;   // elements of y in a channel
    Divider width;    // columns of y
    Divider area;     // elements of the kernel
    Divider kernel_width;
    u64 terms;  // of each sum
    u64 count;  // elements of y
    u64 images; // groups of all batch elements
    u64 transposed;
    // For matrix units.
    u64 groups;
    u64 positions;    // elements of y in a channel of all batch elements
    u64 steps;        // along the terms, which are in order of channel, row and column if not by_tap
    i64 term_stride;  // of the weight, from one term to the next, or from one channel to the next if by_tap
    u64 by_tap;       // whether a step has channels of one element of the kernel
    u64 x_packs;      // whether channels of x, and terms of the weight, come in aligned accesses of 8
    u64 weight_packs;
};

// The element of x that the kernel's element t multiplies for element i of y; false if there is none.
OPS_DEVICE bool source_of(const ConvAxis& axis, bool transposed, u64 i, u64 t, u64& at) {
    if (!transposed) {
        at = i * axis.stride.by + t * axis.dilation - axis.padding;  // wraps to a large number before the first element
        return at < axis.x;
    }
    u64 from = i + axis.padding, shift = t * axis.dilation;
    if (from < shift) return false;
    at = divide(axis.stride, from - shift);
    return at * axis.stride.by == from - shift && at < axis.x;
}

template <typename T, typename A> OPS_DEVICE A conv_bias(const ConvArgs& args, u64 channel) {
    if (args.bias == nullptr) return A(0);
    i64 at = i64(channel) * args.bias_stride;
    if (args.bias_is_f32 != 0) return A(static_cast<const f32*>(args.bias)[at]);
    return A(widen(static_cast<const T*>(args.bias)[at]));
}

// Term k of a sum: its input channel and the element of the kernel.
struct ConvTerm {
    u64 channel, row, column;

    OPS_METHOD ConvTerm(const ConvArgs& args, u64 k) {
        channel = divide(args.area, k);
        u64 rest = k - channel * args.area.by;
        row = divide(args.kernel_width, rest);
        column = rest - row * args.kernel_width.by;
    }
    OPS_METHOD void next(const ConvArgs& args) {
        if (++column < args.kernel_width.by) return;
        column = 0;
        if (++row < args.rows.kernel) return;
        row = 0;
        channel++;
    }
};

}  // namespace ops
