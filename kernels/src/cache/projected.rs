//! rms_norm_linear_rope_cache_write: a product of a few normed rows, whose heads are rotated and written to caches.
use super::{CacheTarget, Target};
use crate::element_type::{BlockFormat, Kernels};
use crate::instances::{Needs, Table, arguments};
use crate::matmul::{self, Beside, Matmul, MatmulArgs};
use crate::qlinear::{self, QLinearArgs, ROW_LDS};
use crate::{Device, Divider, ElementType, Family, OperandView, Plan, Refused};
use ElementType::{Bf16, F16, F32};

arguments! {
    /// Where the columns of a product go: the heads of queries, of keys and of values.
    pub struct ProjectedTarget {
        pub to: CacheTarget,
        pub q_heads: u64,
        pub rotary_pairs: u64,
        pub pairs: Divider,
        pub values: Divider,
        pub cache_is_f8: u64,
    }

    /// Arguments of a product with floats.
    pub struct ProjectedMatmulArgs {
        pub product: MatmulArgs,
        pub target: ProjectedTarget,
    }

    /// Arguments of a product with blocks.
    pub struct ProjectedQLinearArgs {
        pub product: QLinearArgs,
        pub target: ProjectedTarget,
    }
}

const OP: &str = "rms_norm_linear_rope_cache_write";

/// Types of x and of the weight.
const TYPES: [[ElementType; 2]; 5] = [[F16, F16], [Bf16, Bf16], [F32, F32], [F32, F16], [F32, Bf16]];

pub(super) fn declare(table: &mut Table) {
    let mut floats = table.of::<ProjectedMatmulArgs>(Family::Matmul, super::BLOCK);
    for types in TYPES {
        for (variant, rows) in [("rows1", "1"), ("rows4", "4")] {
            floats.part("rope").add_variant(OP, variant, &types, "norm_rope_rows", &[rows], 0);
        }
    }
    // On waves of 64, gfx9 has too few scalar registers for a norm.
    let mut dot = table.of::<ProjectedQLinearArgs>(Family::QlinearDot, super::BLOCK).needs(Needs::Wave32);
    for format in BlockFormat::ALL.into_iter().filter(|format| format.kernels() != Kernels::Plain) {
        dot.part("rope").add_variant(
            OP,
            "dot1",
            &[ElementType::Block(format)],
            "norm_rope_row",
            &[],
            ROW_LDS,
        );
    }
}

/// Operands: x \[n, k\], a weight \[o, k\] whose rows are the heads of queries, keys and values, and its bias \[o\].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Projected<'a> {
    /// n, o and k.
    pub dims: [u64; 3],
    pub q_heads: u64,
    pub x: OperandView<'a>,
    pub norm: (OperandView<'a>, f64),
    pub weight: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
    pub to: Target<'a>,
}

/// Prepares the product. The caches have the type of x, or f8e4m3.
pub fn prepare(call: &Projected<'_>, device: &Device, plan: &mut Plan) -> Result<(), Refused> {
    let (to, types) = (&call.to, [call.x.dtype, call.weight.dtype]);
    let [heads, d, dv] = to.dims;
    let is_block = matches!(types[1], ElementType::Block(_));
    // Two pairs of blocks that a group of lanes computes together must be equally far from the next: those of neighbours always are.
    let [half, o] = [to.tables[1], call.dims[1]];
    if is_block && !to.interleaved && (!(d / 2).is_multiple_of(2) || !half.is_multiple_of(2)) {
        let why = format!("with blocks, d/2 = {} and the {half} columns of the tables must be even", d / 2);
        return Err(Refused::Because(why));
    }
    if !dv.is_multiple_of(2) {
        return Err(Refused::Because(format!("the number of features of values, {dv}, must be even")));
    }
    // A launch without outputs would not check the indices.
    if o == 0 {
        return Err(Refused::Because("the weight has no rows".into()));
    }
    if !(to.k_cache.dtype == types[0] || to.k_cache.dtype == ElementType::F8E4M3) {
        return Err(super::no_kernel(OP, [types[0], to.k_cache.dtype]));
    }
    let target = ProjectedTarget {
        to: to.args(OP, types[0])?,
        q_heads: call.q_heads,
        rotary_pairs: (call.q_heads + heads) * (d / 2),
        // A divider must not be 0.
        pairs: Divider::new((d / 2).max(1)),
        values: Divider::new(dv.max(1)),
        cache_is_f8: u64::from(to.k_cache.dtype == ElementType::F8E4M3),
    };
    if is_block { of_blocks(call, target, device, plan) } else { of_floats(call, target, device, plan) }
}

fn of_floats(
    call: &Projected<'_>,
    target: ProjectedTarget,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let &Projected { dims: [m, o, k], x, norm, weight, bias, .. } = call;
    let &[row, column] = weight.strides else { return Err(Refused::Rank(weight.strides.len())) };
    let b = OperandView { strides: &[column, row], ..weight };
    let c = OperandView { data: 0, strides: &[0, 0], ..x };
    let problem = Matmul { batch: &[], m, n: o / 2, k, a: x, b, c, bias };
    let (launch, product) =
        matmul::few_rows(OP, &problem, (Beside { norm: Some(norm), added: None }, 1), device)?;
    plan.add((launch, ProjectedMatmulArgs { product, target }))
}

fn of_blocks(
    call: &Projected<'_>,
    target: ProjectedTarget,
    device: &Device,
    plan: &mut Plan,
) -> Result<(), Refused> {
    let &Projected { dims: [n, o, k], x, norm, weight, bias, .. } = call;
    let y = OperandView { data: 0, strides: &[0, 0], ..x };
    let strides = [0, bias.map_or(0, super::last_stride)];
    let beside =
        Beside { norm: Some(norm), added: bias.map(|bias| OperandView { strides: &strides, ..bias }) };
    let (launch, product) = qlinear::one_row(OP, [n, k], o, [x, weight, y], beside, device)?;
    plan.add((launch, ProjectedQLinearArgs { product, target }))
}
