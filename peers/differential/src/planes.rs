//! Ops on lines and planes: convolutions, pools, upsampling, batch normalization.
use crate::call::Call;
use crate::on_both::{FloatCall, on_both, texts};
use crate::operand::{How, Operand, Random};
use crate::report::Report;
use candle_core::{Tensor, WithDType};
use candle_nn::ModuleT;
use rocm_ops::ops::registry::OpsOnFloats;
use rocm_ops::ops::*;
use rocm_ops::{Cpu, Float, Host, Result, TensorOf, TensorRef, bf16, f16};

/// An op with its options, which are the same along both axes, as candle requires.
#[derive(Clone, Copy, Debug)]
enum PlaneOp {
    Conv1d(Steps),
    Conv2d(Steps),
    ConvTranspose1d(Steps, usize),
    ConvTranspose2d(Steps, usize),
    Pool { max: bool, kernel: usize, stride: usize },
    Nearest1d(usize),
    Nearest2d([usize; 2]),
    Bilinear([usize; 2], bool),
    BatchNorm,
}
use PlaneOp::*;

#[derive(Clone, Copy, Debug)]
struct Steps {
    stride: usize,
    padding: usize,
    dilation: usize,
    groups: usize,
}

impl PlaneOp {
    fn any(random: &mut Random) -> Self {
        let [stride, dilation, groups] = [0; 3].map(|_| 1 + random.below(3));
        let steps = Steps { stride, padding: random.below(3), dilation, groups };
        let (output, size) = (random.below(stride), [0; 2].map(|_| 1 + random.below(12)));
        match random.below(9) {
            0 => Conv1d(steps),
            1 => Conv2d(steps),
            // candle has no groups in transposed convolutions of planes.
            2 => ConvTranspose1d(steps, output),
            3 => ConvTranspose2d(Steps { groups: 1, ..steps }, output),
            4 => Pool { max: random.below(2) == 0, kernel: 1 + random.below(3), stride },
            5 => Nearest1d(size[0]),
            6 => Nearest2d(size),
            7 => Bilinear(size, random.below(2) == 0),
            _ => BatchNorm,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Conv1d(_) => "conv1d",
            Conv2d(_) => "conv2d",
            ConvTranspose1d(..) => "conv_transpose1d",
            ConvTranspose2d(..) => "conv_transpose2d",
            Pool { max: true, .. } => "max_pool2d",
            Pool { .. } => "avg_pool2d",
            Nearest1d(_) => "upsample_nearest1d",
            Nearest2d(_) => "upsample_nearest2d",
            Bilinear(..) => "upsample_bilinear2d",
            BatchNorm => "batch_norm",
        }
    }

    /// Extents of the operands.
    fn shapes(self, random: &mut Random) -> Vec<Vec<usize>> {
        let [batch, outputs] = [0; 2].map(|_| 1 + random.below(3));
        let [h, w] = [0; 2].map(|_| 6 + random.below(8));
        let [k, l] = [0; 2].map(|_| 1 + random.below(3));
        match self {
            Conv1d(Steps { groups: g, .. }) => vec![vec![batch, 2 * g, w], vec![outputs * g, 2, k]],
            Conv2d(Steps { groups: g, .. }) => vec![vec![batch, 2 * g, h, w], vec![outputs * g, 2, k, l]],
            ConvTranspose1d(Steps { groups: g, .. }, _) => {
                vec![vec![batch, 2 * g, w], vec![2 * g, outputs, k]]
            }
            ConvTranspose2d(..) => vec![vec![batch, 2, h, w], vec![2, outputs, k, l]],
            Nearest1d(_) => vec![vec![batch, 2, w]],
            BatchNorm => [&[vec![batch, 3, h, w]][..], &vec![vec![3]; 4]].concat(),
            Pool { .. } | Nearest2d(_) | Bilinear(..) => vec![vec![batch, 2, h, w]],
        }
    }
}

