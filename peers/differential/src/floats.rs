//! Ops on floats.
use crate::call::Call;
use crate::on_both::{FloatCall, on_both, texts};
use crate::operand::{How, Operand, Random};
use crate::report::Report;
use candle_core::{Tensor, WithDType};
use candle_nn::{ops, rotary_emb};
use rocm_ops::ops::registry::OpsOnFloats;
use rocm_ops::ops::*;
use rocm_ops::{Cpu, Float, Host, Result, TensorOf, TensorRef, bf16, f16};

#[derive(Clone, Copy)]
enum FloatOp {
    Unary(UnaryFn),
    Powf(f64),
    Elu(f64),
    Affine(f64, f64),
    Clamp(f64, f64),
    Pow,
    Swiglu,
    Mean(usize),
    CumSum(usize),
    Softmax(usize, bool),
    RmsNorm,
    LayerNorm,
    Rope(RopeForm),
    MatMul,
}
use FloatOp::*;

impl FloatOp {
    fn name(self) -> &'static str {
        match self {
            Unary(f) => f.name(),
            Powf(_) => "powf",
            Elu(_) => "elu",
            Affine(..) => "affine",
            Clamp(..) => "clamp",
            Pow => "pow",
            Swiglu => "swiglu",
            Mean(_) => "mean",
            CumSum(_) => "cumsum",
            Softmax(_, false) => "softmax",
            Softmax(..) => "log_softmax",
            RmsNorm => "rms_norm",
            LayerNorm => "layer_norm",
            Rope(RopeForm::Half) => "rope",
            Rope(RopeForm::Interleaved) => "rope_i",
            Rope(_) => "rope_thd",
            MatMul => "matmul",
        }
    }

    /// Extents of the operands.
    fn shapes(self, random: &mut Random) -> Vec<Vec<usize>> {
        let last = |dims: &[usize]| vec![dims[dims.len() - 1]];
        match self {
            Pow | Swiglu => vec![random.dims(1); 2],
            RmsNorm => {
                let dims = random.dims(1);
                vec![dims.clone(), last(&dims)]
            }
            LayerNorm => {
                let dims = random.dims(1);
                vec![dims.clone(), last(&dims), last(&dims)]
            }
            Rope(form) => {
                let [b, h, t] = [1, 1, 1].map(|_| 1 + random.below(4));
                let (d, rows) = (2 * (1 + random.below(8)), t + random.below(2));
                let x = if form == RopeForm::HalfThd { vec![b, t, h, d] } else { vec![b, h, t, d] };
                vec![x, vec![rows, d / 2], vec![rows, d / 2]]
            }
            MatMul => {
                let [m, k, n] = [1, 1, 1].map(|_| 1 + random.below(40));
                let batch: Vec<usize> = (0..random.below(3)).map(|_| 1 + random.below(3)).collect();
                vec![[&batch[..], &[m, k]].concat(), [&batch[..], &[k, n]].concat()]
            }
            _ => vec![random.dims(1)],
        }
    }

    /// An axis of the drawn shape instead of the one in the list.
    fn along(self, random: &mut Random, rank: usize) -> Self {
        match self {
            Mean(_) => Mean(random.below(rank)),
            CumSum(_) => CumSum(random.below(rank)),
            Softmax(_, log) => Softmax(random.below(rank), log),
            other => other,
        }
    }

    fn is_elementwise(self) -> bool {
        matches!(self, Unary(_) | Powf(_) | Elu(_) | Affine(..) | Clamp(..))
    }
}

