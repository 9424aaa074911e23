//! Wrong functions, arithmetic and conversions.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{DType, F8E4M3, Num, Scalar, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

/// A wrong function of one element, in f32.
fn function(name: &'static str, f: UnaryFn, wrong: fn(f64) -> f64) -> Mutant {
    Mutant::instead::<Unary<f32>>(name, f.name(), F32, move |_, o| {
        let x = values(&o["x"]);
        set(&mut o["y"], x.into_iter().map(wrong));
    })
}

/// Replaces a function by another one.
fn exchanged(name: &'static str, f: UnaryFn, wrong: UnaryFn) -> Mutant {
    Mutant::before::<Unary<f32>>(name, f.name(), F32, move |op, _| *op = Unary::of(wrong))
}

pub(super) fn mutants() -> Vec<Mutant> {
    [functions(), arithmetic(), casts(), moves()].concat()
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn functions() -> Vec<Mutant> {
    vec![
        exchanged("erf form instead of the tanh form", UnaryFn::Gelu, UnaryFn::GeluErf),
        exchanged("tanh form instead of the erf form", UnaryFn::GeluErf, UnaryFn::Gelu),
        function("sigmoid form of gelu", UnaryFn::Gelu, |x| x * sigmoid(1.702 * x)),
        function("NaN dropped", UnaryFn::Relu, |x| if x > 0.0 { x } else { 0.0 }),
        function("sign of −0 and NaN is 1", UnaryFn::Sign, |x| if x < 0.0 { -1.0 } else { 1.0 }),
        function("half to even", UnaryFn::Round, f64::round_ties_even),
        function("half up", UnaryFn::Round, |x| (x + 0.5).floor()),
        function("half added in f32, which carries", UnaryFn::Round, |x| {
            single(x.abs() + 0.5).floor().copysign(x)
        }),
        function("truncated", UnaryFn::Floor, f64::trunc),
        function("truncated", UnaryFn::Ceil, f64::trunc),
        function("rounded down", UnaryFn::Trunc, f64::floor),
        function("rounded to nearest", UnaryFn::Trunc, f64::round),
        function("one is added first", UnaryFn::Log1p, |x| single(1.0 + x).ln()),
        function("the power overflows", UnaryFn::Softplus, |x| single(single(x.exp()).ln_1p())),
        function("without the tail", UnaryFn::Softplus, |x| x.max(0.0)),
        function("one is subtracted last", UnaryFn::Expm1, |x| single(x.exp()) - 1.0),
        function("the linear term alone", UnaryFn::Expm1, |x| if x.abs() < 1e-3 { x } else { x.exp_m1() }),
        function("angle reduced in f32", UnaryFn::Sin, |x| {
            let turn = std::f32::consts::TAU;
            f64::from((x as f32 - (x as f32 / turn).round() * turn).sin())
        }),
        function("small values lost to cancellation", UnaryFn::Tanh, |x| {
            let e = single((2.0 * x).exp());
            if e.is_infinite() { 1.0 } else { single(single(e - 1.0) / single(e + 1.0)) }
        }),
        function("one plus erf cancels", UnaryFn::GeluErf, |x| {
            // erf with seven digits, as from a polynomial.
            let y = values_of_gelu_erf(x);
            if x < -4.0 { single(single(y * 1e7).round() / 1e7) } else { y }
        }),
        function("0 at −∞, where the formula has none", UnaryFn::Silu, |x| {
            if x == f64::NEG_INFINITY { 0.0 } else { x * sigmoid(x) }
        }),
        function("flushed to zero", UnaryFn::Sqrt, |x| {
            if x.abs() < f64::from(f32::MIN_POSITIVE) { 0.0 } else { x.sqrt() }
        }),
        function("with six digits", UnaryFn::Exp, |x| {
            let y = x.exp();
            if y.is_finite() { y * (1.0 + 5e-6) } else { y }
        }),
        function("with ten bits", UnaryFn::Recip, |x| {
            let y = 1.0 / x;
            if y.is_finite() { f64::from(f32::from_bits((y as f32).to_bits() & !0x1fff)) } else { y }
        }),
        Mutant::instead::<Unary<f64>>("f64 through f32", "exp", DType::F64, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| f64::from((v as f32).exp())));
        }),
        Mutant::instead::<Unary<f16>>("intermediate rounded to f16", "sigmoid", F16, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(|v| 1.0 / half(1.0 + half((-v).exp()))));
        }),
        Mutant::instead::<Glu<f32>>("gelu for silu", "swiglu", F32, |_, o| {
            let y: Vec<f64> = values(&o["gate"])
                .iter()
                .zip(values(&o["up"]))
                .map(|(g, u)| values_of_gelu_erf(*g) * u)
                .collect();
            set(&mut o["y"], y);
        }),
        Mutant::before::<Glu<f32>>("gate and up exchanged", "swiglu", F32, |_, o| {
            let up = o.remove("up").expect("an operand of every call");
            let gate = std::mem::replace(&mut o["gate"], up);
            o.insert("up", gate);
        }),
        Mutant::instead::<Glu<f16>>("gate rounded to f16 before the product", "swiglu", F16, |_, o| {
            let gated = |g: f64| half(g * sigmoid(g));
            let y: Vec<f64> =
                values(&o["gate"]).iter().zip(values(&o["up"])).map(|(g, u)| gated(*g) * u).collect();
            set(&mut o["y"], y);
        }),
    ]
}

