//! Wrong attention kernels.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::Attention;
use rocm_ops::{DType, Float, Host, f16};

pub(super) mod ragged;

const F32: DType = DType::F32;

/// The steps of plain attention that can go wrong.
#[derive(Clone, Copy)]
struct Knobs {
    /// The key head for a query head, given the numbers of query and key heads.
    head: fn(usize, usize, usize) -> usize,
    /// Position of query `i` of `t` among `s` keys.
    position: fn(usize, usize, usize) -> isize,
    /// The score after cap, ALiBi and mask, computed from these and the raw score.
    score: fn(f64, f64, f64, Option<f64>) -> f64,
    /// Whether a mask flag means visible.
    visible: fn(f64) -> bool,
    /// The value subtracted from the scores.
    shift: bool,
    /// The result of a row without visible keys.
    empty_is_mean: bool,
    exp: fn(f64) -> f64,
    probability: fn(f64) -> f64,
    accumulate: fn(f64) -> f64,
    /// The sink of a head, given all sinks, the heads of a group and the scale.
    sink: fn(&[f64], usize, usize, f64) -> f64,
    /// The logarithm of a denominator, from the largest score, the sum of powers and the sink's part of it.
    lse: fn(f64, f64, f64) -> f64,
}

const RIGHT: Knobs = Knobs {
    head: |head, heads, keys| head / (heads / keys),
    position: |i, t, s| s as isize - t as isize + i as isize,
    score: |score, alibi, mask, cap| cap.map_or(score, |c| c * (score / c).tanh()) + alibi + mask,
    visible: |flag| flag != 0.0,
    shift: true,
    empty_is_mean: false,
    exp: f64::exp,
    probability: |p| p,
    accumulate: |v| v,
    sink: |sinks, head, _, _| sinks[head],
    lse: |highest, total, _| highest + total.ln(),
};

fn attention<T: Float>(op: &Attention<T>, o: &mut NamedTensors<Host>, k: Knobs) {
    let (&[b, h, t, d], &[_, kv, s, dv]) = (o["q"].dims(), o["v"].dims()) else { return };
    let (q, keys, v) = (values(&o["q"]), values(&o["k"]), values(&o["v"]));
    let flags = o.get("mask").is_some_and(|mask| mask.dtype() == DType::U8);
    let (mask, alibi) = (optional(o.get("mask")), optional(o.get("alibi")));
    let sinks = optional(o.get("sinks"));
    let (mut out, mut lse) = (Vec::new(), Vec::new());
    for (row, (head, i)) in (0..b * h).flat_map(|head| (0..t).map(move |i| (head, i))).enumerate() {
        let at = (head / h * kv + (k.head)(head % h, h, kv)) * s;
        let position = (k.position)(i, t, s);
        let score = |j: usize| {
            let dot: f64 = (0..d).map(|e| q[row * d + e] * keys[(at + j) * d + e]).sum();
            let alibi = alibi.as_ref().map_or(0.0, |a| a[head % h] * (j as isize - position) as f64);
            let mask = mask.as_ref().map_or(0.0, |m| match (flags, m[row * s + j]) {
                (true, flag) if (k.visible)(flag) => 0.0,
                (true, _) => f64::NEG_INFINITY,
                (false, value) => value,
            });
            let distance = j as isize - position;
            let hidden = op.causal && distance > 0
                || op.window.0.is_some_and(|w| -distance > w as isize)
                || op.window.1.is_some_and(|w| distance > w as isize);
            if hidden { f64::NEG_INFINITY } else { (k.score)(op.scale_for(d) * dot, alibi, mask, op.softcap) }
        };
        let scores: Vec<f64> = (0..s).map(score).collect();
        let sink = sinks
            .as_ref()
            .map_or(f64::NEG_INFINITY, |sinks| (k.sink)(sinks, head % h, h / kv, op.scale_for(d)));
        let highest = scores.iter().copied().fold(sink, f64::max);
        if highest == f64::NEG_INFINITY {
            lse.push(highest);
            let mean = |e| (0..s).map(|j| v[(at + j) * dv + e]).sum::<f64>() / s as f64;
            out.extend((0..dv).map(|e| if k.empty_is_mean && s > 0 { mean(e) } else { 0.0 }));
            continue;
        }
        let powers: Vec<f64> =
            scores.iter().map(|z| (k.exp)(if k.shift { z - highest } else { *z })).collect();
        let weight = (k.exp)(if k.shift { sink - highest } else { sink });
        let total: f64 = powers.iter().sum::<f64>() + weight;
        lse.push((k.lse)(if k.shift { highest } else { 0.0 }, total, weight));
        out.extend((0..dv).map(|e| {
            let weighted = powers.iter().enumerate();
            weighted.fold(0.0, |sum, (j, p)| {
                (k.accumulate)(sum + (k.probability)(p / total) * v[(at + j) * dv + e])
            })
        }));
    }
    set(&mut o["o"], out);
    if let Some(to) = o.get_mut("lse") {
        set(to, lse);
    }
}

