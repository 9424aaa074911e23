//! Convolutions.
use super::bind::Bound;
use super::{HipOp, Problem, no_matrix, units};
use crate::choice::Target;
use ops_core::ops::{Conv, ConvGeometry};
use ops_core::{Determinism, Float, Layout, Operands};
use ops_kernels::conv::{self, Axis, ConvArgs};
use ops_kernels::{ElementType, Launch, OperandView, Plan, Refused};

impl<T: Float> HipOp for Conv<T> {
    /// Kernels are chosen by the number of images, unless rows must not depend on each other.
    fn rows_level(&self, target: &Target, _: &dyn Operands) -> Determinism {
        target.sums_level()
    }

    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, weight, y) = (p.at(0), p.at(1), p.at(3));
        let geometry = self.geometry(&x.layout, &weight.layout, &y.layout);
        let (g, layouts) = geometry.map_err(|_| Refused::Rank(x.layout.rank()))?;
        plan.add(prepare(&g, &layouts, [x, weight, y], p.get(2), p)?)
    }

    fn how(&self, target: &Target, plan: &Plan) -> Option<String> {
        let instance = plan.main()?.instance;
        let how = match instance.variant {
            "direct" => {
                return Some(
                    "one thread per element: a group has few output channels, or there are few pixels or terms".into(),
                );
            }
            "tile" => "in tiles of 64 channels and 64 pixels, on vector units",
            _ => return units(target, instance),
        };
        let device = target.launch_device();
        let dtype = instance.types.first().copied()?;
        let why = no_matrix(target)
            .or_else(|| conv::not_on_matrix(plan.args(0)?, dtype, device).map(str::to_owned));
        Some(why.map_or_else(|| how.to_owned(), |why| format!("{how}: {why}")))
    }
}

fn prepare(
    g: &ConvGeometry,
    layouts: &[Layout; 3],
    [x, weight, y]: [&Bound; 3],
    bias: Option<&Bound>,
    p: &Problem<'_>,
) -> Result<(Launch, ConvArgs), Refused> {
    if let Some(bias) = bias.filter(|bias| bias.dtype != x.dtype && bias.dtype != ElementType::F32) {
        return Err(Refused::NoKernel { op: "conv".into(), types: vec![x.dtype, bias.dtype] });
    }
    let axis = |at: usize| Axis {
        x: g.x[at] as u64,
        y: g.y[at] as u64,
        kernel: g.kernel[at] as u64,
        stride: g.axes[at].stride as u64,
        padding: g.axes[at].padding as u64,
        dilation: g.axes[at].dilation as u64,
    };
    let strides = layouts.each_ref().map(strides);
    let view =
        |of: &Bound, at: usize| OperandView { data: of.address, strides: &strides[at], dtype: of.dtype };
    let problem = conv::Conv {
        transposed: g.transposed,
        batch: g.batch as u64,
        groups: g.groups as u64,
        inputs: g.inputs as u64,
        outputs: g.outputs as u64,
        rows: axis(0),
        columns: axis(1),
        x: view(x, 0),
        weight: view(weight, 1),
        y: view(y, 2),
        bias: bias.map(Bound::view),
    };
    conv::prepare(&problem, p.device())
}

fn strides(layout: &Layout) -> [i64; 4] {
    core::array::from_fn(|at| layout.strides().get(at).map_or(0, |stride| *stride as i64))
}
