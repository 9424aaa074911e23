//! Wrong running sums and products, and wrong orders.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, DType, Host, Num, bf16, f16};

const F32: DType = DType::F32;

/// The positions of each line along an axis, in row-major order of the whole tensor.
fn lines(x: &AnyTensor<Host>, axis: isize) -> Vec<Vec<usize>> {
    let dims = x.dims();
    let axis = axis.rem_euclid(dims.len() as isize) as usize;
    let (n, inner) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    let firsts = (0..x.layout().len()).filter(|at| at / inner % n == 0);
    firsts.map(|first| (0..n).map(|i| first + i * inner).collect()).collect()
}

/// Another definition of a line's running sums.
fn sums<T: Num>(name: &'static str, wrong: fn(&[f64]) -> Vec<f64>) -> Mutant {
    scan::<T>(name, ScanFn::Sum, wrong)
}

/// Another definition of a line's running products.
fn products<T: Num>(name: &'static str, wrong: fn(&[f64]) -> Vec<f64>) -> Mutant {
    scan::<T>(name, ScanFn::Prod, wrong)
}

fn scan<T: Num>(name: &'static str, f: ScanFn, wrong: fn(&[f64]) -> Vec<f64>) -> Mutant {
    Mutant::instead::<Scan<T>>(name, f.name(), T::DTYPE, move |op, o| {
        let x = values(&o["x"]);
        let mut y = vec![0.0; x.len()];
        for line in lines(&o["x"], op.axis) {
            let elements: Vec<f64> = line.iter().map(|at| x[*at]).collect();
            line.iter().zip(wrong(&elements)).for_each(|(at, v)| y[*at] = v);
        }
        set(&mut o["y"], y);
    })
}

fn running(x: &[f64], round: fn(f64) -> f64) -> Vec<f64> {
    let mut sum = 0.0;
    let step = |v: &f64| {
        sum = round(sum + v);
        sum
    };
    x.iter().map(step).collect()
}

fn multiplied(x: &[f64], round: fn(f64) -> f64) -> Vec<f64> {
    let mut product = 1.0;
    let step = |v: &f64| {
        product = round(product * v);
        product
    };
    x.iter().map(step).collect()
}

/// Another order of a line's elements.
fn order<T: Num>(name: &'static str, wrong: fn(&[f64], bool) -> Vec<usize>) -> Mutant {
    Mutant::instead::<ArgSort<T>>(name, "argsort", T::DTYPE, move |op, o| {
        let x = values(&o["x"]);
        let mut y = vec![0.0; x.len()];
        for line in lines(&o["x"], op.axis) {
            let elements: Vec<f64> = line.iter().map(|at| x[*at]).collect();
            let order = wrong(&elements, op.descending);
            line.iter().zip(order).for_each(|(at, index)| y[*at] = index as f64);
        }
        set(&mut o["y"], y);
    })
}

/// NaN is the largest.
fn compare(a: f64, b: f64) -> std::cmp::Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

fn sorted(x: &[f64], descending: bool, compare: impl Fn(f64, f64) -> std::cmp::Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|i, j| if descending { compare(x[*j], x[*i]) } else { compare(x[*i], x[*j]) });
    order
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        sums::<f16>("accumulated in f16", |x| running(x, half)),
        sums::<bf16>("accumulated in bf16", |x| running(x, brain)),
        sums::<f32>("without the element itself", |x| {
            running(x, |v| v).iter().zip(x).map(|(s, v)| s - v).collect()
        }),
        sums::<f32>("a carry lost every 4096 elements", |x| {
            x.chunks(4096).flat_map(|x| running(x, |v| v)).collect()
        }),
        sums::<i8>("saturated", |x| running(x, |v| v.clamp(-128.0, 127.0))),
        sums::<f64>("f64 through f32", |x| running(x, single)),
        Mutant::before::<Scan<f32>>("along the last axis", "cumsum", F32, |op, _| {
            *op = Scan::of(op.function(), -1);
        }),
        Mutant::overrun("cumsum", F32),
        products::<f16>("accumulated in f16", |x| multiplied(x, half)),
        products::<bf16>("accumulated in bf16", |x| multiplied(x, brain)),
        products::<f32>("without the element itself", |x| {
            multiplied(x, |v| v).iter().zip(x).map(|(p, v)| p / v).collect()
        }),
        products::<f32>("a carry lost every 4096 elements", |x| {
            x.chunks(4096).flat_map(|x| multiplied(x, |v| v)).collect()
        }),
        products::<i8>("saturated", |x| multiplied(x, |v| v.clamp(-128.0, 127.0))),
        products::<f64>("f64 through f32", |x| multiplied(x, single)),
        products::<f32>("by logarithms, which negative numbers lack", |x| {
            running(&x.iter().map(|v| v.ln()).collect::<Vec<_>>(), |v| v).into_iter().map(f64::exp).collect()
        }),
        Mutant::before::<Scan<i32>>("a sum", "cumprod", DType::I32, |op, _| {
            *op = Scan::of(ScanFn::Sum, op.axis);
        }),
        Mutant::overrun("cumprod", F32),
        order::<f32>("not stable", |x, descending| {
            let mut order = sorted(x, descending, compare);
            for i in 1..order.len() {
                if x[order[i - 1]] == x[order[i]] && i % 50 == 7 {
                    order.swap(i - 1, i);
                }
            }
            order
        }),
        order::<f32>("descending is ascending reversed", |x, descending| {
            let mut order = sorted(x, false, compare);
            if descending {
                order.reverse();
            }
            order
        }),
        order::<f32>("NaN first in ascending order", |x, descending| {
            sorted(x, descending, |a, b| a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan())))
        }),
        order::<f32>("compared as bits", |x, descending| sorted(x, descending, |a, b| a.total_cmp(&b))),
        order::<i16>("compared as unsigned", |x, descending| {
            sorted(x, descending, |a, b| (a as i16 as u16).cmp(&(b as i16 as u16)))
        }),
        order::<f32>("parts of 1024 sorted by themselves", |x, descending| {
            let parts = x.chunks(1024).enumerate();
            parts
                .flat_map(|(i, x)| sorted(x, descending, compare).into_iter().map(move |at| i * 1024 + at))
                .collect()
        }),
        Mutant::before::<Sort<f32>>("always ascending", "sort", F32, |op, _| op.descending = false),
        Mutant::before::<Sort<f32>>("always the last axis", "sort", F32, |op, _| op.axis = -1),
        Mutant::before::<Sort<f16>>("x read without its strides", "sort", DType::F16, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        Mutant::overrun("argsort", F32),
        Mutant::after::<TopK<f32>>("ties to the higher index", "topk", F32, |_, o| {
            let (n, k) = (last(&o["x"]), last(&o["indices"]));
            let (x, found) = (values(&o["x"]), values(&o["indices"]));
            edit::<u32>(&mut o["indices"], |at, index| {
                let row = &x[at / k * n..][..n];
                let same = |i: &usize| row[*i] == row[found[at] as usize];
                (0..n).rev().find(same).map_or(index, |i| i as u32)
            });
        }),
        Mutant::after::<TopK<f32>>("values of the first row", "topk", F32, |_, o| {
            let (k, y) = (last(&o["values"]), values(&o["values"]));
            edit::<f32>(&mut o["values"], |at, _| y[at % k] as f32);
        }),
        Mutant::declines("topk", F32),
    ]
}
