//! Wrong fused products.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::{DType, Host, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

pub(super) fn mutants() -> Vec<Mutant> {
    [swiglu(), adds(), normed(), normed_swiglu()].concat()
}

fn swiglu() -> Vec<Mutant> {
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

fn adds() -> Vec<Mutant> {
    type Add = LinearAdd<f32>;
    let op = "linear_add";
    let before =
        |name, f: fn(&mut NamedTensors<Host>)| Mutant::before::<Add>(name, op, F32, move |_, o| f(o));
    vec![
        before("residual ignored", |o| edit_floats(&mut o["residual"], |_| 0.0)),
        before("residual of the first row", |o| {
            let (n, all) = (last(&o["residual"]), values(&o["residual"]));
            let first = all.iter().take(n).copied().cycle().take(all.len());
            set(&mut o["residual"], first);
        }),
        before("x rounded to bf16", |o| edit_floats(&mut o["x"], brain)),
        Mutant::before::<LinearAdd<f16>>("residual rounded to bf16", op, F16, |_, o| {
            edit_floats(&mut o["residual"], brain)
        }),
        Mutant::overrun(op, F32),
        Mutant::declines_late(op, F32),
    ]
}

fn normed() -> Vec<Mutant> {
    type Normed = RmsNormLinear<f32>;
    let op = "rms_norm_linear";
    let before =
        |name, f: fn(&mut Normed, &mut NamedTensors<Host>)| Mutant::before::<Normed>(name, op, F32, f);
    vec![
        before("eps forgotten", |op, _| op.eps = 0.0),
        before("weight of the norm ignored", |_, o| edit_floats(&mut o["norm"], |_| 1.0)),
        before("bias ignored", |_, o| {
            if o.get("bias").is_some() {
                edit_floats(&mut o["bias"], |_| 0.0);
            }
        }),
        Mutant::before::<RmsNormLinear<f16>>("normed rows rounded to bf16", op, F16, |_, o| {
            edit_floats(&mut o["norm"], brain)
        }),
        Mutant::overrun(op, F32),
    ]
}

fn normed_swiglu() -> Vec<Mutant> {
    type Normed = RmsNormLinearSwiglu<f32>;
    let op = "rms_norm_linear_swiglu";
    let before =
        |name, f: fn(&mut Normed, &mut NamedTensors<Host>)| Mutant::before::<Normed>(name, op, F32, f);
    vec![
        before("eps forgotten", |op, _| op.eps = 0.0),
        before("weight of the norm ignored", |_, o| edit_floats(&mut o["norm"], |_| 1.0)),
        before("gate and up exchanged", |_, o| {
            if o["gate"].dtype() == o["up"].dtype() && o["gate"].dtype() == F32 {
                let (gate, up) = (values(&o["gate"]), values(&o["up"]));
                set(&mut o["gate"], up);
                set(&mut o["up"], gate);
            }
        }),
        Mutant::overrun(op, F32),
    ]
}
