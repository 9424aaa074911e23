//! router_topk and combine_experts.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{
    Device, Divider, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise,
};

/// Threads per block; `ROUTER_BLOCK` in the source.
const BLOCK: u32 = 256;
/// Number of choices that a wave keeps in LDS; `ROUTER_CACHED` in the source.
const CACHED: u32 = 512;

arguments! {
    /// Arguments of router_topk.
    pub struct RouterArgs {
        pub logits: u64,
        pub logits_stride: [i64; 2],
        pub bias: u64,
        pub bias_stride: i64,
        pub weights: u64,
        pub weights_stride: [i64; 2],
        pub ids: u64,
        pub ids_stride: [i64; 2],
        pub rows: u64,
        pub experts: u64,
        pub k: u64,
        pub groups: u64,
        pub kept: u64,
        pub group: Divider,
        pub scale: f64,
        pub flags: u32,
        pub bias_is_f32: u32,
    }

    /// Arguments of combine_experts.
    pub struct CombineArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub weights: StridedPointer,
        pub y: StridedPointer,
        pub x_step: i64,
        pub weights_step: i64,
        pub k: u64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut router = table.of::<RouterArgs>(Family::Routing, BLOCK);
    for t in ElementType::FLOATS {
        let lds = BLOCK / 32 * CACHED * 4;
        router.part("topk").add_variant("router_topk", "", &[t], "router_topk", &[], lds);
    }
    let mut combine = table.of::<CombineArgs>(Family::Routing, BLOCK);
    for t in ElementType::FLOATS {
        combine.part("combine").add("combine_experts", &[t], "combine_experts", &[]);
    }
}

/// A choice of experts: logits\[n, e\], a bias\[e\] of their type or f32, and the outputs, each \[n, k\].
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Router<'a> {
    pub logits: OperandView<'a>,
    pub bias: Option<OperandView<'a>>,
    pub weights: OperandView<'a>,
    pub ids: OperandView<'a>,
    /// Whether scores are sigmoids; otherwise softmax.
    pub sigmoid: bool,
    /// Whether scores are computed among the chosen experts only.
    pub after: bool,
    pub renormalize: bool,
    /// Whether a group's score is its largest score; otherwise the sum of the two largest.
    pub max: bool,
    pub groups: u64,
    pub kept: u64,
    pub scale: f64,
}

fn two(view: OperandView<'_>) -> Result<[i64; 2], Refused> {
    <[i64; 2]>::try_from(view.strides).map_err(|_| Refused::Rank(view.strides.len()))
}

/// Prepares the choice of `k` of `experts` experts for each of `rows` tokens. `groups` must divide `experts`,
/// and the kept groups must have at least `k` experts.
pub fn topk(
    [rows, experts, k]: [u64; 3],
    on: &Router<'_>,
    device: &Device,
) -> Result<(Launch, RouterArgs), Refused> {
    let max = u64::from(u32::MAX);
    if experts > max {
        return Err(Refused::Limit { what: "the number of experts", got: experts, max });
    }
    let (dtype, rows) = (on.logits.dtype, if k == 0 { 0 } else { rows });
    let bias = on.bias.map_or((0, 0, false), |bias| {
        (bias.data, bias.strides.last().copied().unwrap_or(0), bias.dtype == ElementType::F32)
    });
    if let Some(odd) = on.bias.filter(|bias| bias.dtype != dtype && bias.dtype != ElementType::F32) {
        return Err(Refused::NoKernel { op: "router_topk".into(), types: vec![dtype, odd.dtype] });
    }
    let flags = [on.sigmoid, on.after, on.renormalize, on.max];
    let launch = Launch::over(
        need("router_topk", "", &[dtype])?,
        rows,
        u64::from(BLOCK / device.wave),
        device.row_blocks(),
    );
    let args = RouterArgs {
        logits: on.logits.data,
        logits_stride: two(on.logits)?,
        bias: bias.0,
        bias_stride: bias.1,
        weights: on.weights.data,
        weights_stride: two(on.weights)?,
        ids: on.ids.data,
        ids_stride: two(on.ids)?,
        rows,
        experts,
        k,
        groups: on.groups,
        kept: on.kept,
        group: Divider::new((experts / on.groups.max(1)).max(1)),
        scale: on.scale,
        flags: flags.iter().enumerate().map(|(at, flag)| u32::from(*flag) << at).sum(),
        bias_is_f32: bias.2.into(),
    };
    Ok((launch, args))
}

/// Prepares `y[n, d] = Σ_j weights[n, j] · x[n, j, d]`; `dims` are those of x.
pub fn combine(
    dims: [u64; 3],
    [x, weights, y]: [OperandView<'_>; 3],
    device: &Device,
) -> Result<(Launch, CombineArgs), Refused> {
    let (&[x0, x_step, x2], [w0, weights_step]) = (x.strides, two(weights)?) else {
        return Err(Refused::Rank(x.strides.len()));
    };
    let [n, k, d] = dims;
    let instance = need("combine_experts", "", &[x.dtype])?;
    let (x, weights) =
        (OperandView { strides: &[x0, x2], ..x }, OperandView { strides: &[w0, 0], ..weights });
    let (mut shape, [x, weights, y]) = elementwise(&[n, d], [x, weights, y])?;
    if x_step % i64::from(shape.pack()) != 0 {
        shape = shape.unpacked();
    }
    let args = CombineArgs { shape, x, weights, y, x_step, weights_step, k };
    Ok((Launch::elementwise(instance, &shape, device), args))
}