impl FloatCall for FloatOp {
    fn ours<T: Float, B: OpsOnFloats<T, Space = Host>>(
        self,
        b: &B,
        x: &[TensorRef<'_, Host, T>],
    ) -> Result<TensorOf<B, T>> {
        match self {
            Unary(f) => b.unary(x[0], f),
            Powf(e) => b.powf(x[0], e),
            Elu(alpha) => b.elu(x[0], alpha),
            Affine(mul, add) => b.affine(x[0], mul, add),
            Clamp(min, max) => b.clamp(x[0], T::from_f64(min), T::from_f64(max)),
            Pow => b.pow(x[0], x[1]),
            Swiglu => b.swiglu(x[0], x[1]),
            Mean(axis) => b.mean(x[0], axis as isize),
            CumSum(axis) => b.cumsum(x[0], axis as isize),
            Softmax(axis, log) => {
                let op = rocm_ops::ops::Softmax::axis(axis as isize);
                b.softmax(x[0], if log { op.log() } else { op })
            }
            RmsNorm => b.rms_norm(x[0], x[1].any(), rocm_ops::ops::RmsNorm::eps(1e-5)),
            LayerNorm => {
                let op = rocm_ops::ops::LayerNorm::eps(1e-5);
                b.layer_norm(x[0], Some(x[1].any()), Some(x[2].any()), op)
            }
            Rope(form) => b.rope(x[0], x[1].any(), x[2].any(), rocm_ops::ops::Rope::new(form)),
            MatMul => b.matmul(x[0], x[1]),
        }
    }

    fn theirs(self, x: &[Tensor]) -> candle_core::Result<Tensor> {
        match self {
            Unary(f) => unary(f, &x[0]),
            Powf(e) => x[0].powf(e),
            Elu(alpha) => x[0].elu(alpha),
            Affine(mul, add) => x[0].affine(mul, add),
            Clamp(min, max) => x[0].clamp(min, max),
            Pow => x[0].pow(&x[1]),
            Swiglu => ops::silu(&x[0])? * &x[1],
            Mean(axis) => x[0].mean(axis),
            CumSum(axis) => x[0].cumsum(axis),
            Softmax(axis, false) if axis + 1 == x[0].rank() => ops::softmax_last_dim(&x[0]),
            Softmax(axis, false) => ops::softmax(&x[0], axis),
            Softmax(axis, true) => ops::log_softmax(&x[0], axis),
            RmsNorm => ops::rms_norm(&x[0], &x[1], 1e-5),
            LayerNorm => ops::layer_norm(&x[0], &x[1], &x[2], 1e-5),
            Rope(RopeForm::Half) => rotary_emb::rope(&x[0], &x[1], &x[2]),
            Rope(RopeForm::Interleaved) => rotary_emb::rope_i(&x[0], &x[1], &x[2]),
            Rope(_) => rotary_emb::rope_thd(&x[0], &x[1], &x[2]),
            MatMul => x[0].matmul(&x[1]),
        }
    }
}

fn unary(f: UnaryFn, x: &Tensor) -> candle_core::Result<Tensor> {
    match f {
        UnaryFn::Sigmoid => ops::sigmoid(x),
        UnaryFn::Silu => x.silu(),
        UnaryFn::Relu => x.relu(),
        UnaryFn::Gelu => x.gelu(),
        UnaryFn::GeluErf => x.gelu_erf(),
        UnaryFn::Tanh => x.tanh(),
        UnaryFn::Erf => x.erf(),
        UnaryFn::Exp => x.exp(),
        UnaryFn::Log => x.log(),
        UnaryFn::Sin => x.sin(),
        UnaryFn::Cos => x.cos(),
        UnaryFn::Sqrt => x.sqrt(),
        UnaryFn::Recip => x.recip(),
        UnaryFn::Neg => x.neg(),
        UnaryFn::Abs => x.abs(),
        UnaryFn::Sqr => x.sqr(),
        UnaryFn::Sign => x.sign(),
        UnaryFn::Floor => x.floor(),
        UnaryFn::Ceil => x.ceil(),
        UnaryFn::Round => x.round(),
        other => candle_core::bail!("no {}", other.name()),
    }
}

const OTHERS: [FloatOp; 17] = [
    Powf(2.5),
    Powf(-1.0),
    Elu(0.7),
    Affine(1.7, -0.3),
    Clamp(-0.5, 0.75),
    Pow,
    Swiglu,
    Mean(0),
    CumSum(0),
    Softmax(0, false),
    Softmax(0, true),
    RmsNorm,
    LayerNorm,
    Rope(RopeForm::Half),
    Rope(RopeForm::Interleaved),
    Rope(RopeForm::HalfThd),
    MatMul,
];

pub(crate) fn compare(report: &mut Report, rounds: u64, seed: u64) {
    let only_here = [UnaryFn::Expm1, UnaryFn::Log1p, UnaryFn::Softplus, UnaryFn::Trunc];
    let unary = UnaryFn::ALL.into_iter().filter(|f| !only_here.contains(f)).map(Unary);
    for op in unary.chain(OTHERS) {
        for round in 0..rounds {
            let mut random = Random::new(seed * 1_000_003 + round * 31 + op.name().len() as u64);
            once::<f32>(report, op, &mut random, 2e-5);
            once::<f64>(report, op, &mut random, 1e-12);
            once::<f16>(report, op, &mut random, 1.1e-3);
            once::<bf16>(report, op, &mut random, 9e-3);
        }
    }
}

fn once<T: Float + WithDType>(report: &mut Report, op: FloatOp, random: &mut Random, rounding: f64)
where
    Cpu: OpsOnFloats<T, Space = Host>,
{
    let shapes = op.shapes(random);
    let op = op.along(random, shapes[0].len());
    // One call in eight of elementwise functions has special values.
    let special = op.is_elementwise() && random.below(8) == 0;
    let operands: Vec<Operand<T>> = shapes
        .iter()
        .map(|dims| {
            let how = How::any(random, dims.len());
            Operand::new(random, dims, how, &mut |random| match random.below(if special {
                5
            } else {
                1 << 30
            }) {
                1 => f64::NAN,
                2 => f64::INFINITY,
                3 => f64::NEG_INFINITY,
                _ => random.normal(),
            })
        })
        .collect();
    let text = texts(&operands);
    let dtype = <T as rocm_ops::Element>::DTYPE.name();
    let terms = if matches!(op, Mean(_) | CumSum(_) | MatMul) { operands[0].largest() } else { 0.0 };
    on_both(report, op, &Call { op: op.name(), dtype, text, special, rounding, terms }, &operands);
}
