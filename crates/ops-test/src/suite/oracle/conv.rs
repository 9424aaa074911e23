//! Convolutions: visits every pair of an element of `x` and one of the kernel, and adds its product to the
//! element of `y` given by the definition. The inverse of that relation, which kernels compute, is not used
//! here.
use super::double::Double;
use super::{Values, Wants, optional, values, want};
use crate::{CallError, Case};
use ops_core::DType;
use ops_core::ops::{Conv, ConvAxis, ConvForm};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"];

/// Stride, padding and dilation of each of two axes, outermost first.
struct Steps {
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
}

impl Steps {
    fn of(case: &Case) -> Result<Self, CallError> {
        let read = |name: &str, default: usize| {
            let mut both = [default; 2];
            if let Some(given) = case.params.counts(name)? {
                both = [if given.len() == 2 { given[0] } else { default }, given[given.len() - 1]];
            }
            Ok::<_, CallError>(both)
        };
        Ok(Steps { stride: read("stride", 1)?, padding: read("padding", 0)?, dilation: read("dilation", 1)? })
    }

    /// The index of the product of element `near` of one tensor and element `t` of the kernel in the other
    /// tensor, which has `extent` elements along the axis: `near · stride − padding + t · dilation`.
    fn far(&self, axis: usize, near: usize, t: usize, extent: usize) -> Option<usize> {
        let far = near as i128 * self.stride[axis] as i128 - self.padding[axis] as i128
            + t as i128 * self.dilation[axis] as i128;
        usize::try_from(far).ok().filter(|far| *far < extent)
    }
}

/// The extents of a tensor, with an outer axis of extent 1 if it has a single inner one.
fn four(of: &Values) -> [usize; 4] {
    match of.dims[..] {
        [b, c, w] => [b, c, 1, w],
        [b, c, h, w] => [b, c, h, w],
        _ => unreachable!("operands of convolutions have three or four axes"),
    }
}

fn place(dims: [usize; 4], [a, b, c, d]: [usize; 4]) -> usize {
    ((a * dims[1] + b) * dims[2] + c) * dims[3] + d
}

/// Adds a product, with the precision of [`dot`](super::dot).
fn add(dtype: DType, sum: &mut Double, (a, b): (f64, f64)) {
    if dtype == DType::F64 {
        sum.add_product(Double::of(a), b);
    } else {
        *sum = Double::of(sum.nearest() + a * b);
    }
}

pub(super) fn wants(case: &Case) -> Wants {
    let (x, weight, bias) = (values(case, "x")?, values(case, "weight")?, optional(case, "bias")?);
    let y = values(case, "y")?;
    let (transposed, groups) = (case.op.contains("transpose"), case.params.count("groups")?.unwrap_or(1));
    let (steps, [dx, dw, dy]) = (Steps::of(case)?, [four(&x), four(&weight), four(&y)]);
    // The tensor whose neighbouring elements are one stride apart in the other one.
    let (near, far) = if transposed { (dx, dy) } else { (dy, dx) };
    let mut sums = vec![Double::ZERO; y.of.len()];
    let (inputs, outputs) = (dx[1] / groups, dy[1] / groups);
    let kernel = (0..dw[2]).flat_map(|t| (0..dw[3]).map(move |u| [t, u]));
    for [t, u] in kernel {
        for [i, j] in (0..near[2]).flat_map(|i| (0..near[3]).map(move |j| [i, j])) {
            let (Some(row), Some(column)) = (steps.far(0, i, t, far[2]), steps.far(1, j, u, far[3])) else {
                continue;
            };
            let (of_x, of_y) = if transposed { ([i, j], [row, column]) } else { ([row, column], [i, j]) };
            for b in 0..dx[0] {
                for (group, c, o) in (0..groups)
                    .flat_map(|g| (0..inputs).flat_map(move |c| (0..outputs).map(move |o| (g, c, o))))
                {
                    let (channel, out) = (group * inputs + c, group * outputs + o);
                    let w = if transposed { [channel, o, t, u] } else { [out, c, t, u] };
                    let product = (x.of[place(dx, [b, channel, of_x[0], of_x[1]])], weight.of[place(dw, w)]);
                    add(case.dtype, &mut sums[place(dy, [b, out, of_y[0], of_y[1]])], product);
                }
            }
        }
    }
    let per_channel = (dy[2] * dy[3]).max(1);
    let with_bias = |(at, sum): (usize, Double)| {
        let bias = bias.as_ref().map_or(0.0, |bias| bias.of[at / per_channel % dy[1]]);
        sum.normalized() + Double::of(bias)
    };
    let sums: Vec<Double> = sums.into_iter().enumerate().map(with_bias).collect();
    let op = Conv::<f64>::new(ConvForm::Conv2d, [ConvAxis::PLAIN; 2], groups);
    Ok(vec![want(case, &op, "y", &sums)?])
}
