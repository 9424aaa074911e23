// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, rounded to bytes, with four products per instruction.
// split: writes each block of 32 values of x as signed bytes and their scale.
// dot*: a group of lanes computes a few rows of the weight, one step of 32 values per lane at a time. dot1 rounds its only row
// itself (ops_dot_row.h).
#include "ops_dot_row.h"
#include "ops_tile.h"

namespace ops {

// Blocks of x are stored by 32: of each row the heads of all its blocks, then the first sixteen bytes of all blocks, then the last
// sixteen, so that reads of neighbouring lanes are coalesced. The rows follow each other.
constexpr u32 HEAD = 8, PART = 16, PART_BLOCKS = 32, GROUP_BYTES = (HEAD + 2 * PART) * PART_BLOCKS;
// Where these parts of a block are, in bytes: its head, and half `half`.
OPS_DEVICE u32 group_at(const QLinearArgs& args, u32 row, u32 block) {
    return (block / PART_BLOCKS * u32(args.plane_rows) + row) * GROUP_BYTES;
}
OPS_DEVICE u32 head_at(u32 block) { return block % PART_BLOCKS * HEAD; }
OPS_DEVICE u32 half_at(u32 block, u32 half) { return (HEAD + half * PART) * PART_BLOCKS + block % PART_BLOCKS * PART; }

// ---- split --------------------------------------------------------------------------

template <typename T> OPS_DEVICE void split_block(const QLinearArgs& args, u64 row, u32 block, bool live) {
    u32 lane = lane_id() % LANES, word;
    f32 x[4] = {};
    if (row < args.rows) {
        const T* from = row_at<const T>(args.shape, args.x, row) + i64(block * 32 + lane * 4) * args.x.stride[5];
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) x[i] = widen(from[i64(i) * args.x.stride[5]]);
    }
    f32 scale = to_bytes(word, x);
    i32 half = reduce_lanes(dot4(0x01010101u, word, 0), LANES / 2, Sum());
    i32 other = shuffle_xor(half, LANES / 2, LANES);
    if (!live) return;
    u8* to = static_cast<u8*>(args.planes) + group_at(args, u32(row), block);
    if (lane == 0) *reinterpret_cast<Head*>(to + head_at(block)) = Head{scale, pack_sums(half, other)};
    *reinterpret_cast<u32*>(to + half_at(block, lane / 4) + lane % 4 * 4) = word;
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

// Rows of the weight that share each load of x. With two, eight rows of x would wait for the cache on gfx942, which delivers 64 bytes per
// cycle. CUDA hides the latency of memory better with the registers of two.
#if defined(OPS_CUDA)
constexpr u32 DOT_COLUMNS = 2;
#else
constexpr u32 DOT_COLUMNS = 4;
#endif

// A wave multiplies ROWS rows of x by COLUMNS rows of the weight, or half as many of each of two, gate and up in turn.
template <u32 ROWS, u32 COLUMNS, bool PAIRED, typename B>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u32 m0, u64 n0) {
    constexpr u32 SUMS = ROWS * COLUMNS, LANES_OF_SUM = OPS_WAVE / SUMS, PER_OUTPUT = PAIRED ? 2 : 1;
    const B* column[COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        // Columns past the end repeat the last one; their results are not stored.
        u64 n = n0 + j / PER_OUTPUT;
        const void* of = j % PER_OUTPUT == 1 ? args.up : args.weight;
        column[j] = static_cast<const B*>(of) + i64(n < args.n ? n : args.n - 1) * args.weight_row;
    }
    f32 sum[SUMS] = {};
    u32 steps = u32(args.k / STEP_VALUES);
    OPS_NO_UNROLL
    for (u32 b = opaque(lane_id()); b < steps; b += OPS_WAVE) {
        Step<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) w[j].load(column[j], args.weight_block, b);
        u32 at = group_at(args, m0, b);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // One row's bytes are in flight while another's are multiplied. Loading all rows at once
            // would exhaust the registers.
            u32 from = r < 2 ? at : opaque_after(at, sum[(r - 1) * COLUMNS - 1]);
            const u8* row = static_cast<const u8*>(args.planes) + from;
            ByteStep x;
            x.head = *reinterpret_cast<const Head*>(row + r * GROUP_BYTES + head_at(b));
            OPS_UNROLL
            for (u32 h = 0; h < 2; h++) x.half[h] = load_pack<4>(reinterpret_cast<const u32*>(row + r * GROUP_BYTES + half_at(b, h)));
            GroupSums<B> sums(x.head);
            OPS_UNROLL
            for (u32 j = 0; j < COLUMNS; j++) {
                f32& to = sum[r * COLUMNS + j];
                to = add_step(to, w[j], x, sums);
            }
        }
    }
    f32 total = sum_columns<SUMS>(sum);
    u32 mine = lane_id() / LANES_OF_SUM, j = mine % COLUMNS, m = m0 + mine / COLUMNS;
    if (PAIRED) total = gated(total, shuffle_xor(total, LANES_OF_SUM, OPS_WAVE));
    u64 n = n0 + j / PER_OUTPUT;
    if (lane_id() % LANES_OF_SUM != 0 || j % PER_OUTPUT != 0 || m >= args.rows || n >= args.n) return;
    write_sum(args, offset_of<4>(args.shape, args.y, m) + i64(n) * args.y.stride[5], total);
}

template <u32 ROWS, bool PAIRED, typename B> OPS_DEVICE void dot_groups(const QLinearArgs& args) {
    constexpr u32 OUTPUTS = outputs_of<PAIRED, DOT_COLUMNS>(), WAVES = MATMUL_BLOCK / OPS_WAVE;
    OPS_NO_UNROLL
    for (u64 n0 = (u64(block_x()) * WAVES + wave_id()) * OUTPUTS; n0 < args.n; n0 += u64(grid_x()) * (WAVES * OUTPUTS)) {
        OPS_NO_UNROLL
        for (u32 m0 = 0; m0 < args.rows; m0 += ROWS) dot_columns<ROWS, DOT_COLUMNS, PAIRED, B>(reread(args), m0, n0);
    }
}

template <u32 ROWS, typename B> OPS_DEVICE void qlinear_dot(const QLinearArgs& args) {
    dot_groups<ROWS, false, B>(args);
}

// silu(x gate) * (x up)
template <u32 ROWS, typename B> OPS_DEVICE void swiglu_dot(const QLinearArgs& args) {
    dot_groups<ROWS, true, B>(args);
}

}  // namespace ops
