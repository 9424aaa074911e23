// Collectives between devices of one process, for small messages. Every rank writes its elements into an area on every other device, sets
// a flag there, waits for the flags in its own area, and reads only that area. Sums are in rank order, 16-bit floats in f32, rounded once: all ranks get the same
// bits.
//
// Nothing depends on which blocks are resident. The number of a block is the order in which it began on its device, and a block waits only for
// the blocks of this number on other devices. Take the lowest number that has not yet ended on every device: on each device, all lower
// numbers have ended, so this block has ended, is running, or starts next. So blocks never wait in a circle. A wait ends at the time limit,
// or when the group fails.
//
// The kernels count the calls in device memory, so that a recorded launch can be repeated. Areas have two halves: call n uses half n mod 2. A rank
// that starts call n has received every rank's data of call n - 1, so every rank has finished call n - 2, the last reader of this half.
#include "ops_arrival.h"
#include "ops_math.h"
#include "ops_peer.h"
#include "ops_view.h"

namespace ops {

constexpr u32 GROUP_RANKS = 8;     // at most
constexpr u32 GROUP_BLOCKS = 16;   // at most
constexpr u32 GROUP_BLOCK = 256;   // threads
constexpr u64 GROUP_SLOT = 256 << 10;  // bytes that a rank can give in a call

// In plain memory of a rank's own device.
struct GroupState {
    u32 calls;  // that have ended
    u32 begun;  // blocks of the present call
    u32 ended;
    u32 failed;
};

enum GroupCause : u32 { GROUP_LATE = 1, GROUP_DISAGREES = 2, GROUP_LEFT = 3 };

// Why a rank could not go on. `state` is 0 while there is no reason, and 2 once the record is complete.
struct GroupRecord {
    u32 state;
    u32 cause;
    u32 peer;
    u32 reserved;
    u64 own;    // what this rank called, as in GroupArgs
    u64 other;  // what the peer called
};

// In coherent host memory, shared by all ranks.
struct GroupStatus {
    u32 over;  // not 0: the group has failed
    u32 reserved[7];
    u32 left[GROUP_RANKS];  // not 0: the rank does nothing any more
    GroupRecord record[GROUP_RANKS];
};

// A rank's area: flags [half][from][block], then elements [half][from][GROUP_SLOT bytes].
struct GroupArgs {
    Address<const void> x;
    Address<void> y;
    Address<GroupState> state;
    Address<GroupStatus> status;
    Address<void> area[GROUP_RANKS];
    u64 count;  // of x
    u64 pitch;  // all_gather: elements from one rank's part of y to the next
    u64 rank;
    u64 ranks;
    u64 call;   // op, type and size of the call, which all ranks must agree on: below 2^32 and not 0
    u64 limit;  // in ticks of the clock
};

OPS_DEVICE u64* flag_in(const GroupArgs& args, u32 area, u32 half, u32 from, u32 block) {
    return static_cast<u64*>(static_cast<void*>(args.area[area])) + (half * GROUP_RANKS + from) * GROUP_BLOCKS + block;
}
template <typename T> OPS_DEVICE T* slot_in(const GroupArgs& args, u32 area, u32 half, u32 from) {
    constexpr u64 FLAGS = 2 * GROUP_RANKS * GROUP_BLOCKS * sizeof(u64);
    char* start = static_cast<char*>(static_cast<void*>(args.area[area]));
    return reinterpret_cast<T*>(start + FLAGS + (half * args.ranks + from) * GROUP_SLOT);
}

// Notes the first failure of the rank, and ends the group for all.
OPS_DEVICE void fail_group(const GroupArgs& args, u32 cause, u32 peer, u64 other) {
    GroupState* state = args.state;
    GroupStatus* status = args.status;
    if (!compare_and_swap(&state->failed, 0, 1)) return;
    GroupRecord* record = &status->record[args.rank];
    record->cause = cause;
    record->peer = peer;
    record->own = args.call;
    record->other = other;
    store_to_system(&record->state, 2u);
    store_to_system(&status->over, 1u);
}

// Waits until a peer's block has written its elements; false if it does not.
OPS_DEVICE bool wait_for(const GroupArgs& args, u32 peer, u32 call, u32 block) {
    constexpr u32 LOOKS = 64;  // before the host's memory and the clock are read
    GroupStatus* status = args.status;
    const u64* flag = flag_in(args, u32(args.rank), call & 1, peer, block);
    u64 since = wall_clock();
    for (u32 looks = 1;; looks++) {
        // Read before the flag: whoever has left wrote its flags before.
        bool now = looks % LOOKS == 0;
        bool over = now && look_in_system(&status->over) != 0, left = now && look_in_system(&status->left[peer]) != 0;
        if (now) acquire_from_system();
        u64 seen = look_in_system(flag);
        if (u32(seen >> 32) == call && seen != 0) {
            if (u32(seen) == u32(args.call)) {
                acquire_from_system();
                return true;
            }
            fail_group(args, GROUP_DISAGREES, peer, u32(seen));
            return false;
        }
        if (over) return false;
        if (left || (now && wall_clock() - since > args.limit)) {
            fail_group(args, left ? GROUP_LEFT : GROUP_LATE, peer, 0);
            return false;
        }
        pause_briefly();
    }
}

template <typename T> using wrap_t = typename choose<sizeof(T) == 8, u64, u32>::type;

struct GroupSum {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return a + b; }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return T(wrap_t<T>(a) + wrap_t<T>(b)); }
};
struct GroupMax {
    template <typename A> static OPS_METHOD A floats(A a, A b) { return maximum(a, b); }
    template <typename T> static OPS_METHOD T integers(T a, T b) { return a > b ? a : b; }
};

