// Attention for few queries: ROWS rows of one key head against one part of its keys. Each key is read
// once for all rows. A group of lanes processes one key at a time, eight elements per lane, with its
// own online softmax. Groups and waves are merged at the end; attention_combine merges the parts.
#include "ops_sequences.h"

namespace ops {

constexpr u32 DECODE_BLOCK = 256;
constexpr u32 SLICE = 8;       // elements of d per lane
constexpr u32 DECODE_D = 256;  // largest head size
constexpr u32 DECODE_WAVES = DECODE_BLOCK / 32;

// LDS slots, in elements of the accumulator type: the output, maximum and sum of one row for every wave.
constexpr u32 DECODE_SLOTS = DECODE_WAVES * (DECODE_D + 2);

// The online softmax of ROWS rows over the keys of one group of lanes. Every lane has SLICE columns of
// all rows. The maximum and sum of a row are in the lanes whose index modulo ROWS is the row.
template <typename A, u32 ROWS> struct Running {
    u32 lanes;
    A most, sum, out[ROWS][SLICE];

    OPS_METHOD Running(u32 group) : lanes(group), most(-A(infinity32())), sum(0) {
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[r][i] = 0;
        }
    }
    // Adds a key. `score` is the score for this lane's own row.
    OPS_METHOD void add(Score<A> score, const A (&v)[SLICE]) {
        A highest = score.visible ? maximum(most, score.value) : most;
        A base = finite_base(highest);
        A shrink = exp(most - base), p = score.visible ? exp(score.value - base) : A(-1);
        most = highest;
        sum = sum * shrink + (score.visible ? p : A(0));
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            A weight = shuffle(p, r, lanes), factor = shuffle(shrink, r, lanes);
            bool seen = !(weight < A(0));  // an invisible key contributes nothing, whatever its values
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) {
                A kept = out[r][i] * factor;
                out[r][i] = seen ? mad(weight, v[i], kept) : kept;
            }
        }
    }
    // Merges the groups of lanes of the wave.
    OPS_METHOD void merge() {
        for (u32 mask = lanes; mask < OPS_WAVE; mask *= 2) {
            A other = shuffle_xor(most, mask, OPS_WAVE);
            A highest = maximum(most, other), base = finite_base(highest);
            A mine = exp(most - base), theirs = exp(other - base);
            most = highest;
            sum = sum * mine + shuffle_xor(sum, mask, OPS_WAVE) * theirs;
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                A keep = shuffle(mine, r, lanes), take = shuffle(theirs, r, lanes);
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) {
                    out[r][i] = out[r][i] * keep + shuffle_xor(out[r][i], mask, OPS_WAVE) * take;
                }
            }
        }
    }
};

// Sums `value` over a group of lanes. Each lane gets the total of the row given by its index modulo
// ROWS. In each step, two lanes exchange halves: each sends the rows that the other keeps.
template <u32 C, u32 ROWS, typename A> OPS_DEVICE A sum_rows(A (&value)[ROWS], u32 lanes) {
    if constexpr (C > 1) {
        bool upper = (lane_id() & (C / 2)) != 0;
        OPS_UNROLL
        for (u32 i = 0; i < C / 2; i++) {
            A send = upper ? value[i] : value[i + C / 2];
            A keep = upper ? value[i + C / 2] : value[i];
            value[i] = keep + shuffle_xor(send, C / 2, lanes);
        }
        return sum_rows<C / 2>(value, lanes);
    } else {
        A total = value[0];
        for (u32 mask = ROWS; mask < lanes; mask *= 2) total += shuffle_xor(total, mask, lanes);
        return total;
    }
}

