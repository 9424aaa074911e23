//! Wrong writes to caches, and wrong fused products.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, Backend, DType, Host, Reference, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

pub(super) fn mutants() -> Vec<Mutant> {
    [writes(), keys(), products()].concat()
}

/// Replaces "no slot" by another slot, in u32 slots.
fn without_none(slots: &mut AnyTensor<Host>, instead: u32) {
    edit_if::<u32>(slots, |_, slot| if slot == u32::MAX { instead } else { slot });
}

fn writes() -> Vec<Mutant> {
    type Write = CacheWrite<f32>;
    let op = "cache_write";
    let before =
        |name, f: fn(&mut NamedTensors<Host>)| Mutant::before::<Write>(name, op, F32, move |_, o| f(o));
    vec![
        before("\"no slot\" is the first", |o| {
            if o["cache"].dims()[0] > 0 {
                without_none(&mut o["slots"], 0);
            }
        }),
        before("slots one too low", |o| {
            edit_if::<u32>(&mut o["slots"], |_, s| s.saturating_sub(u32::from(s != u32::MAX)))
        }),
        before("x read without its strides", |o| relayout(&mut o["x"], forget_strides)),
        before("slots read without their strides", |o| relayout(&mut o["slots"], forget_strides)),
        before("negative slots count from the end", |o| {
            let slots = o["cache"].dims()[0] as i32;
            edit_if::<i32>(&mut o["slots"], |_, s| if s < 0 { s + slots } else { s });
        }),
        Mutant::after::<Write>("slots that nothing names cleared", op, F32, |_, o| {
            let (slots, row) = (values(&o["slots"]), o["cache"].layout().len() / o["cache"].dims()[0].max(1));
            if o["cache"].dtype() == F32 {
                edit::<f32>(&mut o["cache"], |at, v| {
                    if slots.contains(&((at / row.max(1)) as f64)) { v } else { 0.0 }
                });
            }
        }),
        Mutant::before::<CacheWrite<f16>>("x rounded to bf16", op, F16, |_, o| {
            edit_floats(&mut o["x"], brain)
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
    ]
}

/// Runs the op on the reference, with the outcome left in the operands.
fn run<O: rocm_ops::backend::Op>(op: &O, o: &mut NamedTensors<Host>)
where
    Reference: rocm_ops::backend::Execute<O>,
{
    if let Ok(args) = o.args(op) {
        let _ = Reference::new().run(op, args);
    }
}

fn keys() -> Vec<Mutant> {
    type Keys = RopeCacheWrite<f32>;
    type Normed = QkNormRopeCacheWrite<f32>;
    let (op, normed) = ("rope_cache_write", "qk_norm_rope_cache_write");
    let before = |name, f: fn(&mut Keys, &mut NamedTensors<Host>)| Mutant::before::<Keys>(name, op, F32, f);
    let before_normed =
        |name, f: fn(&mut Normed, &mut NamedTensors<Host>)| Mutant::before::<Normed>(name, normed, F32, f);
    vec![
        before("pairs always halves", |op, _| op.order = RopeOrder::Half),
        before("pairs always neighbours", |op, _| op.order = RopeOrder::Interleaved),
        before("positions in order", |_, o| edit_if::<u32>(&mut o["positions"], |at, _| at as u32)),
        before("slots taken for positions", |_, o| {
            let rows = o["cos"].dims()[0] as u32;
            let slots: Vec<f64> = values(&o["slots"]);
            edit_if::<u32>(&mut o["positions"], |at, p| slots.get(at).map_or(p, |s| *s as u32 % rows));
        }),
        before("\"no slot\" is the first", |_, o| without_none(&mut o["slots"], 0)),
        before("turned the other way", |_, o| edit_floats(&mut o["sin"], |s| -s)),
        Mutant::instead::<Keys>("values left out", op, F32, |op, o| {
            let old = values(&o["v_cache"]);
            run(op, o);
            if o["v_cache"].dtype() == F32 {
                set(&mut o["v_cache"], old);
            }
        }),
        Mutant::instead::<Keys>("values rotated too", op, F32, |op, o| {
            if o["k"].dims() == o["v"].dims() && o["v_cache"].dtype() == F32 {
                let (k, v) = (values(&o["k"]), values(&o["v"]));
                let (keys, old) = (values(&o["k_cache"]), values(&o["v_cache"]));
                set(&mut o["k"], v);
                set(&mut o["k_cache"], old);
                run(op, o);
                let rotated = values(&o["k_cache"]);
                set(&mut o["k"], k);
                set(&mut o["k_cache"], keys);
                run(op, o);
                set(&mut o["v_cache"], rotated);
            } else {
                run(op, o);
            }
        }),
        Mutant::before::<RopeCacheWrite<f16>>("keys rounded to bf16", op, F16, |_, o| {
            edit_floats(&mut o["k"], brain)
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
        before_normed("eps forgotten", |op, _| op.eps = 0.0),
        before_normed("weight ignored", |_, o| edit_floats(&mut o["weight"], |_| 1.0)),
        before_normed("weight after the pairs are exchanged", |_, o| {
            let weight = values(&o["weight"]);
            set(&mut o["weight"], weight.into_iter().rev());
        }),
        Mutant::swallows_errors(normed, F32),
    ]
}

fn products() -> Vec<Mutant> {
    type Gated = LinearSwiglu<f32>;
    let op = "linear_swiglu";
    let before =
        |name, f: fn(&mut NamedTensors<Host>)| Mutant::before::<Gated>(name, op, F32, move |_, o| f(o));
    vec![
        before("gate and up exchanged", |o| {
            if o["gate"].dtype() == o["up"].dtype() && o["gate"].dtype() == F32 {
                let (gate, up) = (values(&o["gate"]), values(&o["up"]));
                set(&mut o["gate"], up);
                set(&mut o["up"], gate);
            }
        }),
        before("x rounded to bf16", |o| edit_floats(&mut o["x"], brain)),
        Mutant::after::<LinearSwiglu<f16>>("off by a thousandth", op, F16, |_, o| {
            let y: Vec<f64> = values(&o["y"]).into_iter().map(|y| half(y * (1.0 + 1.0 / 1024.0))).collect();
            set(&mut o["y"], y);
        })
        .in_cases_of("gate=[34,72], up="),
        Mutant::after::<Gated>("last column of odd widths missed", op, F32, |_, o| {
            let n = last(&o["y"]);
            edit::<f32>(&mut o["y"], |i, v| if n % 2 == 1 && i % n == n - 1 { 0.0 } else { v });
        }),
        Mutant::overrun(op, F32),
        Mutant::declines_late(op, F32),
    ]
}
