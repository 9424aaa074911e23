// Where the keys of an attention call are, and how many queries and keys there are: batch entries of one size each, or sequences
// that differ, whose keys lie side by side or in the blocks of a cache. The kernels take it as a template parameter, so that a
// call on batch entries, whose sequences are mere numbers, pays nothing for the others.
#pragma once
#include "ops_attention.h"
#include "ops_index.h"

namespace ops {

// q [n, h, d] and o [n, h, dv] use strides [4], [3], [5]; lse [n, h] uses [5], [4]. k and v use the same strides as q where they
// are [m, h_kv, d]; in blocks [blocks, block, h_kv, d] they use [2], [4], [3], [5].
struct RaggedArgs {
    // Its t is the number of all queries, and its s the most keys that a sequence may have. There is no mask.
    AttentionArgs attention;
    Address<const void> cu_q;     // u32
    Address<const void> cu_k;     // u32; null where keys are in blocks
    Address<const void> lengths;  // these two are null where they lie side by side
    Address<const void> table;
    i64 cu_q_step;
    i64 cu_k_step;
    i64 lengths_step;
    i64 table_row;
    i64 table_step;
    u64 sequences;
    u64 blocks;       // of the cache, and at most the largest number that the table can name
    u64 block;        // keys of a block
    u64 least;        // decode: keys of a part, except of the last
    u64 checkers;     // decode: blocks that check the indices
    Address<ErrorSlot> error;
    u32 block_magic;  // key / block = (2 key * block_magic >> 32) >> block_shift for keys below 2^31
    u32 block_shift;
    u32 index_kind;   // IndexKind of lengths and table
    u32 op_of_queries;  // for the record
    u32 op_of_keys;     // of cu_k, or of lengths
    u32 op_of_table;
};

// One sequence of a call.
struct Sequence {
    const RaggedArgs& args;
    u32 number;
    u32 queries;
    u32 keys;
    u32 first_query;
    u32 first_key;  // where keys lie side by side

    // A key's block, or 0, and its row there.
    struct Place {
        u32 block;
        u32 row;
    };
};

// Where a key is: for a batch entry, its number.
template <typename S> struct KeyPlace { using type = i64; };
template <> struct KeyPlace<Sequence> { using type = Sequence::Place; };

// ---- what the kernels ask of a sequence, whether it is a batch entry's number or a Sequence ----

OPS_DEVICE u64 queries_of(const AttentionArgs&, const Sequence& of) { return of.queries; }
OPS_DEVICE u64 keys_of(const AttentionArgs&, const Sequence& of) { return of.keys; }
OPS_DEVICE bool has_mask(const AttentionArgs&, const Sequence&) { return false; }

OPS_DEVICE i64 offset_of(const QueryRow& row, const Operand& operand, const Sequence& of) {
    return i64(row.head) * operand.stride[3] + i64(u64(of.first_query) + row.query) * operand.stride[4];
}
OPS_DEVICE i64 lse_offset(const QueryRow& row, const Operand& lse, const Sequence& of) {
    return i64(row.head) * lse.stride[4] + i64(u64(of.first_query) + row.query) * lse.stride[5];
}

// The place of a row among the partial results of all rows.
OPS_DEVICE u64 partial_row(const AttentionArgs& args, u64 batch, u64 kv_head, u64 row) {
    return (batch * args.kv_heads + kv_head) * (args.t * args.group) + row;
}
OPS_DEVICE u64 partial_row(const AttentionArgs& args, const Sequence& of, u64 kv_head, u64 row) {
    return (kv_head * args.t + of.first_query) * args.group + row;
}

// The offset of a key head's keys, and of one of its keys from there.
OPS_DEVICE i64 head_offset(const Operand& keys, u64 batch, u64 kv_head) {
    return i64(batch) * keys.stride[2] + i64(kv_head) * keys.stride[3];
}
OPS_DEVICE i64 head_offset(const Operand& keys, const Sequence&, u64 kv_head) { return i64(kv_head) * keys.stride[3]; }

OPS_DEVICE i64 place_of(u64, i64 key) { return key; }
OPS_DEVICE i64 key_offset(const Operand& keys, i64 place) { return place * keys.stride[4]; }

// `key` is one of the sequence's.
OPS_DEVICE Sequence::Place place_of(const Sequence& of, i64 key) {
    const RaggedArgs& args = reread(of.args);
    if (args.table == nullptr) return Sequence::Place{0, of.first_key + u32(key)};
    u32 entry = u32(u64(u32(key) * 2) * args.block_magic >> 32) >> args.block_shift;
    Index block = read_index(args.table, args.index_kind, i64(of.number) * args.table_row + i64(entry) * args.table_step);
    // What is out of range has been recorded. The first block is read instead.
    bool exists = block.value >= 0 && u64(block.value) < args.blocks;
    return Sequence::Place{exists ? u32(block.value) : 0, u32(key) - entry * u32(args.block)};
}
OPS_DEVICE i64 key_offset(const Operand& keys, Sequence::Place place) {
    return i64(place.block) * keys.stride[2] + i64(place.row) * keys.stride[4];
}

// ---- which block of threads computes what -------------------------------------------------------

// `part` of the `parts` blocks of rows of one key head of a sequence; nothing if `part` is not below `parts`.
template <typename S> struct Work {
    S of;
    u64 kv_head;
    u64 part;
    u64 parts;
};

// Decode: keys of a part, a multiple of `step`.
OPS_DEVICE i64 share_of(const AttentionArgs& args, i64 keys, u32 step) {
    u64 share = divide(args.by_splits, u64(keys) + args.splits - 1);
    return i64((share + step - 1) / step * step);
}

// Batch entries of t queries and s keys each. `now` is what attention() gave, reread.
struct Batches {
    // Whether some work is nothing.
    static constexpr bool SPARE = false;
    const AttentionArgs& args;

