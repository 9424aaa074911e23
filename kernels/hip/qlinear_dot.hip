// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, with four byte products per instruction.
// split: writes each block of 32 values of x as integers times a power of two, and the integers as
// signed base-256 digits.
// dot*: a group of lanes computes a few rows of the weight, one step of 32 values per lane at a time. It multiplies
// digit by digit; everything is exact except the sum over groups of one scale, and minima.
#include "ops_blocks.h"
#include "ops_dot4.h"
#include "ops_qlinear.h"
#include "ops_reduce.h"
#include "ops_tile.h"

namespace ops {

// Digits per value of x, which is all that the products depend on in its type. 16-bit types have at most 11 significant bits, so 16 bits represent exactly
// every value within a factor of 16 of the block's largest.
template <typename T> struct Digits { static constexpr u32 COUNT = 2; };
template <> struct Digits<f32> { static constexpr u32 COUNT = 3; };

// Rows of x are stored in groups of 32 blocks. A group has the heads of all its blocks, then for each
// digit plane the first sixteen digits of all blocks, then the last sixteen. Each of these entries has
// 16 bytes, so that reads of neighbouring lanes are coalesced.
constexpr u32 PART = 16, PART_BLOCKS = 32;
template <u32 DIGITS> OPS_DEVICE constexpr u32 group_bytes() { return (1 + 2 * DIGITS) * PART * PART_BLOCKS; }
template <u32 DIGITS> OPS_DEVICE u32 split_row_bytes(u64 blocks) {
    return u32((blocks + PART_BLOCKS - 1) / PART_BLOCKS) * group_bytes<DIGITS>();
}
template <u32 DIGITS> OPS_DEVICE u32 block_at(u32 block) {
    return block / PART_BLOCKS * group_bytes<DIGITS>() + block % PART_BLOCKS * PART;
}

// The scale of x's integers, and their sum, which offsets and minima are multiplied by: `last` is the share of the last
// of three digits, `upper` that of all others.
struct Head {
    f32 scale;
    i32 upper;
    i32 last;
    u32 unused;
};

// ---- split --------------------------------------------------------------------------

constexpr u32 LANES = 8;  // per block

struct Greater {
    OPS_METHOD u32 operator()(u32 a, u32 b) const { return a > b ? a : b; }
};

// Converts four elements of a block to integers and returns the power of two that scales them. If the
// block has an infinity, that is the scale: infinities become 1 or -1 and other values 0. If the block
// has a NaN, the scale is NaN.
template <u32 DIGITS> OPS_DEVICE f32 to_integers(i32 (&q)[4], const f32 (&x)[4]) {
    constexpr u32 BITS = 8 * DIGITS - 2, INFINITE = 0x7f800000u;
    u32 magnitude[4], most = 0;
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        magnitude[i] = bits_as<u32>(x[i]) & 0x7fffffffu;
        most = Greater()(most, magnitude[i]);
    }
    most = reduce_lanes(most, LANES, Greater());
    if (most >= INFINITE) {
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) q[i] = magnitude[i] != INFINITE ? 0 : x[i] < 0.0f ? -1 : 1;
        return most == INFINITE ? infinity32() : quiet_nan32();
    }
    // The leading digit is at most 127. If rounding would exceed that, the exponent is one higher.
    u32 exponent = bits_as<u32>(bits_as<f32>(most) * 1.00404f) >> 23;
    if (exponent == 0) exponent = 1;
    // Two multiplications, because 2^148 is out of range for f32.
    i32 up = i32(BITS + 127) - i32(exponent), half = up / 2;
    f32 first = bits_as<f32>(u32(127 + half) << 23), second = bits_as<f32>(u32(127 + up - half) << 23);
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) q[i] = i32(round(x[i] * first * second));
    return bits_as<f32>(exponent > BITS ? (exponent - BITS) << 23 : 1u << (22 + exponent - BITS));
}