// Merges the waves of the block for one row. Writes the result, or a partial result if the keys are split.
template <typename T, typename A, typename S>
OPS_DEVICE void finish_row(const AttentionArgs& all_args, const A* scratch, const S& of, u64 kv_head, u64 row, u64 split) {
    const AttentionArgs& args = reread(all_args);
    constexpr u32 WAVES = DECODE_BLOCK / OPS_WAVE;
    const A* lines = scratch + DECODE_WAVES * 2;
    A most = -A(infinity32()), sum = 0, out = 0;
    u32 at = thread_x();
    for (u32 w = 0; w < WAVES; w++) most = maximum(most, scratch[w * 2]);
    A base = finite_base(most);
    for (u32 w = 0; w < WAVES; w++) {
        A factor = exp(scratch[w * 2] - base);
        sum = mad(scratch[w * 2 + 1], factor, sum);
        if (at < args.dv) out = mad(lines[w * DECODE_D + at], factor, out);
    }
    if (row >= queries_of(args, of) * args.group) return;
    if (args.splits == 1) {
        QueryRow query(args, kv_head, row);
        T* to = static_cast<T*>(args.o.data) + query.offset(args.o, of);
        if (at < args.dv) to[i64(at) * args.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out / sum);
        if (at == 0) store_lse(args, query, of, most, sum);
        return;
    }
    u64 line = partial_row(args, of, kv_head, row) * args.splits + split;
    A* to = static_cast<A*>(args.partial) + line * (args.dv + 2);
    if (at == 0) {
        to[0] = most;
        to[1] = sum;
    }
    if (at < args.dv) to[2 + at] = out;
}

template <u32 ROWS, typename T, typename S, typename Calls>
OPS_DEVICE void decode_rows(const Calls& calls, acc_t<T>* scratch) {
    using A = acc_t<T>;
    u32 lanes = u32(calls.attention().lanes), groups = DECODE_BLOCK / lanes;
    u32 slice = (lane_id() & (lanes - 1)) * SLICE;
    bool q_packs = rows_take_packs<T>(calls.attention().q);
    bool packs = rows_take_packs<T>(calls.attention().k) && rows_take_packs<T>(calls.attention().v);
    u32 blocks = grid_x();
    OPS_NO_UNROLL
    for (u64 at = block_x();; at += blocks) {
        const AttentionArgs& args = reread(calls.attention());
        if (at >= calls.count(args, ROWS) * args.splits) break;
        u64 split = at % args.splits;
        Work<S> work = calls.work(args, at / args.splits, ROWS);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u64 kv_head = work.kv_head, rows = queries_of(args, of) * args.group, row0 = work.part * ROWS;
        u64 last = row0 + ROWS < rows ? row0 + ROWS - 1 : rows - 1;
        const T* k = static_cast<const T*>(args.k.data) + head_offset(args.k, of, kv_head);
        const T* v = static_cast<const T*>(args.v.data) + head_offset(args.v, of, kv_head);
        A q[ROWS][SLICE];
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            QueryRow row(args, kv_head, row0 + r < last ? row0 + r : last);
            u32 column = opaque(slice);
            const T* from = static_cast<const T*>(args.q.data) + row.offset(args.q, of);
            Pack<T, SLICE> held = load_slice<SLICE>(from, args.q.stride[5], column, args.d, q_packs);
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) q[r][i] = widen(held.v[i]);
        }
        u64 own = row0 + lane_id() % ROWS;
        QueryRow row(args, kv_head, own < last ? own : last);
        Running<A, ROWS> state(lanes);
        // One group of lanes of the first part counts the sink.
        if (split == 0 && thread_x() < lanes) start_with_sink<T>(args, row, true, state.most, state.sum);
        // This part's range of the keys that any of the rows can see.
        i64 first = QueryRow(args, kv_head, row0).first_key(args, of), end = QueryRow(args, kv_head, last).end_key(args, of);
        if (end < first) end = first;
        i64 share = calls.share(end - first, i64(args.splits));
        first += i64(split) * share;
        end = first + share < end ? first + share : end;
        // The group's next key is in flight while the current one is used. Past the end, the last key is read again.
        // A place that has to be looked up is, one key earlier.
        Pack<T, SLICE> ks, vs, next_k, next_v;
        constexpr bool LOOKS_UP = !same<S, u64>::value;
        typename KeyPlace<S>::type ahead{};
        auto look = [&](i64 key) OPS_INLINE { return place_of(of, key < end ? key : end - 1); };
        auto fetch = [&](i64 key) OPS_INLINE {
            auto place = LOOKS_UP ? ahead : look(key);
            u32 column = opaque(slice);
            next_k = load_slice<SLICE>(k + key_offset(args.k, place), args.k.stride[5], column, args.d, packs);
            next_v = load_slice<SLICE>(v + key_offset(args.v, place), args.v.stride[5], column, args.dv, packs);
            if constexpr (LOOKS_UP) ahead = look(key + groups);
        };
        i64 key = first + i64(thread_x() / lanes);
        if (first < end) {
            if constexpr (LOOKS_UP) ahead = look(key);
            fetch(key);
        }
        OPS_NO_UNROLL
        for (i64 k0 = first; k0 < end; k0 += groups) {
            const AttentionArgs& now = reread(args);
            bool live = key < end;
            i64 line = live ? key : end - 1;
            ks = next_k;
            vs = next_v;
            key += groups;
            fetch(key);
            A value[SLICE], dot[ROWS];
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) value[i] = widen(ks.v[i]);
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                dot[r] = 0;
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) dot[r] = mad(q[r][i], value[i], dot[r]);
            }
            Score<A> score = score_of<T>(now, of, row, line, sum_rows<ROWS>(dot, lanes));
            score.visible = score.visible && live;
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) value[i] = widen(vs.v[i]);
            state.add(score, value);
        }
        state.merge();
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            if (lane_id() == r) {
                scratch[wave_id() * 2] = state.most;
                scratch[wave_id() * 2 + 1] = state.sum;
            }
            A* line = scratch + DECODE_WAVES * 2 + wave_id() * DECODE_D + slice;
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) {
                if (lane_id() < lanes && slice < DECODE_D) line[i] = state.out[r][i];
            }
            barrier();
            finish_row<T>(reread(args), scratch, of, kv_head, row0 + r, split);
            barrier();
        }
    }
}

