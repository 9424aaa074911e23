// index_select: y[.., k, ..] = x[.., ids[k], ..] along one dimension, elements moved as bits.
// The largest value of the index type gives zeros; so does an index out of range, which is recorded.
#include "ops_index.h"
#include "ops_view.h"

namespace ops {

struct IndexSelectArgs {
    Shape shape;  // y's, the selected dimension outermost
    Operand x;
    Operand y;
    Address<const void> ids;
    i64 ids_stride;
    u64 bound;           // x's size along the selected dimension
    Address<ErrorSlot> error;  // null to record nothing
    u32 ids_kind;        // IndexKind
    u32 op;              // for the record
    u32 operand;
    u32 reserved;
};

template <typename T> OPS_DEVICE void index_select(const IndexSelectArgs& args) {
    constexpr u32 N = PACK_BYTES / sizeof(T);
    u64 step = args.shape.pack == N ? N : 1;
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        const T* x = static_cast<const T*>(args.x.data);
        T* y = static_cast<T*>(args.y.data);
        bool present = true;
        unravel<5>(args.shape, i, [&](u32 d, u64 at) OPS_INLINE {
            y += i64(at) * args.y.stride[d];
            if (d + args.shape.rank != MAX_RANK) {
                x += i64(at) * args.x.stride[d];
                return;
            }
            Index index = read_index(args.ids, args.ids_kind, i64(at) * args.ids_stride);
            present = !index.absent && index.value >= 0 && u64(index.value) < args.bound;
            if (present) {
                x += index.value * args.x.stride[d];
            } else if (!index.absent) {
                record_index_error(args.error, args.op, args.operand, at, index.value, args.bound);
            }
        });
        if (step == 1) {
            *y = present ? *x : T(0);
        } else {
            Pack<T, N> out{};
            if (present) out = load_pack<N>(x);
            store_pack<N>(y, out);
        }
    }
}

}  // namespace ops
