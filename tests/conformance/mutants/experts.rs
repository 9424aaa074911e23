//! Wrong routers, expert products, and sums of their results.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{DType, Host, Layout, f16};

const F32: DType = DType::F32;

type Router = RouterTopK<f32>;
type Experts = LinearExperts<f32>;

/// Changes the chosen experts of every token, as pairs of weight and id.
fn reorder(o: &mut NamedTensors<Host>, f: impl Fn(&mut [(f64, f64)])) {
    let k = o["ids"].dims()[1];
    let mut pairs: Vec<(f64, f64)> = values(&o["weights"]).into_iter().zip(values(&o["ids"])).collect();
    pairs.chunks_mut(k.max(1)).for_each(f);
    set(&mut o["weights"], pairs.iter().map(|(weight, _)| *weight));
    set(&mut o["ids"], pairs.iter().map(|(_, id)| *id));
}

/// The layout with stride 0 along an axis.
fn repeated(layout: &Layout, axis: usize) -> Option<Layout> {
    let mut strides = layout.strides().to_vec();
    *strides.get_mut(axis)? = 0;
    Layout::strided(layout.dims(), &strides, layout.offset()).ok()
}

pub(super) fn mutants() -> Vec<Mutant> {
    [routers(), products(), gated(), combined(), sums()].concat()
}

fn routers() -> Vec<Mutant> {
    let router =
        |name, f: fn(&mut Router)| Mutant::before::<Router>(name, "router_topk", F32, move |op, _| f(op));
    vec![
        router("groups ignored", |op| (op.groups, op.groups_kept) = (1, 1)),
        router("groups marked by their best alone", |op| op.group_score = GroupScore::Max),
        router("groups marked by their two best", |op| op.group_score = GroupScore::Top2),
        router("one group more is kept", |op| op.groups_kept = (op.groups_kept + 1).min(op.groups)),
        router("weights not divided by their sum", |op| op.renormalize = false),
        router("weights always divided by their sum", |op| op.renormalize = true),
        router("scale ignored", |op| op.scale = 1.0),
        router("scored before the choice", |op| op.order = ScoringOrder::Before),
        router("scored after the choice", |op| op.order = ScoringOrder::After),
        router("softmax for sigmoid", |op| op.scoring = Scoring::Softmax),
        Mutant::before::<Router>("bias ignored", "router_topk", F32, |_, o| drop(o.remove("bias"))),
        Mutant::before::<Router>("the bias also weighs", "router_topk", F32, |op, o| {
            if let (ScoringOrder::After, Some(bias)) = (op.order, optional(o.get("bias"))) {
                o.remove("bias");
                edit::<f32>(&mut o["logits"], |i, v| v + bias[i % bias.len()] as f32);
            }
        }),
        Mutant::after::<Router>("the higher id first among equals", "router_topk", F32, |_, o| {
            reorder(o, |pairs| {
                for j in 1..pairs.len() {
                    if pairs[j - 1].0 == pairs[j].0 && pairs[j - 1].1 < pairs[j].1 {
                        pairs.swap(j - 1, j);
                    }
                }
            });
        }),
        Mutant::after::<Router>("in the order of ids", "router_topk", F32, |_, o| {
            reorder(o, |pairs| pairs.sort_by(|a, b| a.1.total_cmp(&b.1)));
        }),
        Mutant::after::<Router>("weights rounded to f16", "router_topk", F32, |_, o| {
            edit_floats(&mut o["weights"], half)
        }),
    ]
}

fn products() -> Vec<Mutant> {
    let of = |name, f: fn(&mut NamedTensors<Host>)| {
        Mutant::before::<Experts>(name, "linear_experts", F32, move |_, o| f(o))
    };
    vec![
        of("one row for all choices", |o| relayout(&mut o["x"], |l| repeated(l, 1))),
        of("one matrix for all experts", |o| relayout(&mut o["weight"], |l| repeated(l, 0))),
        of("one bias for all experts", |o| {
            if let Some(mut bias) = o.remove("bias") {
                relayout(&mut bias, |l| repeated(l, 0));
                o.insert("bias", bias);
            }
        }),
        of("bias ignored", |o| drop(o.remove("bias"))),
        of("\"no expert\" is the first", |o| {
            if o["weight"].dims()[0] > 0 {
                edit_if::<u32>(&mut o["ids"], |_, id| if id == u32::MAX { 0 } else { id });
            }
        }),
        of("ids read without their strides", |o| relayout(&mut o["ids"], forget_strides)),
        Mutant::after::<Experts>("a bias without an expert", "linear_experts", F32, |_, o| {
            let Some(bias) = optional(o.get("bias")) else { return };
            let n = last(&o["y"]);
            let ids = values(&o["ids"]);
            let none = |i: usize| ids[i / n] == f64::from(u32::MAX);
            // Without experts there is no bias.
            let first = |i: usize| bias.get(i % n).map_or(0.0, |b| *b as f32);
            edit::<f32>(&mut o["y"], |i, v| if none(i) { first(i) } else { v });
        }),
        Mutant::after::<Experts>("last output of odd widths missed", "linear_experts", F32, |_, o| {
            let n = last(&o["y"]);
            edit::<f32>(&mut o["y"], |i, v| if n % 2 == 1 && i % n == n - 1 { 0.0 } else { v });
        }),
        Mutant::after::<Experts>("last row of more than 64 missed", "linear_experts", F32, |_, o| {
            let dims = o["y"].dims();
            let (rows, n) = (dims[0] * dims[1], dims[2]);
            edit::<f32>(&mut o["y"], |i, v| if rows > 64 && i / n.max(1) == rows - 1 { 0.0 } else { v });
        }),
        of("the expert after one without rows takes its matrix", |o| {
            let chosen: Vec<u32> = values(&o["ids"]).into_iter().map(|id| id as u32).collect();
            let e = o["weight"].dims()[0] as u32;
            let shifted = |id: u32| (1..e).contains(&id) && !chosen.contains(&(id - 1));
            edit_if::<u32>(&mut o["ids"], |_, id| if shifted(id) { id - 1 } else { id });
        }),
        Mutant::swallows_errors("linear_experts", F32),
        Mutant::before::<Experts>("the next expert", "qlinear_experts", F32, |_, o| {
            let e = o["weight"].dims()[0] as u32;
            edit_if::<u32>(&mut o["ids"], |_, id| if id < e { (id + 1) % e } else { id });
        }),
        Mutant::before::<Experts>("one row for all choices", "qlinear_experts", F32, |_, o| {
            relayout(&mut o["x"], |l| repeated(l, 1))
        }),
        Mutant::swallows_errors("qlinear_experts", F32),
    ]
}

