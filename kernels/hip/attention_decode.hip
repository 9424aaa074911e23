// Attention for few queries: ROWS rows of one key head against one part of its keys. Each key is read and
// converted once for all rows. A group of LANES lanes takes several keys at a time, eight elements per lane,
// and makes one step of its own online softmax for all of them. Groups and waves are merged at the end. If the keys
// are split, the last block of these rows to finish merges the parts.
#include "ops_arrival.h"
#include "ops_decode.h"

namespace ops {

// Rows whose results pass through LDS at a time, so that they take no more than those of four rows of 128 columns.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 merged_rows() { return LANES * ROWS > 64 ? 64 / LANES : ROWS; }
// LDS slots, in elements of the accumulator type: for each wave the outputs of these rows, and maximum and sum of all. This is at
// least 264, as many as 32 lanes each need for the parts of a row: 64 weights, a maximum and a sum.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 decode_slots() {
    return DECODE_WAVES * (merged_rows<LANES, ROWS>() * LANES * SLICE + 2 * ROWS);
}

// A block's part of the keys: parts beyond `used` have none.
struct Part {
    u32 number;
    u32 used;
};

// Adds the waves of the block for COUNT rows from `row0` on. Writes results, or partial results if several parts have keys. `stats` has the
// maximum and the sum of each row.
template <u32 LANES, u32 COUNT, typename T, typename A, typename S>
OPS_DEVICE void finish_rows(const AttentionArgs& all_args, const A* outs, const A* stats, const S& of, u64 kv_head, u64 row0, Part part) {
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
        if (part.used == 1) {
            QueryRow query = row_at(args, kv_head, row);
            T* to = static_cast<T*>(args.o.data) + query.offset(args.o, of);
            if (column < args.dv) to[i64(column) * args.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out / sum);
            if (column == 0) store_lse(args, query, of, most, sum);
            continue;
        }
        u64 line = partial_row(args, of, kv_head, row) * args.splits + part.number;
        A* to = static_cast<A*>(args.partial) + line * (args.dv + 2);
        if (column == 0) {
            to[0] = most;
            to[1] = sum;
        }
        if (column < args.dv) to[2 + column] = out;
    }
}

constexpr u32 COMBINED_PARTS = 64;  // the most that the keys are split into
constexpr u32 PARTS_AT_ONCE = 8;    // that a thread reads before it waits

// The weights of the parts of one row in LDS, from the maxima and sums of all parts, 0 beyond the last part; then the row's maximum
// and sum. 32 lanes share it.
template <typename A> OPS_DEVICE void weigh_parts(A* to, const A* parts, u32 line, u32 splits, u32 lane) {
    constexpr u32 EACH = COMBINED_PARTS / 32;
    A most[EACH], part_sum[EACH], highest = -A(infinity32()), sum = 0;
    OPS_UNROLL
    for (u32 i = 0; i < EACH; i++) {
        u32 part = lane + i * 32;
        most[i] = part < splits ? parts[part * line] : -A(infinity32());
        part_sum[i] = part < splits ? parts[part * line + 1] : A(0);
        highest = maximum(highest, most[i]);
    }
    OPS_UNROLL
    for (u32 mask = 1; mask < 32; mask *= 2) highest = maximum(highest, exchange(highest, mask));
    A base = finite_base(highest);
    OPS_UNROLL
    for (u32 i = 0; i < EACH; i++) {
        A shrink = exp(most[i] - base);
        sum = mad(part_sum[i], shrink, sum);
        to[lane + i * 32] = shrink;
    }
    OPS_UNROLL
    for (u32 mask = 1; mask < 32; mask *= 2) sum += exchange(sum, mask);
    if (lane == 0) {
        to[COMBINED_PARTS] = highest;
        to[COMBINED_PARTS + 1] = sum;
    }
}

