//! Wrong reductions.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, DType, Host, Num, bf16, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

/// The elements of each output, in row-major order.
fn groups(axes: Axes, x: &AnyTensor<Host>, y: &AnyTensor<Host>) -> Vec<Vec<f64>> {
    let x = (*x.layout(), values(x));
    let mask = axes.mask("test", &x.0.shape()).expect("axes that the gate accepted");
    let mut groups = vec![Vec::new(); y.layout().len()];
    for (at, value) in x.1.iter().enumerate() {
        let index = x.0.index_of(at);
        let kept = index.iter().zip(x.0.dims()).zip(mask).filter(|(_, reduced)| !reduced);
        let output = kept.fold(0, |output, ((i, d), _)| output * d + i);
        groups[output].push(*value);
    }
    groups
}

/// Another definition of a reduction.
fn reduction<T: Num>(name: &'static str, op: &'static str, wrong: fn(&[f64]) -> f64) -> Mutant {
    Mutant::instead::<Reduce<T>>(name, op, T::DTYPE, move |op, o| {
        let y: Vec<f64> = groups(op.axes(), &o["x"], &o["y"]).iter().map(|group| wrong(group)).collect();
        set(&mut o["y"], y);
    })
}

/// Another definition of an argmax or argmin.
fn index<T: Num>(name: &'static str, op: &'static str, wrong: fn(&[f64]) -> usize) -> Mutant {
    Mutant::instead::<ArgReduce<T>>(name, op, T::DTYPE, move |op, o| {
        let groups = groups(Axes::from(op.axis), &o["x"], &o["y"]);
        set(&mut o["y"], groups.iter().map(|group| wrong(group) as f64).collect::<Vec<_>>());
    })
}

fn best(x: &[f64], wins: impl Fn(f64, f64) -> bool) -> usize {
    (1..x.len()).fold(0, |best, i| if wins(x[i], x[best]) { i } else { best })
}

/// Without the last elements of long rows.
fn shortened(x: &[f64]) -> &[f64] {
    if x.len() > 4096 { &x[..4096] } else { x }
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        reduction::<f32>("one running sum in f32", "sum", |x| sum_rounded(x.iter().copied(), single)),
        reduction::<f16>("accumulated in f16", "sum", |x| sum_rounded(x.iter().copied(), half)),
        reduction::<bf16>("accumulated in bf16", "mean", |x| {
            sum_rounded(x.iter().copied(), brain) / x.len() as f64
        }),
        reduction::<f32>("tail of long rows missed", "sum", |x| shortened(x).iter().sum()),
        reduction::<i8>("saturated", "sum", |x| x.iter().sum::<f64>().clamp(-128.0, 127.0)),
        reduction::<u8>("saturated", "prod", |x| x.iter().product::<f64>().min(255.0)),
        reduction::<i32>("integers through f32", "sum", |x| {
            sum_rounded(x.iter().copied(), single) as i64 as i32 as f64
        }),
        reduction::<f32>("0 for no elements", "mean", |x| if x.is_empty() { 0.0 } else { mean(x) }),
        reduction::<f32>("divided by one less", "mean", |x| x.iter().sum::<f64>() / (x.len() as f64 - 1.0)),
        reduction::<f32>(
            "0 for no elements",
            "prod",
            |x| if x.is_empty() { 0.0 } else { x.iter().product() },
        ),
        reduction::<f32>("accumulated in f16", "prod", |x| x.iter().fold(1.0, |p, v| half(p * v))),
        reduction::<f32>("NaN dropped", "max", |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        reduction::<f16>("NaN lost to what comes after it", "min", |x| {
            x.iter().copied().fold(f64::INFINITY, |m, v| if m < v { m } else { v })
        }),
        reduction::<f32>("starts from 0", "max", |x| {
            x.iter()
                .copied()
                .fold(0.0, |m: f64, v| if m.is_nan() || v.is_nan() { f64::NAN } else { m.max(v) })
        }),
        reduction::<i16>("starts from 0", "min", |x| x.iter().copied().fold(0.0, f64::min)),
        reduction::<f32>("tail of long rows missed", "max", |x| {
            shortened(x)
                .iter()
                .copied()
                .fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > v { m } else { v })
        }),
        reduction::<u32>("compared as signed", "max", |x| {
            let signed = |v: f64| v as u32 as i32;
            x[best(x, |a, b| signed(a) > signed(b))]
        }),
        Mutant::before::<Reduce<f32>>("x read without its strides", "sum", F32, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        Mutant::before::<ArgReduce<f32>>("x read without its strides", "argmax", F32, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        index::<f32>("the last among equal elements", "argmax", |x| {
            best(x, |a, b| !b.is_nan() && (a.is_nan() || a >= b))
        }),
        index::<f32>("NaN loses", "argmax", |x| best(x, |a, b| a > b || b.is_nan() && !a.is_nan())),
        index::<f16>("the last NaN", "argmax", |x| best(x, |a, b| a.is_nan() || !b.is_nan() && a > b)),
        index::<f32>("compared as bits, so −0 is below 0", "argmax", |x| {
            best(x, |a, b| !b.is_nan() && (a.is_nan() || a.total_cmp(&b).is_gt()))
        }),
        index::<f32>("NaN is the largest, so it loses", "argmin", |x| {
            best(x, |a, b| a < b || b.is_nan() && !a.is_nan())
        }),
        index::<i32>("modulo 256", "argmin", |x| best(x, |a, b| a < b) % 256),
        index::<u8>("compared as signed", "argmax", |x| best(x, |a, b| a as u8 as i8 > b as u8 as i8)),
        Mutant::overrun("sum", F16),
        Mutant::overrun("argmin", F32),
        Mutant::declines("max", F32),
    ]
}
