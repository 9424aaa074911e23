// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, with four byte products per instruction.
// split: writes each block of 32 values of x as integers times a power of two, and the integers as
// signed base-256 digits.
// dot*: a group of lanes computes a few rows of the weight, one step of 32 values per lane at a time. It multiplies
// digit by digit. dot1 splits its only row itself (ops_dot_row.h).
#include "ops_dot_row.h"
#include "ops_tile.h"

namespace ops {

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

// ---- split --------------------------------------------------------------------------

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
    u32 word[DIGITS];
    digits_of<DIGITS>(word, q);
    if (DIGITS > 2) head.last = dot4(0x01010101u, word[DIGITS - 1], 0);
    // Without the last of three digits, the sum is that of the integers less it, in units of 256.
    i32 sum = q[0] + q[1] + q[2] + q[3];
    head.upper = DIGITS > 2 ? (sum - head.last) >> 8 : sum;
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

// ROWS rows of x times COLUMNS rows of the weight, or half as many of each of two.
template <u32 ROWS, u32 COLUMNS, u32 DIGITS, bool PAIRED, typename B>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u64 m0, u64 n0) {
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES), row_bytes = split_row_bytes<DIGITS>(steps);
    constexpr u32 OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    // If a step has two groups, adding up x in each for every row costs more than taking the offset off every column's codes.
    constexpr bool CENTRED = Step<B>::GROUPS > 1;
    const B* column[COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        // Columns past the end repeat the last one; their results are not stored.
        u64 n = n0 + j % OUTPUTS;
        const void* of = PAIRED && j >= OUTPUTS ? args.up : args.weight;
        column[j] = static_cast<const B*>(of) + i64(n < args.n ? n : args.n - 1) * args.weight_row;
    }
    f32 sum[ROWS][COLUMNS] = {};
    OPS_NO_UNROLL
    for (u32 b = opaque(lane_id()) & (lanes - 1); b < steps; b += lanes) {
        Step<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) {
            w[j].load(column[j], args.weight_block, b);
            if (!CENTRED) continue;
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
            for (u32 j = 0; j < COLUMNS; j++) sum[r][j] = add_step<DIGITS, CENTRED>(sum[r][j], w[j], x, sums);
        }
    }
    bool first_lane = (lane_id() & (lanes - 1)) == 0;
    OPS_UNROLL
    for (u32 r = 0; r < ROWS; r++) {
        u64 m = m0 + r;
        OPS_UNROLL
        for (u32 j = 0; j < OUTPUTS; j++) {
            f32 value = reduce_lanes(sum[r][j], lanes, Sum());
            if (PAIRED) value = gated(value, reduce_lanes(sum[r][(j + OUTPUTS) % COLUMNS], lanes, Sum()));
            if (!first_lane || m >= args.rows || n0 + j >= args.n) continue;
            write_sum<DIGITS>(args, offset_of<4>(args.shape, args.y, m) + i64(n0 + j) * args.y.stride[5], value);
        }
    }
}

template <u32 ROWS, bool PAIRED, typename B, typename T> OPS_DEVICE void dot_groups(const QLinearArgs& args) {
    // Four columns share each load of x, whose digits take more bytes than the weight.
    constexpr u32 COLUMNS = 4, OUTPUTS = outputs_of<PAIRED, COLUMNS>();
    u64 groups_m = (args.rows + ROWS - 1) / ROWS, groups_n = (args.n + OUTPUTS - 1) / OUTPUTS;
    u64 groups = groups_m * groups_n;
    u32 per_wave = OPS_WAVE / u32(args.lanes);
    u64 first = (u64(block_x()) * (MATMUL_BLOCK / OPS_WAVE) + wave_id()) * per_wave;
    u64 step = u64(grid_x()) * (MATMUL_BLOCK / OPS_WAVE) * per_wave;
    OPS_NO_UNROLL
    for (; first < groups; first += step) {
        // A group past the end computes columns past the end, which are not stored.
        u64 at = first + lane_id() / u32(args.lanes);
        dot_columns<ROWS, COLUMNS, Digits<T>::COUNT, PAIRED, B>(reread(args), at % groups_m * ROWS, at / groups_m * OUTPUTS);
    }
}

template <u32 ROWS, typename B, typename T> OPS_DEVICE void qlinear_dot(const QLinearArgs& args) {
    dot_groups<ROWS, false, B, T>(args);
}

// silu(x gate) * (x up)
template <u32 ROWS, typename B, typename T> OPS_DEVICE void swiglu_dot(const QLinearArgs& args) {
    dot_groups<ROWS, true, B, T>(args);
}

}  // namespace ops
