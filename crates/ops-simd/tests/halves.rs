//! Functions whose results are rounded to 16 bits, compared with f64, over every f16 and bf16.

use half::{bf16, f16};
use ops_simd::{Element, Isa, Store, Unary, unary, unary_in_place};

/// The error allowed in addition to rounding, in units in the last place: an eighth, where rounding itself takes a half.
const LIMIT: f64 = 0.5 + 0.125;

/// A 16-bit type: its bit patterns and the limits of its range.
trait Half: Element {
    fn from_pattern(bits: u16) -> Self;
    /// The exponent of the smallest normal number.
    const LOWEST: i32;
    /// The largest finite number.
    const LARGEST: f64;
}

impl Half for f16 {
    fn from_pattern(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    const LOWEST: i32 = -14;
    const LARGEST: f64 = 65_504.0;
}

impl Half for bf16 {
    fn from_pattern(bits: u16) -> Self {
        Self::from_bits(bits)
    }
    const LOWEST: i32 = -126;
    const LARGEST: f64 = 3.389_531_389_251_535_5e38;
}

/// The distance of `got` from `want` in units in the last place of `T` at `want`.
fn ulp<T: Half>(got: T, want: f64) -> f64 {
    let got = f64::from(got.to_f32());
    if want.is_nan() || got.is_nan() {
        return if want.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    // The first number beyond the range; numbers from half a unit below it round to infinity.
    let beyond =
        T::LARGEST * (1.0 + 2f64.powi(1 - T::DIGITS as i32) / (2.0 - 2f64.powi(1 - T::DIGITS as i32)));
    let inside = |x: f64| x.clamp(-beyond, beyond);
    let exponent = ((inside(want).abs().to_bits() >> 52) as i32 - 1023).max(T::LOWEST);
    (inside(got) - inside(want)).abs() / 2f64.powi(exponent + 1 - T::DIGITS as i32)
}

const PI: f64 = std::f64::consts::PI;

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn silu(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn gelu(x: f64) -> f64 {
    x / (1.0 + (-2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x)).exp())
}

fn gelu_erf(x: f64) -> f64 {
    0.5 * x * libm::erfc(-x / 2f64.sqrt())
}

type Reference = fn(f64) -> f64;

fn over_every<T: Half>() {
    let x: Vec<T> = (0..=u16::MAX).map(T::from_pattern).collect();
    let cases: [(Unary, Reference); 12] = [
        (Unary::Exp, f64::exp),
        (Unary::Sigmoid, sigmoid),
        (Unary::Silu, silu),
        (Unary::Gelu, gelu),
        (Unary::GeluErf, gelu_erf),
        (Unary::Tanh, f64::tanh),
        (Unary::Erf, libm::erf),
        (Unary::Log, f64::ln),
        (Unary::Log1p, f64::ln_1p),
        (Unary::Softplus, |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        (Unary::Expm1, f64::exp_m1),
        (Unary::Sin, f64::sin),
    ];
    let mut failures = Vec::new();
    for (op, reference) in cases {
        let want: Vec<f64> = x.iter().map(|x| reference(f64::from(x.to_f32()))).collect();
        for isa in Isa::available() {
            let mut y = vec![T::default(); x.len()];
            unary(isa, op, &x, &mut y, Store::Cached).unwrap();
            let worst = (0..x.len())
                .map(|i| (ulp(y[i], want[i]), i))
                .fold((0.0, 0), |worst, here| if here.0 > worst.0 { here } else { worst });
            let line =
                format!("{isa:10} {op:10} {} {:.4} at {:?}: {:?}", T::NAME, worst.0, x[worst.1], y[worst.1]);
            println!("{line}");
            if worst.0 > LIMIT {
                failures.push(line);
            }
            // A value depends neither on its position nor on where it is written.
            let (mut z, mut w) = (x.clone(), vec![T::default(); x.len() - 5]);
            unary_in_place(isa, op, &mut z);
            unary(isa, op, &x[5..], &mut w, Store::Stream).unwrap();
            let same = |a: T, b: T| a == b || a.to_f32().is_nan() && b.to_f32().is_nan();
            assert!((0..x.len()).all(|i| same(y[i], z[i])), "{isa} {op} {} in place", T::NAME);
            assert!((5..x.len()).all(|i| same(y[i], w[i - 5])), "{isa} {op} {} from elsewhere", T::NAME);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

#[test]
fn over_every_f16() {
    over_every::<f16>();
}

#[test]
fn over_every_bf16() {
    over_every::<bf16>();
}
