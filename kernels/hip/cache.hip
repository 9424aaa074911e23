// Rows written to caches of keys and values, at slots that the kernel reads. The largest value of the slots' type skips a row. A
// slot or position out of range is recorded, and its row is not written.
#include "ops_cache.h"
#include "ops_head.h"

namespace ops {

constexpr u32 CACHE_BLOCK = 256;

struct CacheWriteArgs {
    Shape shape;    // x's
    Operand x;
    Operand cache;  // stride 0 along the rows
    Operand slots;  // strides over x's shape
    Operand place;  // strides only: the place of a row's slot within its operand
    i64 cache_row;  // from a slot to the next
    u64 bound;      // slots of the cache
    Address<ErrorSlot> error;  // null to record nothing
    u32 slots_kind;            // IndexKind
    u32 op;                    // for the record
    u32 operand;
    u32 reserved;
};

struct RopeCacheArgs {
    Address<const void> k;
    Address<const void> v;
    Address<const void> weight;  // of the norm; null without one
    HeadRows of_k;
    HeadRows of_v;
    i64 weight_step;
    u64 weight_is_f32;
    Divider heads;
    u64 rows;   // tokens times heads
    u64 lanes;  // to a head, a power of two
    f64 eps;
    Address<const void> q;  // null without queries
    Address<const void> q_weight;
    HeadRows of_q;
    i64 q_weight_step;
    u64 q_weight_is_f32;
    Divider q_heads;
    u64 q_rows;  // tokens times heads of queries
    CacheTarget to;
};

template <typename C, typename T> OPS_DEVICE C stored(T x) {
    if constexpr (same<C, T>::value) {
        return x;
    } else {
        return narrow<C>(widen(x));
    }
}

template <typename T, typename C> OPS_DEVICE void cache_write(const CacheWriteArgs& args) {
    constexpr u32 N = PACK_BYTES / sizeof(T);
    u64 step = args.shape.pack == N ? N : 1;
    OPS_NO_UNROLL
    for (u64 i = global_thread() * step; i < args.shape.count; i += global_threads() * step) {
        i64 from = 0, to = 0, at = 0, place = 0;
        unravel<5>(args.shape, i, [&](u32 d, u64 c) OPS_INLINE {
            from += i64(c) * args.x.stride[d];
            to += i64(c) * args.cache.stride[d];
            at += i64(c) * args.slots.stride[d];
            place += i64(c) * args.place.stride[d];
        });
        Index slot = read_index(args.slots.data, args.slots_kind, at);
        if (slot.absent) continue;
        if (slot.value < 0 || u64(slot.value) >= args.bound) {
            record_index_error(args.error, args.op, args.operand, u64(place), slot.value, args.bound);
            continue;
        }
        const T* x = static_cast<const T*>(args.x.data) + from;
        C* y = static_cast<C*>(args.cache.data) + to + slot.value * args.cache_row;
        if (step == N) {
            Pack<T, N> in = load_pack<N>(x);
            Pack<C, N> out;
            OPS_UNROLL
            for (u32 j = 0; j < N; j++) out.v[j] = stored<C>(in.v[j]);
            store_pack<N>(y, out);
        } else {
            *y = stored<C>(*x);
        }
    }
}

template <typename T, typename C> OPS_DEVICE void write_value(const RopeCacheArgs& args, CachePlace at, u64 token, u64 head, u64 lane) {
    const T* v = static_cast<const T*>(args.v) + i64(token) * args.of_v.row + i64(head) * args.of_v.head;
    C* y = static_cast<C*>(args.to.v_cache) + at.slot * args.to.of_v_cache.row + i64(head) * args.to.of_v_cache.head;
    OPS_NO_UNROLL
    for (u64 e = lane; e < args.to.dv; e += args.lanes) {
        y[i64(e) * args.to.of_v_cache.step] = stored<C>(v[i64(e) * args.of_v.step]);
    }
}

// A head of a query or key: where it is read, and the norm before its rotation.
template <typename T> struct HeadSource {
    const T* x;
    i64 step;
    const void* weight;  // null without a norm
    i64 weight_step;
    u64 weight_is_f32;
    OPS_METHOD HeadSource(const RopeCacheArgs& args, bool is_query, u64 token, u64 head) {
        const void* data = is_query ? static_cast<const void*>(args.q) : static_cast<const void*>(args.k);
        i64 of_row = is_query ? args.of_q.row : args.of_k.row, of_head = is_query ? args.of_q.head : args.of_k.head;
        x = static_cast<const T*>(data) + i64(token) * of_row + i64(head) * of_head;
        step = is_query ? args.of_q.step : args.of_k.step;
        weight = is_query ? static_cast<const void*>(args.q_weight) : static_cast<const void*>(args.weight);
        weight_step = is_query ? args.q_weight_step : args.weight_step;
        weight_is_f32 = is_query ? args.q_weight_is_f32 : args.weight_is_f32;
    }
    OPS_METHOD acc_t<T> at(u64 e) const { return widen(x[i64(e) * step]); }
    OPS_METHOD acc_t<T> normed(u64 e, acc_t<T> inverse) const {
        if (weight == nullptr) return at(e);
        return at(e) * inverse * read_either<T>(weight, weight_is_f32, i64(e) * weight_step);
    }
};

// A row of the launch: a head of a key, a value or a query. The heads of values come after all those of keys, and those of queries after
// them. It belongs to neighbouring lanes of a wave, as in qk_norm_rope.
struct CacheHead {
    bool is_query;
    bool is_value;
    u64 token;
    u64 head;
    CachePlace at;
    bool kept;  // if its row is not skipped

