// Tiles for matrix units: staging into LDS, and the multiplication by the waves of a thread block.
#pragma once
#include "ops_mma.h"

namespace ops {

constexpr u32 MMA_DEPTH = 32;  // depth of a tile in LDS along k
// Pitch of lines in LDS, in 16-bit elements. Lines are padded by 16 bytes: when 16 lines are read at
// once, the eight lines of each half start in different banks.
constexpr u32 MMA_PITCH = MMA_DEPTH + 8;

// A scheduling barrier. The compiler moves no instruction across it, so registers used on one side are
// free on the other.
OPS_DEVICE void keep_order() {
#if defined(OPS_AMD)
    __builtin_amdgcn_sched_barrier(0);
#endif
}

// A piece with as many instructions along k as MMA_DEPTH takes.
template <typename T> using MmaPiece = Mma<T, 16, MMA_DEPTH / (mma_held<T, 16>() * mma_groups<16>())>;

// One operand's part of a tile: TILE lines (rows of a, columns of b) by MMA_DEPTH along k, in LDS as
// [TILE][MMA_PITCH]. A thread loads COUNT elements. If k is contiguous in memory, these are packs of 8
// along a line; otherwise they are neighbouring lines at two consecutive k, so that the thread writes
// pairs. T is a 16-bit type, or f32 for ops_mma_parts.h.
template <typename T, u32 TILE> struct MmaStage {
    static constexpr u32 COUNT = TILE * MMA_DEPTH / MATMUL_BLOCK, HALF = COUNT / 2, PACKS = COUNT / 8;
    static_assert(sizeof(T) <= 4 && PACKS * 8 == COUNT, "COUNT is a whole number of packs");
    const T* from;  // the first line of the tile
    i64 line_stride, k_stride;
    u32 lines;  // lines of the tile that are in range
    bool along_k, packs;
    Pack<T, COUNT> held;

    OPS_METHOD MmaStage(const T* data, i64 by_line, i64 by_k, u64 first_line, u64 line_count)
        : from(data + i64(first_line) * by_line), line_stride(by_line), k_stride(by_k) {
        lines = line_count - first_line < TILE ? u32(line_count - first_line) : TILE;
        along_k = by_k == 1 || by_line != 1;
        i64 along = along_k ? by_k : by_line, across = along_k ? by_line : by_k;
        packs = along == 1 && across % 8 == 0 && is_aligned(data, PACK_BYTES);
    }
    // Reads N elements, `step` apart, into held.v[to ..]. The first `count` are in range; the rest are zero.
    template <u32 N> OPS_METHOD void read(u32 to, const T* at, i64 step, u32 count) {
        if (packs && count >= N) {
            Pack<T, N> pack = load_parts<N>(at);
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) held.v[to + i] = pack.v[i];
            return;
        }
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            T value{};
            if (i < count) value = *at;
            held.v[to + i] = value;
            at += step;  // not at[i * step]: the compiler would keep one product per element
        }
    }
    // Loads this thread's elements of the tile that begins at first_k. Elements past `depth` are zero.
    OPS_METHOD void load(u64 first_k, u64 depth) {
        u32 thread = opaque(thread_x());
        u64 behind = first_k < depth ? depth - first_k : 0;
        u32 left = behind < MMA_DEPTH ? u32(behind) : MMA_DEPTH;
        const T* tile = from + i64(first_k) * k_stride;
        if (along_k) {
            OPS_UNROLL
            for (u32 p = 0; p < PACKS; p++) {
                u32 line = thread / 4 + p * (MATMUL_BLOCK / 4), k = thread % 4 * 8;
                u32 count = line < lines && k < left ? left - k : 0;
                read<8>(p * 8, tile + i64(line) * line_stride + i64(k) * k_stride, k_stride, count);
            }
        } else {
            OPS_UNROLL
            for (u32 p = 0; p < 2; p++) {
                u32 line = thread / 16 * HALF, k = thread % 16 * 2 + p;
                u32 count = line < lines && k < left ? lines - line : 0;
                read<HALF>(p * HALF, tile + i64(line) * line_stride + i64(k) * k_stride, line_stride, count);
            }
        }
    }
    OPS_METHOD void store(T* tile) const {
        u32 thread = opaque(thread_x());
        if (along_k) {
            OPS_UNROLL
            for (u32 p = 0; p < PACKS; p++) {
                Pack<T, 8> pack;
                OPS_UNROLL
                for (u32 i = 0; i < 8; i++) pack.v[i] = held.v[p * 8 + i];
                store_pack(tile + (thread / 4 + p * (MATMUL_BLOCK / 4)) * MMA_PITCH + thread % 4 * 8, pack);
            }
        } else {
            T* to = tile + thread / 16 * HALF * MMA_PITCH + thread % 16 * 2;
            OPS_UNROLL
            for (u32 i = 0; i < HALF; i++) store_pack(to + i * MMA_PITCH, Pack<T, 2>{{held.v[i], held.v[HALF + i]}});
        }
    }
};

