//! Wrong linear attention.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::{Conv1dUpdate, ConvActivation, GatedDeltaRule};
use rocm_ops::{DType, Host, f16};

const F32: DType = DType::F32;

pub(super) fn mutants() -> Vec<Mutant> {
    [convolutions(), delta_rules()].concat()
}

/// Replaces the state by one computed from the first inputs, or by `f` from the line of inputs and the number
/// of tokens.
fn state_of(o: &mut NamedTensors<Host>, old: &[f64], f: impl Fn(&[f64], usize, usize) -> f64) {
    let (&[_, t, c], &[b, _, kept]) = (o["x"].dims(), o["state"].dims()) else { return };
    let x = values(&o["x"]);
    let mut state = Vec::new();
    for (batch, channel) in (0..b).flat_map(|batch| (0..c).map(move |channel| (batch, channel))) {
        let mut line = old[(batch * c + channel) * kept..][..kept].to_vec();
        line.extend((0..t).map(|token| x[(batch * t + token) * c + channel]));
        state.extend((0..kept).map(|k| f(&line, t, k)));
    }
    set(&mut o["state"], state);
}

fn convolutions() -> Vec<Mutant> {
    type Conv = Conv1dUpdate<f32>;
    let op = "conv1d_update";
    let before = |name, f: fn(&mut Conv, &mut NamedTensors<Host>)| Mutant::before::<Conv>(name, op, F32, f);
    // The reference's outputs, with another state.
    let state = |name, f: fn(&[f64], usize, usize) -> f64| {
        Mutant::instead::<Conv>(name, op, F32, move |op, o| {
            let old = values(&o["state"]);
            if let Ok(args) = o.args(op) {
                let _ = rocm_ops::Backend::run(&rocm_ops::Reference::new(), op, args);
            }
            state_of(o, &old, f);
        })
    };
    vec![
        before("activation ignored", |op, _| op.activation = ConvActivation::None),
        before("always silu", |op, _| op.activation = ConvActivation::Silu),
        before("bias ignored", |_, o| drop(o.remove("bias"))),
        before("weights the other way round", |_, o| {
            let (w, weight) = (last(&o["weight"]), values(&o["weight"]));
            set(
                &mut o["weight"],
                weight.chunks(w).flat_map(|row| row.iter().rev().copied().collect::<Vec<_>>()),
            );
        }),
        before("state taken for zeros", |_, o| {
            let n = values(&o["state"]).len();
            set(&mut o["state"], vec![0.0; n]);
        }),
        before("state newest first", |_, o| {
            let kept = last(&o["state"]);
            let state = values(&o["state"]);
            set(
                &mut o["state"],
                state.chunks(kept).flat_map(|row| row.iter().rev().copied().collect::<Vec<_>>()),
            );
        }),
        state("state kept as it was", |line, _, k| line[k]),
        state("state moved by one input only", |line, t, k| line[k + t.min(1)]),
        state("state one input behind", |line, t, k| line[(k + t).saturating_sub(1)]),
        Mutant::after::<Conv1dUpdate<f16>>("silu with an error of a thousandth", op, DType::F16, |op, o| {
            if op.activation == ConvActivation::Silu {
                let y: Vec<f64> =
                    values(&o["y"]).into_iter().map(|y| half(y * (1.0 + 1.0 / 1024.0))).collect();
                set(&mut o["y"], y);
            }
        }),
        Mutant::overrun(op, F32),
    ]
}

/// The steps of the rule that can go wrong.
#[derive(Clone, Copy)]
struct Knobs {
    decay: fn(f64) -> f64,
    /// The correction, from beta, the value and the state's prediction; also from the state before it
    /// decayed.
    missing: fn(f64, f64, f64, f64) -> f64,
    /// Whether the output is read before the state is corrected.
    early: bool,
    store: fn(f64) -> f64,
}

const RIGHT: Knobs =
    Knobs { decay: f64::exp, missing: |beta, v, told, _| beta * (v - told), early: false, store: |s| s };

fn rule(scale: Option<f64>, o: &mut NamedTensors<Host>, knobs: Knobs) {
    let (&[b, t, h, d], &[.., dv]) = (o["q"].dims(), o["v"].dims()) else { return };
    let [q, k, v, decay, beta, mut state] =
        ["q", "k", "v", "decay", "beta", "state"].map(|name| values(&o[name]));
    let scale = scale.unwrap_or_else(|| (d as f64).sqrt().recip());
    let mut out = vec![0.0; b * t * h * dv];
    for (head, token) in (0..b * h).flat_map(|head| (0..t).map(move |token| (head, token))) {
        let at = (head / h * t + token) * h + head % h;
        let kept = (knobs.decay)(decay[at]);
        for j in 0..dv {
            let s = |i: usize| (head * d + i) * dv + j;
            let dot = |x: &[f64], state: &[f64]| (0..d).map(|i| x[at * d + i] * state[s(i)]).sum::<f64>();
            let fresh = dot(&k, &state);
            (0..d).for_each(|i| state[s(i)] *= kept);
            let early = dot(&q, &state);
            let missing = (knobs.missing)(beta[at], v[at * dv + j], dot(&k, &state), fresh);
            (0..d).for_each(|i| state[s(i)] = (knobs.store)(state[s(i)] + k[at * d + i] * missing));
            out[at * dv + j] = scale * if knobs.early { early } else { dot(&q, &state) };
        }
    }
    set(&mut o["o"], out);
    set(&mut o["state"], state);
}

fn delta_rules() -> Vec<Mutant> {
    type Rule = GatedDeltaRule<f32>;
    let op = "gated_delta_rule";
    let knobs =
        |name, knobs: Knobs| Mutant::instead::<Rule>(name, op, F32, move |op, o| rule(op.scale, o, knobs));
    let before = |name, f: fn(&mut Rule, &mut NamedTensors<Host>)| Mutant::before::<Rule>(name, op, F32, f);
    vec![
        knobs("decay is the factor itself", Knobs { decay: |decay| decay, ..RIGHT }),
        knobs("decay of base 2", Knobs { decay: f64::exp2, ..RIGHT }),
        knobs("beta ignored", Knobs { missing: |_, v, told, _| v - told, ..RIGHT }),
        knobs("beta for the value only", Knobs { missing: |beta, v, told, _| beta * v - told, ..RIGHT }),
        knobs("nothing corrected", Knobs { missing: |beta, v, _, _| beta * v, ..RIGHT }),
        knobs(
            "corrected before the decay",
            Knobs { missing: |beta, v, _, fresh| beta * (v - fresh), ..RIGHT },
        ),
        knobs("read before the correction", Knobs { early: true, ..RIGHT }),
        knobs("state rounded to bf16 at each token", Knobs { store: brain, ..RIGHT }),
        before("scale forgotten", |op, _| op.scale = op.scale.or(Some(1.0))),
        before("scale given is ignored", |op, _| op.scale = None),
        before("state taken for zeros", |_, o| {
            let n = values(&o["state"]).len();
            set(&mut o["state"], vec![0.0; n]);
        }),
        Mutant::after::<Rule>("last column of odd widths missed", op, F32, |_, o| {
            let dv = last(&o["o"]);
            edit::<f32>(&mut o["o"], |i, v| if dv % 2 == 1 && dv > 1 && i % dv == dv - 1 { 0.0 } else { v });
        }),
        Mutant::overrun(op, F32),
    ]
}
