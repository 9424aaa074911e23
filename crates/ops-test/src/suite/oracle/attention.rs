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
    /// The value added for each query and key; `None` hides a key, whatever it holds.
    mask: Option<Vec<Option<f64>>>,
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
fn additive(mask: &Array) -> Result<Vec<Option<f64>>, CallError> {
    let are_flags = mask.dtype() == DType::U8;
    let added = |value| if are_flags { (value != 0.0).then_some(0.0) } else { Some(value) };
    Ok(mask.to_f64()?.into_iter().map(added).collect())
}

/// A call: its operands, and the outputs computed so far.
struct Call {
    dtype: DType,
    rules: Rules,
    q: Values,
    k: Values,
    v: Values,
    o: Vec<Double>,
    denominators: Vec<Double>,
}

impl Call {
    fn of(case: &Case) -> Result<Self, CallError> {
        let (q, k, v) = (values(case, "q")?, values(case, "k")?, values(case, "v")?);
        let (rows, features) = q.dims.split_at(q.dims.len() - 1);
        let rows = rows.iter().product();
        Ok(Call {
            dtype: case.dtype,
            rules: Rules::of(case, features[0])?,
            o: vec![Double::ZERO; rows * v.dims[v.dims.len() - 1]],
            denominators: vec![Double::of(f64::NEG_INFINITY); rows],
            q,
            k,
            v,
        })
    }

    /// Computes row `row` of the outputs: a query of `head` at `position` among `keys` keys; key `j` is row
    /// `place(j)` of `k` and `v`. `masks` is the first element of the mask for this row.
    fn row(
        &mut self,
        row: usize,
        head: usize,
        (position, keys): (i64, usize),
        place: impl Fn(usize) -> usize,
        masks: usize,
    ) {
        let (d, dv) = (self.q.dims[self.q.dims.len() - 1], self.v.dims[self.v.dims.len() - 1]);
        let mut seen: Vec<(usize, Double)> = Vec::new();
        for key in 0..keys {
            let behind = position - key as i64;
            let added = self.rules.mask.as_ref().map_or(Some(0.0), |mask| mask[masks + key]);
            let (Some(added), true) = (added, self.rules.is_visible(behind)) else { continue };
            let features = zip(&self.q.of[row * d..][..d], &self.k.of[place(key) * d..][..d]);
            let mut score = self.rules.scale * dot(self.dtype, features.map(|(q, k)| (*q, *k)));
            if let Some(cap) = self.rules.softcap {
                score = cap * (score / cap).tanh();
            }
            if let Some(slopes) = &self.rules.slopes {
                score = score - Double::of(slopes.of[head]) * Double::of(behind as f64);
            }
            score = score + Double::of(added);
            if score.nearest() != f64::NEG_INFINITY {
                seen.push((place(key), score));
            }
        }
        let sink = self.rules.sinks.as_ref().map(|sinks| Double::of(sinks.of[head]));
        let sink = sink.filter(|sink| sink.nearest() != f64::NEG_INFINITY);
        let scores = seen.iter().map(|(_, score)| *score).chain(sink);
        let Some(highest) = scores.reduce(larger) else { return };
        for (_, score) in &mut seen {
            *score = exp(self.dtype, *score - highest);
        }
        let sink = sink.map(|sink| exp(self.dtype, sink - highest));
        let total = Double::total(seen.iter().map(|(_, weight)| *weight).chain(sink));
        self.denominators[row] = highest + total.ln();
        for (e, o) in self.o[row * dv..][..dv].iter_mut().enumerate() {
            let seen = seen.iter().map(|(at, weight)| (*weight, self.v.of[at * dv + e]));
            let sum = match self.dtype {
                DType::F64 => Double::weighted(seen),
                dtype => dot(dtype, seen.map(|(weight, v)| (weight.nearest(), v))),
            };
            *o = sum / total;
        }
    }

    fn wants(self, case: &Case) -> Wants {
        let op = Attention::<f64>::full();
        let mut wants = vec![want(case, &op, "o", &self.o)?];
        if case.operand("lse").is_some() {
            wants.push(want(case, &op, "lse", &self.denominators)?);
        }
        Ok(wants)
    }
}

/// The ops computed here.
pub(super) const OPS: &[&str] = &["attention", "attention_varlen", "attention_paged"];

pub(super) fn wants(case: &Case) -> Wants {
    match case.op.as_str() {
        "attention_varlen" => varlen(case),
        "attention_paged" => paged(case),
        _ => batch(case),
    }
}

fn batch(case: &Case) -> Wants {
    let mut call = Call::of(case)?;
    let (&[_, h, t, _], &[_, kv, s, _]) = (call.q.dims.as_slice(), call.k.dims.as_slice()) else {
        unreachable!("attention takes four axes")
    };
    for row in 0..call.denominators.len() {
        let (batch, head, query) = (row / t / h, row / t % h, row % t);
        // Each group of h / h_kv query heads reads one head of keys. The last query is at the position of the last key.
        let first = (batch * kv + head * kv / h) * s;
        let position = s as i64 - t as i64 + query as i64;
        call.row(row, head, (position, s), |key| first + key, row * s);
    }
    call.wants(case)
}

/// Indices of any type. Those beyond 2⁵³ refer to nothing, so their exact value does not matter.
fn indices(case: &Case, name: &str) -> Result<Vec<usize>, CallError> {
    Ok(logical(case, name)?.to_f64()?.into_iter().map(|index| index as usize).collect())
}

fn varlen(case: &Case) -> Wants {
    let mut call = Call::of(case)?;
    let (h, kv) = (call.q.dims[1], call.k.dims[1]);
    let (queries, keys) = (indices(case, "cu_q")?, indices(case, "cu_k")?);
    for (q, k) in zip(queries.windows(2), keys.windows(2)) {
        let (t, s) = (q[1] - q[0], k[1] - k[0]);
        for (query, head) in (0..t).flat_map(|query| (0..h).map(move |head| (query, head))) {
            let position = s as i64 - t as i64 + query as i64;
            let place = |key: usize| (k[0] + key) * kv + head * kv / h;
            call.row((q[0] + query) * h + head, head, (position, s), place, 0);
        }
    }
    call.wants(case)
}

fn paged(case: &Case) -> Wants {
    let mut call = Call::of(case)?;
    let (h, block, kv) = (call.q.dims[1], call.k.dims[1], call.k.dims[2]);
    let (queries, lengths) = (indices(case, "cu_q")?, indices(case, "lengths")?);
    let (table, width) = (indices(case, "block_table")?, case.expect("block_table")?.layout.dims()[1]);
    for (i, (q, s)) in zip(queries.windows(2), lengths).enumerate() {
        let t = q[1] - q[0];
        for (query, head) in (0..t).flat_map(|query| (0..h).map(move |head| (query, head))) {
            let position = s as i64 - t as i64 + query as i64;
            let row_of = |key: usize| table[i * width + key / block] * block + key % block;
            let place = |key: usize| row_of(key) * kv + head * kv / h;
            call.row((q[0] + query) * h + head, head, (position, s), place, 0);
        }
    }
    call.wants(case)
}

fn larger(a: Double, b: Double) -> Double {
    if b.nearest() > a.nearest() { b } else { a }
}
