// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, with four byte products per instruction.
// split: writes each block of 32 values of x as integers times a power of two, and the integers as
// signed base-256 digits.
// dot*: a group of lanes computes a few rows of the weight, one block per lane at a time. It multiplies
// digit by digit; everything is exact except the sum over blocks.
#include "ops_blocks.h"
#include "ops_dot4.h"
#include "ops_qlinear.h"
#include "ops_reduce.h"
#include "ops_tile.h"

namespace ops {

// Digits per value of x. 16-bit types have at most 11 significant bits, so 16 bits represent exactly
// every value within a factor of 16 of the block's largest.
template <typename T> struct Digits { static constexpr u32 COUNT = 2; };
template <> struct Digits<f32> { static constexpr u32 COUNT = 3; };

// Rows of x are stored in groups of 32 blocks. A group has the heads of all its blocks, then for each
// digit plane the first sixteen digits of all blocks, then the last sixteen. Each of these entries has
// 16 bytes, so that reads of neighbouring lanes are coalesced.
constexpr u32 PART = 16, PART_BLOCKS = 32;
template <typename T> OPS_DEVICE constexpr u32 group_bytes() { return (1 + 2 * Digits<T>::COUNT) * PART * PART_BLOCKS; }
template <typename T> OPS_DEVICE u32 split_row_bytes(u64 blocks) {
    return u32((blocks + PART_BLOCKS - 1) / PART_BLOCKS) * group_bytes<T>();
}
template <typename T> OPS_DEVICE u32 block_at(u32 block) {
    return block / PART_BLOCKS * group_bytes<T>() + block % PART_BLOCKS * PART;
}

// The scale of x's integers, and what the weight's offset adds to their dot product: `last` is the
// share of the last of three digits, `upper` that of all others.
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

template <typename B, typename T> OPS_DEVICE void split_block(const QLinearArgs& args, u64 row, u32 block, bool live) {
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
    if (B::OFFSET != 0) {
        head.upper = -B::OFFSET * reduce_lanes(head.upper, LANES, Sum());
        if (DIGITS > 2) head.last = -B::OFFSET * reduce_lanes(head.last, LANES, Sum());
    }
    if (!live) return;
    u8* to = static_cast<u8*>(args.planes) + row * split_row_bytes<T>(args.k / BLOCK_ELEMENTS) + block_at<T>(block);
    if (lane == 0) *reinterpret_cast<Head*>(to) = head;
    OPS_UNROLL
    for (u32 p = 0; p < DIGITS; p++) {
        u32 part = 1 + 2 * p + lane / 4;
        *reinterpret_cast<u32*>(to + part * (PART * PART_BLOCKS) + lane % 4 * 4) = word[p];
    }
}

// Rows past the end are filled with zeros, because the dot kernels read several rows together.
template <typename B, typename T> OPS_DEVICE void qlinear_split(const QLinearArgs& args) {
    u64 blocks = args.k / BLOCK_ELEMENTS, count = args.plane_rows * blocks, step = global_threads() / LANES;
    for (u64 first = (global_thread() - lane_id()) / LANES; first < count; first += step) {
        u64 at = first + lane_id() / LANES;
        bool live = at < count;
        u64 row = (live ? at : count - 1) / blocks;
        split_block<B, T>(args, row, u32((live ? at : count - 1) - row * blocks), live);
    }
}

// ---- products -----------------------------------------------------------------------

// The dot product of one block: an integer, as f32.
template <u32 DIGITS>
OPS_DEVICE f32 dot_block(const u32 (&w)[8], const Pack<u32, 4> (&x)[2 * DIGITS], const Head& head, bool offset) {
    i32 sum = 0, last = offset ? head.last : 0;
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) sum = dot4(w[i], x[i / 4].v[i % 4], sum);
    sum = i32(u32(sum) << 8) + (offset ? head.upper : 0);
    OPS_UNROLL
    for (u32 i = 0; i < 8; i++) sum = dot4(w[i], x[2 + i / 4].v[i % 4], sum);
    if constexpr (DIGITS == 3) {
        OPS_UNROLL
        for (u32 i = 0; i < 8; i++) last = dot4(w[i], x[4 + i / 4].v[i % 4], last);
        return mad(f32(sum), 256.0f, f32(last));
    }
    return f32(sum);
}

// ROWS rows of x times COLUMNS rows of the weight.
template <u32 ROWS, u32 COLUMNS, typename B, typename T>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u64 m0, u64 n0) {
    constexpr u32 DIGITS = Digits<T>::COUNT;
    u32 lanes = u32(args.lanes), blocks = u32(args.k / BLOCK_ELEMENTS), row_bytes = split_row_bytes<T>(blocks);
    const B* column[COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        // Columns past the end repeat the last one; their results are not stored.
        column[j] = static_cast<const B*>(args.weight) + i64(n0 + j < args.n ? n0 + j : args.n - 1) * args.weight_row;
    }
    f32 sum[ROWS][COLUMNS] = {};
    OPS_NO_UNROLL
    for (u32 b = opaque(lane_id()) & (lanes - 1); b < blocks; b += lanes) {
        u32 w[COLUMNS][8];
        f32 d[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            const B* block = column[j] + i64(b) * args.weight_block;
            B::bytes(w[j], block);
            d[j] = to_f32(f16{block->d});
        }
        u32 at = u32(m0) * row_bytes + block_at<T>(b);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // One row's digits are in flight while another's are multiplied. Loading all rows at once
            // would exhaust the registers.
            u32 from = r < 2 ? at : opaque_after(at, sum[r - 2][COLUMNS - 1]);
            const u8* row = static_cast<const u8*>(args.planes) + u64(r * row_bytes) + from;
            Head head = bits_as<Head>(load_pack<4>(reinterpret_cast<const u32*>(row)));
            Pack<u32, 4> x[2 * DIGITS];
            OPS_UNROLL
            for (u32 p = 0; p < 2 * DIGITS; p++) {
                x[p] = load_pack<4>(reinterpret_cast<const u32*>(row + (1 + p) * (PART * PART_BLOCKS)));
            }
            OPS_UNROLL
            for (u32 j = 0; j < COLUMNS; j++) {
                f32 product = dot_block<DIGITS>(w[j], x, head, B::OFFSET != 0);
                sum[r][j] = mad(d[j], product * head.scale, sum[r][j]);
            }
        }
    }
    bool first_lane = (lane_id() & (lanes - 1)) == 0;
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        u64 m = m0 + r;
        T* to = row_at<T>(args.shape, args.y, m < args.rows ? m : 0) + i64(n0) * args.y.stride[5];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            f32 value = reduce_lanes(sum[r][j], lanes, Sum());
            if (first_lane && m < args.rows && n0 + j < args.n) to[i64(j) * args.y.stride[5]] = narrow<T>(value);
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
        dot_columns<ROWS, COLUMNS, B, T>(reread(args), at % groups_m * ROWS, at / groups_m * COLUMNS);
    }
}

}  // namespace ops
