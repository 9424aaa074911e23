// Shared by the attention kernels: arguments, and how a dot product becomes a score.
#pragma once
#include "ops_row.h"

namespace ops {

// Bits of the flags. What they say of memory is that 16-byte packs of it can be read.
enum DecodeFlags : u64 { KEYS_IN_PACKS = 1, QUERIES_IN_PACKS = 2, ONLY_SCALED = 4, GROUPS_IN_BLOCKS = 8 };

enum MaskKind : u32 { MASK_NONE = 0, MASK_ADDED = 1, MASK_VISIBLE = 2 };

// q [b, h, t, d]; k [b, h_kv, s, d]; v [b, h_kv, s, dv]; o [b, h, t, dv]; mask [b, h, t, s]. These dimensions
// use strides [2] to [5] of the operands. lse [b, h, t] uses strides [3] to [5].
// A "row" is one query of one head. Within a key head, rows are numbered by query, then by head in the group.
struct AttentionArgs {
    Operand q;
    Operand k;
    Operand v;
    Operand o;
    Operand mask;
    Address<const void> slopes;  // alibi, of type T; null when absent
    i64 slope_stride;
    u64 batch;
    u64 kv_heads;
    u64 group;  // query heads per key head
    u64 t;
    u64 s;
    u64 d;
    i64 left;   // keys pos - left .. pos + right are visible, pos = s - t + query; causal is right = 0
    i64 right;
    f64 scale;
    f64 softcap;    // 0 when absent
    u64 mask_kind;  // MaskKind
    Address<void> partial;  // decode: [rows][splits][dv + 2] accumulators: maximum, sum, weighted values
    Address<u32> arrivals;  // decode: counters of finished parts, for each block of rows; 0 between launches
    u64 splits;     // decode: number of parts that the keys are split into
    u64 dv;         // width of the values
    u64 value_parts;  // tiles: number of parts that the values are split into, of the tile's width
    Address<const void> sinks;  // of type T; null when absent
    i64 sink_stride;
    Operand lse;    // f32; null when absent
    // Of the kernels for few queries alone:
    u64 flags;          // DecodeFlags
    u64 work;           // blocks with work
    u64 at_once;        // of these in one launch
    Divider by_splits;
    Divider by_blocks;  // blocks of rows of a key head
    Divider by_heads;   // key heads
    Divider by_group;
    Divider by_rows;    // of a key head
};

// What the kernels ask of a sequence. A batch entry is its number; what else a sequence may be is in ops_sequences.h.
OPS_DEVICE u64 queries_of(const AttentionArgs& args, u64) { return args.t; }
OPS_DEVICE u64 keys_of(const AttentionArgs& args, u64) { return args.s; }
OPS_DEVICE bool has_mask(const AttentionArgs& args, u64) { return args.mask_kind != MASK_NONE; }

// The query and head of one row. Keys pos - left .. pos + right are visible to it.
struct QueryRow {
    u32 query;
    u32 head;

