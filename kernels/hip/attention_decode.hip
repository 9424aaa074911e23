// Attention for few queries: ROWS rows of one key head against one part of its keys. Each key is read and
// converted once for all rows. A group of LANES lanes takes several keys at a time, eight elements per lane,
// and makes one step of its own online softmax for all of them. Groups and waves are merged at the end;
// attention_combine merges the parts.
#include "ops_decode.h"

namespace ops {

// Rows whose results pass through LDS at a time, so that they take no more than those of four rows of 128 columns.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 merged_rows() { return LANES * ROWS > 64 ? 64 / LANES : ROWS; }
// LDS slots, in elements of the accumulator type: for each wave the outputs of these rows, and maximum and sum of all.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 decode_slots() {
    return DECODE_WAVES * (merged_rows<LANES, ROWS>() * LANES * SLICE + 2 * ROWS);
}

// Adds the waves of the block for COUNT rows from `row0` on. Writes results, or partial results if the keys are split. `stats` has the
// maximum and the sum of each row.
template <u32 LANES, u32 COUNT, typename T, typename A, typename S>
OPS_DEVICE void finish_rows(const AttentionArgs& all_args, const A* outs, const A* stats, const S& of, u64 kv_head, u64 row0, u64 split) {
    constexpr u32 WIDTH = LANES * SLICE, WAVES = DECODE_BLOCK / OPS_WAVE;
    OPS_NO_UNROLL
    for (u32 at = opaque(thread_x()); at < COUNT * WIDTH; at += DECODE_BLOCK) {
        const AttentionArgs& args = reread(all_args);
        u32 r = at / WIDTH, column = at % WIDTH;
        u64 row = row0 + r;
        if (row >= queries_of(args, of) * args.group) return;
        A out = 0, most = stats[r * 2], sum = stats[r * 2 + 1];
        OPS_UNROLL
        for (u32 w = 0; w < WAVES; w++) out += outs[(w * COUNT + r) * WIDTH + column];
        if (args.splits == 1) {
            QueryRow query = row_at(args, kv_head, row);
            T* to = static_cast<T*>(args.o.data) + query.offset(args.o, of);
            if (column < args.dv) to[i64(column) * args.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out / sum);
            if (column == 0) store_lse(args, query, of, most, sum);
            continue;
        }
        u64 line = partial_row(args, of, kv_head, row) * args.splits + split;
        A* to = static_cast<A*>(args.partial) + line * (args.dv + 2);
        if (column == 0) {
            to[0] = most;
            to[1] = sum;
        }
        if (column < args.dv) to[2 + column] = out;
    }
}

template <u32 LANES, u32 ROWS, typename T, typename S, typename Calls>
OPS_DEVICE void decode_rows(const Calls& calls, acc_t<T>* scratch) {
    using A = acc_t<T>;
    using Rows = Decoder<LANES, ROWS, T, S>;
    OPS_NO_UNROLL
    for (u64 block = u64(block_x()) - calls.skipped();; block += reread(calls.attention()).at_once) {
        const AttentionArgs& args = reread(calls.attention());
        if (block >= args.work) break;
        u64 unit = divide(args.by_splits, block);
        u32 split = u32(block - unit * args.splits);
        Work<S> work = calls.unit(args, unit, ROWS);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u32 kv_head = u32(work.kv_head);
        u64 rows = queries_of(args, of) * args.group, row0 = work.part * ROWS;
        u32 more = row0 + ROWS < rows ? ROWS - 1 : u32(rows - 1 - row0);
        QueryRow lowest = row_at(args, kv_head, row0), highest = row_after(args, kv_head, lowest, more);
        Rows state(calls.attention(), of, kv_head);
        // This part's range of the keys that any of the rows can see, from a multiple of KEYS on.
        i64 first = lowest.first_key(args, of) & ~i64(Rows::KEYS - 1), end = highest.end_key(args, of);
        if (end < first) end = first;
        i64 share = calls.share(args, end - first, Rows::BLOCK_KEYS);
        first += split * share;
        if (first > end) first = end;
        state.end = u32(first + share < end ? first + share : end);
        // The part's keys up to `unseen` are visible to all rows.
        i64 visible = lowest.end_key(args, of);
        u32 unseen = visible > 0 ? u32(visible) : 0;
        if (unseen > state.end) unseen = state.end;
        if (args.mask_kind == MASK_VISIBLE || highest.first_key(args, of) > first) unseen = 0;
        u32 at = u32(first) + same_in_wave(wave_id()) * Rows::WAVE_KEYS;
        if (at < state.end) {
            state.look_up(at);
            state.fetch_keys(at);
            state.fetch_values(at);
        }
        state.load_queries(lowest, more);
        u32 thread = opaque(thread_x()), own = thread % ROWS;
        QueryRow row = row_after(args, kv_head, lowest, own < more ? own : more);
        // One group of lanes of the first part has the sink, and one lane of each row counts it.
        if (split == 0 && thread < LANES) start_with_sink<T>(args, row, thread < ROWS, state.most, state.sum);
        OPS_NO_UNROLL
        for (; at < state.end; at += Rows::BLOCK_KEYS) {
            u32 next = at + Rows::BLOCK_KEYS;
            A dot[Rows::SCORES][Rows::SPREAD], power[Rows::SCORES];
            state.dots(dot);
            if (next < state.end) state.fetch_keys(next);
            bool whole = at + Rows::WAVE_KEYS <= unseen;
            Score<A> score[Rows::SCORES];
            OPS_UNROLL
            for (u32 s = 0; s < Rows::SCORES; s++) {
                A total = sum_values<LANES>(dot[s], opaque(state.lane));
                score[s] = state.score(row, at, s, total, whole);
            }
            state.soften(power, score);
            if (whole) {
                state.weigh(power);
            } else {
                state.weigh_visible(power);
            }
            if (next < state.end) state.fetch_values(next);
        }
        constexpr u32 COUNT = merged_rows<LANES, ROWS>(), WIDTH = LANES * SLICE;
        A* stats = scratch + DECODE_WAVES * COUNT * WIDTH;
        state.merge(stats);
        OPS_UNROLL
        for (u32 r0 = 0; r0 < ROWS; r0 += COUNT) {
            barrier();
            u32 thread = opaque(thread_x()), lane = thread % OPS_WAVE, line = thread / OPS_WAVE * COUNT;
            if (thread < ROWS) {
                stats[thread * 2] = state.most;
                stats[thread * 2 + 1] = state.sum;
            }
            if (lane < LANES) {
                OPS_UNROLL
                for (u32 r = 0; r < COUNT; r++) {
                    OPS_UNROLL
                    for (u32 i = 0; i < SLICE; i++) scratch[(line + r) * WIDTH + lane * SLICE + i] = state.out[r0 + r][i];
                }
            }
            barrier();
            finish_rows<LANES, COUNT, T>(calls.attention(), scratch, stats + r0 * 2, of, kv_head, row0 + r0, split);
        }
        barrier();
    }
}