fn gated() -> Vec<Mutant> {
    type Gated = LinearExpertsSwiglu<f32>;
    let op = "linear_experts_swiglu";
    let before = |name, f: fn(&mut Gated, &mut NamedTensors<Host>)| Mutant::before::<Gated>(name, op, F32, f);
    vec![
        before("gate and up exchanged", |_, o| {
            if o["gate"].dtype() == F32 {
                let (gate, up) = (values(&o["gate"]), values(&o["up"]));
                set(&mut o["gate"], up);
                set(&mut o["up"], gate);
            }
        }),
        before("bias of the gate ignored", |_, o| drop(o.remove("gate_bias"))),
        before("bias of the up ignored", |_, o| drop(o.remove("up_bias"))),
        before("limit ignored", |op, _| op.limit = None),
        before("alpha ignored", |op, _| op.alpha = 1.0),
        before("one row for all choices", |_, o| relayout(&mut o["x"], |l| repeated(l, 1))),
        before("one matrix for all experts", |_, o| relayout(&mut o["up"], |l| repeated(l, 0))),
        Mutant::after::<Gated>("the shift without an expert", op, F32, |_, o| {
            let (ids, n) = (values(&o["ids"]), last(&o["y"]));
            let none = |i: usize| ids[i / n] == f64::from(u32::MAX);
            edit::<f32>(&mut o["y"], |i, v| if none(i) { 1.0 } else { v });
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
        Mutant::declines_late(op, F32),
    ]
}

fn combined() -> Vec<Mutant> {
    type Combined = LinearExpertsCombine<f32>;
    let op = "linear_experts_combine";
    let before =
        |name, f: fn(&mut NamedTensors<Host>)| Mutant::before::<Combined>(name, op, F32, move |_, o| f(o));
    vec![
        before("weights ignored", |o| edit_floats(&mut o["weights"], |_| 1.0)),
        before("weights rounded to f16", |o| edit_floats(&mut o["weights"], half))
            .in_cases_of("weight=[40,18,72]"),
        before("last choice missed", |o| {
            let k = last(&o["weights"]);
            edit::<f32>(&mut o["weights"], |i, v| if i % k == k - 1 { 0.0 } else { v });
        }),
        before("choices from the 17th on missed", |o| {
            let k = last(&o["weights"]);
            edit::<f32>(&mut o["weights"], |i, v| if i % k > 15 { 0.0 } else { v });
        }),
        before("weights read without their strides", |o| relayout(&mut o["weights"], forget_strides)),
        before("bias ignored", |o| drop(o.remove("bias"))),
        before("one row for all choices", |o| relayout(&mut o["x"], |l| repeated(l, 1))),
        before("\"no expert\" is the first", |o| {
            if o["weight"].dims()[0] > 0 {
                edit_if::<u32>(&mut o["ids"], |_, id| if id == u32::MAX { 0 } else { id });
            }
        }),
        Mutant::swallows_errors(op, F32),
        Mutant::overrun(op, F32),
        Mutant::declines_late(op, F32),
    ]
}

fn sums() -> Vec<Mutant> {
    vec![
        Mutant::before::<CombineExperts<f32>>("weights ignored", "combine_experts", F32, |_, o| {
            edit_floats(&mut o["weights"], |_| 1.0)
        }),
        Mutant::before::<CombineExperts<f32>>("last expert missed", "combine_experts", F32, |_, o| {
            let k = last(&o["weights"]);
            edit::<f32>(&mut o["weights"], |i, v| if i % k == k - 1 { 0.0 } else { v });
        }),
        Mutant::before::<CombineExperts<f32>>(
            "weights read without their strides",
            "combine_experts",
            F32,
            |_, o| relayout(&mut o["weights"], forget_strides),
        ),
        Mutant::before::<CombineExperts<f16>>(
            "weights rounded to f16",
            "combine_experts",
            DType::F16,
            |_, o| edit_floats(&mut o["weights"], half),
        ),
        Mutant::instead::<CombineExperts<f16>>("summed in f16", "combine_experts", DType::F16, |_, o| {
            let &[n, k, d] = o["x"].dims() else { return };
            let (x, weights) = (values(&o["x"]), values(&o["weights"]));
            let sum = |i: usize, l: usize| {
                sum_rounded((0..k).map(|j| weights[i * k + j] * x[(i * k + j) * d + l]), half)
            };
            let y: Vec<f64> =
                (0..n).flat_map(|i| (0..d).map(move |l| (i, l))).map(|(i, l)| sum(i, l)).collect();
            set(&mut o["y"], y);
        }),
    ]
}
