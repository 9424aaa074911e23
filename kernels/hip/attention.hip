// Attention for many queries: tiles of rows against tiles of keys with an online softmax, so that
// scores exist only one tile at a time. All query heads of a key head share its tiles. Tiles of keys
// that no row of a tile can see are skipped. Supports any head size and any strides. A block computes DMAX columns of
// the output; wider values take several blocks, each of which computes the scores anew.
#include "ops_sequences.h"

namespace ops {

constexpr u32 ATTENTION_BLOCK = 256;
constexpr u32 DEPTH = 32;    // depth along d per iteration of q k^T
constexpr u32 V_KEYS = 16;   // keys per iteration of p v
constexpr u32 THREADS = 16;  // a block has THREADS x THREADS threads: rows by keys, or rows by columns of v

// Rows and keys per tile, limited by the registers for the output.
template <typename A, u32 DMAX> OPS_DEVICE constexpr u32 tile_size() { return (sizeof(A) == 8 ? 32 : 64) / (DMAX > 128 ? 2 : 1); }

// LDS in elements of A: the operand tile, used for q and k and then for v, and the probabilities.
template <u32 SIZE, u32 DMAX> OPS_DEVICE constexpr u32 operand_slots() {
    return 2 * DEPTH * (SIZE + 4) > V_KEYS * (DMAX + 4) ? 2 * DEPTH * (SIZE + 4) : V_KEYS * (DMAX + 4);
}
template <u32 SIZE> OPS_DEVICE constexpr u32 probability_slots() { return SIZE * (SIZE + 4); }

// Reads N consecutive elements from LDS. Their address must be aligned to N elements.
template <u32 N, typename A> OPS_DEVICE void read_lds(A (&out)[N], const A* from) {
    Pack<A, N> values = load_slice<N>(from, 1, 0, N, true);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out[i] = values.v[i];
}

// One thread's state: R rows, R keys of a tile, and COLUMNS columns of the output.
template <typename T, u32 DMAX, typename S> struct Tile {
    using A = acc_t<T>;
    static constexpr u32 SIZE = tile_size<A, DMAX>(), R = SIZE / THREADS, PITCH = SIZE + 4;
    static constexpr u32 STAGED = SIZE * DEPTH / ATTENTION_BLOCK;
    static constexpr u32 COLUMNS = DMAX / THREADS, V_PITCH = DMAX + 4;

    const AttentionArgs& arguments;
    A* operands;
    A* probabilities;  // [key][row]; negative for an invisible key
    S of;
    u64 kv_head;
    u64 first_value;  // first column of v and o
    u32 tx, ty;
    QueryRow row[R];
    A most[R], sum[R], out[R][COLUMNS];

    OPS_METHOD Tile(const AttentionArgs& a, A* o, A* p, const S& sequence, u64 kv, u64 first_row, u64 value)
        : arguments(a), operands(o), probabilities(p), of(sequence), kv_head(kv), first_value(value) {
        tx = thread_x() % THREADS;
        ty = thread_x() / THREADS;
        u64 last = queries_of(a, of) * a.group - 1;
        OPS_UNROLL
        for (u32 i = 0; i < R; i++) {
            // Rows past the end repeat the last one, since a mask has no further rows. They are not stored.
            u64 at = first_row + ty * R + i;
            row[i] = QueryRow(a, kv_head, at < last ? at : last);
            most[i] = -A(infinity32());
            sum[i] = 0;
            start_with_sink<T>(a, row[i], tx == 0, most[i], sum[i]);
            OPS_UNROLL
            for (u32 c = 0; c < COLUMNS; c++) out[i][c] = 0;
        }
    }

    static OPS_METHOD u32 column(u32 tx, u32 c) { return (c / 4) * 64 + tx * 4 + c % 4; }

    // Stages a [SIZE][DEPTH] piece of q or k in LDS as [DEPTH][PITCH].
    OPS_METHOD void stage(A* to, const T* line, i64 stride, u64 end, bool packs, u64 d0) const {
        u32 at = opaque(thread_x()) * STAGED;
        Pack<T, STAGED> held = load_slice<STAGED>(line, stride, d0 + at % DEPTH, end, packs);
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[(at % DEPTH + i) * PITCH + at / DEPTH] = A(widen(held.v[i]));
    }

    // Computes dot = q k^T for the keys from k0 on.
    OPS_METHOD void dots(A (&dot)[R][R], const T* q_line, bool q_live, bool q_packs, u64 k0, bool k_packs) {
        const AttentionArgs& args = reread(arguments);
        u64 key = k0 + opaque(thread_x()) * STAGED / DEPTH;
        bool k_live = key < keys_of(args, of);
        const T* k_line = static_cast<const T*>(args.k.data) + head_offset(args.k, of, kv_head) +
                          key_offset(args.k, place_of(of, k_live ? i64(key) : 0));
        A* q_tile = operands;
        A* k_tile = operands + DEPTH * PITCH;
        OPS_NO_UNROLL
        for (u64 d0 = 0; d0 < args.d; d0 += DEPTH) {
            barrier();
            const AttentionArgs& now = reread(arguments);
            stage(q_tile, q_line, now.q.stride[5], q_live ? now.d : 0, q_packs, d0);
            stage(k_tile, k_line, now.k.stride[5], k_live ? now.d : 0, k_packs, d0);
            barrier();
            OPS_NO_UNROLL
            for (u32 x = 0; x < DEPTH; x++) {
                A left[R], right[R];
                read_lds<R>(left, q_tile + x * PITCH + ty * R);
                read_lds<R>(right, k_tile + x * PITCH + tx * R);
                OPS_UNROLL
                for (u32 i = 0; i < R; i++) {
                    OPS_UNROLL
                    for (u32 j = 0; j < R; j++) dot[i][j] = mad(left[i], right[j], dot[i][j]);
                }
            }
        }
    }

    // Converts dot products to probabilities relative to the running maximum, and rescales the sums and
    // outputs so far. The scores go through LDS, where each thread reads only what it wrote, because a
    // loop that is not unrolled can index LDS but not registers.
    OPS_METHOD void soften(const A (&dot)[R][R], u64 k0) {
        u32 column = opaque(tx) * R;
        A* mine = probabilities + column * PITCH + ty * R;
        u32 hidden = 0;
        A highest[R];
        OPS_UNROLL
        for (u32 i = 0; i < R; i++) {
            highest[i] = -A(infinity32());
            OPS_UNROLL
            for (u32 j = 0; j < R; j++) mine[j * PITCH + i] = dot[i][j];
        }
        OPS_NO_UNROLL
        for (u32 j = 0; j < R; j++) {
            const AttentionArgs& args = reread(arguments);
            OPS_UNROLL
            for (u32 i = 0; i < R; i++) {
                A* at = mine + j * PITCH + i;
                Score<A> score = score_of<T>(args, of, row[i], i64(k0 + column + j), *at);
                *at = score.value;
                hidden |= score.visible ? 0u : 1u << (j * R + i);
                if (score.visible) highest[i] = maximum(highest[i], score.value);
            }
        }
        A base[R];
        OPS_UNROLL
        for (u32 i = 0; i < R; i++) {
            A now = maximum(most[i], reduce_lanes(highest[i], THREADS, Max()));
            base[i] = finite_base(now);
            A shrink = exp(most[i] - base[i]);
            most[i] = now;
            sum[i] *= shrink;
            OPS_UNROLL
            for (u32 c = 0; c < COLUMNS; c++) out[i][c] *= shrink;
        }
        OPS_NO_UNROLL
        for (u32 j = 0; j < R; j++) {
            OPS_UNROLL
            for (u32 i = 0; i < R; i++) {
                A* at = mine + j * PITCH + i;
                bool visible = (hidden >> (j * R + i) & 1) == 0;
                A p = exp(*at - base[i]);
                if (visible) sum[i] += p;
                *at = visible ? p : A(-1);
            }
        }
    }

    // Computes out += p v for the keys from k0 on. PARTIAL: some keys are invisible to some rows. They
    // contribute nothing, even if their values are infinite or NaN.
    template <bool PARTIAL> OPS_METHOD void weigh(u64 k0, u64 end, bool packs) {
        OPS_NO_UNROLL
        for (u64 v0 = k0; v0 < k0 + SIZE && v0 < end; v0 += V_KEYS) {
            barrier();
            const AttentionArgs& args = reread(arguments);
            const T* from = static_cast<const T*>(args.v.data) + head_offset(args.v, of, kv_head) +
                            i64(first_value) * args.v.stride[5];
            OPS_NO_UNROLL
            for (u32 at = opaque(thread_x()) * 4; at < V_KEYS * DMAX; at += ATTENTION_BLOCK * 4) {
                u64 key = v0 + at / DMAX;
                bool live = key < keys_of(args, of);
                const T* line = from + key_offset(args.v, place_of(of, live ? i64(key) : 0));
                u64 limit = live ? args.dv - first_value : 0;
                Pack<T, 4> held = load_slice<4>(line, args.v.stride[5], at % DMAX, limit, packs);
                OPS_UNROLL
                for (u32 i = 0; i < 4; i++) operands[at / DMAX * V_PITCH + at % DMAX + i] = A(widen(held.v[i]));
            }
            barrier();
            OPS_NO_UNROLL
            for (u32 x = 0; x < V_KEYS; x++) {
                A p[R];
                read_lds<R>(p, probabilities + (u32(v0 - k0) + x) * PITCH + ty * R);
                OPS_UNROLL
                for (u32 g = 0; g < COLUMNS / 4; g++) {
                    A v[4];
                    read_lds<4>(v, operands + x * V_PITCH + column(tx, g * 4));
                    OPS_UNROLL
                    for (u32 i = 0; i < R; i++) {
                        OPS_UNROLL
                        for (u32 c = 0; c < 4; c++) {
                            A more = mad(p[i], v[c], out[i][g * 4 + c]);
                            out[i][g * 4 + c] = PARTIAL && p[i] < A(0) ? out[i][g * 4 + c] : more;
                        }
                    }
                }
            }
        }
    }

    OPS_METHOD void store(u64 first_row) const {
        const AttentionArgs& args = reread(arguments);
        u64 rows = queries_of(args, of) * args.group;
        OPS_UNROLL
        for (u32 i = 0; i < R; i++) {
            A total = reduce_lanes(sum[i], THREADS, Sum());
            if (first_row + ty * R + i >= rows) continue;
            A factor = total == A(0) ? A(0) : A(1) / total;
            if (tx == 0 && first_value == 0) store_lse(args, row[i], of, most[i], total);
            T* to = static_cast<T*>(args.o.data) + row[i].offset(args.o, of) + i64(first_value) * args.o.stride[5];
            OPS_UNROLL
            for (u32 c = 0; c < COLUMNS; c++) {
                u32 at = column(tx, c);
                if (at < args.dv - first_value) to[i64(at) * args.o.stride[5]] = narrow<T>(out[i][c] * factor);
            }
        }
    }
};

template <u32 DMAX, typename T, typename S, typename Calls>
OPS_DEVICE void attention_tiles(const Calls& calls, acc_t<T>* operands, acc_t<T>* probabilities) {
    using A = acc_t<T>;
    using Rows = Tile<T, DMAX, S>;
    constexpr u32 SIZE = Rows::SIZE;
    bool q_packs = rows_take_packs<T>(calls.attention().q), k_packs = rows_take_packs<T>(calls.attention().k);
    bool v_packs = rows_take_packs<T>(calls.attention().v);
    OPS_NO_UNROLL
    for (u64 block = block_x();; block += grid_x()) {
        const AttentionArgs& args = reread(calls.attention());
        u64 all = calls.count(args, SIZE);
        if (block >= all * args.value_parts) break;
        u64 at = block, first_value = 0;
        for (; at >= all; at -= all) first_value += DMAX;
        Work<S> work = calls.work(args, at, SIZE);
        if constexpr (Calls::SPARE) {
            if (work.part >= work.parts) continue;
        }
        const S& of = work.of;
        u64 kv_head = work.kv_head, rows = queries_of(args, of) * args.group;
        // With a causal mask, the last rows see the most keys, so they start first.
        u64 first_row = (work.parts - 1 - work.part) * SIZE;
        u64 last_row = first_row + SIZE < rows ? first_row + SIZE - 1 : rows - 1;
        QueryRow lowest(args, kv_head, first_row), highest(args, kv_head, last_row);
        Rows tile(args, operands, probabilities, of, kv_head, first_row, first_value);

        u64 staged = first_row + thread_x() * Rows::STAGED / DEPTH;
        bool q_live = staged < rows;
        QueryRow query(args, kv_head, q_live ? staged : 0);
        const T* q_line = static_cast<const T*>(args.q.data) + query.offset(args.q, of);

        i64 seen_by_all = highest.first_key(args, of), unseen = lowest.end_key(args, of), last = highest.end_key(args, of);
        u64 first = u64(lowest.first_key(args, of)) / SIZE * SIZE, end = last > 0 ? u64(last) : 0;
        for (u64 k0 = first; k0 < end; k0 += SIZE) {
            A dot[Rows::R][Rows::R] = {};
            tile.dots(dot, q_line, q_live, q_packs, k0, k_packs);
            tile.soften(dot, k0);
            bool whole = args.mask_kind != MASK_VISIBLE && i64(k0) >= seen_by_all && i64(k0 + SIZE) <= unseen;
            if (whole) {
                tile.template weigh<false>(k0, end, v_packs);
            } else {
                tile.template weigh<true>(k0, end, v_packs);
            }
        }
        tile.store(first_row);
        barrier();
    }
}

template <u32 DMAX, typename T> OPS_DEVICE void attention(const AttentionArgs& args) {
    using A = acc_t<T>;
    constexpr u32 SIZE = tile_size<A, DMAX>();
    OPS_LDS(A, operands, (operand_slots<SIZE, DMAX>()));
    OPS_LDS(A, probabilities, probability_slots<SIZE>());
    attention_tiles<DMAX, T, u64>(Batches{args}, operands, probabilities);
}

template <u32 DMAX, typename T> OPS_DEVICE void attention_ragged(const RaggedArgs& args) {
    using A = acc_t<T>;
    constexpr u32 SIZE = tile_size<A, DMAX>();
    OPS_LDS(A, operands, (operand_slots<SIZE, DMAX>()));
    OPS_LDS(A, probabilities, probability_slots<SIZE>());
    check_sequences(args, global_threads());
    attention_tiles<DMAX, T, Sequence>(Ragged{args}, operands, probabilities);
}

}  // namespace ops
