// Attention for few queries: ROWS rows of one key head against one part of its keys. Each key is read and
// converted once for all rows. A group of LANES lanes takes several keys at a time, eight elements per lane,
// and makes one step of its own online softmax for all of them. Groups and waves are merged at the end;
// attention_combine merges the parts.
#include "ops_lanes.h"
#include "ops_sequences.h"

namespace ops {

constexpr u32 DECODE_BLOCK = 256;
constexpr u32 SLICE = 8;  // elements of d per lane
constexpr u32 DECODE_WAVES = DECODE_BLOCK / 32;

// Keys that a group of lanes takes at a time: 64 bytes for each lane.
template <typename T> OPS_DEVICE constexpr u32 decode_keys() { return 8 / sizeof(T); }

// Rows whose results pass through LDS at a time, so that they take as much as those of four rows of 128 columns.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 merged_rows() { return LANES * ROWS > 64 ? 64 / LANES : ROWS; }
// LDS slots, in elements of the accumulator type: for each wave and row the output, the maximum and the sum.
template <u32 LANES, u32 ROWS> OPS_DEVICE constexpr u32 decode_slots() {
    return DECODE_WAVES * merged_rows<LANES, ROWS>() * (LANES * SLICE + 2);
}

OPS_DEVICE QueryRow row_at(const AttentionArgs& args, u64 kv_head, u64 row) {
    QueryRow out;
    out.query = u32(quotient_of(row, args.group));
    out.head = u32(kv_head * args.group + (row - out.query * args.group));
    return out;
}

// Sums each of C values over a group of LANES lanes. Lane l gets the sum of value l % C. In each step, two lanes
// exchange halves: each sends the values that the other keeps.
template <u32 LANES, u32 C, u32 HALF = C / 2, typename A> OPS_DEVICE A sum_values(A (&value)[C], u32 lane) {
    if constexpr (HALF > 0) {
        bool upper = (lane & HALF) != 0;
        OPS_UNROLL
        for (u32 i = 0; i < HALF; i++) {
            A low = value[i], high = value[i + HALF];
            value[i] = (upper ? high : low) + exchange(upper ? low : high, HALF);
        }
        return sum_values<LANES, C, HALF / 2>(value, lane);
    } else {
        A total = value[0];
        OPS_UNROLL
        for (u32 mask = C; mask < LANES; mask *= 2) total += exchange(total, mask);
        return total;
    }
}

// Whether every lane can read its part of a row as packs.
template <typename T> OPS_DEVICE bool in_packs(const Operand& rows, u64 width) {
    return rows_take_packs<T>(rows) && width % SLICE == 0 && width > 0;
}

// What a group of lanes has of ROWS rows: every lane has SLICE columns of all rows, and the scores of its own row, which is its
// number modulo ROWS. Of the C scores of a step, lane l has score l % SPREAD, and those that follow it at a distance of SPREAD. Scores are
// numbered by key, then by row.
template <u32 LANES, u32 ROWS, typename T, typename S> struct Decoder {
    using A = acc_t<T>;
    using Slice = Pack<T, SLICE>;
    // A slice as words, because compilers give each 16-bit element a register of its own where it lives through a loop.
    struct Words { u32 word[sizeof(Slice) / 4]; };
    static constexpr u32 KEYS = decode_keys<T>(), C = KEYS * ROWS;
    static constexpr u32 SPREAD = C < LANES ? C : LANES, SCORES = C / SPREAD;
    static constexpr u32 WAVE_KEYS = OPS_WAVE / LANES * KEYS;  // that a wave takes at a time
    static constexpr u32 BLOCK_KEYS = DECODE_BLOCK / LANES * KEYS;
    // A place that has to be looked up is, one step ahead, each by another lane.
    static constexpr bool LOOKS_UP = !same<S, u64>::value;
    using Place = typename KeyPlace<S>::type;

    const AttentionArgs& arguments;
    const S& of;
    u32 kv_head;
    u32 end;     // of the keys
    u32 packs;  // whether all keys and values can be read in packs
    u32 lane;
    Words k[KEYS], v[KEYS];
    Place here, ahead;
    A q[ROWS][SLICE], out[ROWS][SLICE];
    A most, sum;  // of the lane's own row. The maximum is the group's, the sum the lane's.

    OPS_METHOD Decoder(const AttentionArgs& args, const S& sequence, u32 head, u32 aligned)
        : arguments(args), of(sequence), kv_head(head), end(0), packs(aligned), k(), v(), here(), ahead(), most(-A(infinity32())), sum(0) {
        lane = lane_id() & (LANES - 1);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[r][i] = 0;
        }
    }

