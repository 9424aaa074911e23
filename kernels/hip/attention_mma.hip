// Attention for many queries on matrix units, for 16-bit types and heads up to DMAX. A thread block computes 128
// rows, 16 or 32 per wave. All waves step through the keys together, 32 keys at a time, staged in LDS. The registers
// of a wave hold at most 128 elements of a head. For larger heads, two waves share their rows: each takes half of
// the head, they add their partial scores through LDS, and each writes half of the output. A block then has 64 rows.
// Both products have keys down and queries across: k q^T, then v^T p. A lane therefore has scores of one query in
// both, keeps that query's maximum and sum itself, and the softmax leaves the accumulators of the first product
// in the layout of an operand of the second. Scores are multiplied by log2(e), so that exponentials have base 2.
#include "ops_mma_keys.h"

namespace ops {

constexpr f32 LOG2_E = 0x1.715476p+0f, LN_2 = 0x1.62e430p-1f;

OPS_DEVICE f32 exp2_near(f32 x) {
#if defined(OPS_AMD)
    return __builtin_amdgcn_exp2f(x);
#else
    return exp(x * LN_2);
#endif
}

// Log2 of the factor by which probabilities are scaled up, so that small ones are not subnormal in T
// (gfx90a reads subnormals as zero). Their sum has the same factor.
template <typename T> OPS_DEVICE constexpr f32 probability_shift() { return same<T, f16>::value ? 15.0f : 0.0f; }

// A wave-uniform key index, with negative ones clamped to 0. There are fewer than 2^32 keys.
OPS_DEVICE u32 key_in_wave(i64 key) { return same_in_wave(key > 0 ? u32(key) : 0); }

// The rows of a wave: TILES tiles of 16, with one row of each per lane. SHARES waves share these rows,
// with HEAD elements of the head each.
template <typename T, u32 DMAX, typename S> struct MmaQueries {
    using Piece = MmaPiece<T>;
    using Product = typename Piece::Product;
    static constexpr u32 TILES = OPS_WAVE / 32, OF_ROW = 2 * Piece::SUMS;  // scores per row and lane
    static constexpr u32 SHARES = DMAX > 128 ? 2 : 1, HEAD = DMAX / SHARES;
    static constexpr u32 SCORES = TILES * OF_ROW;  // per lane
    static constexpr u32 ROWS = MATMUL_BLOCK / 64 * 32 / SHARES;  // per block

    const AttentionArgs& args;
    S of;
    QueryRow row[TILES];
    bool live[TILES];
    u32 share;  // first element of the head that this wave computes
    typename Piece::Lines query[TILES][HEAD / MMA_DEPTH];
    Product out[TILES][HEAD / 16];
    f32 most[TILES], sum[TILES];
    Product scores[TILES][2];
    u32 hidden[TILES];

    OPS_METHOD MmaQueries(const AttentionArgs& a, const S& sequence, u64 kv_head, u64 first_row, u64 rows, bool packs)
        : args(a), of(sequence) {
        share = SHARES == 1 ? 0 : same_in_wave(wave_id()) % SHARES * HEAD;
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) {
            u64 at = first_row + t * 16 + Piece::column();
            live[t] = at < rows;
            row[t] = QueryRow(args, kv_head, live[t] ? at : rows - 1);
            most[t] = -infinity32();
            sum[t] = 0;
            start_with_sink(t);
            const T* line = static_cast<const T*>(args.q.data) + row[t].offset(args.q, of);
            constexpr u32 SPAN = Piece::HELD * (MMA_DEPTH / (Piece::HELD * Piece::GROUPS));
            OPS_UNROLL
            for (u32 p = 0; p < HEAD / MMA_DEPTH; p++) {
                keep_order();
                query[t][p] = bits_as<typename Piece::Lines>(load_slice<SPAN>(
                    line, args.q.stride[5], share + opaque(p * MMA_DEPTH) + Piece::first(), live[t] ? args.d : 0, packs));
            }
            OPS_UNROLL
            for (u32 c = 0; c < HEAD / 16; c++) out[t][c].fill(0);
        }
    }

    // As `ops::start_with_sink`, for scores times log2(e) and probabilities scaled up. One lane of a row counts the sink.
    OPS_METHOD void start_with_sink(u32 t) {
        if (args.sinks == nullptr) return;
        const AttentionArgs& here = reread(args);
        most[t] = LOG2_E * widen(static_cast<const T*>(here.sinks)[i64(row[t].head) * here.sink_stride]);
        sum[t] = lane_id() < 16 ? exp2_near(most[t] - (finite_base(most[t]) - probability_shift<T>())) : 0.0f;
    }

