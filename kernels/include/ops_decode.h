// The online softmax of a few rows of one key head over keys that a group of lanes takes several at a time.
#pragma once
#include "ops_lanes.h"
#include "ops_sequences.h"

namespace ops {

constexpr u32 DECODE_BLOCK = 128;
constexpr u32 SLICE = 8;  // elements of d per lane
constexpr u32 DECODE_WAVES = DECODE_BLOCK / 32;

// Keys that a group of lanes takes at a time: 128 bytes for each lane of a wave of 32. A wave of 64 has as much in flight with half of
// that; with more, kernels for four rows would leave gfx9 no registers.
template <typename T> OPS_DEVICE constexpr u32 decode_keys() { return (OPS_WAVE == 64 ? 8 : 16) / sizeof(T); }

// The same value, which all lanes of a wave share, in scalar registers. Without this, compilers may keep the terms of a sum and add them
// again where it is used, which takes more registers.
OPS_DEVICE u64 settled(u64 value) {
#if defined(OPS_AMD)
    u64 here = u64(same_in_wave(u32(value >> 32))) << 32 | same_in_wave(u32(value));
    asm volatile("" : "+s"(here));
    return here;
#else
    return value;
#endif
}

// The row `more` rows after another of the same key head.
OPS_DEVICE QueryRow row_after(const AttentionArgs& args, u64 kv_head, const QueryRow& row, u64 more) {
    u64 in_group = row.head - kv_head * args.group + more, queries = 0;
    if (in_group >= args.group) queries = divide(args.by_group, in_group);
    QueryRow out;
    out.query = row.query + u32(queries);
    out.head = u32(kv_head * args.group + in_group - queries * args.group);
    return out;
}
OPS_DEVICE QueryRow row_at(const AttentionArgs& args, u64 kv_head, u64 row) {
    QueryRow first;
    first.query = 0;
    first.head = u32(kv_head * args.group);
    return row_after(args, kv_head, first, row);
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

// What a group of lanes has of ROWS rows: every lane has SLICE columns of all rows, and the scores of its own row, which is its
// number modulo ROWS. Of the C scores of a step, lane l has score l % SPREAD, and those that follow it at a distance of SPREAD. Scores are
// numbered by key, then by row.
template <u32 LANES, u32 ROWS, typename T, typename S> struct Decoder {
    using A = acc_t<T>;
    using Slice = Pack<T, SLICE>;
    // A slice as words, because compilers give each 16-bit element a register of its own where it lives through a loop.
    struct Words {
        u32 word[sizeof(Slice) / 4];
    };
    static constexpr u32 KEYS = decode_keys<T>(), C = KEYS * ROWS;
    static constexpr u32 SPREAD = C < LANES ? C : LANES, SCORES = C / SPREAD;
    static constexpr u32 WAVE_KEYS = OPS_WAVE / LANES * KEYS;  // that a wave takes at a time
    static constexpr u32 BLOCK_KEYS = DECODE_BLOCK / LANES * KEYS;
    // Places of keys may have to be looked up.
    static constexpr bool LOOKS_UP = !same<S, u64>::value;
    using Place = typename KeyPlace<S>::type;

    const AttentionArgs& arguments;
    const S& of;
    u32 kv_head;
    u32 end;  // of the keys
    u32 lane;
    Words q[ROWS], k[KEYS], v[KEYS];
    Place here, ahead;  // of the group's first key, for values and for the keys of the next step
    A out[ROWS][SLICE];
    A most, sum;  // of the lane's own row. The maximum is the group's, the sum the lane's.

    OPS_METHOD Decoder(const AttentionArgs& args, const S& sequence, u32 head)
        : arguments(args), of(sequence), kv_head(head), end(0), q(), k(), v(), here(), ahead(), most(-A(infinity32())), sum(0) {
        lane = lane_id() & (LANES - 1);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[r][i] = 0;
        }
    }

    OPS_METHOD const T* query(const AttentionArgs& args, const QueryRow& first, u32 more) const {
        return static_cast<const T*>(args.q.data) + row_after(args, kv_head, first, more).offset(args.q, of);
    }
    // Rows `first` and up to `more` later ones; then the last one again.
    OPS_METHOD void load_queries(const QueryRow& first, u32 more) {
        const AttentionArgs& args = reread(arguments);
        u32 column = opaque(lane) * SLICE;
        if ((args.flags & QUERIES_IN_PACKS) != 0) {
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                const T* from = query(args, first, r < more ? r : more);
                if (column < args.d) q[r] = bits_as<Words>(load_packs<SLICE>(from + column));
            }
        } else {
            OPS_NO_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                OPS_UNROLL
                for (u32 n = 0; n + 1 < ROWS; n++) q[n] = q[n + 1];
                const T* from = query(args, first, r < more ? r : more);
                q[ROWS - 1] = bits_as<Words>(load_slice<SLICE>(from, args.q.stride[5], column, args.d, false));
            }
        }
    }

    // ---- keys and values: the group's KEYS keys of the wave's step that begins at key `at` ----

    OPS_METHOD u32 first_of(u32 at) const { return at + opaque(lane_id()) / LANES * KEYS; }
    OPS_METHOD u32 inside(u32 key) const { return key < end ? key : end - 1; }
    OPS_METHOD void look_up(u32 at) {
        if constexpr (LOOKS_UP) {
            // A group beyond the end reads the last keys of the sequence again, as many as there are in a group.
            u32 first = first_of(at), last = (end - 1) & ~(KEYS - 1);
            ahead = place_of(of, i64(first < last ? first : last));
        }
    }
    OPS_METHOD i64 offset_of_place(const Operand& rows) const {
        if constexpr (LOOKS_UP) return key_offset(rows, here);
        return 0;
    }
    OPS_METHOD bool in_blocks() const {
        if constexpr (LOOKS_UP) return reread(of.args).table != nullptr;
        return false;
    }
    OPS_METHOD i64 offset_of_key(const Operand& rows, u32 key) const {
        if constexpr (LOOKS_UP) return i64(of.first_key + key) * rows.stride[4];
        return i64(key) * rows.stride[4];
    }
    OPS_METHOD void fetch(Words (&to)[KEYS], const Operand& rows, u64 width, u32 at) {
        const T* from = static_cast<const T*>(rows.data) + head_offset(rows, of, kv_head);
        u32 column = opaque(lane) * SLICE;
        u64 flags = reread(arguments).flags;
        bool packs = (flags & KEYS_IN_PACKS) != 0, in_table = in_blocks();
        // Whether the keys of each group lie one after the other.
        bool runs = in_table ? (flags & GROUPS_IN_BLOCKS) != 0 : at + WAVE_KEYS <= end;
        if (packs && (runs || !in_table)) {
            // Lanes beyond the row read its beginning, so that no load has a condition.
            from += column < width ? column : 0;
            if (runs) {
                from += in_table ? offset_of_place(rows) : offset_of_key(rows, first_of(at));
                OPS_UNROLL
                for (u32 j = 0; j < KEYS; j++) {
                    to[j] = bits_as<Words>(load_packs<SLICE>(from));
                    from += rows.stride[4];
                }
            } else {
                // Past the end, the last key is read again.
                OPS_UNROLL
                for (u32 j = 0; j < KEYS; j++) {
                    to[j] = bits_as<Words>(load_packs<SLICE>(from + offset_of_key(rows, inside(first_of(at) + j))));
                }
            }
        } else {
            // Not unrolled, because places and the loads of single elements are many instructions.
            OPS_NO_UNROLL
            for (u32 j = 0; j < KEYS; j++) {
                OPS_UNROLL
                for (u32 n = 0; n + 1 < KEYS; n++) to[n] = to[n + 1];
                const T* row = from + key_offset(rows, place_of(of, i64(inside(first_of(at) + j))));
                to[KEYS - 1] = bits_as<Words>(load_slice<SLICE>(row, rows.stride[5], column, width, packs));
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
        for (u32 s = 0; s < SCORES; s++) {
            OPS_UNROLL
            for (u32 n = 0; n < SPREAD; n++) dot[s][n] = 0;
        }
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // Widened anew in every step, because the words take less room.
            Words held = q[r];
            OPS_UNROLL
            for (u32 w = 0; w < sizeof(Slice) / 4; w++) held.word[w] = opaque(held.word[w]);
            Slice row = bits_as<Slice>(held);
            OPS_UNROLL
            for (u32 j = 0; j < KEYS; j++) {
                Slice key = bits_as<Slice>(k[j]);
                const u32 n = j * ROWS + r;
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) {
                    dot[n / SPREAD][n % SPREAD] = mad(A(widen(row.v[i])), A(widen(key.v[i])), dot[n / SPREAD][n % SPREAD]);
                }
            }
        }
    }

    // The score of the lane's own row and of a key of the step, which is visible if the step is `whole`.
    OPS_METHOD Score<A> score(const QueryRow& row, u32 at, u32 s, A dot, bool whole) const {
        const AttentionArgs& args = reread(arguments);
        if (whole && (args.flags & ONLY_SCALED) != 0) return Score<A>{dot * A(args.scale), true};
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
    // Makes powers of scores, `invisible` of those that are not visible, and rescales the sums and outputs so far.
    OPS_METHOD void soften(A (&power)[SCORES], const Score<A> (&score)[SCORES], A invisible) {
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
            power[s] = score[s].visible ? p : invisible;
        }
    }

    // Makes zeros of values beyond the end, which may be anything.
    OPS_METHOD void hide_values(u32 at) {
        u32 key = first_of(at);
        OPS_UNROLL
        for (u32 j = 0; j < KEYS; j++) {
            OPS_UNROLL
            for (u32 w = 0; w < sizeof(Slice) / 4; w++) v[j].word[w] = key + j < end ? v[j].word[w] : 0;
        }
    }

    template <u32 J, u32 R = 0> OPS_METHOD void weights(A (&weight)[ROWS], const A (&power)[SCORES]) const {
        if constexpr (R < ROWS) {
            constexpr u32 N = J * ROWS + R;
            weight[R] = broadcast<LANES, N % SPREAD>(power[N / SPREAD]);
            weights<J, R + 1>(weight, power);
        }
    }
    // Adds the values, weighted, of a step whose keys are visible to all rows, or beyond the end with values that are zeros.
    template <u32 J = 0> OPS_METHOD void weigh(const A (&power)[SCORES]) {
        if constexpr (J < KEYS) {
            A weight[ROWS];
            weights<J>(weight, power);
            Slice value = bits_as<Slice>(v[J]);
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) {
                A x = widen(value.v[i]);
                OPS_UNROLL
                for (u32 r = 0; r < ROWS; r++) out[r][i] = mad(weight[r], x, out[r][i]);
            }
            weigh<J + 1>(power);
        }
    }
    // The same where some keys are invisible to some rows: they contribute nothing, whatever their values. Not unrolled,
    // because few steps are such.
    OPS_METHOD void weigh_visible(const A (&power)[SCORES]) {
        OPS_NO_UNROLL
        for (u32 j = 0; j < KEYS; j++) {
            Slice value = bits_as<Slice>(v[0]);
            OPS_UNROLL
            for (u32 r = 0; r < ROWS; r++) {
                u32 n = j * ROWS + r;
                A mine = power[0];
                OPS_UNROLL
                for (u32 s = 1; s < SCORES; s++) mine = n / SPREAD == s ? power[s] : mine;
                A weight = shuffle(mine, n % SPREAD, LANES);
                if (weight < A(0)) continue;
                OPS_UNROLL
                for (u32 i = 0; i < SLICE; i++) out[r][i] = mad(weight, A(widen(value.v[i])), out[r][i]);
            }
            OPS_UNROLL
            for (u32 n = 0; n + 1 < KEYS; n++) v[n] = v[n + 1];
        }
    }

    // ---- merging ----

    template <u32 R = 0> OPS_METHOD void add_rows(u32 mask) {
        if constexpr (R < ROWS) {
            OPS_UNROLL
            for (u32 i = 0; i < SLICE; i++) out[R][i] += exchange(out[R][i], mask);
            add_rows<R + 1>(mask);
        }
    }
    // Merges the groups of the wave and brings all waves of the block to the maximum of the block. Afterwards each wave's outputs are
    // in its first LANES lanes, and lane r has the maximum and sum of the block for row r. `stats` has room for two numbers of every
    // wave and row.
    OPS_METHOD void merge(A* stats) {
        constexpr u32 WAVES = DECODE_BLOCK / OPS_WAVE;
        u32 thread = opaque(thread_x()), own = thread % ROWS, wave = thread / OPS_WAVE;
        A highest = most;
        OPS_UNROLL
        for (u32 mask = LANES; mask < OPS_WAVE; mask *= 2) highest = maximum(highest, exchange(highest, mask));
        A shrink = exp(most - finite_base(highest));
        most = highest;
        sum *= shrink;
        OPS_UNROLL
        for (u32 mask = ROWS; mask < SPREAD; mask *= 2) sum += exchange(sum, mask);
        OPS_UNROLL
        for (u32 mask = LANES; mask < OPS_WAVE; mask *= 2) sum += exchange(sum, mask);
        if (thread % OPS_WAVE < ROWS) {
            stats[(wave * ROWS + own) * 2] = most;
            stats[(wave * ROWS + own) * 2 + 1] = sum;
        }
        barrier();
        OPS_UNROLL
        for (u32 w = 0; w < WAVES; w++) highest = maximum(highest, stats[(w * ROWS + own) * 2]);
        A base = finite_base(highest);
        shrink *= exp(most - base);
        most = highest;
        sum = 0;
        OPS_UNROLL
        for (u32 w = 0; w < WAVES; w++) {
            sum = mad(stats[(w * ROWS + own) * 2 + 1], exp(stats[(w * ROWS + own) * 2] - base), sum);
        }
        rescale(shrink);
        OPS_UNROLL
        for (u32 mask = LANES; mask < OPS_WAVE; mask *= 2) add_rows(mask);
    }
};

}  // namespace ops