/// `x/2 · (1 + erf(x/√2))`, computed by the reference backend.
fn values_of_gelu_erf(x: f64) -> f64 {
    use rocm_ops::Backend;
    let b = rocm_ops::Reference::new();
    let y = b.tensor(&[1], &[x]).and_then(|x| b.gelu_erf(x.as_ref()));
    y.map_or(f64::NAN, |y| values(y)[0])
}

fn arithmetic() -> Vec<Mutant> {
    let bytes = |name, f: BinaryFn, wrong: fn(i8, i8) -> i8| {
        Mutant::instead::<Binary<i8>>(name, f.name(), DType::I8, move |_, o| {
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            set(
                &mut o["y"],
                a.iter().zip(b).map(|(a, b)| f64::from(wrong(*a as i8, b as i8))).collect::<Vec<_>>(),
            );
        })
    };
    let floats = |name, f: BinaryFn, wrong: fn(f64, f64) -> f64| {
        Mutant::instead::<Binary<f32>>(name, f.name(), F32, move |_, o| {
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            set(&mut o["y"], a.iter().zip(b).map(|(a, b)| wrong(*a, b)).collect::<Vec<_>>());
        })
    };
    vec![
        floats("NaN dropped", BinaryFn::Maximum, f64::max),
        floats("NaN kept on the left only", BinaryFn::Minimum, |a, b| {
            if a.is_nan() || b.is_nan() || a < b { a } else { b }
        }),
        floats("reciprocal with few bits", BinaryFn::Div, |a, b| {
            a * f64::from((1.0 / b as f32).to_bits() & !0xff).min(f64::INFINITY)
        }),
        bytes("saturated", BinaryFn::Add, i8::saturating_add),
        bytes("saturated", BinaryFn::Mul, i8::saturating_mul),
        bytes("x / 0 is the largest", BinaryFn::Div, |a, b| if b == 0 { i8::MAX } else { a.wrapping_div(b) }),
        bytes("MIN / -1 is MAX", BinaryFn::Div, |a, b| a.saturating_div(if b == 0 { return 0 } else { b })),
        bytes("rounded down", BinaryFn::Div, |a, b| if b == 0 { 0 } else { a.wrapping_div_euclid(b) }),
        Mutant::instead::<Unary<i16>>("saturated", "abs", DType::I16, |_, o| {
            let x = values(&o["x"]);
            set(&mut o["y"], x.into_iter().map(f64::abs));
        }),
        Mutant::instead::<Affine<f32>>("sum before the product", "affine", F32, |op, o| {
            let (x, mul, add) = (values(&o["x"]), op.mul, op.add);
            set(&mut o["y"], x.into_iter().map(|v| (v + add) * mul));
        }),
        Mutant::instead::<Affine<i32>>("integers through f32", "affine", DType::I32, |op, o| {
            let (x, mul, add) = (values(&o["x"]), op.mul, op.add);
            set(&mut o["y"], x.into_iter().map(|v| f64::from((v as f32).mul_add(mul as f32, add as f32))));
        }),
        Mutant::before::<Binary<f32>>("b read without its strides", "sub", F32, |_, o| {
            relayout(&mut o["b"], forget_strides)
        }),
    ]
}

