// gather, scatter, scatter_add and index_add along one dimension. The largest value of the index type means "no element": zero
// in gather, skipped in the others. So is an index out of range, which is recorded.
//
// Two ways to write, both without atomic operations and with the same results in every run. walk: a thread per line takes the
// sources in order, so that neighbouring threads access neighbouring elements. sorted: the indices of each line have been sorted,
// and a thread per place takes the sources of that place in order, which fills the device with few lines, too.
#include "ops_index.h"
#include "ops_view.h"

namespace ops {

struct GatherArgs {
    Shape shape;    // y's
    Operand x;      // stride 0 along the indexed dimension
    Operand y;
    Operand ids;
    Operand order;  // strides that give the position of an index in its operand; no memory
    i64 step;       // x's stride along the indexed dimension
    u64 bound;      // x's size along it
    u64 turns;      // tiles of a block
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;   // IndexKind
    u32 op;         // for the record
    u32 operand;
    u32 ids_packs;  // whether the indices of a pack of y are in aligned packs
};

struct ScatterArgs {
    Shape shape;    // src's, the indexed dimension outermost
    Operand dst;
    Operand src;
    Operand ids;
    Operand order;
    Address<const u32> sorted;  // numbers of the indices of a line, sorted by index; unused by walk
    u64 sorted_line;            // from one line's numbers to the next one's; 0 if all lines have the same indices
    u64 lines;
    u64 count;      // indices of a line
    u64 bound;      // dst's size along the dimension
    Address<ErrorSlot> error;
    u32 ids_kind;
    u32 op;
    u32 operand;
    u32 reserved;
};

// N indices that are neighbours along the last dimension, all loaded before any is used.
template <typename I, u32 N> OPS_DEVICE void read_neighbours(const GatherArgs& args, i64 at, I none, Index (&out)[N]) {
    constexpr u32 PART = sizeof(I) * N > PACK_BYTES ? PACK_BYTES / sizeof(I) : N;
    const I* from = static_cast<const I*>(args.ids.data) + at;
    I value[N];
    if (args.ids_packs != 0) {
        OPS_UNROLL
        for (u32 p = 0; p < N; p += PART) {
            Pack<I, PART> part = load_pack<PART>(from + p);
            OPS_UNROLL
            for (u32 k = 0; k < PART; k++) value[p + k] = part.v[k];
        }
    } else {
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) value[k] = from[k * args.ids.stride[5]];
    }
    OPS_UNROLL
    for (u32 k = 0; k < N; k++) out[k] = Index{i64(value[k]), value[k] == none};
}
template <u32 N> OPS_DEVICE void read_indices(const GatherArgs& args, i64 at, Index (&out)[N]) {
    if (args.ids_kind == INDEX_U32) {
        read_neighbours<u32>(args, at, 0xffffffffu, out);
    } else if (args.ids_kind == INDEX_I64) {
        read_neighbours<i64>(args, at, 0x7fffffffffffffffll, out);
    } else if (args.ids_kind == INDEX_I32) {
        read_neighbours<i32>(args, at, 0x7fffffff, out);
    } else {
        read_neighbours<u8>(args, at, u8(0xff), out);
    }
}

// N elements of y from its element i on, which are neighbours along the last dimension. Elements are loaded without a branch, so that
// all are in flight at once: where there is no element, the first is loaded instead.
template <u32 N, typename T> OPS_DEVICE void gather_at(const GatherArgs& args, u64 i) {
    const T* x = static_cast<const T*>(args.x.data);
    T* y = static_cast<T*>(args.y.data);
    i64 id = 0;
    unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
        x += i64(at) * args.x.stride[d];
        y += i64(at) * args.y.stride[d];
        id += i64(at) * args.ids.stride[d];
    });
    Index index[N];
    read_indices<N>(args, id, index);
    Pack<T, N> out{};
    bool present[N], wrong = false;
    OPS_UNROLL
    for (u32 k = 0; k < N; k++) {
        bool inside = u64(index[k].value) < args.bound;
        present[k] = inside & !index[k].absent;
        wrong |= !inside & !index[k].absent;
    }
    if (args.bound != 0) {
        OPS_UNROLL
        for (u32 k = 0; k < N; k++) out.v[k] = x[k * args.x.stride[5] + (present[k] ? index[k].value : 0) * args.step];
    }
    OPS_UNROLL
    for (u32 k = 0; k < N; k++) out.v[k] = present[k] ? out.v[k] : T(0);
    if constexpr (N == 1) {
        *y = out.v[0];
    } else {
        store_pack<N>(y, out);
    }
    if (!wrong) return;
    OPS_NO_UNROLL
    for (u32 k = 0; k < N; k++) {
        Index again = read_index(args.ids.data, args.ids_kind, id + k * args.ids.stride[5]);
        if (again.absent || u64(again.value) < args.bound) continue;
        i64 position = offset_of<5>(args.shape, args.order, i + k);
        record_index_error(args.error, args.op, args.operand, u64(position), again.value, args.bound);
    }
}

// Neighbours along the last dimension that a thread takes if y may be written in packs.
template <typename T> OPS_DEVICE constexpr u32 gather_pack() { return sizeof(T) == 8 ? 2 : 4; }

// A block takes consecutive tiles of y: they pick from the same rows of x, which are then in its cache.
template <typename T> OPS_DEVICE void gather(const GatherArgs& all_args) {
    constexpr u32 N = gather_pack<T>();
    u64 step = all_args.shape.pack == N ? N : 1, count = all_args.shape.count;
    u64 tile = block_dim() * step, turns = all_args.turns;
    u64 i = block_x() * turns * tile + thread_x() * step;
    OPS_NO_UNROLL
    for (u64 turn = 0; turn < turns && i < count; turn++, i += tile) {
        const GatherArgs& args = reread(all_args);
        if (step == 1) {
            gather_at<1, T>(args, i);
        } else {
            gather_at<N, T>(args, i);
        }
    }
}

