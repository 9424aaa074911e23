//! Wrong norms, rotations and softmaxes.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{DType, Host, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

type Rms = RmsNorm<f32>;
type HalfRms = RmsNorm<f16>;
type Layer = LayerNorm<f32>;

/// An RMS norm of rows with a given denominator.
fn rms(x: &[f64], weight: &[f64], denominator: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let n = weight.len().max(1);
    let row = |row: &[f64]| {
        let d = denominator(row);
        row.iter().zip(weight).map(move |(v, w)| v / d * w).collect::<Vec<_>>()
    };
    x.chunks(n).flat_map(row).collect()
}

fn mean_square(row: &[f64]) -> f64 {
    row.iter().map(|v| v * v).sum::<f64>() / row.len() as f64
}

/// A layer norm of rows with given mean and variance.
fn layer(o: &NamedTensors<Host>, eps: f64, moments: fn(&[f64]) -> (f64, f64)) -> Vec<f64> {
    let (x, n) = (values(&o["x"]), last(&o["x"]));
    let (weight, bias) = (optional(o.get("weight")), optional(o.get("bias")));
    let mut y = Vec::new();
    for row in x.chunks(n) {
        let (mean, variance) = moments(row);
        for (j, v) in row.iter().enumerate() {
            let (w, b) = (weight.as_ref().map_or(1.0, |w| w[j]), bias.as_ref().map_or(0.0, |b| b[j]));
            y.push((v - mean) / (variance + eps).sqrt() * w + b);
        }
    }
    y
}

pub(super) fn mutants() -> Vec<Mutant> {
    [rms_norms(), layer_norms(), ropes(), positions(), heads(), softmaxes()].concat()
}

fn rms_norms() -> Vec<Mutant> {
    let kernel = |name, denominator: fn(&[f64], f64) -> f64| {
        Mutant::instead::<Rms>(name, "rms_norm", F32, move |op, o| {
            let (x, w) = (values(&o["x"]), values(&o["weight"]));
            set(&mut o["y"], rms(&x, &w, |row| denominator(row, op.eps)));
        })
    };
    let half_kernel = |name, f: fn(f64, f64, f64) -> f64| {
        Mutant::instead::<HalfRms>(name, "rms_norm", F16, move |op, o| {
            let (x, w) = (values(&o["x"]), values(&o["weight"]));
            let y = x.chunks(w.len().max(1)).flat_map(|row| {
                let d = (mean_square(row) + op.eps).sqrt();
                row.iter().zip(&w).map(|(v, w)| f(*v, d, *w)).collect::<Vec<_>>()
            });
            set(&mut o["y"], y.collect::<Vec<_>>());
        })
    };
    vec![
        Mutant::before::<Rms>("eps ignored", "rms_norm", F32, |op, _| op.eps = 0.0),
        kernel("eps outside the root", |row, eps| mean_square(row).sqrt() + eps),
        kernel("eps added to the sum, not the mean", |row, eps| {
            ((row.iter().map(|v| v * v).sum::<f64>() + eps) / row.len() as f64).sqrt()
        }),
        kernel("sum over one element less", |row, eps| {
            (row[..row.len() - 1].iter().map(|v| v * v).sum::<f64>() / row.len() as f64 + eps).sqrt()
        }),
        Mutant::before::<Rms>("weight ignored", "rms_norm", F32, |_, o| {
            edit_floats(&mut o["weight"], |_| 1.0)
        }),
        Mutant::after::<Rms>("last element of odd rows missed", "rms_norm", F32, |_, o| {
            let n = last(&o["y"]);
            edit::<f32>(&mut o["y"], |i, v| if !n.is_multiple_of(4) && i % n == n - 1 { 0.0 } else { v });
        }),
        Mutant::after::<Rms>("last row missed", "rms_norm", F32, |_, o| {
            let (n, len) = (last(&o["y"]), o["y"].layout().len());
            edit::<f32>(&mut o["y"], |i, v| if i + n >= len { 0.0 } else { v });
        }),
        half_kernel("denominator rounded to f16", |v, d, w| v / half(d) * w),
        half_kernel("normalised value rounded to f16 before the weight", |v, d, w| half(v / d) * w),
        half_kernel("weight rounded to f16", |v, d, w| v / d * half(w)),
        Mutant::instead::<RmsNorm<f16>>("squares summed in f16", "rms_norm", F16, |op, o| {
            let in_half = |row: &[f64]| {
                half(sum_rounded(row.iter().map(|v| half(v * v)), half) / row.len() as f64 + op.eps).sqrt()
            };
            let (x, w) = (values(&o["x"]), values(&o["weight"]));
            set(&mut o["y"], rms(&x, &w, in_half));
        }),
        Mutant::instead::<AddRmsNorm<f16>>(
            "sum not rounded before it is normalised",
            "add_rms_norm",
            F16,
            |op, o| {
                let sum: Vec<f64> =
                    values(&o["x"]).iter().zip(values(&o["residual"])).map(|(a, b)| a + b).collect();
                let (w, eps) = (values(&o["weight"]), op.eps);
                set(&mut o["y"], rms(&sum, &w, |row| (mean_square(row) + eps).sqrt()));
                set(&mut o["sum"], sum);
            },
        ),
        Mutant::after::<AddRmsNorm<f32>>("x stored instead of the sum", "add_rms_norm", F32, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["sum"], x);
        }),
    ]
}