// One wave's share of a thread block's TILE x TILE product: DOWN by ACROSS pieces of 16 x 16. The waves
// form two rows of BESIDE waves.
template <u32 TILE, typename T> struct MmaShare {
    using Piece = MmaPiece<T>;
    static constexpr u32 WAVES = MATMUL_BLOCK / OPS_WAVE, BESIDE = WAVES / 2;
    static constexpr u32 DOWN = TILE / 2 / 16, ACROSS = TILE / BESIDE / 16;
    u32 row0, column0;
    typename Piece::Product sums[DOWN][ACROSS];

    OPS_METHOD MmaShare() {
        row0 = wave_id() % 2 * (TILE / 2);
        column0 = wave_id() / 2 * (TILE / BESIDE);
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            OPS_UNROLL
            for (u32 j = 0; j < ACROSS; j++) sums[i][j].fill(0);
        }
    }
    OPS_METHOD void multiply(const T* tile_a, const T* tile_b) {
        typename Piece::Lines right[ACROSS];
        OPS_UNROLL
        for (u32 j = 0; j < ACROSS; j++) right[j] = Piece::load(tile_b + (column0 + j * 16) * MMA_PITCH, MMA_PITCH);
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            typename Piece::Lines left = Piece::load(tile_a + (row0 + i * 16) * MMA_PITCH, MMA_PITCH);
            OPS_UNROLL
            for (u32 j = 0; j < ACROSS; j++) Piece::multiply_add(left, right[j], sums[i][j]);
        }
    }
    // Adds the product of two tiles of a, which are consecutive in LDS, with b. If SCALED, multiplies
    // its rows by `scales`.
    template <bool SCALED> OPS_METHOD void multiply_parts(const T* tile_a, const T* tile_b, const f32* scales) {
        typename Piece::Lines right[ACROSS];
        OPS_UNROLL
        for (u32 j = 0; j < ACROSS; j++) right[j] = Piece::load(tile_b + (column0 + j * 16) * MMA_PITCH, MMA_PITCH);
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            keep_order();
            typename Piece::Lines high = Piece::load(tile_a + (row0 + i * 16) * MMA_PITCH, MMA_PITCH);
            typename Piece::Lines low = Piece::load(tile_a + (TILE + row0 + i * 16) * MMA_PITCH, MMA_PITCH);
            f32 scale[Piece::SUMS];
            OPS_UNROLL
            for (u32 e = 0; e < Piece::SUMS; e++) scale[e] = SCALED ? scales[row0 + i * 16 + Piece::row(e)] : 1.0f;
            OPS_UNROLL
            for (u32 j = 0; j < ACROSS; j++) {
                typename Piece::Product part = sums[i][j];
                if (SCALED) part.fill(0);
                Piece::multiply_add(low, right[j], part);
                Piece::multiply_add(high, right[j], part);
                OPS_UNROLL
                for (u32 e = 0; e < Piece::SUMS; e++) {
                    sums[i][j].v[e] = SCALED ? mad(part.v[e], scale[e], sums[i][j].v[e]) : part.v[e];
                }
            }
        }
    }
    // Adds the product of PARTS tiles of a, `apart` elements apart, with b. For each group of k, whose elements one
    // instruction takes if there are several, multiplies the columns by their factors. With MIN, adds the products of the
    // columns' minima and the rows' sums.
    template <u32 PARTS, bool MIN, typename S>
    OPS_METHOD void multiply_scaled(const T* tile_a, u32 apart, const T* tile_b, const S& scales) {
        constexpr u32 GROUPS = S::GROUPS, EACH = Piece::COUNT / GROUPS;
        static_assert(EACH * GROUPS == Piece::COUNT, "whole instructions");
        typename Piece::Lines right[ACROSS];
        f32 factor[ACROSS][GROUPS], minimum[ACROSS][GROUPS];
        OPS_UNROLL
        for (u32 j = 0; j < ACROSS; j++) {
            right[j] = Piece::load(tile_b + (column0 + j * 16) * MMA_PITCH, MMA_PITCH);
            OPS_UNROLL
            for (u32 g = 0; g < GROUPS; g++) {
                factor[j][g] = scales.factors(g)[column(j)];
                if (MIN) minimum[j][g] = scales.minima(g)[column(j)];
            }
        }
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            typename Piece::Lines left[PARTS];
            OPS_UNROLL
            for (u32 c = 0; c < PARTS; c++) {
                left[c] = Piece::load(tile_a + c * apart + (row0 + i * 16) * MMA_PITCH, MMA_PITCH);
            }
            OPS_UNROLL
            for (u32 g = 0; g < GROUPS; g++) {
                f32 sum[Piece::SUMS];
                OPS_UNROLL
                for (u32 e = 0; MIN && e < Piece::SUMS; e++) sum[e] = scales.sums(g)[row0 + i * 16 + Piece::row(e)];
                OPS_UNROLL
                for (u32 j = 0; j < ACROSS; j++) {
                    typename Piece::Product part;
                    part.fill(0);
                    OPS_UNROLL
                    for (u32 c = 0; c < PARTS; c++) Piece::template multiply_add<EACH>(left[c], right[j], part, g * EACH);
                    OPS_UNROLL
                    for (u32 e = 0; e < Piece::SUMS; e++) {
                        f32 total = mad(part.v[e], factor[j][g], sums[i][j].v[e]);
                        sums[i][j].v[e] = MIN ? mad(sum[e], minimum[j][g], total) : total;
                    }
                }
            }
        }
    }
    // Calls store(begin(row in the tile), column in the tile, sum) for every accumulator of this lane, row by row.
    template <typename B, typename F> OPS_METHOD void each(B begin, F store) const {
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            OPS_UNROLL
            for (u32 e = 0; e < Piece::SUMS; e++) {
                auto line = begin(opaque(row0) + i * 16 + Piece::row(e));
                OPS_UNROLL
                for (u32 j = 0; j < ACROSS; j++) store(line, column(j), sums[i][j].v[e]);
            }
        }
    }
    // Adds of(column in the tile) to every sum of the column.
    template <typename F> OPS_METHOD void add_columns(F of) {
        OPS_UNROLL
        for (u32 j = 0; j < ACROSS; j++) {
            f32 added = of(column(j));
            OPS_UNROLL
            for (u32 i = 0; i < DOWN; i++) {
                OPS_UNROLL
                for (u32 e = 0; e < Piece::SUMS; e++) sums[i][j].v[e] += added;
            }
        }
    }
    // This lane's column, within the tile, of the pieces j.
    OPS_METHOD u32 column(u32 j) const { return column0 + j * 16 + Piece::column(); }
    // Calls visit(row in the tile, sum) for every accumulator of this lane in that column.
    template <typename F> OPS_METHOD void each_row(u32 j, F visit) const {
        OPS_UNROLL
        for (u32 i = 0; i < DOWN; i++) {
            OPS_UNROLL
            for (u32 e = 0; e < Piece::SUMS; e++) visit(row0 + i * 16 + Piece::row(e), sums[i][j].v[e]);
        }
    }
};

}  // namespace ops
