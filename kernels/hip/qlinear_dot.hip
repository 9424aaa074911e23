// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, rounded to bytes, with four products per instruction.
// split: writes each block of 32 values of x as signed bytes and their scale.
// dot*: a group of lanes computes a few rows of the weight, one step of 32 values per lane at a time. dot1 rounds its only row
// itself (ops_dot_row.h).
#include "ops_dot_row.h"
#include "ops_tile.h"

namespace ops {

// Rows of x are stored in groups of 32 blocks. A group has the heads of all its blocks, then the first sixteen bytes of all blocks,
// then the last sixteen, so that reads of neighbouring lanes are coalesced.
constexpr u32 HEAD = 8, PART = 16, PART_BLOCKS = 32, GROUP_BYTES = (HEAD + 2 * PART) * PART_BLOCKS;
OPS_DEVICE u32 split_row_bytes(u64 blocks) { return u32((blocks + PART_BLOCKS - 1) / PART_BLOCKS) * GROUP_BYTES; }
// Where the head of a block is in its row, and half `half` of its bytes.
OPS_DEVICE u32 head_at(u32 block) { return block / PART_BLOCKS * GROUP_BYTES + block % PART_BLOCKS * HEAD; }
OPS_DEVICE u32 half_at(u32 block, u32 half) {
    return block / PART_BLOCKS * GROUP_BYTES + (HEAD + half * PART) * PART_BLOCKS + block % PART_BLOCKS * PART;
}

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
    u8* to = static_cast<u8*>(args.planes) + row * split_row_bytes(args.k / STEP_VALUES);
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

// ROWS rows of x times COLUMNS rows of the weight, or half as many of each of two.
template <u32 ROWS, u32 COLUMNS, bool PAIRED, typename B>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u64 m0, u64 n0) {
    u32 lanes = u32(args.lanes), steps = u32(args.k / STEP_VALUES), row_bytes = split_row_bytes(steps);
    constexpr u32 OUTPUTS = outputs_of<PAIRED, COLUMNS>();
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
        for (u32 j = 0; j < COLUMNS; j++) w[j].load(column[j], args.weight_block, b);
        u32 at = u32(m0) * row_bytes;
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // One row's bytes are in flight while another's are multiplied. Loading all rows at once
            // would exhaust the registers.
            u32 from = r < 2 ? at : opaque_after(at, sum[r - 2][COLUMNS - 1]);
            const u8* row = static_cast<const u8*>(args.planes) + u64(r * row_bytes) + from;
            ByteStep x;
            x.head = *reinterpret_cast<const Head*>(row + head_at(b));
            OPS_UNROLL
            for (u32 h = 0; h < 2; h++) x.half[h] = load_pack<4>(reinterpret_cast<const u32*>(row + half_at(b, h)));
            GroupSums<B> sums(x.head);
            OPS_UNROLL
            for (u32 j = 0; j < COLUMNS; j++) sum[r][j] = add_step(sum[r][j], w[j], x, sums);
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
            write_sum(args, offset_of<4>(args.shape, args.y, m) + i64(n0 + j) * args.y.stride[5], value);
        }
    }
}

template <u32 ROWS, bool PAIRED, typename B> OPS_DEVICE void dot_groups(const QLinearArgs& args) {
    // Four columns share each load of x, which takes as many bytes as the weight or more.
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
        dot_columns<ROWS, COLUMNS, PAIRED, B>(reread(args), at % groups_m * ROWS, at / groups_m * OUTPUTS);
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
