//! Wrong batch norms, pools and upsamplings.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, DType, Float, Host, bf16, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

/// Another definition of batch norm, for an element and its channel's weight, bias, mean and variance.
fn batch<T: Float>(name: &'static str, wrong: fn(f64, [f64; 4], f64) -> f64) -> Mutant {
    Mutant::instead::<BatchNorm<T>>(name, "batch_norm", T::DTYPE, move |op, o| {
        let inner = o["x"].dims()[2..].iter().product();
        let y = by_channel(o, inner, |x, parameters| wrong(x, parameters, op.eps));
        set(&mut o["y"], y);
    })
}

/// Computes each element of y from that of x and its channel's values; a channel has `inner` consecutive
/// elements.
fn by_channel(o: &NamedTensors<Host>, inner: usize, f: impl Fn(f64, [f64; 4]) -> f64) -> Vec<f64> {
    let dims = o["x"].dims().to_vec();
    let (mean, var) = (values(&o["mean"]), values(&o["var"]));
    let (weight, bias) = (optional(o.get("weight")), optional(o.get("bias")));
    let of = |(at, x): (usize, &f64)| {
        let c = at / inner % dims[1];
        let (weight, bias) = (weight.as_ref().map_or(1.0, |w| w[c]), bias.as_ref().map_or(0.0, |b| b[c]));
        f(*x, [weight, bias, mean[c], var[c]])
    };
    values(&o["x"]).iter().enumerate().map(of).collect()
}

/// A plane of an operand; rows and columns outside it are absent.
struct Plane<'a> {
    x: &'a [f64],
    extents: [usize; 2],
}

impl Plane<'_> {
    fn at(&self, row: isize, column: isize) -> Option<f64> {
        let (row, column) = (usize::try_from(row).ok()?, usize::try_from(column).ok()?);
        (row < self.extents[0] && column < self.extents[1]).then(|| self.x[row * self.extents[1] + column])
    }
}

