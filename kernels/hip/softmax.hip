// softmax and log_softmax along one dimension, which the caller moves to the last place.
// wave, block: a group of lanes per row, which is part of a wave or several waves. column: one thread per row, for rows that
// are interleaved in memory.
// The row's maximum is subtracted first. A row of -inf gives NaN, and so does any row with a NaN.
#include "ops_f16_math.h"
#include "ops_team.h"

namespace ops {

struct SoftmaxArgs {
    Shape shape;  // the last dimension is the one normalised
    Operand x;
    Operand y;
    u64 rows;
    u64 lanes;  // per row, a power of two; column ignores it
};

constexpr u32 SOFTMAX_BLOCK = 256;

// exp for arguments of at most 0 and a result of type T.
template <typename T> OPS_DEVICE acc_t<T> power(acc_t<T> x) {
    if constexpr (same<T, f16>::value) {
        return exp_f16(x);
    } else {
        return exp(x);
    }
}

template <bool LOG, u32 N, typename G, typename T>
OPS_DEVICE void softmax_row(const SoftmaxArgs& args, G group, bool live, T* from, T* to) {
    using A = acc_t<T>;
    Row<T, N> x{from, args.x.stride[5]}, y{to, args.y.stride[5]};
    auto load = [&](u64 c) OPS_INLINE { return x.load(c); };
    CachedRow<T, N, G> cached{group, args.shape.dim[5] / N, {}};
    A most = -A(infinity32());  // ignores NaN, which shows in the sum
    cached.first_pass(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) most = larger(most, v.v[i]);
    });
    most = group.template reduce<0>(most, Larger());
    A sum = 0;
    cached.again(load, [&](u64, const Pack<A, N>& v) OPS_INLINE {
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) sum += power<T>(v.v[i] - most);
    });
    sum = group.template reduce<1>(sum, Sum());
    A factor = LOG ? log(sum) : A(1) / sum;
    if (!live) return;
    cached.again(load, [&](u64 c, const Pack<A, N>& v) OPS_INLINE {
        Pack<A, N> out;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            A shifted = v.v[i] - most;
            out.v[i] = LOG ? shifted - factor : power<T>(shifted) * factor;
        }
        y.store(c, narrow_pack<T, N>(out));
    });
}

template <bool TEAM, bool LOG, typename T> OPS_DEVICE void softmax(const SoftmaxArgs& all_args) {
    using A = acc_t<T>;
    constexpr u32 N = row_pack<T>();
    OPS_LDS(A, scratch, turns_slots<SOFTMAX_BLOCK>());
    using G = RowGroup<A, SOFTMAX_BLOCK, TEAM>;
    for_group_rows<SOFTMAX_BLOCK, TEAM>(all_args.rows, u32(all_args.lanes), [&](u64 row, bool live) OPS_INLINE {
        const SoftmaxArgs& args = reread(all_args);
        T* x = static_cast<T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        if (N != 1 && args.shape.pack == N) {
            softmax_row<LOG, N>(args, G(scratch, args.lanes), live, x, y);
        } else {
            softmax_row<LOG, 1>(args, G(scratch, args.lanes), live, x, y);
        }
    });
}

// Maximum and sum in one pass: the sum is rescaled when the maximum grows.
template <bool LOG, typename T> OPS_DEVICE void softmax_column(const SoftmaxArgs& args) {
    using A = acc_t<T>;
    u64 n = args.shape.dim[5];
    for (u64 row = global_thread(); row < args.rows; row += global_threads()) {
        const T* x = static_cast<const T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        A most = -A(infinity32()), sum = 0;
        OPS_NO_UNROLL
        for (u64 i = 0; i < n; i++) {
            A v = widen(x[i64(i) * args.x.stride[5]]);
            A higher = maximum(most, v);
            // As long as all values are -inf, nothing is summed; the differences would be NaN.
            if (higher != -A(infinity32())) sum = sum * power<T>(most - higher) + power<T>(v - higher);
            most = higher;
        }
        A factor = LOG ? log(sum) : A(1) / sum;
        OPS_NO_UNROLL
        for (u64 i = 0; i < n; i++) {
            A shifted = A(widen(x[i64(i) * args.x.stride[5]])) - most;
            y[i64(i) * args.y.stride[5]] = narrow<T>(LOG ? shifted - factor : power<T>(shifted) * factor);
        }
    }
}

}  // namespace ops