fn layer_norms() -> Vec<Mutant> {
    let kernel = |name, moments: fn(&[f64]) -> (f64, f64)| {
        Mutant::instead::<Layer>(name, "layer_norm", F32, move |op, o| {
            let y = layer(o, op.eps, moments);
            set(&mut o["y"], y);
        })
    };
    vec![
        kernel("variance as E[x²] − E[x]² in f32", |row| {
            let n = row.len() as f64;
            let mean = single(sum_rounded(row.iter().copied(), single) / n);
            let square = single(sum_rounded(row.iter().map(|v| single(v * v)), single) / n);
            (mean, single(square - single(mean * mean)).max(0.0))
        }),
        kernel("mean of large values in f32, unshifted", |row| {
            let n = row.len() as f64;
            let mean = single(sum_rounded(row.iter().copied(), single) / n);
            (mean, row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
        }),
        kernel("unbiased variance", |row| {
            let m = mean(row);
            (m, row.iter().map(|v| (v - m).powi(2)).sum::<f64>() / (row.len() as f64 - 1.0).max(1.0))
        }),
        kernel("mean not taken off", |row| (0.0, mean_square(row))),
        Mutant::before::<Layer>("bias ignored", "layer_norm", F32, |_, o| drop(o.remove("bias"))),
        Mutant::before::<Layer>("weight ignored without a bias", "layer_norm", F32, |_, o| {
            if o.get("bias").is_none() {
                o.remove("weight");
            }
        }),
        Mutant::before::<GroupNorm<f32>>("one group for all channels", "group_norm", F32, |op, _| {
            op.num_groups = 1
        }),
        Mutant::before::<GroupNorm<f32>>("groups counted the other way", "group_norm", F32, |op, o| {
            op.num_groups = o["x"].dims()[1] / op.num_groups.max(1);
            op.num_groups = op.num_groups.max(1);
        }),
    ]
}

fn ropes() -> Vec<Mutant> {
    vec![
        Mutant::before::<Rope<f32>>("turned the other way", "rope", F32, |_, o| {
            edit_floats(&mut o["sin"], |v| -v)
        }),
        Mutant::before::<Rope<f32>>("neighbours paired instead of halves", "rope", F32, |op, _| {
            op.form = RopeForm::Interleaved;
        }),
        Mutant::before::<Rope<f32>>("halves paired instead of neighbours", "rope_i", F32, |op, _| {
            op.form = RopeForm::Half;
        }),
        Mutant::before::<Rope<f32>>("start ignored", "rope", F32, |op, _| op.start = 0),
        Mutant::before::<Rope<f32>>("tables of the first batch for all", "rope", F32, |_, o| {
            for table in ["cos", "sin"] {
                relayout(&mut o[table], |l| match (l.dims(), l.strides()) {
                    (&[b, t, d], &[_, ts, ds]) => {
                        rocm_ops::Layout::strided(&[b, t, d], &[0, ts, ds], l.offset()).ok()
                    }
                    _ => None,
                });
            }
        }),
        Mutant::instead::<RopeInplace<f32>>(
            "in place, the second half from the first's result",
            "rope_inplace",
            F32,
            |op, o| {
                let [b, h, t, d] = *o["x"].dims() else { return };
                let (mut x, cos, sin) = (values(&o["x"]), values(&o["cos"]), values(&o["sin"]));
                let &[.., rows, pairs] = o["cos"].dims() else { return };
                let positions = optional(o.get("positions"));
                for (head, at) in (0..b * h).flat_map(|head| (0..t).map(move |at| (head, at))) {
                    let batch = if o["cos"].dims().len() == 3 { head / h } else { 0 };
                    let n = head / h * t + at;
                    let angle = positions.as_ref().map_or(op.start + at, |p| p[n % p.len()] as usize);
                    // Any row for a position outside: those cases expect an error.
                    let angle = angle.min(rows.max(1) - 1);
                    for i in 0..pairs {
                        let (row, table) = ((head * t + at) * d, (batch * rows + angle) * pairs + i);
                        x[row + i] = single(x[row + i] * cos[table] - x[row + i + pairs] * sin[table]);
                        x[row + i + pairs] = x[row + i] * sin[table] + x[row + i + pairs] * cos[table];
                    }
                }
                set(&mut o["x"], x);
            },
        ),
    ]
}

/// Positions in the order of the tokens, if there are any.
fn in_order(o: &mut NamedTensors<Host>) {
    if let Some(positions) = o.get_mut("positions") {
        let &[b, t] = positions.dims() else { return };
        set(positions, (0..b * t).map(|i| (i % t) as f64));
    }
}

/// Positions of the first batch entry for all.
fn of_the_first(o: &mut NamedTensors<Host>) {
    if let Some(positions) = o.get_mut("positions") {
        let (&[b, t], at) = (positions.dims(), values(&*positions)) else { return };
        set(positions, (0..b * t).map(|i| at[i % t]));
    }
}

fn positions() -> Vec<Mutant> {
    // The features after the rotated ones.
    let rest = |name, value: fn(f32) -> f32| {
        Mutant::after::<Rope<f32>>(name, "rope", F32, move |_, o| {
            let (d, rotated) = (last(&o["x"]), 2 * o["cos"].dims().last().copied().unwrap_or(0));
            edit::<f32>(&mut o["y"], |i, v| if i % d < rotated { v } else { value(v) });
        })
    };
    vec![
        Mutant::before::<Rope<f32>>("positions ignored", "rope", F32, |_, o| in_order(o)),
        Mutant::before::<Rope<f32>>("positions of the first batch for all", "rope", F32, |_, o| {
            of_the_first(o)
        }),
        Mutant::before::<Rope<f32>>("positions ignored beside tables of each batch", "rope", F32, |_, o| {
            if o["cos"].dims().len() == 3 {
                in_order(o);
            }
        }),
        Mutant::before::<RopeInplace<f32>>("positions ignored", "rope_thd_inplace", F32, |_, o| in_order(o)),
        Mutant::swallows_errors("rope", F32),
        Mutant::swallows_errors("rope_i_inplace", F32),
        rest("features behind the rotated ones are zeros", |_| 0.0),
        rest("features behind the rotated ones change their sign", |v| -v),
    ]
}

/// Heads normed over a number of features that `over` computes from their width and the number of rotated
/// ones; each normed feature is rounded by `round`. Pairs are halves.
fn normed_heads(
    o: &mut NamedTensors<Host>,
    eps: f64,
    late_weight: bool,
    round: fn(f64) -> f64,
    over: fn(usize, usize) -> usize,
) {
    let (&[_, t, h, d], &[.., rows, half]) = (o["x"].dims(), o["cos"].dims()) else { return };
    let (x, weight, cos, sin) = (values(&o["x"]), values(&o["weight"]), values(&o["cos"]), values(&o["sin"]));
    let (batched, positions) = (o["cos"].dims().len() == 3, optional(o.get("positions")));
    let mut y = Vec::new();
    for (n, head) in x.chunks(d.max(1)).enumerate() {
        let (token, norm) = (n / h, over(d, 2 * half).max(1));
        let row = positions.as_ref().map_or(token % t, |p| p[token % p.len()] as usize);
        let row = if batched { token / t * rows + row } else { row };
        let root = (mean_square(&head[..norm]) + eps).sqrt();
        let weight = |j: usize, late: bool| if late == late_weight { weight[j] } else { 1.0 };
        let mut head: Vec<f64> = (0..d).map(|j| round(head[j] / root * weight(j, false))).collect();
        for j in 0..half {
            let (c, s) = (cos[row * half + j], sin[row * half + j]);
            (head[j], head[j + half]) = (head[j] * c - head[j + half] * s, head[j] * s + head[j + half] * c);
        }
        y.extend((0..d).map(|j| head[j] * weight(j, true)));
    }
    set(&mut o["y"], y);
}

fn heads() -> Vec<Mutant> {
    type Heads = QkNormRope<f32>;
    let op = "qk_norm_rope";
    let before = |name, f: fn(&mut Heads, &mut NamedTensors<Host>)| Mutant::before::<Heads>(name, op, F32, f);
    let kernel = |name, late_weight, over: fn(usize, usize) -> usize| {
        Mutant::instead::<Heads>(name, op, F32, move |op, o| {
            normed_heads(o, op.eps, late_weight, |v| v, over)
        })
        .in_cases_of("order=\"half\"")
    };
    vec![
        before("eps forgotten", |op, _| op.eps = 0.0),
        before("pairs always halves", |op, _| op.order = RopeOrder::Half),
        before("pairs always neighbours", |op, _| op.order = RopeOrder::Interleaved),
        before("positions ignored", |_, o| in_order(o)),
        before("positions of the first batch for all", |_, o| of_the_first(o)),
        before("weight of ones", |_, o| edit_floats(&mut o["weight"], |_| 1.0)),
        before("turned the other way", |_, o| edit_floats(&mut o["sin"], |v| -v)),
        kernel("weight after the rotation", true, |d, _| d),
        kernel("norm of the rotated features only", false, |_, rotated| rotated),
        Mutant::instead::<QkNormRope<f16>>("normed heads rounded to f16", op, F16, |op, o| {
            normed_heads(o, op.eps, false, half, |d, _| d);
        })
        .in_cases_of("order=\"half\""),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
    ]
}

/// A softmax of rows; the caller leaves other axes to the reference.
fn softmax(row: &[f64], exp: fn(f64) -> f64, sum: fn(&[f64]) -> f64, shift: bool) -> Vec<f64> {
    let highest = row.iter().fold(f64::NEG_INFINITY, |m, v| if v.is_nan() || *v > m { *v } else { m });
    let powers: Vec<f64> = row.iter().map(|v| exp(if shift { v - highest } else { *v })).collect();
    let sum = sum(&powers);
    powers.iter().map(|p| p / sum).collect()
}

fn softmaxes() -> Vec<Mutant> {
    let kernel = |name, dtype: DType, exp: fn(f64) -> f64, sum: fn(&[f64]) -> f64, shift: bool| {
        if dtype == F32 {
            return Mutant::after::<Softmax<f32>>(name, "softmax", F32, move |op, o| {
                if op.axis == -1 {
                    let n = last(&o["x"]);
                    let y: Vec<f64> =
                        values(&o["x"]).chunks(n).flat_map(|row| softmax(row, exp, sum, shift)).collect();
                    set(&mut o["y"], y);
                }
            });
        }
        Mutant::after::<Softmax<f16>>(name, "softmax", F16, move |op, o| {
            if op.axis == -1 {
                let n = last(&o["x"]);
                let y: Vec<f64> =
                    values(&o["x"]).chunks(n).flat_map(|row| softmax(row, exp, sum, shift)).collect();
                set(&mut o["y"], y);
            }
        })
    };
    let total: fn(&[f64]) -> f64 = |powers| powers.iter().sum();
    vec![
        kernel(
            "maximum not taken off",
            F32,
            |v| single(v.exp()),
            |powers| single(powers.iter().sum()),
            false,
        ),
        kernel(
            "powers summed in f16",
            F16,
            f64::exp,
            |powers| sum_rounded(powers.iter().copied(), half),
            true,
        ),
        kernel("sum rounded to f16", F16, f64::exp, |powers| half(powers.iter().sum()), true),
        kernel("powers rounded to f16", F16, |v| half(v.exp()), total, true),
        Mutant::before::<Softmax<f32>>("always along the last axis", "softmax", F32, |op, _| op.axis = -1),
        Mutant::after::<Softmax<f32>>("a row of −∞ gives zeros", "softmax", F32, |_, o| {
            edit::<f32>(&mut o["y"], |_, v| if v.is_nan() { 0.0 } else { v });
        }),
        Mutant::instead::<Softmax<f32>>("logarithm of the rounded softmax", "log_softmax", F32, |op, o| {
            let y = rocm_ops::Reference::new().softmax(typed::<f32>(&o["x"]), op.axis).expect("a softmax");
            set(&mut o["y"], values(&y).into_iter().map(f64::ln));
        }),
    ]
}