impl FloatCall for PlaneOp {
    fn ours<T: Float, B: OpsOnFloats<T, Space = Host>>(
        self,
        b: &B,
        x: &[TensorRef<'_, Host, T>],
    ) -> Result<TensorOf<B, T>> {
        match self {
            Conv1d(Steps { stride, padding, dilation, groups }) => {
                let options = rocm_ops::ops::Conv1d::new().stride(stride).padding(padding);
                b.conv1d(x[0], x[1], None, options.dilation(dilation).groups(groups))
            }
            Conv2d(Steps { stride, padding, dilation, groups }) => {
                let options = rocm_ops::ops::Conv2d::new().stride(stride).padding(padding);
                b.conv2d(x[0], x[1], None, options.dilation(dilation).groups(groups))
            }
            ConvTranspose1d(Steps { stride, padding, dilation, groups }, output) => {
                let options = rocm_ops::ops::ConvTranspose1d::new().stride(stride).padding(padding);
                let options = options.dilation(dilation).groups(groups).output_padding(output);
                b.conv_transpose1d(x[0], x[1], None, options)
            }
            ConvTranspose2d(Steps { stride, padding, dilation, .. }, output) => {
                let options = rocm_ops::ops::ConvTranspose2d::new().stride(stride).padding(padding);
                b.conv_transpose2d(x[0], x[1], None, options.dilation(dilation).output_padding(output))
            }
            Pool { max, kernel, stride } => {
                let windows = Windows::of([kernel; 2]).stride([stride; 2]);
                if max { b.max_pool2d(x[0], windows) } else { b.avg_pool2d(x[0], windows) }
            }
            Nearest1d(size) => b.upsample_nearest1d(x[0], size),
            Nearest2d(size) => b.upsample_nearest2d(x[0], size),
            Bilinear(size, corners) => b.upsample_bilinear2d(x[0], size, corners),
            BatchNorm => {
                let affine = ScaleShift { weight: Some(x[1].any()), bias: Some(x[2].any()) };
                b.batch_norm(x[0], affine, x[3].any(), x[4].any(), rocm_ops::ops::BatchNorm::eps(1e-5))
            }
        }
    }

    fn theirs(self, x: &[Tensor]) -> candle_core::Result<Tensor> {
        match self {
            Conv1d(s) => x[0].conv1d(&x[1], s.padding, s.stride, s.dilation, s.groups),
            Conv2d(s) => x[0].conv2d(&x[1], s.padding, s.stride, s.dilation, s.groups),
            ConvTranspose1d(s, output) => {
                x[0].conv_transpose1d(&x[1], s.padding, output, s.stride, s.dilation, s.groups)
            }
            ConvTranspose2d(s, output) => {
                x[0].conv_transpose2d(&x[1], s.padding, output, s.stride, s.dilation)
            }
            Pool { max: true, kernel, stride } => x[0].max_pool2d_with_stride(kernel, stride),
            Pool { kernel, stride, .. } => x[0].avg_pool2d_with_stride(kernel, stride),
            Nearest1d(size) => x[0].upsample_nearest1d(size),
            Nearest2d([h, w]) => x[0].upsample_nearest2d(h, w),
            Bilinear([h, w], corners) => x[0].upsample_bilinear2d(h, w, corners),
            BatchNorm => {
                let [weight, bias, mean, var] = [1, 2, 3, 4].map(|i| x[i].clone());
                candle_nn::BatchNorm::new(3, mean, var, weight, bias, 1e-5)?.forward_t(&x[0], false)
            }
        }
    }
}

pub(crate) fn compare(report: &mut Report, rounds: u64, seed: u64) {
    for round in 0..20 * rounds {
        let random = &mut Random::new(seed * 9_000_011 + round);
        let op = PlaneOp::any(random);
        once::<f32>(report, op, random, 2e-5);
        once::<f64>(report, op, random, 1e-12);
        once::<f16>(report, op, random, 1.1e-3);
        once::<bf16>(report, op, random, 9e-3);
    }
}

fn once<T: Float + WithDType>(report: &mut Report, op: PlaneOp, random: &mut Random, rounding: f64)
where
    Cpu: OpsOnFloats<T, Space = Host>,
{
    let shapes = op.shapes(random);
    let operands: Vec<Operand<T>> = shapes
        .iter()
        .enumerate()
        .map(|(at, dims)| {
            let how = How::any(random, dims.len());
            // The last operand of batch_norm is a variance.
            let positive = at == 4;
            Operand::new(random, dims, how, &mut |random| {
                let value = random.normal();
                if positive { value.abs() + 0.1 } else { value }
            })
        })
        .collect();
    let text = format!("{op:?}: {}", texts(&operands));
    let dtype = <T as rocm_ops::Element>::DTYPE.name();
    let terms = operands[0].largest();
    on_both(report, op, &Call { op: op.name(), dtype, text, special: false, rounding, terms }, &operands);
}