pub(super) fn mutants() -> Vec<Mutant> {
    type F = Attention<f32>;
    let before =
        |name, f: fn(&mut F, &mut NamedTensors<Host>)| Mutant::before::<F>(name, "attention", F32, f);
    let knobs = |name, knobs: Knobs| {
        Mutant::instead::<F>(name, "attention", F32, move |op, o| attention(op, o, knobs))
    };
    let flags = |name, knobs: Knobs| {
        Mutant::instead::<F>(name, "attention", F32, move |op, o| attention(op, o, knobs))
    };
    let half = |name, knobs: Knobs| {
        Mutant::instead::<Attention<f16>>(name, "attention", DType::F16, move |op, o| attention(op, o, knobs))
    };
    let wide = |name, knobs: Knobs| {
        Mutant::instead::<Attention<f64>>(name, "attention", DType::F64, move |op, o| attention(op, o, knobs))
    };
    vec![
        before("softcap ignored", |op, _| op.softcap = None),
        before("scale forgotten", |op, _| op.scale = op.scale.or(Some(1.0))),
        before("scale given is ignored", |op, _| op.scale = None),
        before("causal off by one", |op, _| {
            if std::mem::take(&mut op.causal) {
                op.window.1 = Some(op.window.1.map_or(1, |w| w.min(1)));
            }
        }),
        before("causal ignored beside a window", |op, _| op.causal &= op.window == (None, None)),
        before("window one key wider on the left", |op, _| op.window.0 = op.window.0.map(|w| w + 1)),
        before("window one key wider on the right", |op, _| op.window.1 = op.window.1.map(|w| w + 1)),
        before("mask ignored", |_, o| drop(o.remove("mask"))),
        before("alibi ignored", |_, o| drop(o.remove("alibi"))),
        before("mask of the first head for all", |_, o| {
            if let Some(mask) = o.get_mut("mask") {
                relayout(mask, |l| {
                    let strides = [&[l.strides()[0], 0], &l.strides()[2..]].concat();
                    rocm_ops::Layout::strided(l.dims(), &strides, l.offset()).ok()
                });
            }
        }),
        before("keys read without their strides", |_, o| relayout(&mut o["k"], forget_strides)),
        knobs("causal aligned at the top left", Knobs { position: |i, _, _| i as isize, ..RIGHT }),
        knobs("query head h reads key head h mod h_kv", Knobs { head: |head, _, keys| head % keys, ..RIGHT }),
        knobs(
            "softcap after alibi and mask",
            Knobs {
                score: |score, alibi, mask, cap| {
                    let score = score + alibi + mask;
                    cap.map_or(score, |c| c * (score / c).tanh())
                },
                ..RIGHT
            },
        ),
        knobs(
            "alibi measured from the key's end",
            Knobs {
                score: |score, alibi, mask, cap| cap.map_or(score, |c| c * (score / c).tanh()) - alibi + mask,
                ..RIGHT
            },
        ),
        before("sinks ignored", |_, o| drop(o.remove("sinks"))),
        knobs("sinks scaled", Knobs { sink: |sinks, head, _, scale| sinks[head] * scale, ..RIGHT }),
        knobs("sinks of the key heads", Knobs { sink: |sinks, head, group, _| sinks[head / group], ..RIGHT }),
        knobs("lse without the sink", Knobs { lse: |m, total, sink| m + (total - sink).ln(), ..RIGHT }),
        knobs("lse without the largest score", Knobs { lse: |_, total, _| total.ln(), ..RIGHT }),
        knobs("lse of base 2", Knobs { lse: |m, total, _| m + total.log2(), ..RIGHT }),
        knobs("maximum not taken off", Knobs { shift: false, exp: |z| single(z.exp()), ..RIGHT }),
        knobs("a row with nothing visible gives the mean", Knobs { empty_is_mean: true, ..RIGHT }),
        knobs("probabilities rounded to bf16 in f32", Knobs { probability: brain, ..RIGHT }),
        flags("only flags of 1 mean visible", Knobs { visible: |flag| flag == 1.0, ..RIGHT }),
        flags("flags inverted", Knobs { visible: |flag| flag == 0.0, ..RIGHT }),
        half("values summed in f16", Knobs { accumulate: super::tools::half, ..RIGHT }),
        half("probabilities rounded to bf16 in f16", Knobs { probability: brain, ..RIGHT }),
        wide(
            "softcap after alibi and mask in f64",
            Knobs {
                score: |score, alibi, mask, cap| {
                    let score = score + alibi + mask;
                    cap.map_or(score, |c| c * (score / c).tanh())
                },
                ..RIGHT
            },
        ),
        wide(
            "alibi grows towards the query in f64",
            Knobs {
                score: |score, alibi, mask, cap| cap.map_or(score, |c| c * (score / c).tanh()) - alibi + mask,
                ..RIGHT
            },
        ),
        wide("queries counted from the first key in f64", Knobs { position: |i, _, _| i as isize, ..RIGHT }),
        wide("powers of f64 in f32", Knobs { exp: |z| f64::from((z as f32).exp()), ..RIGHT }),
        Mutant::before::<Attention<f64>>("mask ignored", "attention", DType::F64, |_, o| {
            drop(o.remove("mask"))
        }),
        Mutant::after::<F>("last query of odd numbers missed", "attention", F32, |_, o| {
            let &[_, _, t, d] = o["o"].dims() else { return };
            edit::<f32>(&mut o["o"], |i, v| if t % 2 == 1 && t > 1 && i / d % t == t - 1 { 0.0 } else { v });
        }),
    ]
}
