//! The Rust side and the sources agree on what exists and how it is laid out.
use crate::host::run_program;
use ops_kernels::attention::AttentionArgs;
use ops_kernels::attention::ragged::RaggedArgs;
use ops_kernels::batch_norm::{BatchNormArgs, Parameter};
use ops_kernels::binary::BinaryArgs;
use ops_kernels::cache::{CacheWriteArgs, HeadRows, RopeCacheArgs};
use ops_kernels::cast::CastArgs;
use ops_kernels::compare::CompareArgs;
use ops_kernels::conv::{ConvArgs, ConvAxis};
use ops_kernels::copy::{CopyArgs, FillArgs, WhereArgs};
use ops_kernels::experts::ExpertsArgs;
use ops_kernels::gated::{ClampedArgs, GatedArgs};
use ops_kernels::index::IndexSelectArgs;
use ops_kernels::linear_attention::{Conv1dUpdateArgs, GatedDeltaArgs};
use ops_kernels::matmul::MatmulArgs;
use ops_kernels::mma_unit::MmaUnitArgs;
use ops_kernels::norm::{GroupNormArgs, NormArgs};
use ops_kernels::parametric::ParametricArgs;
use ops_kernels::pool::{PoolArgs, Windows};
use ops_kernels::pool_upsample::Planes;
use ops_kernels::qk_norm_rope::QkNormRopeArgs;
use ops_kernels::qlinear::QLinearArgs;
use ops_kernels::quant::{DequantizeArgs, QEmbeddingArgs, QuantizeArgs};
use ops_kernels::reduce::ReduceArgs;
use ops_kernels::rope::{RopeArgs, RopeAtArgs};
use ops_kernels::routing::{CombineArgs, RouterArgs};
use ops_kernels::sampling::{RandomArgs, SampleArgs};
use ops_kernels::scan::ScanArgs;
use ops_kernels::scatter::{GatherArgs, ScatterArgs};
use ops_kernels::softmax::SoftmaxArgs;
use ops_kernels::sort::SortArgs;
use ops_kernels::unary::{AffineArgs, UnaryArgs};
use ops_kernels::upsample::{Source, UpsampleArgs};
use ops_kernels::{Family, instances, source};
use std::collections::{BTreeSet, HashSet};

/// Fields of a struct of arguments with their offsets in Rust; does not compile when one is left out.
macro_rules! fields {
    ($name:ident: $($field:ident),+) => {{
        let _complete = |args: $name| { let $name { $($field: _),+ } = args; };
        (stringify!($name), vec![$((stringify!($field), std::mem::offset_of!($name, $field))),+])
    }};
}

type Fields = (&'static str, Vec<(&'static str, usize)>);