/// Computes each element of y from the plane of x and its row and column.
fn by_plane(o: &mut NamedTensors<Host>, f: impl Fn(&Plane<'_>, [usize; 2], [usize; 2]) -> f64) {
    let extents =
        |t: &AnyTensor<Host>| <[usize; 2]>::try_from(&t.dims()[t.dims().len() - 2..]).expect("two axes");
    let (from, to) = (extents(&o["x"]), extents(&o["y"]));
    let (x, count) = (values(&o["x"]), o["y"].layout().len());
    let plane = |n: usize| {
        let len = from[0] * from[1];
        Plane { x: &x[n * len..(n + 1) * len], extents: from }
    };
    let of = |at: usize| f(&plane(at / (to[0] * to[1])), [at / to[1] % to[0], at % to[1]], to);
    let y: Vec<f64> = (0..count).map(of).collect();
    set(&mut o["y"], y);
}

/// Another definition of a pool, for the elements of a window; padding is `None`.
fn pool<T: Float>(name: &'static str, op: &'static str, wrong: fn(&[Option<f64>]) -> f64) -> Mutant {
    Mutant::instead::<Pool2d<T>>(name, op, T::DTYPE, move |op, o| {
        let Windows { kernel, stride, padding, .. } = op.windows;
        by_plane(o, |x, at, _| {
            let first = |axis: usize| (at[axis] * stride[axis]) as isize - padding[axis] as isize;
            let of =
                |i: usize| x.at(first(0) + (i / kernel[1]) as isize, first(1) + (i % kernel[1]) as isize);
            wrong(&(0..kernel[0] * kernel[1]).map(of).collect::<Vec<_>>())
        });
    })
}

fn sum(window: &[Option<f64>]) -> f64 {
    window.iter().flatten().sum()
}

/// Another definition of the positions of rows and columns, as fractions between two elements.
fn bilinear(name: &'static str, wrong: fn(usize, usize, usize, bool) -> f64) -> Mutant {
    Mutant::instead::<Upsample<f32>>(name, "upsample_bilinear2d", F32, move |op, o| {
        let corners = op.function() == UpsampleFn::Bilinear2d { align_corners: true };
        by_plane(o, |x, at, to| {
            let place = |axis: usize| {
                let last = x.extents[axis] as f64 - 1.0;
                let place = wrong(at[axis], x.extents[axis], to[axis], corners).clamp(0.0, last);
                let before = place.floor();
                [
                    (before as isize, 1.0 - (place - before)),
                    ((before + 1.0).min(last) as isize, place - before),
                ]
            };
            let mut total = 0.0;
            for (row, by_row) in place(0) {
                for (column, by_column) in place(1) {
                    let weight = by_row * by_column;
                    total += if weight == 0.0 { 0.0 } else { weight * x.at(row, column).unwrap_or(0.0) };
                }
            }
            total
        });
    })
}

fn corners(i: usize, len: usize, size: usize) -> f64 {
    if size < 2 { 0.0 } else { (i * (len - 1)) as f64 / (size - 1) as f64 }
}
fn areas(i: usize, len: usize, size: usize) -> f64 {
    ((i as f64 + 0.5) * len as f64 / size as f64 - 0.5).max(0.0)
}

/// Another nearest element along both axes.
fn nearest<T: Float>(name: &'static str, wrong: fn(usize, usize, usize) -> usize) -> Mutant {
    Mutant::instead::<Upsample<T>>(name, "upsample_nearest2d", T::DTYPE, move |_, o| {
        by_plane(o, |x, at, to| {
            let place =
                |axis: usize| wrong(at[axis], x.extents[axis], to[axis]).min(x.extents[axis] - 1) as isize;
            x.at(place(0), place(1)).unwrap_or(0.0)
        });
    })
}

fn batch_norms() -> Vec<Mutant> {
    vec![
        batch::<f32>("eps outside the root", |x, [w, b, m, v], eps| (x - m) / (v.sqrt() + eps) * w + b),
        batch::<f32>("variance taken for a deviation", |x, [w, b, m, v], eps| (x - m) / (v + eps) * w + b),
        batch::<f32>("weight after bias", |x, [w, b, m, v], eps| ((x - m) / (v + eps).sqrt() + b) * w),
        // Scale and shift of a whole channel: a difference of large numbers.
        batch::<f32>("mean folded into the bias", |x, [w, b, m, v], eps| {
            let scale = single(w / (v + eps).sqrt());
            single(single(x * scale) + single(b - single(m * scale)))
        }),
        batch::<f32>("statistics rounded to f32", |x, [w, b, m, v], eps| {
            (x - single(m)) / (single(v) + eps).sqrt() * w + b
        }),
        batch::<f16>("computed in f16", |x, [w, b, m, v], eps| {
            half(half(half(x - m) * half(w / (v + eps).sqrt())) + b)
        }),
        batch::<bf16>("parameters rounded to bf16", |x, [w, b, m, v], eps| {
            (x - brain(m)) / (brain(v) + eps).sqrt() * brain(w) + brain(b)
        }),
        Mutant::instead::<BatchNorm<f32>>(
            "channels counted along the last axis",
            "batch_norm",
            F32,
            |op, o| {
                let normed = |x: f64, [w, b, m, v]: [f64; 4]| (x - m) / (v + op.eps).sqrt() * w + b;
                let y = by_channel(o, 1, normed);
                set(&mut o["y"], y);
            },
        ),
        Mutant::before::<BatchNorm<f32>>("mean read without its strides", "batch_norm", F32, |_, o| {
            relayout(&mut o["mean"], forget_strides)
        }),
        Mutant::overrun("batch_norm", F16),
        Mutant::declines("batch_norm", F32),
    ]
}

fn pools() -> Vec<Mutant> {
    vec![
        pool::<f32>("padding is 0", "max_pool2d", |w| {
            w.iter().fold(f64::NEG_INFINITY, |m, v| {
                if m.is_nan() || v.is_some_and(f64::is_nan) { f64::NAN } else { m.max(v.unwrap_or(0.0)) }
            })
        }),
        pool::<f32>("NaN dropped", "max_pool2d", |w| {
            w.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max)
        }),
        pool::<f16>("NaN kept only if it is last", "max_pool2d", |w| {
            w.iter()
                .flatten()
                .fold(f64::NEG_INFINITY, |m, v| if v.is_nan() || *v > m || m.is_nan() { *v } else { m })
        }),
        pool::<f32>("starts from the smallest finite number", "max_pool2d", |w| {
            w.iter().flatten().fold(f64::from(f32::MIN), |m, v| if m.is_nan() || m > *v { m } else { *v })
        }),
        pool::<f64>("rounded to f32", "max_pool2d", |w| {
            single(
                w.iter().flatten().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v }),
            )
        }),
        pool::<f32>("padding does not count", "avg_pool2d", |w| sum(w) / w.iter().flatten().count() as f64),
        pool::<f32>("one running sum in f32", "avg_pool2d", |w| {
            sum_rounded(w.iter().flatten().copied(), single) / w.len() as f64
        }),
        pool::<bf16>("accumulated in bf16", "avg_pool2d", |w| {
            sum_rounded(w.iter().flatten().copied(), brain) / w.len() as f64
        }),
        pool::<f32>("the last element of a window missed", "avg_pool2d", |w| {
            sum(&w[..w.len() - 1]) / w.len() as f64
        }),
        Mutant::instead::<Pool2d<f32>>("windows begin at the first element", "avg_pool2d", F32, |op, o| {
            let Windows { kernel, stride, .. } = op.windows;
            by_plane(o, |x, at, _| {
                let first = |axis: usize| (at[axis] * stride[axis]) as isize;
                let of =
                    |i: usize| x.at(first(0) + (i / kernel[1]) as isize, first(1) + (i % kernel[1]) as isize);
                (0..kernel[0] * kernel[1]).filter_map(of).sum::<f64>() / (kernel[0] * kernel[1]) as f64
            });
        }),
        Mutant::before::<Pool2d<f32>>("x read without its strides", "max_pool2d", F32, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        Mutant::overrun("max_pool2d", F16),
        Mutant::overrun("avg_pool2d", F32),
        Mutant::declines("avg_pool2d", F32),
    ]
}

