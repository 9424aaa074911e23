// The core of a tiled product: operands staged through LDS, accumulators in registers.
#pragma once
#include "ops_row.h"

namespace ops {

constexpr u32 MATMUL_BLOCK = 256;
constexpr u32 STAGED = 8;  // elements of a tile that each thread stages

// Loads N elements in accesses of at most 16 bytes. The address must be aligned for them.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_parts(const T* from) {
    constexpr u32 PART = sizeof(T) * N > PACK_BYTES ? PACK_BYTES / sizeof(T) : N;
    Pack<T, N> out;
    OPS_UNROLL
    for (u32 p = 0; p < N; p += PART) {
        Pack<T, PART> part = load_pack<PART>(from + p);
        OPS_UNROLL
        for (u32 i = 0; i < PART; i++) out.v[p + i] = part.v[i];
    }
    return out;
}

// One operand's part of a tile: SIZE lines (rows of a, columns of b) by DEPTH along k, in LDS as
// [DEPTH][SIZE + 4] in the accumulator type. A thread stages STAGED consecutive elements along
// whichever direction is contiguous in memory.
template <typename T, typename A, u32 SIZE, u32 DEPTH> struct Stage {
    static constexpr u32 PITCH = SIZE + 4;
    const T* from;
    i64 line_stride, k_stride;
    u64 lines, depth;  // in range
    bool along_k, packs;
    u32 line, k;  // of this thread's first element
    Pack<T, STAGED> held;

    OPS_METHOD Stage(const T* data, i64 by_line, i64 by_k, u64 line_count, u64 k_count)
        : from(data), line_stride(by_line), k_stride(by_k), lines(line_count), depth(k_count) {
        along_k = by_k == 1 || by_line != 1;
        i64 along = along_k ? by_k : by_line, across = along_k ? by_line : by_k;
        packs = along == 1 && across % i64(PACK_BYTES / sizeof(T)) == 0 && is_aligned(data, PACK_BYTES);
        u32 at = thread_x() * STAGED;
        line = along_k ? at / DEPTH : at % SIZE;
        k = along_k ? at % DEPTH : at / SIZE;
    }
    // Loads this thread's elements of the tile at (first_line, first_k). Elements out of range are zero.
    OPS_METHOD void load(u64 first_line, u64 first_k) {
        u64 l = first_line + line, d = first_k + k;
        i64 step = along_k ? k_stride : line_stride;
        const T* at = from + i64(l) * line_stride + i64(d) * k_stride;
        // Number of elements in range from this one on.
        u64 left = l < lines && d < depth ? (along_k ? depth - d : lines - l) : 0;
        if (packs && left >= STAGED) {
            held = load_parts<STAGED>(at);
            return;
        }
        u32 room = left < STAGED ? u32(left) : STAGED;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) {
            T value{};
            if (i < room) value = at[i64(i) * step];
            held.v[i] = value;
        }
    }
    OPS_METHOD void store(A* tile) const {
        u32 pitch = along_k ? PITCH : 1;
        A* to = tile + k * PITCH + line;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[i * pitch] = A(widen(held.v[i]));
    }
};

template <typename T, typename A> OPS_DEVICE void store_element(T* to, A value) { *to = narrow<T>(value); }

// The lines that a thread computes, in groups of 4 that are 64 apart.
OPS_DEVICE u32 line_of(u32 thread, u32 i) { return (i / 4) * 64 + thread * 4 + i % 4; }

template <u32 GROUPS, typename A> OPS_DEVICE void read_lines(A (&out)[GROUPS * 4], const A* row, u32 thread) {
    OPS_UNROLL
    for (u32 g = 0; g < GROUPS; g++) {
        Pack<A, 4> four = load_parts<4>(row + g * 64 + thread * 4);
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) out[g * 4 + i] = four.v[i];
    }
}

// The extents of a product: m_count rows of n_count columns, which are `step` elements apart.
struct Extent {
    u64 m_count, n_count, k_count;
    i64 step;
};

// Computes the tile of GROUPS * 64 squared outputs at (m0, n0) with 16 x 16 threads, GROUPS * 4 squared
// outputs each. a and b stage the operands. row(m) is the address of output row m, and bias(n) is added to
// column n. extent() is called again at the end, so that its values occupy no registers during the product.
template <u32 GROUPS, typename A, typename StageA, typename StageB, typename E, typename R, typename F>
OPS_DEVICE void multiply_tile(A* tile_a, A* tile_b, StageA& a, StageB& b, u64 m0, u64 n0, E extent, R row, F bias) {
    constexpr u32 SIZE = GROUPS * 64, DEPTH = MATMUL_BLOCK * STAGED / SIZE, LINES = GROUPS * 4, PITCH = SIZE + 4;
    u32 tx = thread_x() % 16, ty = thread_x() / 16;
    A total[LINES][LINES] = {};
    // The first iteration only loads. Later ones compute on one tile while the next one's loads are in flight.
    u64 next = 0, k_count = extent().k_count;
    for (bool loaded = false; loaded || next < k_count;) {
        if (loaded) {
            barrier();
            a.store(tile_a);
            b.store(tile_b);
            barrier();
        }
        bool use = loaded;
        loaded = next < k_count;
        if (loaded) {
            a.load(m0, next);
            b.load(n0, next);
            next += DEPTH;
        }
        if (!use) continue;
        A part[LINES][LINES] = {};  // two-level sum: rounding error grows with the root of either length
        OPS_NO_UNROLL
        for (u32 k = 0; k < DEPTH; k++) {
            A left[LINES], right[LINES];
            read_lines<GROUPS>(left, tile_a + k * PITCH, ty);
            read_lines<GROUPS>(right, tile_b + k * PITCH, tx);
            OPS_UNROLL
            for (u32 i = 0; i < LINES; i++) {
                OPS_UNROLL
                for (u32 j = 0; j < LINES; j++) part[i][j] = mad(left[i], right[j], part[i][j]);
            }
        }
        OPS_UNROLL
        for (u32 i = 0; i < LINES; i++) {
            OPS_UNROLL
            for (u32 j = 0; j < LINES; j++) total[i][j] += part[i][j];
        }
    }
    Extent to_fill = extent();
    u64 past = to_fill.n_count - n0;
    u32 columns = past < SIZE ? u32(past) : SIZE;  // columns of this tile in range
    A added[LINES];
    OPS_UNROLL
    for (u32 j = 0; j < LINES; j++) {
        u32 n = line_of(tx, j);
        added[j] = n < columns ? bias(n0 + n) : A(0);
    }
    OPS_UNROLL
    for (u32 i = 0; i < LINES; i++) {
        u64 m = m0 + line_of(ty, i);
        if (m >= to_fill.m_count) continue;
        auto to = row(m) + i64(n0) * to_fill.step;
        u32 mine = opaque(tx);  // otherwise all column comparisons are kept through the row loop
        OPS_UNROLL
        for (u32 j = 0; j < LINES; j++) {
            u32 n = line_of(mine, j);
            if (n < columns) store_element(to + i64(n) * to_fill.step, total[i][j] + added[j]);
        }
    }
}

}  // namespace ops
