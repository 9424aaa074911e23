// sum, mean, max, min, prod, argmax and argmin over any dimensions.
// rows: a group of lanes per output. columns: a thread per few outputs that are neighbours in memory.
// Where there are few outputs, their elements are split into parts. A second launch of `rows` then combines the parts' results.
// Every result is combined in an order that only depends on the shape and on the number of compute units.
#include "ops_first.h"
#include "ops_reduce.h"
#include "ops_view.h"

namespace ops {

struct ReduceArgs {
    Shape kept;     // one index per output; in `columns`, x is contiguous along its last dimension
    Shape reduced;  // one index per element of an output
    Operand x;      // strides over `kept`
    Operand y;
    Operand along;  // x's strides over `reduced`
    Address<void> partial;  // results of parts, those of an output next to each other
    Divider parts;  // parts of each output
    Divider tiles;  // tiles of columns in a row of `kept`
    u64 items;      // of all: an output, or a tile of columns, and a part
    u64 part;       // elements of a part
    u64 lanes;      // of a group: at most a wave, or the whole block
    f64 divisor;    // of the sum
    u32 flip;       // whether the smallest element is wanted
    u32 pass;       // Pass
};

enum Pass : u32 { WHOLE_OUTPUTS = 0, WRITE_PARTS = 1, READ_PARTS = 2 };

constexpr u32 REDUCE_BLOCK = 256;
// Neighbouring threads that take neighbouring columns; the others of the block take other rows.
constexpr u32 TILE_COLUMNS = 32;
constexpr u32 SLICES = REDUCE_BLOCK / TILE_COLUMNS;
// Loads of a lane before a sum in f32 is added to its total in f64.
constexpr u32 TURNS = 16;
// Loads in flight.
constexpr u32 AHEAD = 4;

// ---- what is computed: a lane's accumulator, a total, and the output ---------------

// Integers accumulate modulo 2^32 or 2^64, which wraps to the result in their own type.
template <typename T> using wrapped_t = typename choose<sizeof(T) == 8, u64, u32>::type;

template <typename T> struct SumOf {
    using Out = T;
    using Lane = typename choose<is_float<T>::value, acc_t<T>, wrapped_t<T>>::type;
    using Total = typename choose<is_float<T>::value, f64, wrapped_t<T>>::type;
    static OPS_METHOD Total start() { return Total(0); }
    static OPS_METHOD Lane start_lane(u64) { return Lane(0); }
    static OPS_METHOD void take(Lane& lane, T x, u64, bool) {
        if constexpr (is_float<T>::value) {
            lane += widen(x);
        } else {
            lane += Lane(x);
        }
    }
    static OPS_METHOD Total total(Lane lane, bool) { return Total(lane); }
    static OPS_METHOD Total join(Total a, Total b) { return a + b; }
    static OPS_METHOD T finish(Total total, const ReduceArgs& args) {
        if constexpr (is_float<T>::value) {
            return narrow<T>(total / args.divisor);
        } else {
            return T(total);
        }
    }
};

// Products of floats in f64: those of parts may leave the range of f32 where that of all elements does not.
template <typename T> struct ProductOf {
    using Out = T;
    using Total = typename SumOf<T>::Total;
    using Lane = Total;
    static OPS_METHOD Total start() { return Total(1); }
    static OPS_METHOD Lane start_lane(u64) { return Lane(1); }
    static OPS_METHOD void take(Lane& lane, T x, u64, bool) {
        if constexpr (is_float<T>::value) {
            lane *= Lane(widen(x));
        } else {
            lane *= Lane(x);
        }
    }
    static OPS_METHOD Total total(Lane lane, bool) { return lane; }
    static OPS_METHOD Total join(Total a, Total b) { return a * b; }
    static OPS_METHOD T finish(Total total, const ReduceArgs&) {
        if constexpr (is_float<T>::value) {
            return narrow<T>(total);
        } else {
            return T(total);
        }
    }
};

// The extremes of a lane of 16-bit floats in f32, which is faster than by keys, and the largest magnitude: it tells whether there
// was a NaN.
struct LargestFloat {
    f32 high, low;  // which is wanted is asked at the end: a scalar register less in the loop
    u32 magnitude;
};

template <typename T> struct LargestOf {
    using Out = T;
    using Total = key_t<T>;
    static constexpr bool IN_F32 = is_float<T>::value && sizeof(T) == 2;
    using Lane = typename choose<IN_F32, LargestFloat, Total>::type;
    static OPS_METHOD Total start() { return 0; }
    static OPS_METHOD Lane start_lane(u64) {
        if constexpr (IN_F32) {
            f32 infinity = bits_as<f32>(InfinityBits<f32>::value);
            return LargestFloat{-infinity, infinity, 0};
        } else {
            return 0;
        }
    }
    static OPS_METHOD void take(Lane& lane, T x, u64, bool flip) {
        if constexpr (IN_F32) {
            f32 value = widen(x);
            u32 magnitude = bits_as<u32>(value) & 0x7fffffff;
            lane.high = value > lane.high ? value : lane.high;
            lane.low = value < lane.low ? value : lane.low;
            lane.magnitude = magnitude > lane.magnitude ? magnitude : lane.magnitude;
        } else {
            lane = join(lane, key_of(x, flip));
        }
    }
    // The key of a lane that has taken an element.
    static OPS_METHOD Total total(const Lane& lane, bool flip) {
        if constexpr (IN_F32) {
            if (lane.magnitude > InfinityBits<f32>::value) return all_bits<T>();
            return key_of(narrow<T>(flip ? lane.low : lane.high), flip);
        } else {
            return lane;
        }
    }
    static OPS_METHOD Total join(Total a, Total b) { return a > b ? a : b; }
    static OPS_METHOD T finish(Total total, const ReduceArgs& args) { return element_of<T>(total, args.flip != 0); }
};

// What computes an op from packs of elements, and whether it takes them as a whole.
template <typename O> struct FromPacks {
    using type = O;
    static constexpr bool whole = false;
};
template <> struct FromPacks<IndexOf<f16>> : FromPacks<void> { using type = IndexOfPacks<f16>; };
template <> struct FromPacks<IndexOf<bf16>> : FromPacks<void> { using type = IndexOfPacks<bf16>; };
template <typename T> struct FromPacks<IndexOfPacks<T>> { static constexpr bool whole = true; };

template <typename O> struct Join {
    OPS_METHOD typename O::Total operator()(typename O::Total a, typename O::Total b) const { return O::join(a, b); }
};

// ---- rows -------------------------------------------------------------------------

// Where element `at` of an output lies, from its first.
OPS_DEVICE i64 along(const ReduceArgs& args, u64 at) {
    if (args.reduced.rank <= 1) return i64(at) * args.along.stride[5];
    const ReduceArgs& now = reread(args);
    return offset_of<5>(now.reduced, now.along, at);
}

// A lane's share of the elements [begin, end), N at a time.
template <typename O, u32 N, typename T>
OPS_DEVICE typename O::Total share(const ReduceArgs& args, const T* x, u64 begin, u64 end, u32 lane, u32 lanes) {
    bool flip = args.flip != 0;
    typename O::Total total = O::start();
    u64 step = u64(lanes) * N, at = begin + u64(lane) * N;
    auto load = [&](u64 i) OPS_INLINE {
        const T* from = x + along(args, i);
        if constexpr (N == 1) {
            return Pack<T, N>{{*from}};
        } else {
            return load_pack<N>(from);
        }
    };
    auto take = [&](typename O::Lane& acc, const Pack<T, N>& pack, u64 i) OPS_INLINE {
        if constexpr (FromPacks<O>::whole) {
            O::take_pack(acc, pack, i, flip);
        } else {
            OPS_UNROLL
            for (u32 k = 0; k < N; k++) O::take(acc, pack.v[k], i + k, flip);
        }
    };
    while (at < end) {
        typename O::Lane acc = O::start_lane(at);
        OPS_NO_UNROLL
        for (u32 turn = 0; turn < TURNS && at + (AHEAD - 1) * step < end; turn++) {
            Pack<T, N> packs[AHEAD];
            OPS_UNROLL
            for (u32 k = 0; k < AHEAD; k++) packs[k] = load(at + k * step);
            OPS_UNROLL
            for (u32 k = 0; k < AHEAD; k++) take(acc, packs[k], at + k * step);
            at += AHEAD * step;
        }
        if (at + (AHEAD - 1) * step >= end) {
            OPS_NO_UNROLL
            for (; at < end; at += step) take(acc, load(at), at);
        }
        total = O::join(total, O::total(acc, reread(args).flip != 0));
    }
    return total;
}

// Stores the total of an item: of a part in the workspace, or the output.
template <typename O> OPS_DEVICE void put(const ReduceArgs& args, typename O::Total total, u64 output, u64 part, i64 to) {
    if (args.pass == WRITE_PARTS) {
        static_cast<typename O::Total*>(args.partial)[output * args.parts.by + part] = total;
    } else {
        static_cast<typename O::Out*>(args.y.data)[to] = O::finish(total, args);
    }
}

template <template <typename> class F, typename T> OPS_DEVICE void reduce_rows(const ReduceArgs& all_args) {
    using O = F<T>;
    using Total = typename O::Total;
    constexpr u32 N = PACK_BYTES / sizeof(T);
    OPS_LDS(Total, scratch, REDUCE_BLOCK / 32);
    u32 lanes = u32(all_args.lanes);
    u32 width = lanes > OPS_WAVE ? OPS_WAVE : lanes;
    u32 lane = thread_x() & (lanes - 1), per_block = REDUCE_BLOCK / lanes;
    for (u64 first = u64(block_x()) * per_block; first < all_args.items; first += u64(grid_x()) * per_block) {
        const ReduceArgs& args = reread(all_args);
        u64 item = first + thread_x() / lanes;
        bool live = item < args.items;
        if (!live) item = args.items - 1;
        Total total = O::start();
        u64 output = item, part = 0;
        if (args.pass == READ_PARTS) {
            const Total* from = static_cast<const Total*>(args.partial) + item * args.parts.by;
            for (u64 i = lane; i < args.parts.by; i += lanes) total = O::join(total, from[i]);
        } else {
            output = divide(args.parts, item);
            part = item - output * args.parts.by;
            const T* x = static_cast<const T*>(args.x.data) + offset_of<5>(args.kept, args.x, output);
            u64 begin = part * args.part, end = begin + args.part;
            if (end > args.reduced.count) end = args.reduced.count;
            total = args.reduced.pack == N ? share<typename FromPacks<O>::type, N>(reread(args), x, begin, end, lane, lanes)
                                           : share<O, 1>(reread(args), x, begin, end, lane, lanes);
        }
        total = reduce_lanes(total, width, Join<O>());
        if (lanes > OPS_WAVE) {
            if (lane_id() == 0) scratch[wave_id()] = total;
            barrier();
            total = scratch[0];
            for (u32 w = 1; w < lanes / OPS_WAVE; w++) total = O::join(total, scratch[w]);
            barrier();
        }
        if (live && lane == 0) {
            const ReduceArgs& now = reread(args);
            put<O>(now, total, output, part, offset_of<5>(now.kept, now.y, output));
        }
    }
}

// ---- columns ----------------------------------------------------------------------

// Totals of N neighbouring columns over the rows [begin, end), of which this thread takes every SLICES-th.
template <typename O, u32 N, typename T>
OPS_DEVICE void column_share(const ReduceArgs& args, const T* x, u64 begin, u64 end, typename O::Total* total) {
    bool flip = args.flip != 0;
    typename O::Lane acc[N];
    u64 at = begin;
    auto load = [&](u64 i) OPS_INLINE {
        const T* from = x + along(args, i);
        if constexpr (N == 1) {
            return Pack<T, N>{{*from}};
        } else {
            return load_pack<N>(from);
        }
    };
    auto take = [&](const Pack<T, N>& pack, u64 i) OPS_INLINE {
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) O::take(acc[k], pack.v[k], i, flip);
    };
    OPS_UNROLL
    for (u32 k = 0; k < N; k++) total[k] = O::start();
    while (at < end) {
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) acc[k] = O::start_lane(at);
        OPS_NO_UNROLL
        for (u32 turn = 0; turn < TURNS && at + (AHEAD - 1) * SLICES < end; turn++) {
            Pack<T, N> packs[AHEAD];
            OPS_UNROLL
            for (u32 k = 0; k < AHEAD; k++) packs[k] = load(at + k * SLICES);
            OPS_UNROLL
            for (u32 k = 0; k < AHEAD; k++) take(packs[k], at + k * SLICES);
            at += AHEAD * SLICES;
        }
        if (at + (AHEAD - 1) * SLICES >= end) {
            OPS_NO_UNROLL
            for (; at < end; at += SLICES) take(load(at), at);
        }
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) total[k] = O::join(total[k], O::total(acc[k], reread(args).flip != 0));
    }
}