// Where a line begins. Strides along it are read where they are used.
struct Line {
    i64 dst, src, ids;
};

// The line of a linear index, and its coordinate along the dimension.
OPS_DEVICE Line line_of(const ScatterArgs& args, u64 i, u64& along) {
    Line line{0, 0, 0};
    unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
        if (d + args.shape.rank == MAX_RANK) {
            along = at;
            return;
        }
        line.dst += i64(at) * args.dst.stride[d];
        line.src += i64(at) * args.src.stride[d];
        line.ids += i64(at) * args.ids.stride[d];
    });
    return line;
}

// The index of source `j` of a line; whether it is a place of dst. One out of range is recorded.
OPS_DEVICE bool place_of(const ScatterArgs& args, const Line& line, u64 i, u64 j, i64& place) {
    u32 first = MAX_RANK - args.shape.rank;
    Index index = read_index(args.ids.data, args.ids_kind, line.ids + i64(j) * args.ids.stride[first]);
    place = index.value;
    if (index.absent) return false;
    if (index.value >= 0 && u64(index.value) < args.bound) return true;
    i64 position = i64(j) * args.order.stride[first];
    unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
        if (d != first) position += i64(at) * args.order.stride[d];
    });
    record_index_error(args.error, args.op, args.operand, u64(position), index.value, args.bound);
    return false;
}

struct Replace {
    template <typename T> OPS_METHOD T operator()(T, T b) const { return b; }
};
struct Add {
    template <typename T> OPS_METHOD T operator()(T a, T b) const {
        if constexpr (is_float<T>::value) {
            return a + b;
        } else {
            using Wrap = typename choose<sizeof(T) == 8, u64, u32>::type;
            return T(Wrap(a) + Wrap(b));
        }
    }
};

template <typename T, typename F> OPS_DEVICE void walk(const ScatterArgs& args, F f) {
    u32 first = MAX_RANK - args.shape.rank;
    for (u64 i = global_thread(); i < args.lines; i += global_threads()) {
        u64 along = 0;
        Line line = line_of(args, i, along);
        T* dst = static_cast<T*>(args.dst.data) + line.dst;
        const T* src = static_cast<const T*>(args.src.data) + line.src;
        OPS_NO_UNROLL
        for (u64 j = 0; j < args.count; j++) {
            i64 place = 0;
            if (!place_of(args, line, i, j, place)) continue;
            T* to = dst + place * args.dst.stride[first];
            *to = f(*to, src[i64(j) * args.src.stride[first]]);
        }
    }
}
template <typename T> OPS_DEVICE void scatter_walk(const ScatterArgs& args) { walk<T>(args, Replace{}); }
template <typename T> OPS_DEVICE void scatter_add_walk(const ScatterArgs& args) { walk<T>(args, Add{}); }

// The index of source `j`, for comparison with that of another.
OPS_DEVICE i64 index_at(const ScatterArgs& args, const Line& line, u64 j) {
    u32 first = MAX_RANK - args.shape.rank;
    return read_index(args.ids.data, args.ids_kind, line.ids + i64(j) * args.ids.stride[first]).value;
}

// The last source of each place writes it.
template <typename T> OPS_DEVICE void scatter_sorted(const ScatterArgs& args) {
    u32 first = MAX_RANK - args.shape.rank;
    for (u64 i = global_thread(); i < args.shape.count; i += global_threads()) {
        u64 at = 0;
        Line line = line_of(args, i, at);
        const u32* sorted = args.sorted;
        sorted += (i - at * args.lines) * args.sorted_line;
        u64 j = sorted[at];
        i64 place = 0;
        bool present = place_of(args, line, i, j, place);
        if (!present || (at + 1 < args.count && index_at(args, line, sorted[at + 1]) == place)) continue;
        T* dst = static_cast<T*>(args.dst.data) + line.dst;
        const T* src = static_cast<const T*>(args.src.data) + line.src;
        dst[place * args.dst.stride[first]] = src[i64(j) * args.src.stride[first]];
    }
}

// Floats in f64, so that a sum of many does not lose what is added last; integers wrap.
template <typename T> OPS_DEVICE auto wide(T x) {
    if constexpr (is_float<T>::value) {
        return f64(widen(x));
    } else {
        return x;
    }
}

// The thread with the first source of a place adds them all.
template <typename T> OPS_DEVICE void scatter_add_sorted(const ScatterArgs& args) {
    u32 first = MAX_RANK - args.shape.rank;
    for (u64 i = global_thread(); i < args.shape.count; i += global_threads()) {
        u64 at = 0;
        Line line = line_of(args, i, at);
        const u32* sorted = args.sorted;
        sorted += (i - at * args.lines) * args.sorted_line;
        i64 place = 0;
        bool present = place_of(args, line, i, sorted[at], place);
        if (!present || (at > 0 && index_at(args, line, sorted[at - 1]) == place)) continue;
        T* dst = static_cast<T*>(args.dst.data) + line.dst + place * args.dst.stride[first];
        const T* src = static_cast<const T*>(args.src.data) + line.src;
        auto sum = wide(*dst);
        OPS_NO_UNROLL
        do {
            sum = Add{}(sum, wide(src[i64(sorted[at]) * args.src.stride[first]]));
            at++;
        } while (at < args.count && index_at(args, line, sorted[at]) == place);
        if constexpr (is_float<T>::value) {
            *dst = narrow<T>(sum);
        } else {
            *dst = sum;
        }
    }
}

}  // namespace ops