template <u32 ROWS, typename T> OPS_DEVICE void attention_decode(const AttentionArgs& args) {
    OPS_LDS(acc_t<T>, scratch, DECODE_SLOTS);
    decode_rows<ROWS, T, u64>(Batches{args}, scratch);
}

template <u32 ROWS, typename T> OPS_DEVICE void decode_ragged(const RaggedArgs& args) {
    OPS_LDS(acc_t<T>, scratch, DECODE_SLOTS);
    check_sequences(args);
    decode_rows<ROWS, T, Sequence>(Ragged{args}, scratch);
}

// One block per row, one thread per column.
template <typename T> OPS_DEVICE void attention_combine(const AttentionArgs& args) {
    using A = acc_t<T>;
    u64 rows = args.t * args.group, all = args.batch * args.kv_heads * rows;
    OPS_NO_UNROLL
    for (u64 at = block_x(); at < all; at += grid_x()) {
        u64 head = at / rows;
        QueryRow row(args, head % args.kv_heads, at % rows);
        const A* parts = static_cast<const A*>(args.partial) + at * args.splits * (args.dv + 2);
        A most = -A(infinity32());
        for (u64 s = 0; s < args.splits; s++) most = maximum(most, parts[s * (args.dv + 2)]);
        A base = finite_base(most), sum = 0, out = 0;
        u32 column = thread_x();
        for (u64 s = 0; s < args.splits; s++) {
            const A* part = parts + s * (args.dv + 2);
            A factor = exp(part[0] - base);
            sum = mad(part[1], factor, sum);
            if (column < args.dv) out = mad(part[2 + column], factor, out);
        }
        T* to = static_cast<T*>(args.o.data) + row.offset(args.o, head / args.kv_heads);
        if (column < args.dv) to[i64(column) * args.o.stride[5]] = narrow<T>(sum == A(0) ? A(0) : out / sum);
        if (column == 0) store_lse(args, row, head / args.kv_heads, most, sum);
    }
}

}  // namespace ops