/// Compiles a family's structs for the host and compares what the compiler says of every field, and of the size of the struct that
/// each instance takes.
fn agree(family: Family, structs: &[Fields]) {
    let mut text = String::from("#define OPS_WAVE 32\n#define OPS_MATRIX 11\n");
    text += &source::unit(family, []);
    text += "#include <stddef.h>\n#include <stdio.h>\nint main() {\n";
    let mut want = String::new();
    for (name, fields) in structs {
        for (field, offset) in fields {
            text += &format!("    printf(\"{name}.{field} %zu\\n\", offsetof(ops::{name}, {field}));\n");
            want += &format!("{name}.{field} {offset}\n");
        }
    }
    let sizes: BTreeSet<_> =
        instances().iter().filter(|k| k.family == family).map(|k| (k.args, k.args_size)).collect();
    for (name, size) in sizes {
        text += &format!("    printf(\"{name} %zu\\n\", sizeof(ops::{name}));\n");
        want += &format!("{name} {size}\n");
    }
    // What is private in Rust is asserted there, with these numbers.
    text += "    using ops::Shape; using ops::Divider; using ops::Operand;
    static_assert(offsetof(Shape, dim) == 0 && offsetof(Shape, magic) == 48 && offsetof(Shape, shift) == 96, \"\");
    static_assert(offsetof(Shape, rank) == 120 && offsetof(Shape, pack) == 124 && offsetof(Shape, count) == 128, \"\");
    static_assert(sizeof(Shape) == 136 && sizeof(Divider) == 24 && sizeof(Operand) == 56, \"\");
    static_assert(offsetof(Divider, magic) == 8 && offsetof(Divider, shift) == 16, \"\");
    static_assert(offsetof(Operand, data) == 0 && offsetof(Operand, stride) == 8, \"\");
}\n";
    assert_eq!(run_program(&format!("fields-{}", family.name()), &text), want);
}

#[test]
fn every_field_of_every_argument_struct_lies_where_the_source_has_it() {
    let mut compared = HashSet::new();
    let mut agree = |family, structs: &[Fields]| {
        compared.insert(family);
        agree(family, structs);
    };
    agree(Family::Unary, &[fields!(UnaryArgs: shape, x, y), fields!(AffineArgs: shape, x, y, mul, add)]);
    agree(Family::Binary, &[fields!(BinaryArgs: shape, a, b, y)]);
    agree(
        Family::BatchNorm,
        &[
            fields!(BatchNormArgs: shape, x, y, channel, weight, bias, mean, var, eps, wide),
            fields!(Parameter: data, stride, kind, reserved),
        ],
    );
    agree(
        Family::Pool,
        &[
            fields!(PoolArgs: planes, down, across, elements),
            fields!(Planes: lead, x, y, x_row, x_column, y_row, y_column, height, width, rows, columns, count),
            fields!(Windows: size, stride, padding),
        ],
    );
    agree(
        Family::Upsample,
        &[fields!(UpsampleArgs: planes, down, across), fields!(Source: step, start, by, inverse, last)],
    );
    agree(
        Family::Sampling,
        &[
            fields!(SampleArgs: logits, logits_stride, counter, counter_stride, ids, ids_stride, rows, columns, top_k, share,
                seed, rate, shift, greedy, unused),
            fields!(RandomArgs: shape, y, seed, offset),
        ],
    );
    agree(Family::Scan, &[fields!(ScanArgs: shape, x, y, partial, parts, rows, part, totals)]);
    agree(
        Family::Sort,
        &[fields!(SortArgs: shape, x, values, indices, from, to, runs, kept, rows, run, keep, flip, results)],
    );
    agree(
        Family::Reduce,
        &[
            fields!(ReduceArgs: kept, reduced, x, y, along, partial, parts, tiles, items, part, lanes, divisor, flip, pass),
        ],
    );
    agree(Family::Compare, &[fields!(CompareArgs: shape, a, b, y, negated)]);
    agree(Family::Parametric, &[fields!(ParametricArgs: shape, x, y, first, second)]);
    agree(Family::Cast, &[fields!(CastArgs: shape, x, y)]);
    agree(
        Family::Copy,
        &[
            fields!(CopyArgs: shape, x, y),
            fields!(FillArgs: shape, y, value),
            fields!(WhereArgs: shape, cond, on_true, on_false, y),
        ],
    );
    agree(
        Family::Index,
        &[
            fields!(IndexSelectArgs: shape, x, y, ids, ids_stride, bound, error, ids_kind, op, operand, reserved),
        ],
    );
    agree(
        Family::Scatter,
        &[
            fields!(GatherArgs: shape, x, y, ids, order, step, bound, turns, error, ids_kind, op, operand, ids_packs),
            fields!(ScatterArgs: shape, dst, src, ids, order, sorted, sorted_line, lines, count, bound, error, ids_kind, op,
                operand, reserved),
        ],
    );
    for family in [Family::Matmul, Family::MatmulMma] {
        agree(family, &[fields!(MatmulArgs: batches, a, b, c, m, n, k, bias, bias_stride, bias_is_f32, up)]);
    }
    agree(
        Family::Norm,
        &[
            fields!(NormArgs: shape, x, residual, y, sum, weight, bias, weight_stride, bias_stride, rows, lanes, eps),
            fields!(GroupNormArgs: shape, x, y, weight, bias, weight_stride, bias_stride, spatial, groups, group_rows,
                channels, eps, partial, parts, shares),
        ],
    );
    agree(Family::Softmax, &[fields!(SoftmaxArgs: shape, x, y, rows, lanes)]);
    agree(
        Family::Rope,
        &[
            fields!(RopeArgs: shape, x, y, cos, sin, x_partner, y_partner),
            fields!(RopeAtArgs: shape, x, y, cos, sin, positions, place, x_partner, y_partner, x_step, y_step, cos_row,
                sin_row, half, bound, error, positions_kind, op, operand, reserved),
        ],
    );
    agree(
        Family::LinearAttention,
        &[
            fields!(Conv1dUpdateArgs: x, weight, state, y, bias, bias_step, channels, runs, count, t, w, run, bias_is_f32,
                silu),
            fields!(GatedDeltaArgs: q, k, v, o, decay, beta, state, batch, heads, t, d, dv, lanes, tiles, scale),
        ],
    );
    agree(
        Family::QkNormRope,
        &[
            fields!(QkNormRopeArgs: shape, x, y, cos, sin, positions, place, weight, weight_step, x_step, y_step,
                cos_step, sin_step, cos_row, sin_row, d, half, interleaved, weight_is_f32, tables_are_f32, rows, lanes,
                eps, bound, error, positions_kind, op, operand, reserved),
        ],
    );
    agree(
        Family::Cache,
        &[
            fields!(CacheWriteArgs: shape, x, cache, slots, place, cache_row, bound, error, slots_kind, op, operand,
                reserved),
            fields!(HeadRows: row, head, step),
            fields!(RopeCacheArgs: k, v, weight, cos, sin, positions, slots, k_cache, v_cache, of_k, of_v, of_k_cache,
                of_v_cache, weight_step, cos_row, cos_step, sin_row, sin_step, positions_step, slots_step, heads, rows,
                d, dv, half, interleaved, weight_is_f32, tables_are_f32, lanes, eps, table_rows, cache_slots, error,
                positions_kind, slots_kind, op_of_positions, op_of_slots),
        ],
    );
    let dense = || {
        fields!(AttentionArgs: q, k, v, o, mask, slopes, slope_stride, batch, kv_heads, group, t, s, d, left, right,
            scale, softcap, mask_kind, partial, arrivals, splits, dv, value_parts, sinks, sink_stride, lse, flags,
            work, at_once, by_splits, by_blocks, by_heads, by_group, by_rows)
    };
    agree(Family::AttentionMma, &[dense()]);
    for family in [Family::Attention, Family::AttentionDecode] {
        let ragged = fields!(RaggedArgs: attention, cu_q, cu_k, lengths, table, cu_q_step, cu_k_step, lengths_step,
            table_row, table_step, sequences, blocks, block, least, checkers, error, block_magic, block_shift, index_kind,
            op_of_queries, op_of_keys, op_of_table);
        agree(family, &[dense(), ragged]);
    }
    agree(
        Family::Quant,
        &[
            fields!(QuantizeArgs: shape, x, y, x_stride),
            fields!(DequantizeArgs: shape, x, y, y_stride),
            fields!(QEmbeddingArgs: shape, x, y, y_stride, ids, ids_stride, bound, error, ids_kind, op, operand,
                y_kind),
        ],
    );
    for family in [Family::Conv, Family::ConvMma] {
        agree(
            family,
            &[
                fields!(ConvAxis: x, y, kernel, padding, dilation, stride),
                fields!(ConvArgs: x, weight, y, bias, bias_stride, bias_is_f32, rows, columns, inputs, outputs, channels,
                    pixels, width, area, kernel_width, terms, count, images, transposed, groups, positions, steps,
                    term_stride, by_tap, x_packs, weight_packs),
            ],
        );
    }
    agree(
        Family::Gated,
        &[
            fields!(GatedArgs: shape, x, gate, y, weight, weight_stride, weight_kind, rows, lanes, eps),
            fields!(ClampedArgs: shape, gate, up, y, alpha, limit),
        ],
    );
    agree(
        Family::Routing,
        &[
            fields!(RouterArgs: logits, logits_stride, bias, bias_stride, weights, weights_stride, ids, ids_stride, rows,
                experts, k, groups, kept, group, scale, flags, bias_is_f32),
            fields!(CombineArgs: shape, x, weights, y, x_step, weights_step, k),
        ],
    );
    let experts =
        [Family::Experts, Family::ExpertsSort, Family::ExpertsTile, Family::ExpertsDot, Family::ExpertsMma];
    for family in experts {
        agree(
            family,
            &[
                fields!(ExpertsArgs: x, x_stride, weight, weight_stride, ids, ids_stride, bias, bias_stride, y, y_stride,
                choices, groups, rows, outputs, d, experts, lanes, slots, chosen, sorted, tiles, error, ids_kind, kind,
                bias_kind, op, operand, reserved),
            ],
        );
    }
    agree(Family::MmaUnit, &[fields!(MmaUnitArgs: a, b, c, d)]);
    for family in [Family::Qlinear, Family::QlinearDot, Family::QlinearMma] {
        agree(
            family,
            &[fields!(QLinearArgs: shape, x, y, weight, weight_row, weight_block, rows, n, k, lanes, planes,
                plane_rows, y_kind, up)],
        );
    }
    assert_eq!(compared.len(), Family::ALL.len(), "every family is compared");
}