// N elements, or those of them that exist and then the last one again, from memory that need not be aligned.
template <u32 N, typename T> OPS_DEVICE Pack<T, N> load_some(const T* from, u64 at, u64 count, bool aligned) {
    if (aligned && at + N <= count) return load_pack<N>(from + at);
    Pack<T, N> out;
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) out.v[i] = from[at + i < count ? at + i : count - 1];
    return out;
}
template <u32 N, typename T> OPS_DEVICE void store_some(T* to, u64 at, u64 count, bool aligned, const Pack<T, N>& pack) {
    if (aligned && at + N <= count) return store_pack<N>(to + at, pack);
    OPS_UNROLL
    for (u32 i = 0; i < N; i++)
        if (at + i < count) to[at + i] = pack.v[i];
}

// What a block reads in a call: its share of the elements, from this rank's x and from its area.
template <typename T, u32 N> struct Share {
    const GroupArgs& args;
    u32 half;
    u64 begin, end;  // packs
    const T* x;

    OPS_METHOD Pack<T, N> own(u64 p) const { return load_some<N>(x, p * N, args.count, is_aligned(x, PACK_BYTES)); }
    OPS_METHOD Pack<T, N> of(u32 rank, u64 p) const {
        return load_pack<N>(slot_in<T>(args, u32(args.rank), half, rank) + p * N);
    }
};

// Reduces what the ranks have, in rank order.
template <typename F> struct Reduce {
    using Words = Pack<u32, 4>;
    template <typename T, u32 N> static OPS_METHOD void run(const Share<T, N>& share, u32 thread, T* y) {
        const GroupArgs& args = share.args;
        bool aligned = is_aligned(y, PACK_BYTES);
        for (u64 p = share.begin + thread; p < share.end; p += GROUP_BLOCK) {
            // All loads begin before the first is needed. As words, so that small elements do not take a register each.
            Words own = bits_as<Words>(share.own(p)), all[GROUP_RANKS];
            OPS_UNROLL
            for (u32 r = 0; r < GROUP_RANKS; r++) {
                if (r >= u32(args.ranks)) break;
                all[r] = r == u32(args.rank) ? own : bits_as<Words>(share.of(r, p));
            }
            store_some<N>(y, p * N, args.count, aligned, sum_of<T, N>(all, u32(args.ranks)));
        }
    }
    template <typename T, u32 N> static OPS_METHOD Pack<T, N> sum_of(const Words (&all)[GROUP_RANKS], u32 ranks) {
        using A = typename choose<is_float<T>::value, acc_t<T>, T>::type;
        A sum[N];
        OPS_UNROLL
        for (u32 r = 0; r < GROUP_RANKS; r++) {
            if (r >= ranks) break;
            Pack<T, N> of_rank = bits_as<Pack<T, N>>(all[r]);
            OPS_UNROLL
            for (u32 i = 0; i < N; i++) {
                if constexpr (is_float<T>::value) {
                    A next = widen(of_rank.v[i]);
                    sum[i] = r == 0 ? next : F::floats(sum[i], next);
                } else {
                    sum[i] = r == 0 ? of_rank.v[i] : F::integers(sum[i], of_rank.v[i]);
                }
            }
        }
        Pack<T, N> out;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) {
            if constexpr (is_float<T>::value) {
                out.v[i] = narrow<T>(sum[i]);
            } else {
                out.v[i] = sum[i];
            }
        }
        return out;
    }
};

