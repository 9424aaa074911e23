// cumsum and cumprod along one dimension, which the caller moves to the last place.
// rows: a block per row, or per part of one. columns: a thread per row, for rows that are interleaved in memory or short.
// Long rows of which there are few are split into parts: the first launch joins each part, the second adds, or multiplies by, the parts before.
#include "ops_reduce.h"
#include "ops_view.h"

namespace ops {

struct ScanArgs {
    Shape shape;  // the last dimension is the one to go along
    Operand x;
    Operand y;
    Address<void> partial;  // results of parts, those of a row next to each other
    Divider parts;          // parts of each row
    u64 rows;
    u64 part;   // elements of a part
    u64 totals; // whether only the results of parts are wanted
};

constexpr u32 SCAN_BLOCK = 256;
constexpr u32 SCAN_WAVES = SCAN_BLOCK / OPS_WAVE;

// Floats in f64, so that a sum of many does not lose what is added last, and products of parts stay in range. Integers wrap to the
// result in their own type.
template <typename T>
using sum_t = typename choose<is_float<T>::value, f64, typename choose<sizeof(T) == 8, u64, u32>::type>::type;

// How elements are joined.
struct Sums {
    template <typename S> static OPS_METHOD S start() { return S(0); }
    template <typename S> static OPS_METHOD S join(S a, S b) { return a + b; }
};
struct Products {
    template <typename S> static OPS_METHOD S start() { return S(1); }
    template <typename S> static OPS_METHOD S join(S a, S b) { return a * b; }
};

// sum_before of ops_reduce.h, for any F.
template <typename F, typename S> OPS_DEVICE S joined_before(S own, S* scratch, S& total) {
    S sum = own;
    for (u32 d = 1; d < OPS_WAVE; d *= 2) {
        S other = shuffle(sum, lane_id() - d, OPS_WAVE);
        if (lane_id() >= d) sum = F::join(sum, other);
    }
    if (lane_id() == OPS_WAVE - 1) scratch[wave_id()] = sum;
    S before = shuffle(sum, lane_id() - 1, OPS_WAVE);
    if (lane_id() == 0) before = F::template start<S>();
    barrier();
    S waves = F::template start<S>();
    total = waves;
    for (u32 w = 0; w < SCAN_WAVES; w++) {
        if (w == wave_id()) waves = total;
        total = F::join(total, scratch[w]);
    }
    return F::join(waves, before);
}

template <typename T> OPS_DEVICE sum_t<T> term(T x) {
    if constexpr (is_float<T>::value) {
        return sum_t<T>(widen(x));
    } else {
        return sum_t<T>(x);
    }
}
template <typename T> OPS_DEVICE T rounded(sum_t<T> sum) {
    if constexpr (is_float<T>::value) {
        return narrow<T>(sum);
    } else {
        return T(sum);
    }
}

// K elements per thread and step: a pack, or single elements at any stride.
template <typename F, u32 K, bool PACKED, typename T>
OPS_DEVICE void scan_part(const ScanArgs& args, const T* x, T* y, u64 begin, u64 end, sum_t<T> carry, sum_t<T>* scratch, u32& turn, sum_t<T>& total) {
    using S = sum_t<T>;
    bool totals = args.totals != 0;
    for (u64 tile = begin; tile < end; tile += u64(SCAN_BLOCK) * K) {
        const ScanArgs& now = reread(args);
        u64 at = tile + u64(thread_x()) * K;
        S sums[K];
        Pack<T, K> in{};
        if constexpr (PACKED) {
            if (at < end) in = load_pack<K>(x + at);
        }
        S sum = F::template start<S>();
        OPS_UNROLL
        for (u32 k = 0; k < K; k++) {
            bool inside = at + k < end;
            if (!PACKED && inside) in.v[k] = x[i64(at + k) * now.x.stride[5]];
            if (inside) sum = F::join(sum, term(in.v[k]));
            sums[k] = sum;
        }
        S all;
        S before = F::join(carry, joined_before<F>(sum, scratch + turn * SCAN_WAVES, all));
        turn ^= 1;
        carry = F::join(carry, all);
        if (totals) continue;
        if constexpr (PACKED) {
            Pack<T, K> out;
            OPS_UNROLL
            for (u32 k = 0; k < K; k++) out.v[k] = rounded<T>(F::join(before, sums[k]));
            if (at < end) store_pack<K>(y + at, out);
        } else {
            OPS_UNROLL
            for (u32 k = 0; k < K; k++) {
                if (at + k < end) y[i64(at + k) * now.y.stride[5]] = rounded<T>(F::join(before, sums[k]));
            }
        }
    }
    total = carry;
}

template <typename F, typename T> OPS_DEVICE void scan_rows(const ScanArgs& all_args) {
    using S = sum_t<T>;
    constexpr u32 N = PACK_BYTES / sizeof(T);
    OPS_LDS(S, scratch, 2 * (SCAN_BLOCK / 32));
    u32 turn = 0;
    for (u64 item = block_x(); item < all_args.rows * all_args.parts.by; item += grid_x()) {
        const ScanArgs& args = reread(all_args);
        u64 row = divide(args.parts, item), part = item - row * args.parts.by;
        const T* x = static_cast<const T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        S* partial = static_cast<S*>(args.partial) + row * args.parts.by;
        u64 begin = part * args.part, end = begin + args.part;
        if (end > args.shape.dim[5]) end = args.shape.dim[5];
        S carry = F::template start<S>(), total;
        if (args.totals == 0 && part > 0) {
            S own = F::template start<S>();
            for (u64 i = thread_x(); i < part; i += SCAN_BLOCK) own = F::join(own, partial[i]);
            joined_before<F>(own, scratch + turn * SCAN_WAVES, carry);
            turn ^= 1;
        }
        if (args.shape.pack == N) {
            scan_part<F, N, true>(reread(args), x, y, begin, end, carry, scratch, turn, total);
        } else {
            scan_part<F, 4, false>(reread(args), x, y, begin, end, carry, scratch, turn, total);
        }
        if (reread(args).totals != 0 && thread_x() == 0) partial[part] = total;
    }
}

template <typename F, typename T> OPS_DEVICE void scan_columns(const ScanArgs& args) {
    u64 n = args.shape.dim[5];
    for (u64 row = global_thread(); row < args.rows; row += global_threads()) {
        const T* x = static_cast<const T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        T* y = static_cast<T*>(args.y.data) + offset_of<4>(args.shape, args.y, row);
        using S = sum_t<T>;
        S sum = F::template start<S>();
        OPS_NO_UNROLL
        for (u64 i = 0; i < n; i++) {
            sum = F::join(sum, term(x[i64(i) * args.x.stride[5]]));
            y[i64(i) * args.y.stride[5]] = rounded<T>(sum);
        }
    }
}

}  // namespace ops