    OPS_METHOD const AttentionArgs& attention() const { return args; }
    // Blocks of the launch, its first, that do something else.
    OPS_METHOD u64 skipped() const { return 0; }
    // Blocks of `size` rows in the whole call.
    OPS_METHOD u64 count(const AttentionArgs& now, u64 size) const {
        return now.batch * now.kv_heads * ((now.t * now.group + size - 1) / size);
    }
    OPS_METHOD Work<u64> work(const AttentionArgs& now, u64 at, u64 size) const {
        u64 parts = (now.t * now.group + size - 1) / size, part = at % parts, head = at / parts;
        u64 batch = head / now.kv_heads, kv_head = head % now.kv_heads;
        return Work<u64>{batch, kv_head, part, parts};
    }
    // Decode: the same, without divisions.
    OPS_METHOD Work<u64> unit(const AttentionArgs& now, u64 at, u64) const {
        u64 parts = now.by_blocks.by, head = divide(now.by_blocks, at), batch = divide(now.by_heads, head);
        return Work<u64>{batch, head - batch * now.kv_heads, at - head * parts, parts};
    }
    OPS_METHOD i64 share(const AttentionArgs& now, i64 keys, u32 step) const { return share_of(now, keys, step); }
};

OPS_DEVICE u32 entry_of(const Address<const void>& cu, i64 step, u64 at) { return static_cast<const u32*>(cu)[i64(at) * step]; }

// ---- indices out of range -------------------------------------------------------

// Checks an entry of cu_q or cu_k: the first is 0, the last is the number of rows, and none is below the one before. An entry
// after one that is out of range itself is not compared with it.
OPS_DEVICE void check_start(const RaggedArgs& args, const Address<const void>& cu, i64 step, u64 rows, u32 op, u64 at) {
    u64 value = entry_of(cu, step, at), most = at == 0 ? 0 : rows;
    bool wrong = value > most || (at == args.sequences && value != rows);
    if (!wrong && at > 0) {
        u64 before = entry_of(cu, step, at - 1);
        wrong = before <= (at == 1 ? 0 : rows) && value < before;
    }
    if (wrong) record_index_error(args.error, op, 0, at, i64(value), most + 1);
}

// Checks a sequence's length and those entries of its row of the table that are in use, from `first` on in steps of `step`.
OPS_DEVICE void check_blocks(const RaggedArgs& args, u64 number, u64 first, u64 step) {
    u64 start = entry_of(args.cu_q, args.cu_q_step, number), end = entry_of(args.cu_q, args.cu_q_step, number + 1);
    i64 length = read_index(args.lengths, args.index_kind, i64(number) * args.lengths_step).value;
    i64 least = start <= end && end <= args.attention.t ? i64(end - start) : 0;
    bool fits = length >= 0 && length <= i64(args.attention.s);
    if (first == 0 && (!fits || length < least)) {
        record_index_error(args.error, args.op_of_keys, 0, number, length, args.attention.s + 1);
    }
    u64 used = fits ? (u64(length) + args.block - 1) / args.block : 0, width = args.attention.s / args.block;
    OPS_NO_UNROLL
    for (u64 at = first; at < used; at += step) {
        i64 block = read_index(args.table, args.index_kind, i64(number) * args.table_row + i64(at) * args.table_step).value;
        if (block < 0 || u64(block) >= args.blocks) {
            record_index_error(args.error, args.op_of_table, 0, number * width + at, block, args.blocks);
        }
    }
}

// Each of the first `threads` threads of the launch checks its share of the indices.
OPS_DEVICE void check_sequences(const RaggedArgs& all_args, u64 threads) {
    const RaggedArgs& args = reread(all_args);
    u64 thread = global_thread();
    if (args.error == nullptr || thread >= threads) return;
    OPS_NO_UNROLL
    for (u64 at = thread; at <= args.sequences; at += threads) {
        check_start(args, args.cu_q, args.cu_q_step, args.attention.t, args.op_of_queries, at);
        if (args.table == nullptr) check_start(args, args.cu_k, args.cu_k_step, args.attention.s, args.op_of_keys, at);
    }
    if (args.table == nullptr || args.sequences == 0) return;
    // Several threads share a sequence, or several sequences a thread.
    u64 together = threads / args.sequences;
    if (together == 0) together = 1;
    OPS_NO_UNROLL
    for (u64 at = thread / together; at < args.sequences; at += threads / together) {
        check_blocks(args, at, thread % together, together);
    }
}

// Sequences that differ.
struct Ragged {
    static constexpr bool SPARE = true;
    const RaggedArgs& args;

