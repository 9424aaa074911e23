// Sorts the rows of linear_experts by expert, on the device, for experts_tile.hip and experts_mma.hip.
// choices: writes the expert of each choice, and reports those out of range. Choices of no expert get the number of experts.
// sort: a block for each expert counts the choices of lower experts, and its own; the first is where its choices begin in the sorted
// list. Then it writes them there in their order, and its tiles of rows. So blocks need nothing of each other, the sort is stable,
// and the only limit on the number of experts is that every block reads all choices, four bytes each, from the L2 cache.
#include "ops_experts.h"
#include "ops_reduce.h"

namespace ops {

// Choices that a thread reads together.
constexpr u32 SORT_PACK = 4;
constexpr u32 SORT_WAVES = EXPERTS_BLOCK / OPS_WAVE;
// What the list of experts is filled up with to a whole number of packs.
constexpr u32 NO_CHOICE = 0xffffffffu;

template <u32 PACK = SORT_PACK> OPS_DEVICE void expert_choices(const ExpertsArgs& args) {
    u64 padded = (args.rows + PACK - 1) / PACK * PACK;
    for (u64 at = global_thread(); at < padded; at += global_threads()) {
        u32 expert = NO_CHOICE;
        if (at < args.rows) {
            Index index = read_index(args.ids, args.ids_kind, choice_offset(args, args.ids_stride, at));
            bool present = !index.absent && index.value >= 0 && u64(index.value) < args.experts;
            if (!present && !index.absent) {
                record_index_error(args.error, args.op, args.operand, at, index.value, args.experts);
            }
            expert = u32(present ? u64(index.value) : args.experts);
        }
        static_cast<u32*>(args.chosen)[at] = expert;
    }
}

// Calls visit(first, experts) for each step of a block's threads over the choices, while `more()`. `first` is the thread's first choice.
template <u32 PACK, typename M, typename F> OPS_DEVICE void for_choices(const ExpertsArgs& args, M more, F visit) {
    u64 rows = args.rows;
    OPS_NO_UNROLL
    for (u64 step = 0; step < rows && more(); step += EXPERTS_BLOCK * PACK) {
        u64 first = step + u64(thread_x()) * PACK;
        Pack<u32, PACK> experts;
        if (first < rows) {
            experts = load_pack<PACK>(static_cast<const u32*>(args.chosen) + first);
        } else {
            OPS_UNROLL
            for (u32 i = 0; i < PACK; i++) experts.v[i] = NO_CHOICE;
        }
        visit(u32(first), experts);
    }
}

// Writes the tiles of `count` choices from `first` on. Each expert has as many places as choices that begin in any row of a tile may
// need, so the places of all experts are known from where their choices begin.
OPS_DEVICE void write_tiles(const ExpertsArgs& args, u32 expert, u32 first, u32 count) {
    u64 place = u64(first / EXPERTS_TILE) + expert, places = u64((first + count) / EXPERTS_TILE) + expert + 1 - place;
    for (u64 at = thread_x(); at < places; at += EXPERTS_BLOCK) {
        u32 before = u32(at) * EXPERTS_TILE, left = before < count ? count - before : 0;
        ExpertTile tile{expert, left < EXPERTS_TILE ? left : EXPERTS_TILE, first + before, 0};
        static_cast<ExpertTile*>(args.tiles)[place + at] = tile;
    }
}

template <u32 PACK = SORT_PACK> OPS_DEVICE void experts_sort(const ExpertsArgs& args) {
    OPS_LDS(u32, scratch, reduce_slots<EXPERTS_BLOCK>());
    OPS_LDS(u32, waves, reduce_slots<EXPERTS_BLOCK>());
    // The last one is that of the choices of no expert.
    for (u64 at = block_x(); at <= args.experts; at += grid_x()) {
        u32 expert = u32(at), count[2] = {};
        auto always = [] { return true; };
        for_choices<PACK>(args, always, [&](u32, const Pack<u32, PACK>& of) OPS_INLINE {
            OPS_UNROLL
            for (u32 i = 0; i < PACK; i++) {
                count[0] += u32(of.v[i] < expert);
                count[1] += u32(of.v[i] == expert);
            }
        });
        reduce_block<EXPERTS_BLOCK>(count, scratch, Sum());
        u32 next = count[0], end = count[0] + count[1], turn = 0;
        auto more = [&]() OPS_INLINE { return next < end; };
        for_choices<PACK>(args, more, [&](u32 first, const Pack<u32, PACK>& of) OPS_INLINE {
            u32 own = 0, all;
            OPS_UNROLL
            for (u32 i = 0; i < PACK; i++) own += u32(of.v[i] == expert);
            u32 to = next + sum_before<EXPERTS_BLOCK>(own, waves + turn * SORT_WAVES, all);
            OPS_UNROLL
            for (u32 i = 0; i < PACK; i++) {
                if (of.v[i] == expert) static_cast<u32*>(args.sorted)[to++] = first + i;
            }
            next += all;
            turn ^= 1;
        });
        write_tiles(args, expert, count[0], count[1]);
        barrier();
    }
}

}  // namespace ops
