// conv1d and conv2d on matrix units: the implicit product of conv.hip for 16-bit types, with sums in f32. The weight is a, and the
// lines of b are the positions: the elements of y in a channel, of all batch elements. A step takes MMA_DEPTH terms. If `by_tap`,
// these are channels of one element of the kernel, so that its distance and its place within the image are found once for all of
// them. Otherwise they are consecutive terms of a weight whose channels, rows and columns are one run in memory.
#include "ops_mma_stage.h"
#include "ops_conv.h"

namespace ops {

// A step along the terms: the first term, or the first channel of one element of the kernel.
struct ConvStep {
    u64 first = 0, depth;  // nothing is loaded from `depth` on
    u32 row = 0, column = 0;

    OPS_METHOD explicit ConvStep(const ConvArgs& args) : depth(args.by_tap != 0 ? args.inputs : args.terms) {}
    OPS_METHOD void next(const ConvArgs& args) {
        first += MMA_DEPTH;
        if (args.by_tap == 0 || first < depth) return;
        first = 0;
        if (++column < u32(args.columns.kernel)) return;
        column = 0;
        if (++row == u32(args.rows.kernel)) depth = 0;
    }
};

// A thread's elements of a tile in LDS, between their load and their store. Loads write to registers and nothing else: if elements
// were paired as they are loaded, the wave would wait for them there, and not only after the product of the tile before.
template <u32 COUNT> struct InFlight {
    u32 word[COUNT];  // one element each, or two each in the first half of every eight

    OPS_METHOD void clear() {
        OPS_UNROLL
        for (u32 i = 0; i < COUNT; i++) word[i] = 0;
    }
    template <typename T> OPS_METHOD void load(u32 i, const T* from) { word[i] = bits_as<u16>(*from); }
    // Eight elements from i on, at an aligned address.
    template <typename T> OPS_METHOD void load_eight(u32 i, const T* from) {
        Pack<u32, 4> four = load_pack<4>(reinterpret_cast<const u32*>(from));
        OPS_UNROLL
        for (u32 w = 0; w < 4; w++) word[i + w] = four.v[w];
    }
    template <typename T> OPS_METHOD void store_eight(u32 i, T* to, bool paired) const {
        Pack<u32, 4> four;
        OPS_UNROLL
        for (u32 w = 0; w < 4; w++) four.v[w] = paired ? word[i + w] : word[i + 2 * w] | word[i + 2 * w + 1] << 16;
        store_pack(reinterpret_cast<u32*>(to), four);
    }
};

// The weight as a's part of a tile in LDS, as MmaStage has it: lines are output channels. A thread has terms of one or two lines.
template <typename T, u32 TILE> struct StageChannels {
    static constexpr u32 COUNT = TILE * MMA_DEPTH / MATMUL_BLOCK, LINES = MATMUL_BLOCK / 4;
    const ConvArgs& args;
    const T* from;  // the first line of the tile
    u32 lines;      // in range
    bool packs;
    InFlight<COUNT> held;

    OPS_METHOD StageChannels(const ConvArgs& all, u64 group, u64 m0) : args(all) {
        const ConvArgs& now = reread(all);
        from = static_cast<const T*>(now.weight.data) + i64(group) * now.weight.stride[1] + i64(m0) * now.weight.stride[2];
        lines = now.outputs.by - m0 < TILE ? u32(now.outputs.by - m0) : TILE;
        packs = now.weight_packs != 0;
    }
    OPS_METHOD void load(const ConvStep& step) {
        const ConvArgs& now = reread(args);
        u32 thread = opaque(thread_x()), k = thread % 4 * 8;
        u64 behind = step.first < step.depth ? step.depth - step.first : 0;
        u32 all = behind < MMA_DEPTH ? u32(behind) : MMA_DEPTH, left = k < all ? all - k : 0;
        i64 by_line = now.weight.stride[2], by_term = now.term_stride;
        const T* tile = from + i64(step.row) * now.weight.stride[4] + i64(step.column) * now.weight.stride[5] +
                        i64(step.first) * by_term;
        held.clear();
        OPS_UNROLL
        for (u32 p = 0; p < COUNT; p += 8) {
            u32 line = thread / 4 + p / 8 * LINES;
            const T* at = tile + i64(line) * by_line + i64(k) * by_term;
            if (packs) {
                if ((line < lines) & (left >= 8)) held.load_eight(p, at);
                continue;
            }
            u32 count = line < lines ? left : 0;
            OPS_UNROLL
            for (u32 i = 0; i < 8; i++) {
                if (i < count) held.load(p + i, at);
                at += by_term;
            }
        }
    }
    OPS_METHOD void store(T* tile) const {
        u32 thread = opaque(thread_x());
        T* to = tile + thread / 4 * MMA_PITCH + thread % 4 * 8;
        OPS_UNROLL
        for (u32 p = 0; p < COUNT; p += 8) held.store_eight(p, to + p / 8 * LINES * MMA_PITCH, packs);
    }
};

// Positions as b's part of a tile. A thread has COUNT consecutive terms of one position, and the threads of a wave have the same
// terms of consecutive positions, which are neighbours in memory.
template <typename T, u32 TILE> struct StagePositions {
    static constexpr u32 COUNT = TILE * MMA_DEPTH / MATMUL_BLOCK;
    static_assert(TILE >= OPS_WAVE && COUNT % 8 == 0, "a wave has the same terms");
    const ConvArgs& args;
    const T* origin;  // of the kernel's first element, in the group's first channel; read only where it is inside the image
    u32 row, column;  // of `origin`; modulo 2^32 if it is outside
    bool packs;
    InFlight<COUNT> held;

    OPS_METHOD StagePositions(const ConvArgs& all, u64 group, u64 n0) : args(all) {
        const ConvArgs& now = reread(all);
        u64 n = n0 + thread_x() % TILE;
        u64 batch = divide(now.pixels, n), pixel = n - batch * now.pixels.by;
        u64 y = divide(now.width, pixel), x = pixel - y * now.width.by;
        i64 from_row = i64(y * now.rows.stride.by - now.rows.padding);
        i64 from_column = i64(x * now.columns.stride.by - now.columns.padding);
        origin = static_cast<const T*>(now.x.data) + i64(batch) * now.x.stride[2] + i64(group * now.inputs) * now.x.stride[3] +
                 from_row * now.x.stride[4] + from_column * now.x.stride[5];
        // No kernel reaches the image from 2^31 on: both are smaller.
        row = n < now.positions ? u32(from_row) : 1u << 31;
        column = u32(from_column);
        packs = now.x_packs != 0;
    }
    OPS_METHOD bool inside(const ConvArgs& now, u32 tap_row, u32 tap_column) const {
        u32 at_row = row + tap_row * u32(now.rows.dilation), at_column = column + tap_column * u32(now.columns.dilation);
        return (at_row < u32(now.rows.x)) & (at_column < u32(now.columns.x));  // one test, not two branches
    }
    static OPS_METHOD i64 distance(const ConvArgs& now, u64 channel, u64 tap_row, u64 tap_column) {
        return i64(channel) * now.x.stride[3] + i64(tap_row * now.rows.dilation) * now.x.stride[4] +
               i64(tap_column * now.columns.dilation) * now.x.stride[5];
    }
    OPS_METHOD void load(const ConvStep& step) {
        const ConvArgs& now = reread(args);
        u64 first = step.first + same_in_wave(thread_x() / TILE) * COUNT;
        u64 behind = first < step.depth ? step.depth - first : 0;
        u32 left = behind < COUNT ? u32(behind) : COUNT;
        held.clear();
        if (now.by_tap != 0) {
            if (inside(now, step.row, step.column)) {
                load_channels(now, origin + distance(now, first, step.row, step.column), left);
            }
        } else {
            load_terms(now, first, left);
        }
    }
    // Channels from `at` on, of an element inside the image.
    OPS_METHOD void load_channels(const ConvArgs& now, const T* at, u32 left) {
        if (packs) {
            OPS_UNROLL
            for (u32 p = 0; p < COUNT; p += 8) {
                if (p < left) held.load_eight(p, at + p);
            }
            return;
        }
        i64 by_channel = now.x.stride[3];
        OPS_UNROLL
        for (u32 i = 0; i < COUNT; i++) {
            if (i < left) held.load(i, at);
            at += by_channel;
        }
    }
    OPS_METHOD void load_terms(const ConvArgs& now, u64 first, u32 left) {
        ConvTerm term(now, first);
        u32 tap_row = u32(term.row), tap_column = u32(term.column);
        u32 tap_rows = u32(now.rows.kernel), tap_columns = u32(now.columns.kernel);
        i64 offset = distance(now, term.channel, tap_row, tap_column), by_column = distance(now, 0, 0, 1);
        // From the end of a row of the kernel to the next, and from the end of a channel.
        i64 by_row = distance(now, 0, 1, 0) - distance(now, 0, 0, tap_columns);
        i64 by_channel = distance(now, 1, 0, 0) - distance(now, 0, tap_rows, 0);
        OPS_UNROLL
        for (u32 i = 0; i < COUNT; i++) {
            if ((i < left) & inside(now, tap_row, tap_column)) held.load(i, origin + offset);
            offset += by_column;
            bool row_ends = ++tap_column == tap_columns;
            tap_column = row_ends ? 0 : tap_column;
            tap_row += row_ends ? 1 : 0;
            offset += row_ends ? by_row : 0;
            bool channel_ends = tap_row == tap_rows;
            tap_row = channel_ends ? 0 : tap_row;
            offset += channel_ends ? by_channel : 0;
        }
    }
    OPS_METHOD void store(T* tile) const {
        u32 thread = opaque(thread_x());
        T* to = tile + thread % TILE * MMA_PITCH + thread / TILE * COUNT;
        OPS_UNROLL
        for (u32 p = 0; p < COUNT; p += 8) held.store_eight(p, to + p, packs);
    }
};

// The biases of some channels of y, loaded together.
template <typename T, u32 N> OPS_DEVICE void read_biases(const ConvArgs& args, const u64 (&channel)[N], f32 (&bias)[N]) {
    OPS_UNROLL
    for (u32 i = 0; i < N; i++) bias[i] = 0;
    if (args.bias == nullptr) return;
    if (args.bias_is_f32 != 0) {
        const f32* from = args.bias;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) bias[i] = from[i64(channel[i]) * args.bias_stride];
    } else {
        const T* from = args.bias;
        OPS_UNROLL
        for (u32 i = 0; i < N; i++) bias[i] = widen(from[i64(channel[i]) * args.bias_stride]);
    }
}