    OPS_METHOD const AttentionArgs& attention() const { return args.attention; }
    OPS_METHOD u64 skipped() const { return reread(args).checkers; }

    // Each sequence has as many blocks of rows as fit below its first row and its last one, rounded down, and one more if
    // sequences need not fall between blocks. So a block's sequence can be found, and few blocks are left without rows.
    OPS_METHOD u64 count(const AttentionArgs& now, u64 size) const { return blocks(size) * now.kv_heads; }
    // Of one key head.
    OPS_METHOD u64 blocks(u64 size) const {
        const RaggedArgs& now = reread(args);
        return now.attention.t * now.attention.group / size + spare(size) * now.sequences;
    }
    OPS_METHOD u64 spare(u64 size) const { return reread(args).attention.group % size == 0 ? 0 : 1; }

    // The last sequence whose blocks begin at `block` or before. All lanes of a wave look, each at another sequence.
    OPS_METHOD u32 find(u64 block, u64 size, u64& begin) const {
        const RaggedArgs& now = reread(args);
        u64 group = now.attention.group, one = spare(size);
        auto first = [&](u64 at) OPS_INLINE {
            return u64(entry_of(now.cu_q, now.cu_q_step, at)) * group / size + at * one;
        };
        u32 low = 0, left = u32(now.sequences);
        OPS_NO_UNROLL
        while (left > 1) {
            u32 step = (left + OPS_WAVE - 1) / OPS_WAVE, at = lane_id() * step;
            u64 found = ballot(at < left && first(u64(low) + at) <= block);
            u32 skipped = found == 0 ? 0 : (63 - leading_zeros(found)) * step;
            low += skipped;
            left = left - skipped < step ? left - skipped : step;
        }
        begin = first(low);
        return low;
    }

    OPS_METHOD Work<Sequence> work(const AttentionArgs&, u64 at, u64 size) const {
        u64 all = blocks(size), kv_head = at / all;
        return of_head(kv_head, at - kv_head * all, size);
    }
    OPS_METHOD Work<Sequence> unit(const AttentionArgs& now, u64 at, u64 size) const {
        u64 kv_head = divide(now.by_blocks, at);
        return of_head(kv_head, at - kv_head * now.by_blocks.by, size);
    }
    OPS_METHOD Work<Sequence> of_head(u64 kv_head, u64 block, u64 size) const {
        u64 begin = 0;
        Sequence of = read(same_in_wave(find(block, size, begin)));
        u64 rows = u64(of.queries) * reread(args).attention.group;
        return Work<Sequence>{of, kv_head, block - begin, (rows + size - 1) / size};
    }

    // A sequence that breaks the rules has neither queries nor keys.
    OPS_METHOD Sequence read(u32 number) const {
        const RaggedArgs& now = reread(args);
        u32 first = entry_of(now.cu_q, now.cu_q_step, number), end = entry_of(now.cu_q, now.cu_q_step, u64(number) + 1);
        bool right = first <= end && end <= now.attention.t;
        u32 first_key = 0, keys = 0;
        if (now.table == nullptr) {
            first_key = entry_of(now.cu_k, now.cu_k_step, number);
            u32 end_key = entry_of(now.cu_k, now.cu_k_step, u64(number) + 1);
            right = right && first_key <= end_key && end_key <= now.attention.s;
            keys = end_key - first_key;
        } else {
            i64 length = read_index(now.lengths, now.index_kind, i64(number) * now.lengths_step).value;
            right = right && length >= i64(end) - i64(first) && length <= i64(now.attention.s);
            right = right && (length == 0 || now.blocks > 0);
            keys = u32(length);
        }
        Sequence of{args, number, 0, 0, 0, 0};
        of.queries = same_in_wave(right ? end - first : 0);
        of.keys = same_in_wave(right ? keys : 0);
        of.first_query = same_in_wave(first);
        of.first_key = same_in_wave(first_key);
        return of;
    }

    OPS_METHOD i64 share(const AttentionArgs& now, i64 keys, u32 step) const {
        i64 share = share_of(now, keys, step), least = i64(reread(args).least);
        return share < least ? least : share;
    }
};

}  // namespace ops
