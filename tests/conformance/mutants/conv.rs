//! Wrong convolutions.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{DType, Float, Host, Layout, bf16, f16};

/// What a wrong convolution does differently.
#[derive(Clone, Copy)]
struct Wrong {
    /// The element of `x` along an axis, for an element of `y` and one of the kernel.
    source: fn(&ConvGeometry, usize, usize, usize) -> Option<usize>,
    /// The group of an output channel.
    group: fn(&ConvGeometry, usize) -> usize,
    /// The input channels of a group that are read.
    inputs: fn(usize) -> usize,
    /// The element of the kernel that is used for element `t` of `k`.
    element: fn(usize, usize) -> usize,
    sum: fn(f64) -> f64,
}

const RIGHT: Wrong = Wrong {
    source: |g, at, i, t| g.source(at, i, t),
    group: |g, o| o / g.outputs,
    inputs: |n| n,
    element: |t, _| t,
    sum: |v| v,
};

fn place(dims: [usize; 4], [a, b, c, d]: [usize; 4]) -> usize {
    ((a * dims[1] + b) * dims[2] + c) * dims[3] + d
}

fn convolve<T>(op: &Conv<T>, o: &mut NamedTensors<Host>, wrong: Wrong) {
    let [x, weight, y] = ["x", "weight", "y"].map(|name| *o[name].layout());
    let (g, layouts) = op.geometry(&x, &weight, &y).expect("layouts that the gate accepted");
    let dims = layouts.map(|layout| core::array::from_fn::<usize, 4, _>(|at| layout.dims()[at]));
    let (x, weight, bias) = (values(&o["x"]), values(&o["weight"]), optional(o.get("bias")));
    let mut sums = Vec::new();
    for at in 0..y.len() {
        let [h, w] = g.y;
        let (b, channel, row, column) =
            (at / (h * w) / dims[2][1], at / (h * w) % dims[2][1], at / w % h, at % w);
        let (group, out) = ((wrong.group)(&g, channel), channel % g.outputs);
        let mut terms = vec![];
        for c in 0..(wrong.inputs)(g.inputs) {
            for (t, u) in (0..g.kernel[0]).flat_map(|t| (0..g.kernel[1]).map(move |u| (t, u))) {
                let (Some(i), Some(j)) = ((wrong.source)(&g, 0, row, t), (wrong.source)(&g, 1, column, u))
                else {
                    continue;
                };
                let (t, u) = ((wrong.element)(t, g.kernel[0]), (wrong.element)(u, g.kernel[1]));
                let input = group * g.inputs + c;
                let of_weight = if g.transposed { [input, out, t, u] } else { [channel, c, t, u] };
                terms.push(x[place(dims[0], [b, input, i, j])] * weight[place(dims[1], of_weight)]);
            }
        }
        let bias = bias.as_ref().map_or(0.0, |bias| bias[channel]);
        sums.push(sum_rounded(terms, wrong.sum) + bias);
    }
    set(&mut o["y"], sums);
}

fn mutant<T: Float>(name: &'static str, form: ConvForm, wrong: Wrong) -> Mutant {
    Mutant::instead::<Conv<T>>(name, form.name(), T::DTYPE, move |op, o| convolve(op, o, wrong))
}

/// The source if one of the axis's options were different.
fn with(g: &ConvGeometry, at: usize, i: usize, t: usize, change: impl Fn(&mut ConvAxis)) -> Option<usize> {
    let mut g = *g;
    change(&mut g.axes[at]);
    g.source(at, i, t)
}

/// Bugs of any convolution.
fn of_form(form: ConvForm) -> Vec<Mutant> {
    let flipped = Wrong { element: |t, k| k - 1 - t, ..RIGHT };
    let dilation = Wrong { source: |g, at, i, t| with(g, at, i, t, |axis| axis.dilation = 1), ..RIGHT };
    let padding = Wrong {
        source: |g, at, i, t| with(g, at, i, t, |axis| axis.padding = axis.padding.saturating_sub(1)),
        ..RIGHT
    };
    let group = Wrong { group: |g, o| o % g.groups, ..RIGHT };
    let first = Wrong { group: |_, _| 0, ..RIGHT };
    let stride = Wrong { source: |g, at, i, t| with(g, at, i, t, |axis| axis.stride = 1), ..RIGHT };
    let odd = Wrong { inputs: |n| if n > 1 { n & !1 } else { n }, ..RIGHT };
    vec![
        mutant::<f32>("kernel flipped", form, flipped),
        mutant::<f32>("dilation ignored", form, dilation),
        mutant::<f32>("padding off by one", form, padding),
        mutant::<f32>("stride ignored", form, stride),
        mutant::<f32>("groups of channels interleaved", form, group),
        mutant::<f16>("first group for every output", form, first),
        mutant::<f64>("last of odd channels missed", form, odd),
        mutant::<bf16>("summed in bf16", form, Wrong { sum: brain, ..RIGHT }),
        Mutant::before::<Conv<f32>>("bias ignored", form.name(), DType::F32, |_, o| drop(o.remove("bias"))),
        Mutant::before::<Conv<f32>>("x read without its strides", form.name(), DType::F32, |_, o| {
            relayout(&mut o["x"], forget_strides);
        }),
        Mutant::before::<Conv<f32>>("weight read without its strides", form.name(), DType::F32, |_, o| {
            relayout(&mut o["weight"], forget_strides);
        }),
        Mutant::overrun(form.name(), DType::F16),
    ]
}

pub(super) fn mutants() -> Vec<Mutant> {
    let clamped = Wrong {
        source: |g, at, i, t| {
            let axis = g.axes[at];
            let from = (i * axis.stride + t * axis.dilation).saturating_sub(axis.padding);
            g.x[at].checked_sub(1).map(|last| from.min(last))
        },
        ..RIGHT
    };
    let exchanged = Wrong {
        source: |g, at, i, t| with(g, at, i, t, |axis| axis.stride = g.axes[1 - at].stride),
        ..RIGHT
    };
    let before = Wrong {
        source: |g, at, i, t| {
            with(g, at, i, t, |axis| axis.padding = axis.padding.saturating_sub(axis.output_padding))
        },
        ..RIGHT
    };
    let both = [
        mutant::<f32>("edges repeated instead of zeros", ConvForm::Conv2d, clamped),
        mutant::<f32>("strides of the axes exchanged", ConvForm::Conv2d, exchanged),
        mutant::<f32>("strides of the axes exchanged", ConvForm::Transpose2d, exchanged),
        mutant::<f32>("output padding before the first element", ConvForm::Transpose2d, before),
        mutant::<f32>("output padding before the first element", ConvForm::Transpose1d, before),
        Mutant::before::<Conv<f32>>("first image for every batch element", "conv2d", DType::F32, |_, o| {
            relayout(&mut o["x"], |l| {
                let mut strides = l.strides().to_vec();
                strides[0] = 0;
                Layout::strided(l.dims(), &strides, l.offset()).ok()
            });
        }),
        Mutant::declines("conv1d", DType::F32),
        Mutant::declines_late("conv_transpose2d", DType::F32),
    ];
    ConvForm::ALL.into_iter().flat_map(of_form).chain(both).collect()
}
