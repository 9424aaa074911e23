// conv1d, conv2d and their transposes, over two axes: one over a single axis has a first one of extent 1.
// tile: an implicit product. The weight times the shifted copies of the image, which are never in memory: each tile of them is
// gathered into LDS. direct: a thread for each element of y, where a group has few output channels, pixels or terms.
// Both gather: each element of y adds up its own terms in a fixed order, also in a transposed convolution.
#include "ops_conv.h"
#include "ops_tile.h"

namespace ops {

constexpr u32 CONV_TILE = 64, CONV_DEPTH = MATMUL_BLOCK * STAGED / CONV_TILE;

// ---- tiles ----------------------------------------------------------------------

// The weight as a's part of a tile: lines are output channels. A thread stages consecutive terms.
template <typename T, typename A> struct StageWeight {
    const ConvArgs& args;
    const T* from;
    u32 line, k;
    Pack<T, STAGED> held;

    OPS_METHOD StageWeight(const ConvArgs& all, u64 group) : args(all) {
        from = static_cast<const T*>(all.weight.data) + i64(group) * all.weight.stride[1];
        u32 at = thread_x() * STAGED;
        line = at / CONV_DEPTH;
        k = at % CONV_DEPTH;
    }
    OPS_METHOD void load(u64 first_line, u64 first_k) {
        const ConvArgs& now = reread(args);
        u64 m = first_line + line, d = first_k + k;
        u64 left = m < now.outputs.by && d < now.terms ? now.terms - d : 0;
        ConvTerm term(now, d);
        const T* output = from + i64(m) * now.weight.stride[2];
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) {
            T value{};
            if (i < left) {
                value = output[i64(term.channel) * now.weight.stride[3] + i64(term.row) * now.weight.stride[4] +
                               i64(term.column) * now.weight.stride[5]];
            }
            held.v[i] = value;
            term.next(now);
        }
    }
    OPS_METHOD void store(A* tile) const {
        A* to = tile + k * (CONV_TILE + 4) + line;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[i * (CONV_TILE + 4)] = A(widen(held.v[i]));
    }
};

// The shifted copies of the image as b's part of a tile: lines are elements of y. A thread stages consecutive ones.
template <typename T, typename A> struct StageImage {
    const ConvArgs& args;
    const T* from;
    u32 line, k;
    Pack<T, STAGED> held;

    OPS_METHOD StageImage(const ConvArgs& all, u64 batch, u64 group) : args(all) {
        from = static_cast<const T*>(all.x.data) + i64(batch) * all.x.stride[2] + i64(group * all.inputs) * all.x.stride[3];
        u32 at = thread_x() * STAGED;
        line = at % CONV_TILE;
        k = at / CONV_TILE;
    }
    OPS_METHOD void load(u64 first_line, u64 first_k) {
        const ConvArgs& now = reread(args);
        u64 n = first_line + line, d = first_k + k;
        u64 left = n < now.pixels.by && d < now.terms ? now.pixels.by - n : 0;
        ConvTerm term(now, d);
        const T* channel = from + i64(term.channel) * now.x.stride[3];
        u64 row = divide(now.width, n), column = n - row * now.width.by;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) {
            T value{};
            u64 r, c;
            if (i < left && source_of(now.rows, now.transposed != 0, row, term.row, r) &&
                source_of(now.columns, now.transposed != 0, column, term.column, c)) {
                value = channel[i64(r) * now.x.stride[4] + i64(c) * now.x.stride[5]];
            }
            held.v[i] = value;
            if (++column == now.width.by) {
                column = 0;
                row++;
            }
        }
    }
    OPS_METHOD void store(A* tile) const {
        A* to = tile + k * (CONV_TILE + 4) + line;
        OPS_UNROLL
        for (u32 i = 0; i < STAGED; i++) to[i] = A(widen(held.v[i]));
    }
};

// Where a channel of y is stored, at its element n.
template <typename T, typename A> struct ConvRow {
    T* channel;
    A bias;
    const ConvArgs& args;
    u64 n;

    OPS_METHOD ConvRow operator+(i64 step) const { return ConvRow{channel, bias, args, n + u64(step)}; }
};
template <typename T, typename A> OPS_DEVICE void store_element(ConvRow<T, A> to, A value) {
    const ConvArgs& args = reread(to.args);
    u64 row = divide(args.width, to.n), column = to.n - row * args.width.by;
    to.channel[i64(row) * args.y.stride[4] + i64(column) * args.y.stride[5]] = narrow<T>(value + to.bias);
}

