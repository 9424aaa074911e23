// Rows: n elements read and written N at a time by a group of lanes, which is the whole thread block
// for long rows and part of a wave for short ones.
#pragma once
#include "ops_reduce.h"
#include "ops_view.h"

namespace ops {

// Packs of its row that a lane keeps in registers between passes. The path for odd strides and
// alignments reads the row again instead.
template <typename T, u32 N> OPS_DEVICE constexpr u32 row_cache() { return sizeof(T) * N < 8 ? 1 : 4; }

// Access to a row, N elements at a time: 16-byte packs of contiguous memory, or single elements at any stride.
template <typename T, u32 N> struct Row {
    T* data;
    i64 stride;

    OPS_METHOD Pack<T, N> load(u64 chunk) const {
        if constexpr (N == 1) {
            return Pack<T, N>{{data[i64(chunk) * stride]}};
        } else {
            return load_pack<N>(data + chunk * N);
        }
    }
    OPS_METHOD void store(u64 chunk, const Pack<T, N>& values) const {
        if constexpr (N == 1) {
            data[i64(chunk) * stride] = values.v[0];
        } else {
            store_pack<N>(data + chunk * N, values);
        }
    }
};

template <typename T, u32 N> OPS_DEVICE Pack<acc_t<T>, N> widen_pack(const Pack<T, N>& in) {
    Pack<acc_t<T>, N> out;
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out.v[i] = widen(in.v[i]);
    return out;
}
template <typename T, u32 N, typename A = acc_t<T>> OPS_DEVICE Pack<T, N> narrow_pack(const Pack<A, N>& in) {
    Pack<T, N> out;
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out.v[i] = narrow<T>(in.v[i]);
    return out;
}

// Elements per pack in the row kernels. f64 uses single elements: its accesses are wide enough, and one
// path suffices.
template <typename T> OPS_DEVICE constexpr u32 row_pack() { return sizeof(T) == 8 ? 1 : PACK_BYTES / sizeof(T); }

template <typename T, u32 N>
OPS_DEVICE Row<T, N> row_of(const Shape& shape, const Operand& operand, u64 row) {
    return Row<T, N>{static_cast<T*>(operand.data) + offset_of<4>(shape, operand, row), operand.stride[5]};
}

// The lanes that share a row: the whole block if WHOLE, otherwise `width` neighbouring lanes of a wave.
// Consecutive reductions, including those of the next row, must alternate between TURN 0 and 1, so that
// one barrier each is enough.
template <typename A, u32 BLOCK, bool WHOLE> struct Group {
    A* scratch;
    u32 width;
    u32 lane;

    OPS_METHOD Group(A* s, u64 w) : scratch(s), width(u32(w)) {
        lane = opaque(WHOLE ? thread_x() : lane_id() & (width - 1));
    }
    OPS_METHOD u32 lanes() const { return WHOLE ? BLOCK : width; }
    template <u32 TURN, typename F> OPS_METHOD A reduce(A value, F f) const {
        A one[1] = {value};
        reduce_all<TURN>(one, f);
        return one[0];
    }
    template <u32 TURN, u32 VALUES, typename F> OPS_METHOD void reduce_all(A (&value)[VALUES], F f) const {
        if constexpr (WHOLE) {
            reduce_block<BLOCK>(value, scratch + TURN * reduce_slots<BLOCK>(), f);
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < VALUES; i++) value[i] = reduce_lanes(value[i], width, f);
        }
    }
};

// Calls visit(row, live) for the rows of this group. All lanes of a wave run the same number of
// iterations; a group without a row left repeats the last row with live = false.
template <u32 BLOCK, bool WHOLE, typename F> OPS_DEVICE void for_rows(u64 rows, u32 width, F visit) {
    if constexpr (WHOLE) {
        for (u64 row = block_x(); row < rows; row += grid_x()) visit(row, true);
    } else {
        u32 per_wave = OPS_WAVE / width;
        u64 first = (u64(block_x()) * (BLOCK / OPS_WAVE) + wave_id()) * per_wave;
        u64 step = u64(grid_x()) * (BLOCK / OPS_WAVE) * per_wave;
        for (; first < rows; first += step) {
            u64 row = first + lane_id() / width;
            bool live = row < rows;
            visit(live ? row : rows - 1, live);
        }
    }
}

// One lane's chunks of a row. The first CACHED stay in registers; the rest are loaded again in every pass.
template <typename T, u32 N, typename G> struct CachedRow {
    using A = acc_t<T>;
    static constexpr u32 CACHED = row_cache<T, N>();
    G group;
    u64 chunks;
    Pack<T, N> cache[CACHED];

    // Calls f(chunk, values) for every chunk of this lane; load(chunk) reads the values.
    template <typename L, typename F> OPS_METHOD void first_pass(L load, F f) {
        OPS_UNROLL
        for (u32 k = 0; k < CACHED; k++) {
            u64 c = group.lane + u64(k) * group.lanes();
            if (c < chunks) cache[k] = load(c);
        }
        again(load, f);
    }
    template <typename L, typename F> OPS_METHOD void again(L load, F f) const {
        OPS_UNROLL
        for (u32 k = 0; k < CACHED; k++) {
            u64 c = group.lane + u64(k) * group.lanes();
            if (c < chunks) f(c, widen_pack<T, N>(cache[k]));
        }
        OPS_NO_UNROLL
        for (u64 c = group.lane + u64(CACHED) * group.lanes(); c < chunks; c += group.lanes()) {
            f(c, widen_pack<T, N>(load(c)));
        }
    }
};

}  // namespace ops