    // The key of a lane's score i relative to its first key, which is Piece::first_row() within the tile.
    static OPS_METHOD constexpr i32 keys_on(u32 i) { return i32(i / Piece::SUMS * 16 + Piece::rows_on(i % Piece::SUMS)); }

    // A lane's score i in its row t.
    OPS_METHOD f32 score(u32 t, u32 i) const { return scores[t][i / Piece::SUMS].v[i % Piece::SUMS]; }
    OPS_METHOD void set_score(u32 t, u32 i, f32 value) { scores[t][i / Piece::SUMS].v[i % Piece::SUMS] = value; }

    OPS_METHOD void dots(const T* keys) {
        keys = Piece::mine(keys + share, mma_key_pitch<DMAX>());
        OPS_UNROLL
        for (u32 half = 0; half < 2; half++) {
            OPS_UNROLL
            for (u32 t = 0; t < TILES; t++) scores[t][half].fill(0);
            OPS_UNROLL
            for (u32 p = 0; p < HEAD / MMA_DEPTH; p++) {
                typename Piece::Lines key = Piece::load_mine(keys + half * 16 * mma_key_pitch<DMAX>() + p * MMA_DEPTH);
                OPS_UNROLL
                for (u32 t = 0; t < TILES; t++) Piece::multiply_add(key, query[t][p], scores[t][half]);
                if (p % 2 == 1) keep_order();
            }
        }
    }