template <typename T> OPS_DEVICE void split_block(const QLinearArgs& args, u64 row, u32 block, bool live) {
    constexpr u32 DIGITS = Digits<T>::COUNT;
    u32 lane = lane_id() % LANES;
    f32 x[4] = {};
    if (row < args.rows) {
        const T* from = row_at<const T>(args.shape, args.x, row) + i64(block * 32 + lane * 4) * args.x.stride[5];
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) x[i] = widen(from[i64(i) * args.x.stride[5]]);
    }
    i32 q[4];
    Head head{};
    head.scale = to_integers<DIGITS>(q, x);
    u32 word[DIGITS] = {};
    OPS_UNROLL
    for (u32 i = 0; i < 4; i++) {
        i32 rest = q[i];
        OPS_UNROLL
        for (u32 p = DIGITS; p-- > 0;) {
            i32 digit = p == 0 ? rest : i32(i8(rest));
            word[p] |= (u32(digit) & 0xff) << (8 * i);
            rest = (rest - digit) >> 8;
            if (p == 2) {
                head.last += digit;
                head.upper += rest;
            }
        }
        if (DIGITS == 2) head.upper += q[i];
    }
    head.upper = reduce_lanes(head.upper, LANES, Sum());
    if (DIGITS > 2) head.last = reduce_lanes(head.last, LANES, Sum());
    if (!live) return;
    u8* to = static_cast<u8*>(args.planes) + row * split_row_bytes<DIGITS>(args.k / STEP_VALUES) + block_at<DIGITS>(block);
    if (lane == 0) *reinterpret_cast<Head*>(to) = head;
    OPS_UNROLL
    for (u32 p = 0; p < DIGITS; p++) {
        u32 part = 1 + 2 * p + lane / 4;
        *reinterpret_cast<u32*>(to + part * (PART * PART_BLOCKS) + lane % 4 * 4) = word[p];
    }
}

// Rows past the end are filled with zeros, because the dot kernels read several rows together.
template <typename T> OPS_DEVICE void qlinear_split(const QLinearArgs& args) {
    u64 blocks = args.k / STEP_VALUES, count = args.plane_rows * blocks, step = global_threads() / LANES;
    for (u64 first = (global_thread() - lane_id()) / LANES; first < count; first += step) {
        u64 at = first + lane_id() / LANES;
        bool live = at < count;
        u64 row = (live ? at : count - 1) / blocks;
        split_block<T>(args, row, u32((live ? at : count - 1) - row * blocks), live);
    }
}

// ---- products -----------------------------------------------------------------------

// The parts of one step of x: its head, and for each digit two entries of 16 bytes.
template <u32 DIGITS> struct SplitStep {
    Head head;
    Pack<u32, 4> part[2 * DIGITS];
    OPS_METHOD u32 word(u32 digit, u32 i) const { return part[2 * digit + i / 4].v[i % 4]; }
};

// What is the same for all columns: the sums of x in each group of one scale, as exact integers of two digits and one.
template <u32 DIGITS, typename B> struct GroupSums {
    static constexpr u32 GROUPS = Step<B>::GROUPS;
    i32 upper[GROUPS], last[GROUPS];
    OPS_METHOD GroupSums(const SplitStep<DIGITS>& x) {
        if (GROUPS == 1) {
            upper[0] = x.head.upper;
            last[0] = x.head.last;
            return;
        }
        constexpr u32 WORDS = 8 / GROUPS;
        OPS_UNROLL
        for (u32 h = 0; h < GROUPS; h++) {
            i32 sum = 0, rest = 0;
            OPS_UNROLL
            for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) sum = dot4(0x01010101u, x.word(0, i), sum);
            sum = i32(u32(sum) << 8);
            OPS_UNROLL
            for (u32 i = h * WORDS; i < (h + 1) * WORDS; i++) {
                sum = dot4(0x01010101u, x.word(1, i), sum);
                if (DIGITS == 3) rest = dot4(0x01010101u, x.word(DIGITS - 1, i), rest);
            }
            upper[h] = sum;
            last[h] = rest;
        }
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

// Adds the products of one step of a row of x with one step of the weight.
template <u32 DIGITS, typename B>
OPS_DEVICE f32 add_step(f32 total, const Step<B>& w, const SplitStep<DIGITS>& x, const GroupSums<DIGITS, B>& sums) {
    constexpr u32 GROUPS = Step<B>::GROUPS;
    // Codes of whole steps keep their offset, which the sum of x then takes away; those of smaller groups lost it.
    constexpr i32 OFFSET = GROUPS == 1 ? B::OFFSET : 0;
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
        step = mad(w.scale[h].d, dot_group<DIGITS, GROUPS>(w.words, x, h, 0, 0), step);
        if (B::MIN) step = mad(w.scale[h].m, sums.sum(h), step);
    }
    return mad(step, x.head.scale, total);
}