fn upsamplings() -> Vec<Mutant> {
    vec![
        nearest::<f32>("rounded to the nearest place", |i, len, size| {
            ((i as f64 + 0.5) * len as f64 / size as f64).round() as usize
        }),
        nearest::<f32>("centres of areas", |i, len, size| {
            ((i as f64 + 0.5) * len as f64 / size as f64) as usize
        }),
        nearest::<f32>("one scale in f32", |i, len, size| (i as f32 * (len as f32 / size as f32)) as usize),
        nearest::<f16>("repeated by whole factors", |i, len, size| i / (size / len).max(1)),
        Mutant::instead::<Upsample<f32>>("the place in f32", "upsample_nearest1d", F32, |_, o| {
            let (len, size, x) = (last(&o["x"]), last(&o["y"]), values(&o["x"]));
            let place = |i: usize| ((i as f32 * (len as f32 / size as f32)) as usize).min(len - 1);
            let y: Vec<f64> =
                (0..o["y"].layout().len()).map(|at| x[at / size * len + place(at % size)]).collect();
            set(&mut o["y"], y);
        }),
        bilinear("corners are always aligned", |i, len, size, _| corners(i, len, size)),
        bilinear("corners are never aligned", |i, len, size, _| areas(i, len, size)),
        bilinear("places before the first element", |i, len, size, aligned| {
            if aligned { corners(i, len, size) } else { (i * len) as f64 / size as f64 }
        }),
        bilinear("places in f32", |i, len, size, aligned| {
            let scale = |a: usize, b: usize| a as f32 / b as f32;
            f64::from(match aligned {
                true if size < 2 => 0.0,
                true => i as f32 * scale(len - 1, size - 1),
                false => ((i as f32 + 0.5) * scale(len, size) - 0.5).max(0.0),
            })
        }),
        Mutant::before::<Upsample<f32>>("x read without its strides", "upsample_bilinear2d", F32, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        Mutant::after::<Upsample<f16>>("rounded to bf16", "upsample_bilinear2d", F16, |_, o| {
            edit_floats(&mut o["y"], brain);
        }),
        Mutant::overrun("upsample_nearest1d", F32),
        Mutant::overrun("upsample_nearest2d", F16),
        Mutant::overrun("upsample_bilinear2d", F32),
        Mutant::declines("upsample_nearest2d", F32),
    ]
}

pub(super) fn mutants() -> Vec<Mutant> {
    [batch_norms(), pools(), upsamplings()].concat()
}