// Adds the bias to a tile's sums and stores them, from channel m0 of the group and position n0 on.
template <typename T, typename Share>
OPS_DEVICE void store_positions(const ConvArgs& args, const Share& share, u64 group, u64 m0, u64 n0) {
    using Piece = typename Share::Piece;
    u64 rows = args.outputs.by - m0, columns = args.positions - n0, channel0 = group * args.outputs.by + m0;
    i64 place[Share::ACROSS];
    OPS_UNROLL
    for (u32 j = 0; j < Share::ACROSS; j++) {
        const ConvArgs& now = reread(args);
        u64 n = n0 + share.column(j);
        u64 batch = divide(now.pixels, n), pixel = n - batch * now.pixels.by;
        u64 row = divide(now.width, pixel), column = pixel - row * now.width.by;
        u64 at = u64(i64(batch) * now.y.stride[2] + i64(row) * now.y.stride[4] + i64(column) * now.y.stride[5]);
        // Found here and not where it is used: there are not enough scalar registers for the constants of all columns.
        place[j] = i64(u64(opaque(u32(at >> 32))) << 32 | opaque(u32(at)));
    }
    OPS_UNROLL
    for (u32 i = 0; i < Share::DOWN; i++) {
        const ConvArgs& now = reread(args);
        u32 row0 = opaque(share.row0) + i * 16;
        u64 channel[Piece::SUMS];
        OPS_UNROLL
        for (u32 e = 0; e < Piece::SUMS; e++) {
            u64 m = row0 + Piece::row(e);
            channel[e] = channel0 + (m < rows ? m : rows - 1);
        }
        f32 bias[Piece::SUMS];
        read_biases<T>(now, channel, bias);
        OPS_UNROLL
        for (u32 e = 0; e < Piece::SUMS; e++) {
            if (row0 + Piece::row(e) >= rows) continue;
            T* to = static_cast<T*>(now.y.data) + i64(channel[e]) * now.y.stride[3];
            OPS_UNROLL
            for (u32 j = 0; j < Share::ACROSS; j++) {
                if (share.column(j) < columns) to[place[j]] = narrow<T>(share.sums[i][j].v[e] + bias[e]);
            }
        }
    }
}