    // Adds the dot products of both waves' shares of the head: show, a barrier, then add_shown. Both
    // waves add the same two numbers, so they continue with identical scores.
    OPS_METHOD void show(f32* shown) const {
        shown += opaque(thread_x()) * 4;
        OPS_UNROLL
        for (u32 n = 0; n < SCORES; n += 4) {
            Pack<f32, 4> four;
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) four.v[i] = score((n + i) / OF_ROW, (n + i) % OF_ROW);
            store_pack(shown + n * MATMUL_BLOCK, four);
        }
    }
    OPS_METHOD void add_shown(const f32* shown) {
        shown += (opaque(thread_x()) ^ OPS_WAVE) * 4;
        OPS_UNROLL
        for (u32 n = 0; n < SCORES; n += 4) {
            Pack<f32, 4> four = load_pack<4>(shown + n * MATMUL_BLOCK);
            OPS_UNROLL
            for (u32 i = 0; i < 4; i++) {
                u32 t = (n + i) / OF_ROW, at = (n + i) % OF_ROW;
                set_score(t, at, score(t, at) + four.v[i]);
            }
        }
    }

    // Converts dot products to scores. Those of invisible keys become -infinity, and their bits are set in `hidden`.
    OPS_METHOD void judge(u64 k0, bool plain, bool whole) {
        f32 scale = f32(args.scale) * LOG2_E;
        if (!plain) {
            judge_each(0, k0);
            // Not a loop: the compiler would not unroll it around the inner loop, and would index
            // registers dynamically.
            if constexpr (TILES == 2) judge_each(1, k0);
            return;
        }
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) {
            hidden[t] = 0;
            OPS_UNROLL
            for (u32 i = 0; i < OF_ROW; i++) set_score(t, i, score(t, i) * scale);
            if (whole) continue;
            i64 from = row[t].first_key(args, of) - i64(k0), to = row[t].end_key(args, of) - i64(k0);
            i32 first = from > 0 ? (from < MMA_KEYS ? i32(from) : i32(MMA_KEYS)) : 0;
            i32 end = to < MMA_KEYS ? (to > 0 ? i32(to) : 0) : i32(MMA_KEYS);
            first -= i32(Piece::first_row());
            end -= i32(Piece::first_row());
            OPS_UNROLL
            for (u32 i = 0; i < OF_ROW; i++) hide(t, i, keys_on(i) >= first && keys_on(i) < end);
        }
    }
    OPS_METHOD void hide(u32 t, u32 i, bool visible) {
        set_score(t, i, visible ? score(t, i) : -infinity32());
        hidden[t] |= visible ? 0u : 1u << i;
    }
    // The general form, with all options of attention. Scores are shifted by one per iteration, so that
    // no register is indexed dynamically.
    OPS_METHOD void judge_each(u32 t, u64 k0) {
        u32 unseen = 0;
        OPS_NO_UNROLL
        for (u32 i = 0; i < OF_ROW; i++) {
            Score<f32> found = score_of<T>(reread(args), of, row[t], i64(k0 + Piece::first_row()) + keys_on(i), score(t, 0));
            OPS_UNROLL
            for (u32 w = 0; w + 1 < OF_ROW; w++) set_score(t, w, score(t, w + 1));
            set_score(t, OF_ROW - 1, found.visible ? found.value * LOG2_E : -infinity32());
            unseen |= found.visible ? 0u : 1u << i;
        }
        hidden[t] = unseen;
    }

    // Converts scores to probabilities relative to the running maximum, and rescales the sums and outputs so far.
    OPS_METHOD void soften() {
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) {
            f32 highest = score(t, 0);
            OPS_UNROLL
            for (u32 i = 1; i < OF_ROW; i++) highest = maximum(highest, score(t, i));
            OPS_UNROLL
            for (u32 mask = 16; mask < OPS_WAVE; mask *= 2) highest = maximum(highest, shuffle_xor(highest, mask, OPS_WAVE));
            f32 now = maximum(most[t], highest);
            f32 base = finite_base(now), shrink = exp2_near(most[t] - base);
            most[t] = now;
            f32 added = 0;
            OPS_UNROLL
            for (u32 i = 0; i < OF_ROW; i++) {
                f32 p = exp2_near(score(t, i) - (base - probability_shift<T>()));
                set_score(t, i, p);
                added += p;
            }
            sum[t] = mad(sum[t], shrink, added);
            if (ballot(shrink != 1.0f) != 0) {
                OPS_UNROLL
                for (u32 c = 0; c < HEAD / 16; c++) out[t][c].scale_rows([&](u32) OPS_INLINE { return shrink; });
            }
        }
    }

    // A lane's probabilities in the operand layout of the second product.
    OPS_METHOD typename Piece::Lines lines_of(u32 t) const {
        typename Piece::Lines lines;
        OPS_UNROLL
        for (u32 half = 0; half < 2; half++) {
            Pack<T, Piece::SUMS> own;
            OPS_UNROLL
            for (u32 i = 0; i < Piece::SUMS; i++) own.v[i] = narrow<T>(scores[t][half].v[i]);
            if constexpr (Piece::GROUPS > 1) {
                lines.step[half] = bits_as<MmaFragment<T, 16>>(own);
            } else {
                // Each half of the wave has every other key, and both need all keys.
                bool odd = lane_id() >= 16;
                Pack<u32, 4> words = bits_as<Pack<u32, 4>>(own);
                Pack<u32, 8> all;
                OPS_UNROLL
                for (u32 w = 0; w < 4; w++) {
                    u32 other = shuffle_xor(words.v[w], 16, 32);
                    u32 even_keys = odd ? other : words.v[w], odd_keys = odd ? words.v[w] : other;
                    all.v[2 * w] = (even_keys & 0xffff) | odd_keys << 16;
                    all.v[2 * w + 1] = even_keys >> 16 | (odd_keys & 0xffff0000);
                }
                lines.step[half] = bits_as<MmaFragment<T, 16>>(all);
            }
        }
        return lines;
    }
    OPS_METHOD void weigh(const T* values) {
        values = Piece::mine(values + share * MMA_PITCH, MMA_PITCH);
        typename Piece::Lines weights[TILES];
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) weights[t] = lines_of(t);
        OPS_UNROLL
        for (u32 c = 0; c < HEAD / 16; c++) {
            typename Piece::Lines value = Piece::load_mine(values + c * 16 * MMA_PITCH);
            OPS_UNROLL
            for (u32 t = 0; t < TILES; t++) Piece::multiply_add(value, weights[t], out[t][c]);
            if (c % 2 == 1) keep_order();
        }
    }
    // Adds the non-finite values, which `set_apart` classified, to the outputs of the rows that see them.
    OPS_METHOD void weigh_kinds(const T* kinds) {
        kinds = Piece::mine(kinds + share * MMA_PITCH, MMA_PITCH);
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) {
            OPS_UNROLL
            for (u32 i = 0; i < OF_ROW; i++) {
                f32 counted = score(t, i) == 0.0f ? COUNT_NAN : 1.0f;
                set_score(t, i, (hidden[t] >> i & 1) != 0 ? 0.0f : counted);
            }
            typename Piece::Lines seen = lines_of(t);
            OPS_UNROLL
            for (u32 c = 0; c < HEAD / 16; c++) {
                Product count;
                count.fill(0);
                Piece::multiply_add(Piece::load_mine(kinds + opaque(c * 16) * MMA_PITCH), seen, count);
                OPS_UNROLL
                for (u32 i = 0; i < Piece::SUMS; i++) count.v[i] = sum_of_counted(count.v[i]);
                keep_order();
                OPS_UNROLL
                for (u32 i = 0; i < Piece::SUMS; i++) out[t][c].v[i] += count.v[i];
                keep_order();
            }
        }
    }

    OPS_METHOD void store(bool packs) const {
        constexpr u32 RUN = OPS_MATRIX == 11 ? 1 : OPS_MATRIX == 12 ? 8 : 4;  // consecutive rows among a lane's sums
        const AttentionArgs& here = reread(args);
        OPS_UNROLL
        for (u32 t = 0; t < TILES; t++) {
            f32 total = sum[t];
            OPS_UNROLL
            for (u32 mask = 16; mask < OPS_WAVE; mask *= 2) total += shuffle_xor(total, mask, OPS_WAVE);
            f32 factor = total == 0.0f ? 0.0f : 1.0f / total;
            if (!live[t]) continue;
            if (share == 0 && lane_id() < 16) {
                f32 base = (finite_base(most[t]) - probability_shift<T>()) * LN_2;
                store_lse(here, row[t], of, base, total);
            }
            T* to = static_cast<T*>(here.o.data) + row[t].offset(here.o, of);
            OPS_UNROLL
            for (u32 c = 0; c < HEAD / 16; c++) {
                OPS_UNROLL
                for (u32 i = 0; i < Piece::SUMS; i += RUN) {
                    u32 at = share + opaque(c * 16) + Piece::row(i);
                    Pack<T, RUN> run;
                    OPS_UNROLL
                    for (u32 j = 0; j < RUN; j++) run.v[j] = narrow<T>(out[t][c].v[i + j] * factor);
                    if (packs && at + RUN <= here.dv) {
                        store_pack(to + at, run);
                        continue;
                    }
                    OPS_UNROLL
                    for (u32 j = 0; j < RUN; j++) {
                        if (at + j < here.dv) to[i64(at + j) * here.o.stride[5]] = run.v[j];
                    }
                }
            }
        }
    }
};

