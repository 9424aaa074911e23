// Rows of x rounded to bytes, in memory, and what products that read them share.
#pragma once
#include "ops_dot_step.h"

namespace ops {

// Blocks of x are stored by 32: of each row the heads of all its blocks, then the first sixteen bytes of all blocks, then the last
// sixteen, so that reads of neighbouring lanes are coalesced. The rows follow each other.
constexpr u32 HEAD = 8, PART = 16, PART_BLOCKS = 32, GROUP_BYTES = (HEAD + 2 * PART) * PART_BLOCKS;
// Where these parts of a block are, in bytes: the 32 blocks of a row that it belongs to, its head, and half `half`.
OPS_DEVICE u32 group_at(u32 plane_rows, u32 row, u32 block) { return (block / PART_BLOCKS * plane_rows + row) * GROUP_BYTES; }
OPS_DEVICE u32 head_at(u32 block) { return block % PART_BLOCKS * HEAD; }
OPS_DEVICE u32 half_at(u32 block, u32 half) { return (HEAD + half * PART) * PART_BLOCKS + block % PART_BLOCKS * PART; }

// A block of the group at `group`.
OPS_DEVICE ByteStep read_step(const u8* group, u32 block) {
    ByteStep x;
    x.head = *reinterpret_cast<const Head*>(group + head_at(block));
    OPS_UNROLL
    for (u32 h = 0; h < 2; h++) x.half[h] = load_pack<4>(reinterpret_cast<const u32*>(group + half_at(block, h)));
    return x;
}

// Rounds four values for each lane. Without `live`, nothing is written.
OPS_DEVICE void split_block(u8* group, u32 block, const f32 (&x)[4], bool live) {
    u32 lane = lane_id() % LANES, word;
    f32 scale = to_bytes(word, x);
    i32 half = reduce_lanes(dot4(0x01010101u, word, 0), LANES / 2, Sum());
    i32 other = shuffle_xor(half, LANES / 2, LANES);
    if (!live) return;
    if (lane == 0) *reinterpret_cast<Head*>(group + head_at(block)) = Head{scale, pack_sums(half, other)};
    *reinterpret_cast<u32*>(group + half_at(block, lane / 4) + lane % 4 * 4) = word;
}

// Writes `plane_rows` rows of k values. load(x, row, at) reads the four from value `at` on; what it does not write is zero.
template <typename F> OPS_DEVICE void split_rows(u8* planes, u32 plane_rows, u64 k, F load) {
    u64 blocks = k / STEP_VALUES, count = plane_rows * blocks, step = global_threads() / LANES;
    for (u64 first = (global_thread() - lane_id()) / LANES; first < count; first += step) {
        u64 at = first + lane_id() / LANES;
        bool live = at < count;
        at = live ? at : count - 1;
        u64 row = at / blocks;
        u32 block = u32(at - row * blocks);
        f32 x[4] = {};
        load(x, row, block * STEP_VALUES + lane_id() % LANES * 4);
        split_block(planes + group_at(plane_rows, u32(row), block), block, x, live);
    }
}

}  // namespace ops
