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
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;   // IndexKind
    u32 op;         // for the record
    u32 operand;
    u32 reserved;
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

// The element of x that the index at `id` picks; `i` counts y's elements.
template <typename T> OPS_DEVICE T picked(const GatherArgs& args, const T* x, i64 id, u64 i) {
    Index index = read_index(args.ids.data, args.ids_kind, id);
    if (index.absent) return T(0);
    if (index.value >= 0 && u64(index.value) < args.bound) return x[index.value * args.step];
    i64 position = offset_of<5>(args.shape, args.order, i);
    record_index_error(args.error, args.op, args.operand, u64(position), index.value, args.bound);
    return T(0);
}

// Neighbours along the last dimension that a thread takes if y may be written in packs.
template <typename T> OPS_DEVICE constexpr u32 gather_pack() { return sizeof(T) == 8 ? 2 : 4; }

template <typename T> OPS_DEVICE void gather(const GatherArgs& args) {
    constexpr u32 N = gather_pack<T>();
    u64 step = args.shape.pack == N ? N : 1;
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        const T* x = static_cast<const T*>(args.x.data);
        T* y = static_cast<T*>(args.y.data);
        i64 id = 0;
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            x += i64(at) * args.x.stride[d];
            y += i64(at) * args.y.stride[d];
            id += i64(at) * args.ids.stride[d];
        });
        if (step == 1) {
            *y = picked(args, x, id, i);
        } else {
            Pack<T, N> out;
            OPS_UNROLL
            for (u32 k = 0; k < N; k++) {
                out.v[k] = picked(args, x + k * args.x.stride[5], id + k * args.ids.stride[5], i + k);
            }
            store_pack<N>(y, out);
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