fn casts() -> Vec<Mutant> {
    fn wrong<A: Scalar, B: Scalar>(name: &'static str, f: fn(A) -> B) -> Mutant {
        Mutant::after::<Cast<B>>(name, "cast", A::DTYPE, move |_, o| {
            // Casts from other types run unchanged.
            let Some(x) = o["x"].as_ref().typed::<A>() else { return };
            let results: Vec<B> = x.layout().positions().map(|p| f(x.data()[p])).collect();
            edit::<B>(&mut o["y"], |i, _| results[i]);
        })
    }
    vec![
        wrong::<f32, i32>("f32 to i32 rounds down", |v| v.floor() as i32),
        wrong::<f32, i32>("f32 to i32 rounds to nearest", |v| v.round() as i32),
        wrong::<f32, u8>("f32 to u8 wraps", |v| v as i64 as u8),
        wrong::<f32, i64>("NaN to i64 is MIN", |v| if v.is_nan() { i64::MIN } else { v as i64 }),
        wrong::<f32, f16>("f32 to f16 truncates", |v| {
            let near = f16::from_f32(v);
            let away = near.is_finite() && near.to_f32().abs() > v.abs();
            if away { f16::from_bits(near.to_bits() - 1) } else { near }
        }),
        wrong::<f32, f16>("f32 to f16 saturates", |v| {
            if v.is_finite() { f16::from_f32(v.clamp(-65504.0, 65504.0)) } else { f16::from_f32(v) }
        }),
        wrong::<f64, f16>("f64 to f16 in two roundings", |v| f16::from_f32(v as f32)),
        wrong::<i64, f32>("i64 to f32 in two roundings", |v| v as f64 as f32),
        wrong::<f32, F8E4M3>("f8e4m3 overflows to NaN", |v| {
            F8E4M3::from_f64(if v.abs() > 464.0 { f64::NAN } else { v.into() })
        }),
        wrong::<i32, u8>("i32 to u8 saturates", |v| v.clamp(0, 255) as u8),
        wrong::<f64, f32>("subnormals flushed", |v| if (v as f32).is_subnormal() { 0.0 } else { v as f32 }),
    ]
}

/// Another definition of numbers in steps.
fn steps<T: Num>(name: &'static str, wrong: fn(f64, f64, f64) -> f64) -> Mutant {
    Mutant::instead::<Arange<T>>(name, "arange", T::DTYPE, move |op, o| {
        let (start, step, n) = (op.start.to_f64(), op.step.to_f64(), o["y"].layout().len());
        set(&mut o["y"], (0..n).map(|i| wrong(i as f64, start, step)).collect::<Vec<_>>());
    })
}

fn moves() -> Vec<Mutant> {
    vec![
        Mutant::before::<TensorCopy>("x read without its strides", "copy", F32, |_, o| {
            relayout(&mut o["x"], forget_strides)
        }),
        Mutant::after::<TensorCopy>("gaps of the output written", "copy", F32, |_, o| {
            let (layout, len) = (*o["y"].layout(), o["y"].as_ref().data_len());
            let inside: Vec<usize> = layout.positions().collect();
            // Every element outside the view.
            relayout(&mut o["y"], |_| rocm_ops::Layout::contiguous(&[len]).ok());
            edit::<f32>(&mut o["y"], |at, v| if inside.contains(&at) { v } else { 0.0 });
            relayout(&mut o["y"], |_| Some(layout));
        }),
        Mutant::after::<TensorCopy>("tail of long rows missed", "copy", F32, |_, o| {
            let n = last(&o["y"]);
            edit::<f32>(&mut o["y"], |i, v| if n > 4096 && i % n >= 4096 { 0.0 } else { v });
        }),
        Mutant::overrun("copy", DType::U8),
        Mutant::overrun("silu", F16),
        Mutant::instead::<Where>("only 1 is true", "where", F32, |_, o| {
            let (c, t, f) = (values(&o["cond"]), values(&o["on_true"]), values(&o["on_false"]));
            set(&mut o["y"], (0..c.len()).map(|i| if c[i] == 1.0 { t[i] } else { f[i] }));
        }),
        Mutant::instead::<Where>("only positive is true", "where", F32, |_, o| {
            let (c, t, f) = (values(&o["cond"]), values(&o["on_true"]), values(&o["on_false"]));
            set(&mut o["y"], (0..c.len()).map(|i| if c[i] > 0.0 { t[i] } else { f[i] }));
        }),
        Mutant::after::<Fill<f16>>("last element missed", "fill", F16, |_, o| {
            let len = o["y"].layout().len();
            edit::<f16>(&mut o["y"], |i, v| if i + 1 == len { f16::from_f32(-7.0) } else { v });
        }),
        steps::<f32>("rounded to f32 first", |i, start, step| single(start) + single(i * single(step))),
        steps::<f64>("the product rounded by itself", |i, start, step| start + i * step),
        steps::<f16>("added up", |i, start, step| (0..i as usize).fold(start, |sum, _| half(sum + step))),
        steps::<f32>("from the step on", |i, start, step| (i + 1.0).mul_add(step, start)),
        steps::<i8>("saturated", |i, start, step| start + i * step),
        steps::<i64>("through f64", |i, start, step| i.mul_add(step, start)),
        Mutant::overrun("arange", DType::I16),
        Mutant::declines("neg", F32),
        Mutant::declines_late("abs", F32),
    ]
}