// Writes an element of y, whose type is a value: the products are the same for both 16-bit types.
template <u32 DIGITS> OPS_DEVICE void write_sum(const QLinearArgs& args, u64 row, i64 column, f32 value) {
    i64 at = column * args.y.stride[5];
    if (DIGITS == 3) {
        row_at<f32>(args.shape, args.y, row)[at] = value;
    } else if (args.y_kind == FLOAT_F16) {
        row_at<f16>(args.shape, args.y, row)[at] = narrow<f16>(value);
    } else {
        row_at<bf16>(args.shape, args.y, row)[at] = narrow<bf16>(value);
    }
}

// ROWS rows of x times COLUMNS rows of the weight.
template <u32 ROWS, u32 COLUMNS, u32 DIGITS, typename B>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u64 m0, u64 n0) {
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES), row_bytes = split_row_bytes<DIGITS>(steps);
    const B* column[COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        // Columns past the end repeat the last one; their results are not stored.
        column[j] = static_cast<const B*>(args.weight) + i64(n0 + j < args.n ? n0 + j : args.n - 1) * args.weight_row;
    }
    f32 sum[ROWS][COLUMNS] = {};
    OPS_NO_UNROLL
    for (u32 b = opaque(lane_id()) & (lanes - 1); b < steps; b += lanes) {
        Step<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            w[j].load(column[j], args.weight_block, b);
            if (Step<B>::GROUPS == 1) continue;
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) w[j].words[i] = signed_codes<B>(w[j].words[i]);
        }
        u32 at = u32(m0) * row_bytes + block_at<DIGITS>(b);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // One row's digits are in flight while another's are multiplied. Loading all rows at once
            // would exhaust the registers.
            u32 from = r < 2 ? at : opaque_after(at, sum[r - 2][COLUMNS - 1]);
            const u8* row = static_cast<const u8*>(args.planes) + u64(r * row_bytes) + from;
            SplitStep<DIGITS> x;
            x.head = bits_as<Head>(load_pack<4>(reinterpret_cast<const u32*>(row)));
            OPS_UNROLL
            for (u32 p = 0; p < 2 * DIGITS; p++) {
                x.part[p] = load_pack<4>(reinterpret_cast<const u32*>(row + (1 + p) * (PART * PART_BLOCKS)));
            }
            GroupSums<DIGITS, B> sums(x);
            OPS_UNROLL
            for (u32 j = 0; j < COLUMNS; j++) sum[r][j] = add_step<DIGITS>(sum[r][j], w[j], x, sums);
        }
    }
    bool first_lane = (lane_id() & (lanes - 1)) == 0;
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        u64 m = m0 + r;
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            f32 value = reduce_lanes(sum[r][j], lanes, Sum());
            if (first_lane && m < args.rows && n0 + j < args.n) write_sum<DIGITS>(args, m, i64(n0 + j), value);
        }
    }
}

template <u32 ROWS, typename B, typename T> OPS_DEVICE void qlinear_dot(const QLinearArgs& args) {
    // Four columns share each load of x, whose digits take more bytes than the weight.
    constexpr u32 COLUMNS = 4;
    u64 groups_m = (args.rows + ROWS - 1) / ROWS, groups_n = (args.n + COLUMNS - 1) / COLUMNS;
    u64 groups = groups_m * groups_n;
    u32 per_wave = OPS_WAVE / u32(args.lanes);
    u64 first = (u64(block_x()) * (MATMUL_BLOCK / OPS_WAVE) + wave_id()) * per_wave;
    u64 step = u64(grid_x()) * (MATMUL_BLOCK / OPS_WAVE) * per_wave;
    OPS_NO_UNROLL
    for (; first < groups; first += step) {
        // A group past the end computes columns past the end, which are not stored.
        u64 at = first + lane_id() / u32(args.lanes);
        dot_columns<ROWS, COLUMNS, Digits<T>::COUNT, B>(reread(args), at % groups_m * ROWS, at / groups_m * COLUMNS);
    }
}

}  // namespace ops