// Merges the `splits` parts of up to ROWS rows from `row0` on, which all blocks have written. The order of the sums is that of the parts, whichever
// block is the last. `scratch` is the block's LDS.
template <u32 ROWS, typename T, typename A, typename S>
OPS_DEVICE void combine_parts(const AttentionArgs& all_args, const S& of, u64 kv_head, u64 row0, u32 splits, A* scratch) {
    constexpr u32 LINE = COMBINED_PARTS + 2, THREADS = DECODE_BLOCK / ROWS, COLUMNS = 4;
    static_assert(THREADS >= 32, "32 lanes weigh the parts of a row");
    const AttentionArgs& args = reread(all_args);
    u64 rows = queries_of(args, of) * args.group;
    // Otherwise what follows is computed before the loop over the keys, and kept.
    row0 = settled(row0);
    u32 more = row0 + ROWS < rows ? ROWS - 1 : u32(rows - 1 - row0);
    // Threads beyond the last row do what those of the last row do, in LDS of their own.
    u32 thread = opaque(thread_x()), own = thread / THREADS, group = thread / 32, at = own < more ? own : more;
    u32 dv = u32(args.dv), line = dv + 2;
    const A* parts = static_cast<const A*>(args.partial) + (partial_row(args, of, kv_head, row0) + at) * (args.splits * line);
    A* weights = scratch + group * LINE;
    weigh_parts(weights, parts, line, splits, thread % 32);
    barrier();
    OPS_NO_UNROLL
    for (u32 first_column = thread % THREADS; first_column < dv; first_column += THREADS * COLUMNS) {
        A out[COLUMNS];
        OPS_UNROLL
        for (u32 c = 0; c < COLUMNS; c++) out[c] = 0;
        OPS_NO_UNROLL
        for (u32 first = 0; first < splits; first += PARTS_AT_ONCE) {
            A value[PARTS_AT_ONCE][COLUMNS];
            OPS_UNROLL
            for (u32 i = 0; i < PARTS_AT_ONCE; i++) {
                u32 part = first + i < splits ? first + i : splits - 1;
                OPS_UNROLL
                for (u32 c = 0; c < COLUMNS; c++) {
                    u32 column = first_column + c * THREADS;
                    value[i][c] = parts[part * line + 2 + (column < dv ? column : dv - 1)];
                }
            }
            OPS_UNROLL
            for (u32 i = 0; i < PARTS_AT_ONCE; i++) {
                A weight = weights[first + i];
                OPS_UNROLL
                for (u32 c = 0; c < COLUMNS; c++) out[c] = first + i < splits ? mad(weight, value[i][c], out[c]) : out[c];
            }
        }
        if (own > more) break;
        const AttentionArgs& here = reread(all_args);
        QueryRow row = row_at(here, kv_head, row0 + own);
        A most = weights[COMBINED_PARTS], sum = weights[COMBINED_PARTS + 1];
        T* to = static_cast<T*>(here.o.data) + row.offset(here.o, of);
        OPS_UNROLL
        for (u32 c = 0; c < COLUMNS; c++) {
            u32 column = first_column + c * THREADS;
            if (column < dv) to[i64(column) * here.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out[c] / sum);
        }
        if (first_column == 0) store_lse(here, row, of, most, sum);
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
        Part part{u32(block - unit * args.splits), 1};
        Work<S> work = calls.unit(args, unit, ROWS);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u32 kv_head = u32(work.kv_head);
        u64 rows = queries_of(args, of) * args.group, row0 = settled(work.part * ROWS);
        u32 more = row0 + ROWS < rows ? ROWS - 1 : u32(rows - 1 - row0);
        QueryRow lowest = row_at(args, kv_head, row0), highest = row_after(args, kv_head, lowest, more);
        Rows state(calls.attention(), of, kv_head);
        // This part's range of the keys that any of the rows can see, from a multiple of KEYS on. If there is only one part, from a multiple
        // of BLOCK_KEYS on, so that which lanes take a key does not depend on the other rows.
        u32 from = args.splits == 1 ? Rows::BLOCK_KEYS : Rows::KEYS;
        i64 first = lowest.first_key(args, of) & ~i64(from - 1), end = highest.end_key(args, of);
        if (end < first) end = first;
        i64 share = calls.share(args, end - first, Rows::BLOCK_KEYS);
        if (end - first > share) part.used = u32(end - first + share - 1) / u32(share);
        if (part.number >= part.used) continue;
        first += part.number * share;
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
        if (part.number == 0 && thread < LANES) start_with_sink<T>(args, row, thread < ROWS, state.most, state.sum);
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
            // Whether all keys before the end are visible to all rows.
            bool alike = unseen == state.end;
            state.soften(power, score, alike ? A(0) : A(-1));
            if (whole || alike) {
                if (!whole) state.hide_values(at);
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
            finish_rows<LANES, COUNT, T>(calls.attention(), scratch, stats + r0 * 2, of, kv_head, row0 + r0, part);
        }
        barrier();
        const AttentionArgs& now = reread(calls.attention());
        if (part.used == 1) continue;
        u32* counter = static_cast<u32*>(now.arrivals) + divide(now.by_splits, block);
        bool last = is_last_to_arrive(counter, part.used, reinterpret_cast<u32*>(scratch));
        barrier();
        if (last) combine_parts<ROWS, T>(calls.attention(), of, kv_head, row0, part.used, scratch);
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

}  // namespace ops