    OPS_METHOD CacheHead(const RopeCacheArgs& args, u64 row, bool live)
        : is_query(row >= args.rows * 2), is_value(!is_query && row >= args.rows) {
        u64 of_heads = is_query ? row - args.rows * 2 : is_value ? row - args.rows : row;
        token = is_query ? divide(args.q_heads, of_heads) : divide(args.heads, of_heads);
        head = of_heads - token * (is_query ? args.q_heads.by : args.heads.by);
        at = cache_place(args.to, token);
        kept = live && (is_query ? at.rotated : at.written);
    }
    template <typename T> OPS_METHOD T* query(const RopeCacheArgs& args) const {
        return static_cast<T*>(args.to.y) + i64(token) * args.to.of_y.row + i64(head) * args.to.of_y.head;
    }
    // Of a query, the slot may be anything.
    template <typename C> OPS_METHOD C* key(const RopeCacheArgs& args) const {
        return static_cast<C*>(args.to.k_cache) +
               (is_query ? 0 : at.slot * args.to.of_k_cache.row + i64(head) * args.to.of_k_cache.head);
    }
};

template <typename T, typename C> OPS_DEVICE void rope_cache_write(const RopeCacheArgs& all_args) {
    using A = acc_t<T>;
    u32 width = u32(all_args.lanes);
    for_rows<CACHE_BLOCK, false>(all_args.rows * 2 + all_args.q_rows, width, [&](u64 row, bool live) OPS_INLINE {
        const RopeCacheArgs& args = reread(all_args);
        CacheHead own(args, row, live);
        u64 lane = lane_id() & (width - 1);
        HeadSource<T> from(args, own.is_query, own.token, own.head);
        A inverse = 1;
        if (args.weight != nullptr || args.q_weight != nullptr) {
            // All lanes of the wave take part, those without a norm with nothing to add.
            A squares = 0;
            OPS_NO_UNROLL
            for (u64 e = own.is_value || from.weight == nullptr ? args.to.d : lane; e < args.to.d; e += width) {
                A v = from.at(e);
                squares = mad(v, v, squares);
            }
            inverse = A(1) / sqrt(reduce_lanes(squares, width, Sum()) / A(args.to.d) + A(args.eps));
        }
        if (!own.kept) return;
        if (own.is_value) {
            write_value<T, C>(args, own.at, own.token, own.head, lane);
            return;
        }
        T* y = own.query<T>(args);
        C* cache = own.key<C>(args);
        auto put = [&](u64 e, A value) OPS_INLINE {
            if (own.is_query) {
                y[i64(e) * args.to.of_y.step] = narrow<T>(value);
            } else {
                cache[i64(e) * args.to.of_k_cache.step] = narrow<C>(value);
            }
        };
        OPS_NO_UNROLL
        for (u64 j = lane; j < args.to.d - args.to.half; j += width) {
            if (j >= args.to.half) {
                put(j + args.to.half, from.normed(j + args.to.half, inverse));
                continue;
            }
            u64 one = args.to.interleaved != 0 ? 2 * j : j, other = args.to.interleaved != 0 ? one + 1 : j + args.to.half;
            A a = from.normed(one, inverse), b = from.normed(other, inverse);
            A c = read_either<T>(args.to.cos, args.to.tables_are_f32, own.at.angle * args.to.cos_row + i64(j) * args.to.cos_step);
            A s = read_either<T>(args.to.sin, args.to.tables_are_f32, own.at.angle * args.to.sin_row + i64(j) * args.to.sin_step);
            put(one, a * c - b * s);
            put(other, a * s + b * c);
        }
    });
}

// The same for heads whose rows, sizes and numbers of pairs are multiples of a pack.
template <typename T, typename C> OPS_DEVICE void rope_cache_write_packs(const RopeCacheArgs& all_args) {
    using A = acc_t<T>;
    constexpr u32 N = HeadPacks<T>::N;
    u32 width = u32(all_args.lanes);
    for_rows<CACHE_BLOCK, false>(all_args.rows * 2 + all_args.q_rows, width, [&](u64 row, bool live) OPS_INLINE {
        const RopeCacheArgs& args = reread(all_args);
        CacheHead own(args, row, live);
        u64 lane = lane_id() & (width - 1);
        HeadSource<T> from(args, own.is_query, own.token, own.head);
        HeadPacks<T> head(args.to.d, args.to.half, args.to.interleaved, lane);
        if (!own.is_value) head.load(from.x);
        A inverse = 1;
        if (args.weight != nullptr || args.q_weight != nullptr) {
            inverse = A(1) / sqrt(reduce_lanes(head.squares(), width, Sum()) / A(args.to.d) + A(args.eps));
        }
        if (!own.kept) return;
        if (own.is_value) {
            const T* v = static_cast<const T*>(args.v) + i64(own.token) * args.of_v.row + i64(own.head) * args.of_v.head;
            C* to = static_cast<C*>(args.to.v_cache) + own.at.slot * args.to.of_v_cache.row + i64(own.head) * args.to.of_v_cache.head;
            OPS_NO_UNROLL
            for (u64 e = lane * N; e < args.to.dv; e += width * N) {
                Pack<T, N> in = load_pack<N>(v + e);
                Pack<C, N> out;
                OPS_UNROLL
                for (u32 i = 0; i < N; i++) out.v[i] = stored<C>(in.v[i]);
                store_pack<N>(to + e, out);
            }
            return;
        }
        if (from.weight != nullptr) head.scale(inverse, from.weight, from.weight_is_f32);
        head.rotate(args.to.cos, own.at.angle * args.to.cos_row, args.to.sin, own.at.angle * args.to.sin_row, args.to.tables_are_f32, true);
        if (own.is_query) {
            head.store(own.query<T>(args));
        } else {
            head.store(own.key<C>(args));
        }
    });
}

}  // namespace ops
