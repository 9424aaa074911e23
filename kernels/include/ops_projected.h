// Products whose columns are the heads of queries, of keys and of values, in this order. Two columns that are rotated together are computed
// together, and go to the queries or to the caches at once.
#pragma once
#include "ops_cache.h"
#include "ops_float_kind.h"
#include "ops_view.h"

namespace ops {

struct ProjectedTarget {
    CacheTarget to;
    u64 q_heads;
    u64 rotary_pairs;  // pairs of all queries and keys; those of values follow
    Divider pairs;     // of a head of queries or keys
    Divider values;    // of a head: an even number
    u64 cache_is_f8;  // otherwise the caches have the type of y
};

// Two columns that a group of lanes computes together.
struct ColumnPair {
    u64 head;    // of queries and then keys; 0 for values
    u64 at;      // the pair within its head, or among all values
    u64 column;  // the first of both
    u64 apart;   // from the first to the second
    u64 step;    // from the first of this pair to that of the next one of its kind
    bool is_value;

    OPS_METHOD ColumnPair(const ProjectedTarget& args, u64 pair) {
        is_value = pair >= args.rotary_pairs;
        head = is_value ? 0 : divide(args.pairs, pair);
        at = is_value ? pair - args.rotary_pairs : pair - head * args.pairs.by;
        bool halves = !is_value && args.to.interleaved == 0 && at < args.to.half;
        step = halves ? 1 : 2;
        apart = halves ? args.to.half : 1;
        column = (is_value ? 2 * args.rotary_pairs : head * args.to.d) + at * step;
    }
};

// Element `at` of a cache for rows of type `kind`.
OPS_DEVICE void store_cached(const ProjectedTarget& args, void* cache, u32 kind, i64 at, f32 value) {
    if (args.cache_is_f8 != 0) {
        static_cast<f8e4m3*>(cache)[at] = narrow<f8e4m3>(value);
    } else {
        store_float(cache, kind, at, value);
    }
}

// Where a pair of a token goes, and how it is rotated. The kernel for blocks reads this while it rounds x; the kernel for floats reads it after
// the product.
struct PairPlace {
    i64 slot;
    f32 cos, sin;  // of a pair that is rotated
    bool stored;
};

// `kind` is the type of the rows.
OPS_DEVICE PairPlace pair_place(const ProjectedTarget& args, const ColumnPair& pair, u32 kind, u64 token) {
    const CacheTarget& to = args.to;
    CachePlace place = cache_place(to, token);
    bool is_query = !pair.is_value && pair.head < args.q_heads;
    PairPlace out{place.slot, 0, 0, is_query ? place.rotated : place.written};
    if (out.stored && !pair.is_value && pair.at < to.half) {
        u32 of_tables = to.tables_are_f32 != 0 ? u32(FLOAT_F32) : kind;
        out.cos = float_at<f32>(to.cos, of_tables, place.angle * to.cos_row + i64(pair.at) * to.cos_step);
        out.sin = float_at<f32>(to.sin, of_tables, place.angle * to.sin_row + i64(pair.at) * to.sin_step);
    }
    return out;
}

// Rotates a pair of a token, and stores it.
OPS_DEVICE void store_pair(const ProjectedTarget& args, const ColumnPair& pair, const PairPlace& place, u32 kind, u64 token, f32 first,
                           f32 second) {
    if (!place.stored) return;
    const CacheTarget& to = args.to;
    if (pair.is_value) {
        u64 head = divide(args.values, 2 * pair.at), e = 2 * pair.at - head * args.values.by;
        i64 at = place.slot * to.of_v_cache.row + i64(head) * to.of_v_cache.head + i64(e) * to.of_v_cache.step;
        void* cache = to.v_cache;
        store_cached(args, cache, kind, at, first);
        store_cached(args, cache, kind, at + to.of_v_cache.step, second);
        return;
    }
    if (pair.at < to.half) {
        f32 rotated = first * place.cos - second * place.sin;
        second = first * place.sin + second * place.cos;
        first = rotated;
    }
    i64 e = i64(pair.column - pair.head * to.d);
    if (pair.head < args.q_heads) {
        i64 at = i64(token) * to.of_y.row + i64(pair.head) * to.of_y.head + e * to.of_y.step;
        void* y = to.y;
        store_float(y, kind, at, first);
        store_float(y, kind, at + i64(pair.apart) * to.of_y.step, second);
    } else {
        i64 at = place.slot * to.of_k_cache.row + i64(pair.head - args.q_heads) * to.of_k_cache.head + e * to.of_k_cache.step;
        void* cache = to.k_cache;
        store_cached(args, cache, kind, at, first);
        store_cached(args, cache, kind, at + i64(pair.apart) * to.of_k_cache.step, second);
    }
}

}  // namespace ops