    // Rows `first` and up to `more` later ones; then the last one again.
    OPS_METHOD void load_queries(const QueryRow& first, u32 more) {
        const AttentionArgs& args = reread(arguments);
        bool aligned = rows_take_packs<T>(args.q);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            QueryRow row = first.after(args, kv_head, r < more ? r : more);
            const T* from = static_cast<const T*>(args.q.data) + row.offset(args.q, of);
            Slice held = load_slice<SLICE>(from, args.q.stride[5], opaque(lane) * SLICE, args.d, aligned);
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) q[r][i] = widen(held.v[i]);
        }
    }

    // ---- keys and values: the group's KEYS keys of the wave's step that begins at key `at` ----

    OPS_METHOD u32 first_of(u32 at) const { return at + opaque(lane_id()) / LANES * KEYS; }
    OPS_METHOD u32 inside(u32 key) const { return key < end ? key : end - 1; }
    OPS_METHOD void look_up(u32 at) {
        if constexpr (LOOKS_UP) ahead = place_of(of, i64(inside(first_of(at) + opaque(lane) % KEYS)));
    }
    // The offset of key j of the step. Past the end, the last key is read again.
    OPS_METHOD i64 offset_of_key(const Operand& rows, u32 at, u32 j) const {
        if constexpr (LOOKS_UP) {
            return key_offset(rows, Place{shuffle(here.block, j, LANES), shuffle(here.row, j, LANES)});
        } else {
            return key_offset(rows, i64(inside(first_of(at) + j)));
        }
    }
    OPS_METHOD void fetch(Words (&to)[KEYS], const Operand& rows, u64 width, u32 at) {
        const T* from = static_cast<const T*>(rows.data) + head_offset(rows, of, kv_head);
        u32 column = opaque(lane) * SLICE;
        if (packs != 0) {
            // Lanes beyond the row read its beginning, so that no load has a condition.
            from += column < width ? column : 0;
            if (!LOOKS_UP && at + WAVE_KEYS <= end) {
                from += i64(first_of(at)) * rows.stride[4];
                OPS_UNROLL
                for (u32 j = 0; j < KEYS; j++) {
                    to[j] = bits_as<Words>(load_packs<SLICE>(from));
                    from += rows.stride[4];
                }
            } else {
                OPS_UNROLL
                for (u32 j = 0; j < KEYS; j++) to[j] = bits_as<Words>(load_packs<SLICE>(from + offset_of_key(rows, at, j)));
            }
        } else {
            // Not unrolled, because the loads of single elements are many instructions.
            OPS_NO_UNROLL
            for (u32 j = 0; j < KEYS; j++) {
                OPS_UNROLL
                for (u32 n = 0; n + 1 < KEYS; n++) to[n] = to[n + 1];
                const T* row = from + offset_of_key(rows, at, j);
                to[KEYS - 1] = bits_as<Words>(load_slice<SLICE>(row, rows.stride[5], column, width, false));
            }
        }
    }
    OPS_METHOD void fetch_keys(u32 at) {
        const AttentionArgs& args = reread(arguments);
        here = ahead;
        fetch(k, args.k, args.d, at);
    }
    OPS_METHOD void fetch_values(u32 at) {
        const AttentionArgs& args = reread(arguments);
        fetch(v, args.v, args.dv, at);
        look_up(at + BLOCK_KEYS);
    }

    // ---- a step ----

    OPS_METHOD void dots(A (&dot)[SCORES][SPREAD]) {
        // What lanes beyond the keys' width have read is no part of them.
        if (reread(arguments).d < LANES * SLICE && lane * SLICE >= reread(arguments).d) {
            OPS_UNROLL
            for (u32 j = 0; j < KEYS; j++) k[j] = Words{};
        }
        OPS_UNROLL
        for (u32 j = 0; j < KEYS; j++) {
            Slice key = bits_as<Slice>(k[j]);
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                const u32 n = j * ROWS + r;
                A sum_of_row = 0;
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) sum_of_row = mad(q[r][i], A(widen(key.v[i])), sum_of_row);
                dot[n / SPREAD][n % SPREAD] = sum_of_row;
            }
        }
    }

    // The score of the lane's own row and of a key of the step: `visible` for all rows, and nothing but scaled, where `plain`.
    OPS_METHOD Score<A> score(const QueryRow& row, u32 at, u32 s, A dot, bool plain) const {
        const AttentionArgs& args = reread(arguments);
        if (plain) return Score<A>{dot * A(args.scale), true};
        u32 key = first_of(at) + (s * SPREAD + lane % SPREAD) / ROWS;
        Score<A> out = score_of<T>(args, of, row, i64(key), dot);
        out.visible = out.visible && key < end;
        return out;
    }

    template <u32 R = 0> OPS_METHOD void rescale(A shrink) {
        if constexpr (R < ROWS) {
            A factor = broadcast<LANES, R>(shrink);
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[R][i] *= factor;
            rescale<R + 1>(shrink);
        }
    }
    // Makes powers of scores, -1 of those that are not visible, and rescales the sums and outputs so far.
    OPS_METHOD void soften(A (&power)[SCORES], const Score<A> (&score)[SCORES]) {
        A highest = most;
        OPS_UNROLL
        for (u32 s = 0; s < SCORES; s++) highest = score[s].visible ? maximum(highest, score[s].value) : highest;
        OPS_UNROLL
        for (u32 mask = ROWS; mask < SPREAD; mask *= 2) highest = maximum(highest, exchange(highest, mask));
        A base = finite_base(highest);
        // A wave whose maxima stay would rescale by one.
        if (ballot(!(highest == most)) != 0) {
            A shrink = exp(most - base);
            most = highest;
            sum *= shrink;
            rescale(shrink);
        }
        OPS_UNROLL
        for (u32 s = 0; s < SCORES; s++) {
            A p = exp(score[s].value - base);
            sum += score[s].visible ? p : A(0);
            power[s] = score[s].visible ? p : A(-1);
        }
    }

    // Adds the values, weighted. A key that is invisible to a row contributes nothing, whatever its values.
    template <u32 N = 0> OPS_METHOD void weigh(const A (&power)[SCORES]) {
        if constexpr (N < C) {
            A weight = broadcast<LANES, N % SPREAD>(power[N / SPREAD]);
            if (!(weight < A(0))) {
                Slice value = bits_as<Slice>(v[N / ROWS]);
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) out[N % ROWS][i] = mad(weight, A(widen(value.v[i])), out[N % ROWS][i]);
            }
            weigh<N + 1>(power);
        }
    }

    // ---- merging ----

    // Merges the groups of the wave. Lanes below ROWS have their row's sum then.
    OPS_METHOD void merge_groups() {
        OPS_UNROLL
        for (u32 mask = ROWS; mask < SPREAD; mask *= 2) sum += exchange(sum, mask);
        OPS_UNROLL
        for (u32 mask = LANES; mask < OPS_WAVE; mask *= 2) {
            A other = exchange(most, mask), highest = maximum(most, other), base = finite_base(highest);
            A mine = exp(most - base), theirs = exp(other - base);
            most = highest;
            sum = sum * mine + exchange(sum, mask) * theirs;
            merge_rows(mine, theirs, mask);
        }
    }
    template <u32 R = 0> OPS_METHOD void merge_rows(A mine, A theirs, u32 mask) {
        if constexpr (R < ROWS) {
            A keep = broadcast<LANES, R>(mine), take = broadcast<LANES, R>(theirs);
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[R][i] = out[R][i] * keep + exchange(out[R][i], mask) * take;
            merge_rows<R + 1>(mine, theirs, mask);
        }
    }
};