// LDS of a block: keys, which take MMA_KEYS * mma_key_pitch of it, or values.
template <u32 DMAX> OPS_DEVICE constexpr u32 mma_slots() { return DMAX * MMA_PITCH; }

// `strange` is 1 + the first key of the last tile that has a non-finite value.
template <u32 DMAX, typename T, typename S, typename Calls>
OPS_DEVICE void attention_on_matrix(const Calls& calls, T* keys, T* values, u32* strange, const MmaPlaces<S>& places) {
    using Queries = MmaQueries<T, DMAX, S>;
    constexpr u32 OF_WAVE = Queries::TILES * 16, MMA_ROWS = Queries::ROWS;
    // Waves that share rows wait for each other's scores halfway. The values are in flight before that
    // point and the next keys after it, which takes fewer registers than both at once.
    constexpr bool IN_TURNS = Queries::SHARES == 2;
    f32* shown = reinterpret_cast<f32*>(keys);  // scores that waves exchange once all waves have used the keys
    static_assert(!IN_TURNS || Queries::SCORES * MATMUL_BLOCK * sizeof(f32) <= mma_slots<DMAX>() * sizeof(T), "scores fit in the LDS of a tile of keys");
    if (thread_x() == 0) strange[0] = 0;
    OPS_NO_UNROLL
    for (u64 at = block_x();; at += grid_x()) {
        const AttentionArgs& now = reread(calls.attention());
        if (at >= calls.count(now, MMA_ROWS)) break;
        Work<S> work = calls.work(now, at, MMA_ROWS);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u64 kv_head = work.kv_head, rows = queries_of(now, of) * now.group;
        // With a causal mask, the last rows see the most keys, so they start first.
        u64 first_row = (work.parts - 1 - work.part) * MMA_ROWS;
        u64 last_row = first_row + MMA_ROWS < rows ? first_row + MMA_ROWS - 1 : rows - 1;
        QueryRow lowest(now, kv_head, first_row), highest(now, kv_head, last_row);
        i64 seen_by_all = highest.first_key(now, of), unseen = lowest.end_key(now, of), last = highest.end_key(now, of);
        u64 first = u64(lowest.first_key(now, of)) / MMA_KEYS * MMA_KEYS, end = last > 0 ? u64(last) : 0;

        u64 my_first = first_row + same_in_wave(wave_id()) / Queries::SHARES * OF_WAVE, my_last = my_first + OF_WAVE - 1;
        bool q_packs = rows_take_packs<T>(now.q), k_packs = rows_take_packs<T>(now.k);
        bool v_packs = rows_take_packs<T>(now.v);
        bool plain = now.softcap == 0 && now.slopes == nullptr && !has_mask(now, of);
        Queries queries(now, of, kv_head, my_first, rows, q_packs);
        QueryRow my_lowest(now, kv_head, my_first < rows ? my_first : rows - 1);
        QueryRow my_highest(now, kv_head, my_last < rows ? my_last : rows - 1);
        u32 my_begin = key_in_wave(my_lowest.first_key(now, of)), my_seen = key_in_wave(my_highest.first_key(now, of));
        u32 my_end = my_first < rows ? key_in_wave(my_highest.end_key(now, of)) : 0;
        u32 my_unseen = key_in_wave(my_lowest.end_key(now, of));

        // Places are looked up before the barriers that come before their use.
        constexpr u32 AHEAD = (IN_TURNS ? 1 : 2) * MMA_KEYS;
        if constexpr (MmaPlaces<S>::LOOKS_UP) {
            places.look_up(of, first);
            if (!IN_TURNS) places.look_up(of, first + MMA_KEYS);
            barrier();
        }
        MmaKeys<T, DMAX> next;
        if (first < end) {
            next.load_keys(now, of, places, kv_head, first, k_packs);
            if (!IN_TURNS) next.load_values(now, of, places, kv_head, first, v_packs);
        }
        OPS_NO_UNROLL
        for (u64 k0 = first; k0 < end; k0 += MMA_KEYS) {
            bool partial = now.mask_kind == MASK_VISIBLE || i64(k0) < seen_by_all || i64(k0 + MMA_KEYS) > unseen;
            bool more = k0 + MMA_KEYS < end;
            // Wave-uniform. A wave skips tiles that none of its rows can see.
            bool visited = ballot(k0 < my_end && k0 + MMA_KEYS > my_begin) != 0;
            auto put_values = [&]() OPS_INLINE {
                if (partial && next.any_value_not_finite()) strange[0] = u32(k0) + 1;
                next.store_values(values);
            };
            barrier();
            next.store_keys(keys);
            if (!IN_TURNS) put_values();
            barrier();
            places.look_up(of, k0 + AHEAD);
            if constexpr (IN_TURNS) {
                next.load_values(reread(now), of, places, kv_head, k0, v_packs);
                if (visited) queries.dots(keys);
                barrier();
                if (visited) queries.show(shown);
                put_values();
                barrier();
                if (visited) queries.add_shown(shown);
            } else {
                if (more) next.load_keys(reread(now), of, places, kv_head, k0 + MMA_KEYS, k_packs);
                if (more) next.load_values(reread(now), of, places, kv_head, k0 + MMA_KEYS, v_packs);
                if (visited) queries.dots(keys);
            }
            bool apart = partial && ballot(strange[0] == u32(k0) + 1) != 0;
            if (visited) {
                bool whole = ballot(k0 < my_seen || k0 + MMA_KEYS > my_unseen) == 0;
                queries.judge(k0, plain, whole);
                queries.soften();
            }
            if (apart) {
                barrier();
                set_apart<DMAX>(values, keys);
                barrier();
            }
            if (IN_TURNS && more) next.load_keys(reread(now), of, places, kv_head, k0 + MMA_KEYS, k_packs);
            if (visited) queries.weigh(values);
            if (visited && apart) queries.weigh_kinds(keys);
        }
        queries.store(rows_take_packs<T>(reread(now).o));
        barrier();
    }
}

template <u32 DMAX, typename T> OPS_DEVICE void attention_mma(const AttentionArgs& args) {
    OPS_LDS(T, keys, mma_slots<DMAX>());
    OPS_LDS(T, values, mma_slots<DMAX>());
    OPS_LDS(u32, strange, 1);
    attention_on_matrix<DMAX, T, u64>(Batches{args}, keys, values, strange, MmaPlaces<u64>{});
}

template <u32 DMAX, typename T> OPS_DEVICE void ragged_mma(const RaggedArgs& args) {
    OPS_LDS(T, keys, mma_slots<DMAX>());
    OPS_LDS(T, values, mma_slots<DMAX>());
    OPS_LDS(u32, strange, 1);
    OPS_LDS(Sequence::Place, places, 2 * MMA_KEYS);
    check_sequences(args, global_threads());
    attention_on_matrix<DMAX, T, Sequence>(Ragged{args}, keys, values, strange, MmaPlaces<Sequence>{places});
}

}  // namespace ops

#if defined(__GFX9__)
// ops_mma.h requests two waves per SIMD to limit registers, but the LDS for heads over 128 leaves room for only one.
#pragma clang diagnostic ignored "-Wpass-failed"
#endif
