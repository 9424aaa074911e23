//! Linear attention, one token at a time.
use super::double::Double;
use super::{Wants, exactly, logical, optional, values, want};
use crate::{Array, Case};
use core::iter::zip;
use ops_core::ops::{Conv1dUpdate, GatedDeltaRule};

/// The ops computed here.
pub(super) const OPS: &[&str] = &["conv1d_update", "gated_delta_rule"];

pub(super) fn wants(case: &Case) -> Wants {
    if case.op == "conv1d_update" { conv1d_update(case) } else { gated_delta_rule(case) }
}

fn conv1d_update(case: &Case) -> Wants {
    let (x, weight, bias) = (values(case, "x")?, values(case, "weight")?, optional(case, "bias")?);
    let (&[_, t, c], &[_, w]) = (x.dims.as_slice(), weight.dims.as_slice()) else {
        unreachable!("x has three axes, a weight two")
    };
    let silu = case.params.word("activation", |word| Some(word == "silu"))? == Some(true);
    let (old, inputs) = (values(case, "state")?.of, logical(case, "x")?);
    let before = logical(case, "state")?;
    let mut state = Array::zeroed(before.dtype(), before.len())?;
    let mut y = vec![Double::ZERO; x.of.len()];
    for (at, y) in y.iter_mut().enumerate() {
        let (batch, token, channel) = (at / c / t, at / c % t, at % c);
        // Input `n` of the state followed by the tokens.
        let input = |n: usize| match n.checked_sub(w - 1) {
            None => old[(batch * c + channel) * (w - 1) + n],
            Some(n) => x.of[(batch * t + n) * c + channel],
        };
        let sum = Double::dot((0..w).map(|j| (weight.of[channel * w + j], input(token + j))));
        let sum = sum + bias.as_ref().map_or(Double::ZERO, |bias| Double::of(bias.of[channel]));
        *y = if silu { sum / (Double::ONE + (-sum).exp()) } else { sum };
    }
    for at in 0..state.len() {
        let (line, n) = (at / (w - 1), at % (w - 1) + t);
        let from = match n.checked_sub(w - 1) {
            None => before.element(line * (w - 1) + n),
            Some(n) => inputs.element((line / c * t + n) * c + line % c),
        };
        state.element_mut(at).copy_from_slice(from);
    }
    Ok(vec![want(case, &Conv1dUpdate::<f64>::plain(), "y", &y)?, exactly("state", state)])
}

/// In f64: states are f32, so results need no more precision.
fn gated_delta_rule(case: &Case) -> Wants {
    let (q, k, v) = (values(case, "q")?, values(case, "k")?, values(case, "v")?);
    let (decay, beta) = (values(case, "decay")?.of, values(case, "beta")?.of);
    let (&[b, t, h, d], dv) = (q.dims.as_slice(), v.dims[3]) else { unreachable!("q has four axes") };
    let scale = case.params.number("scale")?.unwrap_or_else(|| 1.0 / (d as f64).sqrt());
    let mut states = values(case, "state")?.of;
    let mut o = vec![0.0; b * t * h * dv];
    for head in 0..b * h {
        let state = &mut states[head * d * dv..][..d * dv];
        for token in 0..t {
            let at = (head / h * t + token) * h + head % h;
            let (q, k) = (&q.of[at * d..][..d], &k.of[at * d..][..d]);
            for j in 0..dv {
                let column = || (0..d).map(|i| i * dv + j);
                column().for_each(|s| state[s] *= decay[at].exp());
                let told: f64 = zip(k, column()).map(|(k, s)| k * state[s]).sum();
                let missing = beta[at] * (v.of[at * dv + j] - told);
                zip(k, column()).for_each(|(k, s)| state[s] += k * missing);
                o[at * dv + j] = scale * zip(q, column()).map(|(q, s)| q * state[s]).sum::<f64>();
            }
        }
    }
    let wide = |values: Vec<f64>| values.into_iter().map(Double::of).collect::<Vec<_>>();
    let op = GatedDeltaRule::<f32>::new();
    Ok(vec![want(case, &op, "o", &wide(o))?, want(case, &op, "state", &wide(states))?])
}
