// sort, argsort and topk along one dimension, which the caller moves to the last place.
// tiles: a block sorts 1024 elements in LDS. merge: pairs of sorted runs become runs of twice the length, until a row is one.
// An entry is an element's key and its index, so no two are equal, and any sort of them is stable. Only the first `keep`
// entries of a run are kept: all of them for a sort, and k for topk.
#include "ops_key.h"
#include "ops_view.h"

namespace ops {

struct SortArgs {
    Shape shape;  // of x; the last dimension is sorted
    Operand x;
    Operand values;
    Operand indices;
    Address<const void> from;  // runs of entries, a row of `shape` every dim[5]; `merge` reads them
    Address<void> to;          // and this is where all launches but the last write them
    Divider runs;   // tiles of a row, or runs to read
    Divider kept;   // entries of a run that are kept, at most
    u64 rows;
    u64 run;        // elements of a tile (a power of two), or of a run to read
    u64 keep;
    u32 flip;       // whether the largest element comes first
    u32 results;    // Results, of the last launch; else 0
};

enum Results : u32 { VALUES = 1, INDICES = 2 };

constexpr u32 SORT_BLOCK = 256;
constexpr u32 SORT_TILE = 1024;

// A key of 32 bits and an index in one word; a longer key and an index.
struct LongEntry {
    u64 key;
    u64 index;
};
template <typename K> struct EntryOf { using type = u64; };
template <> struct EntryOf<u64> { using type = LongEntry; };

OPS_DEVICE u64 entry_of(u32 key, u64 index) { return u64(key) << 32 | index; }
OPS_DEVICE LongEntry entry_of(u64 key, u64 index) { return LongEntry{key, index}; }
OPS_DEVICE bool before(u64 a, u64 b) { return a < b; }
OPS_DEVICE bool before(const LongEntry& a, const LongEntry& b) {
    return a.key < b.key || (a.key == b.key && a.index < b.index);
}
OPS_DEVICE u64 index_of(u64 entry) { return entry & 0xffffffffull; }
OPS_DEVICE u64 index_of(const LongEntry& entry) { return entry.index; }
// Comes after every other entry.
OPS_DEVICE void make_last(u64& entry) { entry = ~0ull; }
OPS_DEVICE void make_last(LongEntry& entry) { entry = LongEntry{~0ull, ~0ull}; }

// Writes the element with this index and the index itself to place `at` of a row. B has the size of an element.
template <typename B> OPS_DEVICE void write_result(const SortArgs& args, u64 row, u64 at, u64 index) {
    if ((args.results & VALUES) != 0) {
        const B* x = static_cast<const B*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
        B* y = static_cast<B*>(args.values.data) + offset_of<4>(args.shape, args.values, row);
        y[i64(at) * args.values.stride[5]] = x[i64(index) * args.x.stride[5]];
    }
    if ((args.results & INDICES) != 0) {
        u32* y = static_cast<u32*>(args.indices.data) + offset_of<4>(args.shape, args.indices, row);
        y[i64(at) * args.indices.stride[5]] = u32(index);
    }
}

// The sort is a bitonic network over each tile of `run` entries; a block has SORT_TILE / run tiles.
template <typename T> OPS_DEVICE void sort_tiles(const SortArgs& args) {
    using Entry = typename EntryOf<key_t<T>>::type;
    OPS_LDS(Entry, entries, SORT_TILE);
    u32 run = u32(args.run), per_block = SORT_TILE / run;
    u64 n = args.shape.dim[5], tiles = args.rows * args.runs.by;
    for (u64 first = u64(block_x()) * per_block; first < tiles; first += u64(grid_x()) * per_block) {
        for (u32 i = thread_x(); i < SORT_TILE; i += SORT_BLOCK) {
            u64 tile = first + i / run, row = divide(args.runs, tile);
            u64 at = (tile - row * args.runs.by) * run + (i & (run - 1));
            if (tile < tiles && at < n) {
                const T* x = static_cast<const T*>(args.x.data) + offset_of<4>(args.shape, args.x, row);
                key_t<T> key = key_of(x[i64(at) * args.x.stride[5]], false);
                if (args.flip != 0) key ^= all_bits<T>();
                entries[i] = entry_of(key, at);
            } else {
                make_last(entries[i]);
            }
        }
        for (u32 size = 2; size <= run; size *= 2) {
            for (u32 stride = size / 2; stride > 0; stride /= 2) {
                barrier();
                for (u32 i = thread_x(); i < SORT_TILE / 2; i += SORT_BLOCK) {
                    u32 low = 2 * i - (i & (stride - 1)), high = low + stride;
                    bool rising = (low & (run - 1) & size) == 0;
                    Entry a = entries[low], b = entries[high];
                    if (before(b, a) == rising) {
                        entries[low] = b;
                        entries[high] = a;
                    }
                }
            }
        }
        barrier();
        for (u32 i = thread_x(); i < SORT_TILE; i += SORT_BLOCK) {
            u64 tile = first + i / run, row = divide(args.runs, tile);
            u64 place = i & (run - 1), start = (tile - row * args.runs.by) * run;
            if (tile >= tiles || start + place >= n || place >= args.keep) continue;
            if (args.results != 0) {
                write_result<bits_t<T>>(args, row, place, index_of(entries[i]));
            } else {
                static_cast<Entry*>(args.to)[row * n + start + place] = entries[i];
            }
        }
        barrier();
    }
}

// Each entry finds its place in the merged run: its own in its run, plus the number of entries of the other that come before.
template <typename K, typename B> OPS_DEVICE void merge_runs(const SortArgs& args) {
    using Entry = typename EntryOf<K>::type;
    u64 n = args.shape.dim[5], run = args.run;
    auto kept = [&](u64 start) OPS_INLINE {
        u64 length = start >= n ? 0 : n - start < run ? n - start : run;
        return length < args.keep ? length : args.keep;
    };
    u64 items = args.rows * args.runs.by * args.kept.by;
    for (u64 item = global_thread(); item < items; item += global_threads()) {
        u64 all = divide(args.kept, item), place = item - all * args.kept.by;
        u64 row = divide(args.runs, all), own = all - row * args.runs.by;
        const Entry* from = static_cast<const Entry*>(args.from) + row * n;
        u64 start = own * run, other = (own ^ 1) * run;
        if (place >= kept(start)) continue;
        Entry entry = from[start + place];
        u64 low = 0, high = kept(other);
        while (low < high) {
            u64 middle = (low + high) / 2;
            if (before(from[other + middle], entry)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        u64 rank = place + low;
        if (rank >= args.keep) continue;
        if (args.results != 0) {
            write_result<B>(args, row, rank, index_of(entry));
        } else {
            u64 merged = own & ~u64(1);
            static_cast<Entry*>(args.to)[row * n + merged * run + rank] = entry;
        }
    }
}

}  // namespace ops
