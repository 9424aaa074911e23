//! Attention, computed one query at a time.
use super::double::Double;
use super::{Values, Wants, dot, exp, logical, optional, values, want};
use crate::{Array, CallError, Case};
use core::iter::zip;
use ops_core::DType;
use ops_core::ops::Attention;

/// The options and operands other than `q`, `k` and `v`.
struct Rules {
    scale: Double,
    softcap: Option<Double>,
    causal: bool,
    window: (Option<usize>, Option<usize>),
    /// The value added for each query and key; −∞ hides a key.
    mask: Option<Vec<f64>>,
    slopes: Option<Values>,
    sinks: Option<Values>,
}

impl Rules {
    fn of(case: &Case, d: usize) -> Result<Self, CallError> {
        let scale = match case.params.number("scale")? {
            Some(scale) => Double::of(scale),
            None => Double::ONE / Double::of(d as f64).sqrt(),
        };
        let mask = case.operand("mask").map(|_| additive(&logical(case, "mask")?)).transpose()?;
        Ok(Rules {
            scale,
            softcap: case.params.number("softcap")?.map(Double::of),
            causal: case.params.flag("causal")?.unwrap_or(false),
            window: case.params.window("window")?.unwrap_or((None, None)),
            mask,
            slopes: optional(case, "alibi")?,
            sinks: optional(case, "sinks")?,
        })
    }

    /// Whether a key at this distance behind the query (negative: ahead of it) may be visible.
    fn is_visible(&self, behind: i64) -> bool {
        let within = |distance: i64, limit: Option<usize>| limit.is_none_or(|l| distance <= l as i64);
        (!self.causal || behind >= 0) && within(behind, self.window.0) && within(-behind, self.window.1)
    }
}

/// A mask as numbers to add. A flag of 0 hides a key.
fn additive(mask: &Array) -> Result<Vec<f64>, CallError> {
    let values = mask.to_f64()?;
    Ok(match mask.dtype() {
        DType::U8 => values.iter().map(|v| if *v == 0.0 { f64::NEG_INFINITY } else { 0.0 }).collect(),
        _ => values,
    })
}

/// The ops computed here.
pub(super) const OPS: &[&str] = &["attention"];

pub(super) fn wants(case: &Case) -> Wants {
    let (q, k, v) = (values(case, "q")?, values(case, "k")?, values(case, "v")?);
    let (&[_, h, t, d], &[_, kv, s, _]) = (q.dims.as_slice(), k.dims.as_slice()) else {
        unreachable!("attention takes four axes")
    };
    let (rules, dv) = (Rules::of(case, d)?, v.dims[3]);
    let rows = q.dims[..3].iter().product();
    let mut o = vec![Double::ZERO; rows * dv];
    let mut denominators = vec![Double::of(f64::NEG_INFINITY); rows];
    for (row, denominator) in denominators.iter_mut().enumerate() {
        let o = &mut o[row * dv..][..dv];
        let (batch, head, query) = (row / t / h, row / t % h, row % t);
        // Each group of h / h_kv query heads reads one head of keys.
        let first = (batch * kv + head * kv / h) * s;
        let mut seen: Vec<(usize, Double)> = Vec::new();
        for key in 0..s {
            // The last query is at the position of the last key.
            let behind = (s as i64 - t as i64 + query as i64) - key as i64;
            if !rules.is_visible(behind) {
                continue;
            }
            let features = zip(&q.of[row * d..][..d], &k.of[(first + key) * d..][..d]);
            let mut score = rules.scale * dot(case.dtype, features.map(|(q, k)| (*q, *k)));
            if let Some(cap) = rules.softcap {
                score = cap * (score / cap).tanh();
            }
            if let Some(slopes) = &rules.slopes {
                score = score - Double::of(slopes.of[head]) * Double::of(behind as f64);
            }
            if let Some(mask) = &rules.mask {
                score = score + Double::of(mask[row * s + key]);
            }
            if score.nearest() != f64::NEG_INFINITY {
                seen.push((first + key, score));
            }
        }
        let sink = rules.sinks.as_ref().map(|sinks| Double::of(sinks.of[head]));
        let sink = sink.filter(|sink| sink.nearest() != f64::NEG_INFINITY);
        let scores = seen.iter().map(|(_, score)| *score).chain(sink);
        let Some(highest) = scores.reduce(larger) else { continue };
        for (_, score) in &mut seen {
            *score = exp(case.dtype, *score - highest);
        }
        let sink = sink.map(|sink| exp(case.dtype, sink - highest));
        let total = Double::total(seen.iter().map(|(_, weight)| *weight).chain(sink));
        *denominator = highest + total.ln();
        for (e, o) in o.iter_mut().enumerate() {
            let seen = seen.iter().map(|(at, weight)| (*weight, v.of[at * dv + e]));
            let sum = match case.dtype {
                DType::F64 => Double::weighted(seen),
                dtype => dot(dtype, seen.map(|(weight, v)| (weight.nearest(), v))),
            };
            *o = sum / total;
        }
    }
    let op = Attention::<f64>::full();
    let mut wants = vec![want(case, &op, "o", &o)?];
    if case.operand("lse").is_some() {
        wants.push(want(case, &op, "lse", &denominators)?);
    }
    Ok(wants)
}

fn larger(a: Double, b: Double) -> Double {
    if b.nearest() > a.nearest() { b } else { a }
}
