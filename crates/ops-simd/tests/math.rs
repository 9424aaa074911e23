//! Elementary functions compared with f64, in units in the last place.

use ops_simd::{Isa, Store, Unary, unary};

/// The distance of `got` from `want` in units in the last place of f32 at `want`, reduced by `slack` units of the smallest
/// subnormal.
fn ulp(got: f32, want: f64, slack: f64) -> f64 {
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = want as f32;
    if rounded.is_infinite() || got.is_infinite() {
        // Just beyond the edge of the range, either side is half a unit off.
        let edge = f64::from(f32::MAX);
        let off = |x: f64| x.signum() * x.abs().min(edge * (1.0 + 2f64.powi(-24)));
        return (off(f64::from(got)) - off(want)).abs() / 2f64.powi(104);
    }
    let exponent = (want.abs().max(f64::from(f32::MIN_POSITIVE)).to_bits() >> 52) as i32 - 1023;
    ((f64::from(got) - want).abs() - slack * 2f64.powi(-149)).max(0.0) / 2f64.powi(exponent - 23)
}

struct Case {
    op: Unary,
    reference: fn(f64) -> f64,
    /// Largest error with a fused multiply-add, and without.
    limit: (f64, f64),
    /// The same for arguments below −1.
    tail: (f64, f64),
    /// Additional units of the smallest subnormal allowed where a subnormal factor is multiplied.
    slack: f64,
}

impl Case {
    fn limit(&self, isa: Isa, x: f32) -> f64 {
        let (fused, plain) = if x < -1.0 { self.tail } else { self.limit };
        if isa == Isa::portable() && !cfg!(target_arch = "aarch64") { plain } else { fused }
    }
}

const PI: f64 = std::f64::consts::PI;

fn gelu(x: f64) -> f64 {
    // Written as a quotient, because 1 + tanh would cancel.
    x / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).exp())
}

fn gelu_erf(x: f64) -> f64 {
    0.5 * x * libm::erfc(-x / 2f64.sqrt())
}

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn cases() -> Vec<Case> {
    let case = |op, reference, fused: f64, plain: f64| Case {
        op,
        reference,
        limit: (fused, plain),
        tail: (fused, plain),
        slack: 0.0,
    };
    vec![
        case(Unary::Exp, f64::exp, 1.1, 1.1),
        case(Unary::Expm1, f64::exp_m1, 2.0, 2.0),
        case(Unary::Log, f64::ln, 1.1, 1.1),
        case(Unary::Log1p, f64::ln_1p, 2.0, 2.0),
        case(Unary::Softplus, softplus, 3.0, 3.0),
        case(Unary::Tanh, f64::tanh, 3.0, 3.0),
        case(Unary::Erf, libm::erf, 2.5, 3.0),
        case(Unary::Sin, f64::sin, 2.0, 2.0),
        case(Unary::Cos, f64::cos, 2.0, 2.0),
        case(Unary::Sigmoid, sigmoid, 3.0, 3.0),
        Case { slack: 128.0, ..case(Unary::Silu, silu, 4.0, 4.0) },
        Case { slack: 128.0, tail: (250.0, 250.0), ..case(Unary::Gelu, gelu, 8.0, 8.0) },
        Case { slack: 128.0, tail: (8.0, 250.0), ..case(Unary::GeluErf, gelu_erf, 8.0, 8.0) },
    ]
}

/// The error closest to its limit for each instruction set, over every `step`-th f32, and the argument that gave it.
fn worst(case: &Case, step: u32) -> Vec<(Isa, f64, f32)> {
    const BLOCK: u64 = 4096;
    // Sets that differ only in how bytes are multiplied do not affect these functions.
    let bytes = ["avx512vnni", "neondotprod", "neoni8mm"];
    let sets = Isa::available().into_iter().filter(|isa| !bytes.contains(&isa.name()));
    let mut worst: Vec<_> = sets.map(|isa| (isa, 0.0, 0.0)).collect();
    let end = u64::from(u32::MAX);
    for start in (0..=end).step_by((BLOCK * u64::from(step)) as usize) {
        let bits = (0..BLOCK).map(|i| start + i * u64::from(step)).take_while(|&b| b <= end);
        let x: Vec<f32> = bits.map(|b| f32::from_bits(b as u32)).collect();
        let want: Vec<f64> = x.iter().map(|&x| (case.reference)(f64::from(x))).collect();
        let mut y = vec![0f32; x.len()];
        for (isa, error, at) in &mut worst {
            unary(*isa, case.op, &x, &mut y, Store::Cached).unwrap();
            for i in 0..x.len() {
                let e = ulp(y[i], want[i], case.slack);
                if e / case.limit(*isa, x[i]) > *error / case.limit(*isa, *at) {
                    (*error, *at) = (e, x[i]);
                }
            }
        }
    }
    worst
}

fn check(step: u32, wanted: impl Fn(Unary) -> bool) {
    let mut failures = Vec::new();
    for case in cases().into_iter().filter(|case| wanted(case.op)) {
        for (isa, error, x) in worst(&case, step) {
            let limit = case.limit(isa, x);
            let line = format!(
                "{:10} {:10} {error:.3} ulp at {x:e}, limit {limit}",
                case.op.to_string(),
                isa.name()
            );
            println!("{line}");
            if error > limit {
                failures.push(line);
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn sampled() {
    check(10_007, |_| true);
}

#[test]
#[ignore = "every f32: some minutes"]
fn exhaustive_exp_and_log() {
    check(1, |op| matches!(op, Unary::Exp | Unary::Log));
}

#[test]
#[ignore = "every f32: some minutes"]
fn exhaustive_differences_from_one() {
    check(1, |op| matches!(op, Unary::Expm1 | Unary::Log1p | Unary::Softplus));
}

#[test]
#[ignore = "every f32: some minutes"]
fn exhaustive_tanh_and_erf() {
    check(1, |op| matches!(op, Unary::Tanh | Unary::Erf));
}

#[test]
#[ignore = "every f32: some minutes"]
fn exhaustive_sin_and_cos() {
    check(1, |op| matches!(op, Unary::Sin | Unary::Cos));
}

#[test]
#[ignore = "every f32: some minutes"]
fn exhaustive_activations() {
    check(1, |op| matches!(op, Unary::Sigmoid | Unary::Silu | Unary::Gelu | Unary::GeluErf));
}