// A tile of columns, N per thread; `item` counts parts, tiles and rows of `kept`, innermost first.
template <typename O, u32 N, typename T> OPS_DEVICE void column_tile(const ReduceArgs& args, u64 item, typename O::Total* scratch) {
    u64 tile = divide(args.parts, item), part = item - tile * args.parts.by;
    u64 row = divide(args.tiles, tile), columns = args.kept.dim[5];
    u32 column = thread_x() % TILE_COLUMNS, slice = thread_x() / TILE_COLUMNS;
    u64 first = ((tile - row * args.tiles.by) * TILE_COLUMNS + column) * N;
    u64 begin = part * args.part, end = begin + args.part;
    if (end > args.reduced.count) end = args.reduced.count;
    typename O::Total total[N];
    if (first < columns) {
        const T* x = static_cast<const T*>(args.x.data) + offset_of<4>(args.kept, args.x, row) + i64(first);
        column_share<O, N>(reread(args), x, begin + slice, end, total);
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) scratch[k * REDUCE_BLOCK + thread_x()] = total[k];
    }
    barrier();
    if (first < columns && slice == 0) {
        const ReduceArgs& now = reread(args);
        i64 y = offset_of<4>(now.kept, now.y, row);
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) {
            for (u32 s = 1; s < SLICES; s++) {
                total[k] = O::join(total[k], scratch[k * REDUCE_BLOCK + s * TILE_COLUMNS + column]);
            }
            put<O>(now, total[k], row * columns + first + k, part, y + i64(first + k) * now.y.stride[5]);
        }
    }
    barrier();
}

// Columns that a thread takes if their number and alignment allow it.
template <typename T> OPS_DEVICE constexpr u32 column_pack() { return sizeof(T) == 8 ? 2 : 4; }

template <template <typename> class F, typename T> OPS_DEVICE void reduce_columns(const ReduceArgs& args) {
    using O = F<T>;
    constexpr u32 N = column_pack<T>();
    OPS_LDS(typename O::Total, scratch, N * REDUCE_BLOCK);
    for (u64 item = block_x(); item < args.items; item += grid_x()) {
        if (args.kept.pack == N) {
            column_tile<O, N, T>(args, item, scratch);
        } else {
            column_tile<O, 1, T>(args, item, scratch);
        }
    }
}

}  // namespace ops