    OPS_METHOD QueryRow() {}
    OPS_METHOD QueryRow(const AttentionArgs& args, u64 kv_head, u64 row) {
        query = u32(row / args.group);
        head = u32(kv_head * args.group + (row - query * args.group));
    }
    template <typename S = u64> OPS_METHOD i64 position(const AttentionArgs& args, const S& of = S()) const {
        return i64(keys_of(args, of)) - i64(queries_of(args, of)) + i64(query);
    }
    template <typename S = u64> OPS_METHOD i64 first_key(const AttentionArgs& args, const S& of = S()) const {
        i64 first = position(args, of) - args.left;
        return first > 0 ? first : 0;
    }
    template <typename S = u64> OPS_METHOD i64 end_key(const AttentionArgs& args, const S& of = S()) const {
        i64 end = position(args, of) + args.right + 1, keys = i64(keys_of(args, of));
        return end < keys ? end : keys;
    }
    template <typename S> OPS_METHOD i64 offset(const Operand& operand, const S& of) const {
        return offset_of(*this, operand, of);
    }
};

OPS_DEVICE i64 offset_of(const QueryRow& row, const Operand& operand, u64 batch) {
    return i64(batch) * operand.stride[2] + i64(row.head) * operand.stride[3] + i64(row.query) * operand.stride[4];
}
OPS_DEVICE i64 lse_offset(const QueryRow& row, const Operand& lse, u64 batch) {
    return i64(batch) * lse.stride[3] + i64(row.head) * lse.stride[4] + i64(row.query) * lse.stride[5];
}

template <typename A> struct Score {
    A value;
    bool visible;
};

// Applies scale, softcap, alibi and mask, then visibility, in this order.
template <typename T, typename A, typename S>
OPS_DEVICE Score<A> score_of(const AttentionArgs& args, const S& of, const QueryRow& row, i64 key, A dot) {
    i64 distance = key - row.position(args, of);
    bool visible = distance >= -args.left && distance <= args.right && key < i64(keys_of(args, of));
    Score<A> score{dot * A(args.scale), visible};
    if (args.softcap != 0) score.value = A(args.softcap) * tanh(score.value / A(args.softcap));
    if (args.slopes != nullptr) {
        const AttentionArgs& here = reread(args);
        A slope = widen(static_cast<const T*>(here.slopes)[i64(row.head) * here.slope_stride]);
        score.value = mad(slope, A(distance), score.value);
    }
    if (has_mask(args, of) && score.visible) {
        const Operand& mask = reread(args).mask;
        i64 at = row.offset(mask, of) + key * mask.stride[5];
        if (args.mask_kind == MASK_ADDED) {
            score.value += A(widen(static_cast<const T*>(mask.data)[at]));
        } else {
            score.visible = static_cast<const u8*>(mask.data)[at] != 0;
        }
    }
    return score;
}

// A running maximum that is safe to subtract in an exponential: 0 until a key has been seen.
template <typename A> OPS_DEVICE A finite_base(A most) { return most == -A(infinity32()) ? A(0) : most; }

// The maximum and the sum that a row starts with: its head's sink, if there is one, counts as a key without a value.
template <typename T, typename A>
OPS_DEVICE void start_with_sink(const AttentionArgs& all_args, const QueryRow& row, bool counted, A& most, A& sum) {
    const AttentionArgs& args = reread(all_args);
    if (args.sinks == nullptr) return;
    most = widen(static_cast<const T*>(args.sinks)[i64(row.head) * args.sink_stride]);
    sum = counted ? exp(most - finite_base(most)) : A(0);
}

// Stores the logarithm of a row's denominator, if the call wants it.
template <typename A, typename S>
OPS_DEVICE void store_lse(const AttentionArgs& args, const QueryRow& row, const S& of, A most, A sum) {
    const Operand& lse = reread(args).lse;
    if (lse.data == nullptr) return;
    i64 at = lse_offset(row, lse, of);
    // The sum is at least 1, unless nothing is visible, so f32 holds its logarithm. In f64 it would take more registers than there are.
    static_cast<f32*>(lse.data)[at] = f32(finite_base(most) + A(log(f32(sum))));
}

// Loads N elements in packs of up to 16 bytes, to which `from` must be aligned.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_packs(const T* from) {
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

// Loads N elements of a row of length d, from `at` on. Elements past the end are zero.
template <u32 N, typename T>
OPS_DEVICE Pack<T, N> load_slice(const T* row, i64 stride, u64 at, u64 d, bool packs) {
    Pack<T, N> out{};
    if (packs && at + N <= d) return load_packs<N>(row + at);
    u64 left = at < d ? d - at : 0;
    u32 room = left < N ? u32(left) : N;
    row += i64(at) * stride;
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) {
        if (i < room) out.v[i] = row[i64(i) * stride];
    }
    return out;
}

// Whether every row of an operand can be read in 16-byte packs along d.
template <typename T> OPS_DEVICE bool rows_take_packs(const Operand& operand) {
    constexpr i64 N = PACK_BYTES / sizeof(T);
    return operand.stride[5] == 1 && is_aligned(operand.data, PACK_BYTES) && operand.stride[2] % N == 0 &&
           operand.stride[3] % N == 0 && operand.stride[4] % N == 0;
}

}  // namespace ops