template <u32 TILE, typename T> OPS_DEVICE void conv_mma(const ConvArgs& args) {
    OPS_LDS(T, tile_a, TILE * MMA_PITCH);
    OPS_LDS(T, tile_b, TILE * MMA_PITCH);
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const ConvArgs& now = reread(args);
        u64 tiles_m = (now.outputs.by + TILE - 1) / TILE, tiles_n = (now.positions + TILE - 1) / TILE;
        if (tile >= tiles_m * tiles_n * now.groups) break;
        u64 group = tile / (tiles_m * tiles_n), in_group = tile % (tiles_m * tiles_n);
        u64 m0 = in_group % tiles_m * TILE, n0 = in_group / tiles_m * TILE;
        StageChannels<T, TILE> a(args, group, m0);
        StagePositions<T, TILE> b(args, group, n0);
        MmaShare<TILE, T> share;
        ConvStep step(now);
        b.load(step);
        a.load(step);
        OPS_NO_UNROLL
        for (u64 left = now.steps; left > 0; left--) {
            barrier();
            a.store(tile_a);
            b.store(tile_b);
            barrier();
            // The next tiles are in flight while these are multiplied. Past the end, nothing is loaded.
            // a is last: its registers are not used to find addresses, so that no load is waited for.
            step.next(reread(now));
            b.load(step);
            a.load(step);
            share.multiply(tile_a, tile_b);
        }
        store_positions<T>(args, share, group, m0, n0);
    }
}

}  // namespace ops