// Collects what the ranks have, one after the other.
struct Gather {
    template <typename T, u32 N> static OPS_METHOD void run(const Share<T, N>& share, u32 thread, T* y) {
        const GroupArgs& args = share.args;
        if (share.begin >= share.end) return;
        u32 packs = u32(share.end - share.begin);
        for (u32 at = thread; at < packs * u32(args.ranks); at += GROUP_BLOCK) {
            u32 rank = at / packs;
            u64 p = share.begin + at % packs;
            T* part = y + rank * args.pitch;
            Pack<T, N> pack = rank == u32(args.rank) ? share.own(p) : share.of(rank, p);
            store_some<N>(part, p * N, args.count, is_aligned(part, PACK_BYTES), pack);
        }
    }
};

template <typename Make, typename T> OPS_DEVICE void group_call(const GroupArgs& args) {
    constexpr u32 N = PACK_BYTES / sizeof(T), FAILED = 1u << 31;
    OPS_LDS(u32, shared, 1);
    GroupState* state = args.state;
    u32 thread = opaque(thread_x()), rank = u32(args.rank), ranks = u32(args.ranks);
    // The only block has number 0.
    if (thread == 0) *shared = (grid_x() == 1 ? 0 : count_arrival(&state->begun)) | (state->failed != 0 ? FAILED : 0);
    barrier();
    u32 begun = same_in_wave(*shared), block = begun & ~FAILED, call = same_in_wave(state->calls) + 1;
    bool live = (begun & FAILED) == 0;
    barrier();
    u64 packs = (args.count + N - 1) / N, each = (packs + grid_x() - 1) / grid_x();
    Share<T, N> share{args, call & 1, block * each, (block + 1) * each < packs ? (block + 1) * each : packs,
                      static_cast<const T*>(static_cast<const void*>(args.x))};

    for (u64 p = share.begin + thread; live && p < share.end; p += GROUP_BLOCK) {
        Pack<T, N> own = share.own(p);
        for (u32 i = 1; i < ranks; i++) {
            u32 peer = rank + i < ranks ? rank + i : rank + i - ranks;  // not all to one at a time
            store_pack<N>(slot_in<T>(args, peer, share.half, rank) + p * N, own);
        }
    }
    release_before_barrier();
    barrier();
    bool meets = live && thread < ranks && thread != rank;
    if (meets) store_to_system(flag_in(args, thread, share.half, rank, block), u64(call) << 32 | args.call);
    // All flags are set before a thread waits, also where threads run one after the other.
    barrier();
    if (meets && !wait_for(args, thread, call, block)) *shared = FAILED;
    barrier();
    acquire_after_barrier();
    live = (same_in_wave(*shared) & FAILED) == 0;
    if (live) Make::run(share, thread, static_cast<T*>(static_cast<void*>(args.y)));
    barrier();
    if (thread == 0 && (grid_x() == 1 || count_arrival(&state->ended) + 1 == grid_x())) {
        state->begun = 0;
        state->ended = 0;
        state->calls = call;
    }
}

}  // namespace ops