template <typename T> OPS_DEVICE void conv_tile(const ConvArgs& args) {
    using A = acc_t<T>;
    OPS_LDS(A, tile_a, CONV_DEPTH * (CONV_TILE + 4));
    OPS_LDS(A, tile_b, CONV_DEPTH * (CONV_TILE + 4));
    OPS_NO_UNROLL
    for (u64 tile = block_x();; tile += grid_x()) {
        const ConvArgs& now = reread(args);
        u64 tiles_m = (now.outputs.by + CONV_TILE - 1) / CONV_TILE, tiles_n = (now.pixels.by + CONV_TILE - 1) / CONV_TILE;
        if (tile >= tiles_m * tiles_n * now.images) break;
        u64 image = tile / (tiles_m * tiles_n), in_image = tile % (tiles_m * tiles_n);
        u64 m0 = in_image % tiles_m * CONV_TILE, n0 = in_image / tiles_m * CONV_TILE;
        u64 first = divide(now.channels, image * now.outputs.by);  // the batch element
        u64 group = image - first * divide(now.outputs, now.channels.by);
        StageWeight<T, A> a(args, group);
        StageImage<T, A> b(args, first, group);
        auto row = [&](u64 m) OPS_INLINE {
            const ConvArgs& again = reread(now);
            u64 channel = group * again.outputs.by + m;
            T* at = static_cast<T*>(again.y.data) + i64(first) * again.y.stride[2] + i64(channel) * again.y.stride[3];
            return ConvRow<T, A>{at, conv_bias<T, A>(again, channel), args, 0};
        };
        auto none = [](u64) OPS_INLINE { return A(0); };
        auto extent = [&]() OPS_INLINE {
            const ConvArgs& again = reread(now);
            return Extent{again.outputs.by, again.pixels.by, again.terms, 1};
        };
        multiply_tile<CONV_TILE / 64>(tile_a, tile_b, a, b, m0, n0, extent, row, none);
    }
}

// ---- one element to a thread -------------------------------------------------------

// Sums of at least this many terms are added to the total, so that the rounding error of long sums stays small.
constexpr u64 CONV_PART = 64;

template <typename T> OPS_DEVICE void conv_direct(const ConvArgs& all_args) {
    using A = acc_t<T>;
    OPS_NO_UNROLL
    for (u64 i = global_thread(); i < all_args.count; i += global_threads()) {
        const ConvArgs& args = reread(all_args);
        u64 plane = divide(args.pixels, i), n = i - plane * args.pixels.by;
        u64 batch = divide(args.channels, plane), channel = plane - batch * args.channels.by;
        u64 group = divide(args.outputs, channel), m = channel - group * args.outputs.by;
        u64 row = divide(args.width, n), column = n - row * args.width.by;
        const T* x = static_cast<const T*>(args.x.data) + i64(batch) * args.x.stride[2] +
                     i64(group * args.inputs) * args.x.stride[3];
        const T* weight = static_cast<const T*>(args.weight.data) + i64(group) * args.weight.stride[1] +
                          i64(m) * args.weight.stride[2];
        bool transposed = args.transposed != 0;
        A total = A(0), part = A(0);
        u64 pending = 0;
        OPS_NO_UNROLL
        for (u64 c = 0; c < args.inputs; c++) {
            OPS_NO_UNROLL
            for (u64 t = 0; t < args.rows.kernel; t++) {
                u64 from_row, from_column;
                if (!source_of(args.rows, transposed, row, t, from_row)) continue;
                const T* line = x + i64(from_row) * args.x.stride[4];
                const T* weights = weight + i64(t) * args.weight.stride[4];
                OPS_NO_UNROLL
                for (u64 u = 0; u < args.columns.kernel; u++) {
                    if (!source_of(args.columns, transposed, column, u, from_column)) continue;
                    part = mad(A(widen(line[i64(from_column) * args.x.stride[5]])),
                               A(widen(weights[i64(u) * args.weight.stride[5]])), part);
                }
            }
            x += args.x.stride[3];
            weight += args.weight.stride[3];
            pending += args.area.by;
            if (pending >= CONV_PART) {
                total += part;
                part = A(0);
                pending = 0;
            }
        }
        const ConvArgs& again = reread(args);
        T* y = static_cast<T*>(again.y.data) + i64(batch) * again.y.stride[2] + i64(channel) * again.y.stride[3];
        y[i64(row) * again.y.stride[4] + i64(column) * again.y.stride[5]] =
            narrow<T>(total + part + conv_bias<T, A>(again, channel));
    }
}

}  // namespace ops
