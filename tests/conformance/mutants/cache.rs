//! Wrong writes to caches.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{AnyTensor, Backend, DType, Host, Reference, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

pub(super) fn mutants() -> Vec<Mutant> {
    [writes(), keys(), queries(), projected()].concat()
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

fn projected() -> Vec<Mutant> {
    type Projected = RmsNormLinearRopeCacheWrite<f32>;
    let op = "rms_norm_linear_rope_cache_write";
    let before =
        |name, f: fn(&mut Projected, &mut NamedTensors<Host>)| Mutant::before::<Projected>(name, op, F32, f);
    vec![
        before("pairs always halves", |op, _| op.order = RopeOrder::Half),
        before("eps forgotten", |op, _| op.eps = 0.0),
        before("weight of the norm ignored", |_, o| edit_floats(&mut o["norm"], |_| 1.0)),
        before("bias ignored", |_, o| {
            if o.get("bias").is_some() {
                edit_floats(&mut o["bias"], |_| 0.0);
            }
        }),
        before("turned the other way", |_, o| edit_floats(&mut o["sin"], |s| -s)),
        before("positions in order", |_, o| edit_if::<u32>(&mut o["positions"], |at, _| at as u32)),
        before("\"no slot\" is the first", |_, o| without_none(&mut o["slots"], 0)),
        Mutant::instead::<Projected>("values left out", op, F32, |op, o| {
            let old = values(&o["v_cache"]);
            run(op, o);
            if o["v_cache"].dtype() == F32 {
                set(&mut o["v_cache"], old);
            }
        }),
        Mutant::instead::<Projected>("keys written to two slots", op, F32, |op, o| {
            run(op, o);
            let row = o["k_cache"].layout().len() / o["k_cache"].dims()[0].max(1);
            if o["k_cache"].dtype() == F32 && row > 0 {
                let mut keys = values(&o["k_cache"]);
                keys.copy_within(5 * row..6 * row, 6 * row);
                set(&mut o["k_cache"], keys);
            }
        }),
        Mutant::before::<RmsNormLinearRopeCacheWrite<f16>>("normed rows rounded to bf16", op, F16, |_, o| {
            edit_floats(&mut o["norm"], brain)
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
    ]
}

fn queries() -> Vec<Mutant> {
    type Both = RopeQkCacheWrite<f32>;
    let op = "rope_qk_cache_write";
    let before = |name, f: fn(&mut Both, &mut NamedTensors<Host>)| Mutant::before::<Both>(name, op, F32, f);
    vec![
        before("pairs always halves", |op, _| op.order = RopeOrder::Half),
        before("eps forgotten", |op, _| op.eps = 0.0),
        before("queries normed by the weight of keys", |_, o| {
            if let (Some(_), Some(weight)) = (o.get("q_norm"), o.get("k_norm").map(values)) {
                set(&mut o["q_norm"], weight);
            }
        }),
        before("keys not normed where queries are", |_, o| {
            if o.get("q_norm").is_some() && o.get("k_norm").is_some() {
                edit_floats(&mut o["k_norm"], |_| 1.0);
            }
        }),
        Mutant::instead::<Both>("queries left out", op, F32, |op, o| {
            run(op, o);
            let q = values(&o["q"]);
            set(&mut o["y"], q);
        }),
        Mutant::instead::<Both>("values left out", op, F32, |op, o| {
            let old = values(&o["v_cache"]);
            run(op, o);
            if o["v_cache"].dtype() == F32 {
                set(&mut o["v_cache"], old);
            }
        }),
        Mutant::after::<Both>("queries of skipped tokens left out", op, F32, |_, o| {
            let (slots, row) = (values(&o["slots"]), o["y"].layout().len() / o["y"].dims()[0].max(1));
            edit::<f32>(&mut o["y"], |at, v| {
                let none = slots[at / row.max(1)] == f64::from(u32::MAX);
                if none { 0.0 } else { v }
            });
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
    ]
}
