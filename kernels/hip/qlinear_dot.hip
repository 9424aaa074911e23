// y[.., n] = sum over k of x[.., k] weight[n, k] for few rows of x, rounded to bytes, with four products per instruction.
// split: writes each block of 32 values of x as signed bytes and their scale (ops_byte_planes.h).
// dot*: a group of lanes computes a few rows of the weight, one step of 32 values per lane at a time. dot1 rounds its only row
// itself (ops_dot_row.h).
#include "ops_byte_planes.h"
#include "ops_dot_row.h"
#include "ops_projected.h"
#include "ops_tile.h"

namespace ops {

// ---- split --------------------------------------------------------------------------

template <typename T> OPS_DEVICE void qlinear_split(const QLinearArgs& args) {
    // Rows past the end are filled with zeros, because the dot kernels read several rows together.
    split_rows(static_cast<u8*>(args.planes), u32(args.plane_rows), args.k, [&](f32 (&x)[4], u64 row, u32 at) OPS_INLINE {
        if (row >= args.rows) return;
        const T* from = row_at<const T>(args.shape, args.x, row) + i64(at) * args.x.stride[5];
        OPS_UNROLL
        for (u32 i = 0; i < 4; i++) x[i] = widen(from[i64(i) * args.x.stride[5]]);
    });
}

// ---- products -----------------------------------------------------------------------

// Rows of the weight that share each load of x. With two, eight rows of x would wait for the cache on gfx942, which delivers 64 bytes per
// cycle. CUDA hides the latency of memory better with the registers of two.
#if defined(OPS_CUDA)
constexpr u32 DOT_COLUMNS = 2;
#else
constexpr u32 DOT_COLUMNS = 4;
#endif

// A group of lanes multiplies ROWS rows of x by COLUMNS rows of the weight, or half as many of each of two, gate and up in turn. Its waves
// take the steps in turns.
template <u32 ROWS, u32 COLUMNS, bool PAIRED, typename B>
OPS_DEVICE void dot_columns(const QLinearArgs& args, u32 m0, u64 n0, f32* sums_of_waves) {
    constexpr u32 SUMS = ROWS * COLUMNS, LANES_OF_SUM = OPS_WAVE / SUMS, PER_OUTPUT = PAIRED ? 2 : 1;
    const B* column[COLUMNS];
    OPS_UNROLL
    for (u32 j = 0; j < COLUMNS; j++) {
        // Columns past the end repeat the last one; their results are not stored.
        u64 n = n0 + j / PER_OUTPUT;
        const void* of = j % PER_OUTPUT == 1 ? args.up : args.weight;
        column[j] = static_cast<const B*>(of) + i64(n < args.n ? n : args.n - 1) * args.weight_row;
    }
    f32 sum[SUMS] = {};
    u32 steps = u32(args.k / STEP_VALUES), lanes = u32(args.lanes);
    OPS_NO_UNROLL
    for (u32 b = opaque(thread_x() & (lanes - 1)); b < steps; b += lanes) {
        Step<B> w[COLUMNS];
        OPS_UNROLL
        for (u32 j = 0; j < COLUMNS; j++) w[j].load(column[j], args.weight_block, b);
        u32 at = group_at(u32(args.plane_rows), m0, b);
        OPS_UNROLL
        for (u32 r = 0; r < ROWS; r++) {
            // One row's bytes are in flight while another's are multiplied. Loading all rows at once
            // would exhaust the registers.
            u32 from = r < 2 ? at : opaque_after(at, sum[(r - 1) * COLUMNS - 1]);
            const u8* row = static_cast<const u8*>(args.planes) + from;
            ByteStep x = read_step(row + r * GROUP_BYTES, b);
            GroupSums<B> sums(x.head);
            OPS_UNROLL
            for (u32 j = 0; j < COLUMNS; j++) {
                f32& to = sum[r * COLUMNS + j];
                to = add_step(to, w[j], x, sums);
            }
        }
    }
    u32 mine = lane_id() / LANES_OF_SUM, j = mine % COLUMNS, m = m0 + mine / COLUMNS;
    f32 total = sum_group<SUMS>(sum_columns<SUMS>(sum), mine, lanes / OPS_WAVE, sums_of_waves);
    if (PAIRED) total = gated(total, shuffle_xor(total, LANES_OF_SUM, OPS_WAVE));
    u64 n = n0 + j / PER_OUTPUT;
    bool writes = (thread_x() & (lanes - 1)) < OPS_WAVE && lane_id() % LANES_OF_SUM == 0;
    if (!writes || j % PER_OUTPUT != 0 || m >= args.rows || n >= args.n) return;
    total += added_at(args, offset_of<4>(args.shape, args.added, m) + i64(n) * args.added.stride[5]);
    write_sum(args, offset_of<4>(args.shape, args.y, m) + i64(n) * args.y.stride[5], total);
}

template <u32 ROWS, bool PAIRED, typename B> OPS_DEVICE void dot_groups(const QLinearArgs& args) {
    constexpr u32 OUTPUTS = outputs_of<PAIRED, DOT_COLUMNS>();
    OPS_LDS(f32, sums, ROWS * DOT_COLUMNS * (DOT_BLOCK / 32));
    u32 log = log2_of_lanes(u32(args.lanes)), group = same_in_wave(wave_id() * OPS_WAVE >> log);
    u64 outputs = (DOT_BLOCK >> log) * OUTPUTS;  // of a block
    OPS_NO_UNROLL
    for (u64 first = block_x() * outputs; first < args.n; first += grid_x() * outputs) {
        OPS_NO_UNROLL
        for (u32 m0 = 0; m0 < args.rows; m0 += ROWS) {
            dot_columns<ROWS, DOT_COLUMNS, PAIRED, B>(reread(args), m0, first + group * OUTPUTS, sums);
        }
    }
}

template <u32 ROWS, typename B> OPS_DEVICE void qlinear_dot(const QLinearArgs& args) {
    dot_groups<ROWS, false, B>(args);
}

// silu(x gate) * (x up)
template <u32 ROWS, typename B> OPS_DEVICE void swiglu_dot(const QLinearArgs& args) {
    dot_groups<ROWS, true, B>(args);
}

// ---- one row, rotated and written to caches ----------------------------------------------

// A product whose pairs of columns are rotated together; `n` counts pairs.
struct ProjectedQLinearArgs {
    QLinearArgs product;
    ProjectedTarget target;
};
OPS_DEVICE const QLinearArgs& product_of(const ProjectedQLinearArgs& args) { return args.product; }

// Its tiles. The pairs that a group computes together are of one kind.
template <typename B> struct ProjectedTiles : RowTiles<B, true> {
    using Of = RowTiles<B, true>;
    OPS_METHOD ProjectedTiles(const QLinearArgs& args) : Of(args) {}
    // Of the output of the block's first tile that this thread stores, if there is one.
    OPS_METHOD PairPlace ahead(const ProjectedQLinearArgs& args) const {
        u32 n = (block_x() << this->log_outputs) + thread_x();
        if (block_x() >= this->all || thread_x() >> this->log_outputs != 0 || n > this->most) return PairPlace{};
        return pair_place(args.target, ColumnPair(args.target, n), u32(args.product.y_kind), 0);
    }
    OPS_METHOD void load(RowStep<B> (&w)[Of::COLUMNS], const ProjectedQLinearArgs& all, u64 tile, const RowPlace& at) const {
        const ProjectedQLinearArgs& args = reread(all);
        u32 first = (u32(tile) * this->groups + this->group) * Of::OUTPUTS, most = this->most;
        if (first > most) first = most;
        u32 last = most - first;
        ColumnPair pair(args.target, first);
        i64 row = args.product.weight_row, skip = i64(pair.column) * row + at.block;
        OPS_UNROLL
        for (u32 j = 0; j < Of::COLUMNS; j++) {
            u64 column = (j % Of::OUTPUTS < last ? j % Of::OUTPUTS : last) * pair.step + (j < Of::OUTPUTS ? 0 : pair.apart);
            w[j].load(static_cast<const B*>(args.product.weight) + (skip + i64(column) * row), at.step);
        }
    }
};

template <typename Tiles>
OPS_DEVICE void store_output(const ProjectedQLinearArgs& args, u64 n, f32 first, f32 second, const PairPlace& ahead, bool is_first) {
    if (n >= args.product.n) return;
    ColumnPair pair(args.target, n);
    u32 kind = u32(args.product.y_kind);
    PairPlace place = is_first ? ahead : pair_place(args.target, pair, kind, 0);
    first += added_at(args.product, i64(pair.column) * args.product.added.stride[5]);
    second += added_at(args.product, i64(pair.column + pair.apart) * args.product.added.stride[5]);
    store_pair(args.target, pair, place, kind, 0, first, second);
}

// norm(x) weight, whose heads are rotated and written to caches.
template <typename B> OPS_DEVICE void norm_rope_row(const ProjectedQLinearArgs& args) { dot_row<ProjectedTiles<B>>(args); }

}  // namespace ops