template <u32 LANES, u32 ROWS, typename T> OPS_DEVICE void attention_decode(const AttentionArgs& args) {
    OPS_LDS(acc_t<T>, scratch, (decode_slots<LANES, ROWS>()));
    decode_rows<LANES, ROWS, T, u64>(Batches{args}, scratch);
}

// The first blocks check the indices while the others compute, and find no work after that.
template <u32 LANES, u32 ROWS, typename T> OPS_DEVICE void decode_ragged(const RaggedArgs& args) {
    OPS_LDS(acc_t<T>, scratch, (decode_slots<LANES, ROWS>()));
    check_sequences(args, reread(args).checkers * DECODE_BLOCK);
    decode_rows<LANES, ROWS, T, Sequence>(Ragged{args}, scratch);
}

constexpr u32 COMBINED_PARTS = 64, COMBINE_BLOCK = 256;

// One block per row. Threads are as many groups as columns leave room for, each with a share of the parts.
template <typename T> OPS_DEVICE void attention_combine(const AttentionArgs& args) {
    using A = acc_t<T>;
    OPS_LDS(A, weights, COMBINED_PARTS);
    OPS_LDS(A, totals, COMBINED_PARTS);
    OPS_LDS(A, outs, COMBINE_BLOCK);
    u64 rows = args.t * args.group, all = args.batch * args.kv_heads * rows, line = args.dv + 2;
    u32 splits = u32(args.splits), dv = u32(args.dv), width = SLICE;
    while (width < dv) width *= 2;
    u32 column = thread_x() & (width - 1), first = thread_x() / width, groups = COMBINE_BLOCK / width;
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < all; at += grid_x()) {
        u64 head = divide(args.by_rows, at), batch = divide(args.by_heads, head);
        QueryRow row = row_at(args, head - batch * args.kv_heads, at - head * rows);
        const A* parts = static_cast<const A*>(args.partial) + at * splits * line;
        if (thread_x() < splits) {
            weights[thread_x()] = parts[thread_x() * line];
            totals[thread_x()] = parts[thread_x() * line + 1];
        }
        barrier();
        A most = -A(infinity32()), sum = 0, out = 0;
        for (u32 s = 0; s < splits; s++) most = maximum(most, weights[s]);
        barrier();
        if (thread_x() < splits) {
            A weight = exp(weights[thread_x()] - finite_base(most));
            weights[thread_x()] = weight;
            totals[thread_x()] *= weight;
        }
        barrier();
        for (u32 s = 0; s < splits; s++) sum += totals[s];
        if (column < dv) {
            for (u32 s = first; s < splits; s += groups) out = mad(weights[s], parts[s * line + 2 + column], out);
        }
        outs[thread_x()] = out;
        barrier();
        if (thread_x() < dv) {
            for (u32 group = 1; group < groups; group++) out += outs[group * width + column];
            T* to = static_cast<T*>(args.o.data) + row.offset(args.o, batch);
            to[i64(column) * args.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out / sum);
            if (column == 0) store_lse(args, row, batch, most, sum);
        }
        barrier();
    }
}

}  // namespace ops