// Merges the waves of the block for COUNT rows from `row0` on. Writes results, or partial results if the keys are split.
template <u32 LANES, u32 COUNT, typename T, typename A, typename S>
OPS_DEVICE void finish_rows(const AttentionArgs& all_args, const A* scratch, const S& of, u64 kv_head, u64 row0, u64 split) {
    constexpr u32 WIDTH = LANES * SLICE, WAVES = DECODE_BLOCK / OPS_WAVE;
    const A* stats = scratch + WAVES * COUNT * WIDTH;
    OPS_NO_UNROLL
    for (u32 at = opaque(thread_x()); at < COUNT * WIDTH; at += DECODE_BLOCK) {
        const AttentionArgs& args = reread(all_args);
        u32 r = at / WIDTH, column = at % WIDTH;
        u64 row = row0 + r;
        if (row >= queries_of(args, of) * args.group) return;
        A most = -A(infinity32()), sum = 0, out = 0;
        OPS_UNROLL
        for (u32 w = 0; w < WAVES; w++) most = maximum(most, stats[(w * COUNT + r) * 2]);
        A base = finite_base(most);
        OPS_UNROLL
        for (u32 w = 0; w < WAVES; w++) {
            A factor = exp(stats[(w * COUNT + r) * 2] - base);
            sum = mad(stats[(w * COUNT + r) * 2 + 1], factor, sum);
            out = mad(scratch[(w * COUNT + r) * WIDTH + column], factor, out);
        }
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
    const AttentionArgs& all = calls.attention();
    u32 packs = same_in_wave(in_packs<T>(all.k, all.d) && in_packs<T>(all.v, all.dv) ? 1 : 0);
    OPS_NO_UNROLL
    for (u64 block = u64(block_x()) - calls.skipped();; block += grid_x() - calls.skipped()) {
        const AttentionArgs& args = reread(calls.attention());
        if (block >= calls.count(args, ROWS) * args.splits) break;
        u64 unit = quotient_of(block, args.splits);
        u32 split = u32(block - unit * args.splits);
        Work<S> work = calls.work(args, unit, ROWS);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u32 kv_head = u32(work.kv_head);
        u64 rows = queries_of(args, of) * args.group, row0 = work.part * ROWS;
        u32 more = row0 + ROWS < rows ? ROWS - 1 : u32(rows - 1 - row0);
        QueryRow lowest = row_at(args, kv_head, row0), highest = lowest.after(args, kv_head, more);
        Rows state(calls.attention(), of, kv_head, packs);
        // This part's range of the keys that any of the rows can see.
        i64 first = lowest.first_key(args, of), end = highest.end_key(args, of);
        if (end < first) end = first;
        i64 share = calls.share(end - first, i64(args.splits), Rows::BLOCK_KEYS);
        first += split * share;
        if (first > end) first = end;
        state.end = u32(first + share < end ? first + share : end);
        // The part's keys up to `unseen` are visible to all rows, and their scores are nothing but scaled.
        i64 visible = lowest.end_key(args, of);
        u32 unseen = visible > 0 ? u32(visible) : 0;
        if (unseen > state.end) unseen = state.end;
        bool scaled = args.softcap == 0 && args.slopes == nullptr && !has_mask(args, of);
        if (!scaled || highest.first_key(args, of) > first) unseen = 0;
        u32 at = u32(first) + same_in_wave(wave_id()) * Rows::WAVE_KEYS;
        if (at < state.end) {
            state.look_up(at);
            state.fetch_keys(at);
            state.fetch_values(at);
        }
        state.load_queries(lowest, more);
        u32 thread = opaque(thread_x()), own = thread % ROWS;
        QueryRow row = lowest.after(args, kv_head, own < more ? own : more);
        // One group of lanes of the first part has the sink, and one lane of each row counts it.
        if (split == 0 && thread < LANES) start_with_sink<T>(args, row, thread < ROWS, state.most, state.sum);
        OPS_NO_UNROLL
        for (; at < state.end; at += Rows::BLOCK_KEYS) {
            u32 next = at + Rows::BLOCK_KEYS;
            A dot[Rows::SCORES][Rows::SPREAD], power[Rows::SCORES];
            state.dots(dot);
            if (next < state.end) state.fetch_keys(next);
            bool plain = at + Rows::WAVE_KEYS <= unseen;
            Score<A> score[Rows::SCORES];
            OPS_UNROLL
            for (u32 s = 0; s < Rows::SCORES; s++) {
                A total = sum_values<LANES>(dot[s], opaque(state.lane));
                score[s] = state.score(row, at, s, total, plain);
            }
            state.soften(power, score);
            state.weigh(power);
            if (next < state.end) state.fetch_values(next);
        }
        state.merge_groups();
        constexpr u32 COUNT = merged_rows<LANES, ROWS>(), WIDTH = LANES * SLICE, WAVES = DECODE_BLOCK / OPS_WAVE;
        OPS_UNROLL
        for (u32 r0 = 0; r0 < ROWS; r0 += COUNT) {
            OPS_UNROLL
            for (u32 r = 0; r < COUNT; r++) {
                u32 thread = opaque(thread_x()), lane = thread % OPS_WAVE, line = thread / OPS_WAVE * COUNT + r;
                A* stats = scratch + WAVES * COUNT * WIDTH + line * 2;
                if (lane == r0 + r) {
                    stats[0] = state.most;
                    stats[1] = state.sum;
                }
                if (lane < LANES) {
                    OPS_UNROLL
                    for (u32 i = 0; i < SLICE; i++) scratch[line * WIDTH + lane * SLICE + i] = state.out[r0 + r][i];
                }
            }
            barrier();
            finish_rows<LANES, COUNT, T>(calls.attention(), scratch, of, kv_head, row0 + r0, split);
            barrier();
        }
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

constexpr u32 COMBINED_PARTS = 64;

// One block per row. Threads are as many groups as columns leave room for, each with a share of the parts.
template <typename T> OPS_DEVICE void attention_combine(const AttentionArgs& args) {
    using A = acc_t<T>;
    OPS_LDS(A, weights, COMBINED_PARTS);
    OPS_LDS(A, totals, COMBINED_PARTS);
    OPS_LDS(A, outs, DECODE_BLOCK);
    u64 rows = args.t * args.group, all = args.batch * args.kv_heads * rows, line = args.dv + 2;
    u32 splits = u32(args.splits), dv = u32(args.dv), width = SLICE;
    while (width < dv) width *= 2;
    u32 column = thread_x() & (width - 1), first = thread_x() / width, groups = DECODE_BLOCK / width;
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < all; at += grid_x()) {
        u64 head = quotient_of(at, rows), batch = quotient_of(head, args.kv_heads);
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
