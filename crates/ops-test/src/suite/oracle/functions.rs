//! Functions of one number, in double-double arithmetic, from their definitions and series.
use super::double::{Double, INVERSE, PI};
use std::sync::LazyLock;

/// The function of one number with this name.
pub(super) fn unary(op: &str) -> Option<fn(Double) -> Double> {
    Some(match op {
        "sigmoid" => sigmoid,
        "silu" => silu,
        "gelu" => gelu,
        "gelu_erf" => gelu_erf,
        "tanh" => Double::tanh,
        "erf" => erf,
        "exp" => Double::exp,
        "expm1" => expm1,
        "log" => Double::ln,
        "log1p" => log1p,
        "softplus" => softplus,
        "sin" => |x| sine(x, 0),
        // The cosine is the sine a quarter turn ahead.
        "cos" => |x| sine(x, 1),
        "sqrt" => Double::sqrt,
        "recip" => |x| Double::ONE / x,
        "floor" => |x| of(x.nearest().floor()),
        "ceil" => |x| of(x.nearest().ceil()),
        "round" => |x| of(half_away(x.nearest())),
        "trunc" => |x| of(x.nearest().trunc()),
        "neg" => |x| -x,
        "abs" => |x| of(x.nearest().abs()),
        "sqr" => Double::squared,
        "relu" => |x| of(if x.nearest() < 0.0 { 0.0 } else { x.nearest() }),
        "sign" => |x| of(f64::from(i8::from(x.nearest() > 0.0) - i8::from(x.nearest() < 0.0))),
        _ => return None,
    })
}

/// The function of two numbers with this name.
pub(super) fn binary(op: &str) -> Option<fn(Double, Double) -> Double> {
    Some(match op {
        "add" => |a, b| a + b,
        "sub" => |a, b| a - b,
        "mul" => |a, b| a * b,
        "div" => |a, b| a / b,
        "maximum" => |a, b| either(a, b, a.nearest() > b.nearest()),
        "minimum" => |a, b| either(a, b, a.nearest() < b.nearest()),
        "pow" => super::parametric::pow,
        "swiglu" => |gate, up| silu(gate) * up,
        "geglu" => |gate, up| gelu(gate) * up,
        _ => return None,
    })
}

/// One of two numbers, or the one that is NaN.
fn either(a: Double, b: Double, first: bool) -> Double {
    if a.nearest().is_nan() || first && !b.nearest().is_nan() { a } else { b }
}

fn of(v: f64) -> Double {
    Double::of(v)
}

fn half_away(v: f64) -> f64 {
    // v − trunc(v) is exact, while adding a half to v would not be.
    let whole = v.trunc();
    if (v - whole).abs() >= 0.5 { whole + 1f64.copysign(v) } else { whole }
}

fn expm1(x: Double) -> Double {
    match x.nearest().abs() {
        // The series of e^x would lose bits of subnormal numbers.
        size if size < 1e-100 => x,
        size if size < 0.5 => x.exp_minus_one_near_zero(),
        _ => x.exp() - Double::ONE,
    }
}

/// Near 0, `x − x²/2 + x³/3 − …`.
fn log1p(x: Double) -> Double {
    if x.nearest().abs() < 1e-3 {
        return x * INVERSE[1..=12].iter().rev().fold(Double::ZERO, |below, inverse| *inverse - x * below);
    }
    (Double::ONE + x).ln()
}

/// `max(x, 0) + ln(1 + e^−|x|)`.
fn softplus(x: Double) -> Double {
    if x.nearest() > 0.0 { x + log1p((-x).exp()) } else { log1p(x.exp()) }
}

// At −∞ the gates are −∞ · 0: NaN, as in their formulas and in PyTorch.

fn sigmoid(x: Double) -> Double {
    Double::ONE / (Double::ONE + (-x).exp())
}

fn silu(x: Double) -> Double {
    x * sigmoid(x)
}

/// `x/2 · (1 + tanh u)`, with `1 + tanh u = 2 / (1 + e⁻²ᵘ)`, which does not cancel.
fn gelu(x: Double) -> Double {
    let cubic = x + of(0.044715) * x * x * x;
    let u = (of(2.0) / PI).sqrt() * cubic;
    x * sigmoid(u + u)
}

fn gelu_erf(x: Double) -> Double {
    of(0.5) * x * erfc(-x / of(2.0).sqrt())
}

/// From here on, the continued fraction is used instead of the series.
const MIN_CONTINUED_FRACTION: f64 = 3.0;

fn erf(x: Double) -> Double {
    let near = x.nearest().abs() < MIN_CONTINUED_FRACTION || x.nearest().is_nan();
    if near { erf_near(x) } else { Double::ONE - erfc(x) }
}

fn erfc(x: Double) -> Double {
    let v = x.nearest();
    if v.abs() < MIN_CONTINUED_FRACTION || v.is_nan() {
        return Double::ONE - erf_near(x);
    }
    if v < 0.0 {
        return of(2.0) - erfc(-x);
    }
    if v > 30.0 {
        return Double::ZERO;
    }
    // e^(−x²) / √π · 1 / (x + (1/2) / (x + (2/2) / (x + (3/2) / (x + …)))).
    let fraction = (1..=60).rev().fold(x, |below, n| x + of(f64::from(n) / 2.0) / below);
    (-x.squared()).exp() / PI.sqrt() / fraction
}

/// `2/√π · e^(−x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!`: no term is negative, so nothing cancels.
fn erf_near(x: Double) -> Double {
    if x.nearest().abs() < 1e-100 || x.nearest().is_nan() {
        return x * of(2.0) / PI.sqrt();
    }
    let double_square = of(2.0) * x.squared();
    let (mut term, mut sum) = (x, x);
    for inverse in INVERSE[3..].iter().step_by(2) {
        term = term * double_square * *inverse;
        sum = sum + term;
        if term.nearest().abs() < 1e-30 * sum.nearest().abs() {
            break;
        }
    }
    sum * (-x.squared()).exp() * of(2.0) / PI.sqrt()
}

/// The sine of `x` plus `ahead` quarter turns.
fn sine(x: Double, ahead: usize) -> Double {
    let v = x.nearest();
    if !v.is_finite() {
        return of(f64::NAN);
    }
    let within_turn = if v.abs() < 4.0 { x.abs() } else { remainder(v.abs()) };
    let half_pi = PI * of(0.5);
    let quarters = (within_turn / half_pi).nearest().round();
    let rest = within_turn - half_pi * of(quarters);
    // Use symmetry for negative angles: sin(−x) = −sin x, and cos(−x) = cos x.
    let mirrored = v < 0.0 && ahead == 0;
    let quarter = (quarters as usize + ahead + if mirrored { 2 } else { 0 }) % 4;
    let value = if quarter.is_multiple_of(2) { taylor(rest, rest, 1) } else { taylor(Double::ONE, rest, 0) };
    if quarter < 2 { value } else { -value }
}

/// `Σ (−1)ⁿ first · x²ⁿ / ((power + 1) … (power + 2n))`, for |x| up to a quarter of π.
fn taylor(first: Double, x: Double, power: usize) -> Double {
    let square = x.squared();
    let (mut term, mut sum) = (first, first);
    for n in 0..14 {
        let below = (power + 2 * n + 1) * (power + 2 * n + 2);
        term = -(term * square * INVERSE[below]);
        sum = sum + term;
    }
    sum
}

/// Limbs of a fixed-point number: 64 bits before the point, and enough after it to leave 128 bits for the remainder of the
/// largest f64.
const LIMBS: usize = 20;
/// Most significant limb first.
type Fixed = [u64; LIMBS];

/// `v mod 2π` for `v ≥ 0`: takes the bits of `v` from the top and doubles the remainder for each.
fn remainder(v: f64) -> Double {
    static TURN: LazyLock<Fixed> = LazyLock::new(|| {
        // Machin: π = 16 arctan(1/5) − 4 arctan(1/239).
        subtract(times(arctan_of_inverse(5), 32), times(arctan_of_inverse(239), 8))
    });
    let exponent = (v.to_bits() >> 52) as i32 - 1075;
    let mantissa = v.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let mut rest = [0; LIMBS];
    // Bits after the point are shifted right instead.
    let (whole, shift) = if exponent < 0 { (mantissa >> -exponent, 0) } else { (mantissa, exponent) };
    for bit in (0..64).rev().map(|at| whole >> at & 1).chain((0..shift).map(|_| 0)) {
        rest = times(rest, 2);
        rest[0] += bit;
        while rest >= *TURN {
            rest = subtract(rest, *TURN);
        }
    }
    let fraction = if exponent < 0 { v - v.trunc() } else { 0.0 };
    // 32 bits at a time, each exact in f64.
    let halves = rest.iter().take(4).flat_map(|limb| [limb >> 32, limb & 0xffff_ffff]).enumerate();
    let parts = halves.map(|(at, bits)| of(bits as f64 * 2f64.powi(32 - 32 * at as i32)));
    Double::total(parts) + of(fraction)
}

fn times(mut v: Fixed, factor: u64) -> Fixed {
    let mut carry = 0;
    for limb in v.iter_mut().rev() {
        let product = u128::from(*limb) * u128::from(factor) + carry;
        (*limb, carry) = (product as u64, product >> 64);
    }
    v
}

fn divided(mut v: Fixed, divisor: u64) -> Fixed {
    let mut rest = 0u128;
    for limb in &mut v {
        let value = rest << 64 | u128::from(*limb);
        (*limb, rest) = ((value / u128::from(divisor)) as u64, value % u128::from(divisor));
    }
    v
}

fn subtract(mut a: Fixed, b: Fixed) -> Fixed {
    let mut borrow = false;
    for (a, b) in a.iter_mut().zip(b).rev() {
        let (without, first) = a.overflowing_sub(b);
        let (value, second) = without.overflowing_sub(u64::from(borrow));
        (*a, borrow) = (value, first || second);
    }
    a
}

fn add(mut a: Fixed, b: Fixed) -> Fixed {
    let mut carry = false;
    for (a, b) in a.iter_mut().zip(b).rev() {
        let (without, first) = a.overflowing_add(b);
        let (value, second) = without.overflowing_add(u64::from(carry));
        (*a, carry) = (value, first || second);
    }
    a
}

/// `1/n − 1/(3n³) + 1/(5n⁵) − …`
fn arctan_of_inverse(n: u64) -> Fixed {
    let mut one = [0; LIMBS];
    one[0] = 1;
    let mut power = divided(one, n);
    let (mut sum, mut odd) = (power, 1);
    while power != [0; LIMBS] {
        power = divided(power, n * n);
        odd += 2;
        let term = divided(power, odd);
        sum = if odd % 4 == 3 { subtract(sum, term) } else { add(sum, term) };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(op: &str, x: f64) -> Double {
        unary(op).expect("a function")(of(x))
    }
    fn close(a: Double, b: Double, relative: f64) -> bool {
        (a - b).nearest().abs() <= relative * b.nearest().abs()
    }

    #[test]
    fn sines_agree_with_the_library_at_every_size() {
        let mut x = 1e-8;
        while x < 1.7e308 {
            for v in [x, -x] {
                assert!((at("sin", v).nearest() - v.sin()).abs() <= 2e-16, "{v:e}");
                assert!((at("cos", v).nearest() - v.cos()).abs() <= 2e-16, "{v:e}");
            }
            x *= 1.618_033_988_7;
        }
    }

    #[test]
    fn sines_obey_their_identities() {
        for i in -300..300 {
            let x = f64::from(i) * 0.0723;
            let (sin, cos) = (at("sin", x), at("cos", x));
            assert!(close(sin.squared() + cos.squared(), Double::ONE, 1e-29), "{x}");
            // The double angle, which is exact in f64.
            let twice = at("sin", 2.0 * x);
            assert!((twice - of(2.0) * sin * cos).nearest().abs() <= 1e-29, "{x}");
        }
        // sin(2π − x), where x is the distance of 6 from 2π with digits that f64 lacks.
        assert!(close(at("sin", 6.0), -sine(PI + PI - of(6.0), 0), 1e-29));
    }

    #[test]
    fn the_error_function_has_known_values_and_two_ways() {
        // Abramowitz and Stegun, table 7.1, and erfc(5) to 16 digits.
        for (x, y) in [(0.5, 0.520_499_877_813_046_5), (1.0, 0.842_700_792_949_714_9)] {
            assert!((at("erf", x).nearest() - y).abs() <= 1.2e-16, "{x}");
        }
        assert!((erfc(of(5.0)).nearest() / 1.537_459_794_428_035e-12 - 1.0).abs() <= 1e-15);
        // Series and continued fraction agree where both are valid.
        for x in [3.0, 3.2, 3.5, 4.0] {
            assert!(close(erfc(of(x)), Double::ONE - erf_near(of(x)), 1e-22), "{x}");
        }
        for x in [-6.0, -2.0, 0.1, 4.0] {
            assert!(close(erfc(of(x)) + erfc(of(-x)), of(2.0), 1e-30), "{x}");
        }
    }

    #[test]
    fn differences_from_one_agree_with_the_library_and_undo_each_other() {
        let mut x = 1e-21f64;
        while x < 700.0 {
            for v in [x, -x.min(0.75)] {
                let (e, log) = (at("expm1", v), at("log1p", v));
                assert!((e.nearest() / v.exp_m1() - 1.0).abs() <= 4e-16, "{v:e}");
                assert!((log.nearest() / v.ln_1p() - 1.0).abs() <= 4e-16, "{v:e}");
                assert!(close(log1p(e), of(v), 1e-26), "{v:e}");
            }
            x *= 1.1;
        }
    }

    #[test]
    fn gates_agree_with_their_definitions() {
        for i in -80..80 {
            let x = f64::from(i) * 0.11;
            let u = (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            assert!((at("gelu", x).nearest() - 0.5 * x * (1.0 + u.tanh())).abs() <= 2e-15, "{x}");
            assert!((at("silu", x).nearest() - x / (1.0 + (-x).exp())).abs() <= 2e-15, "{x}");
            // x/2 · (erfc(−y) − erfc(y)) = x · erf(y).
            let sum = at("gelu_erf", x) + at("gelu_erf", -x);
            let product = of(x) * erf(of(x) / of(2.0).sqrt());
            assert!((sum - product).nearest().abs() <= 1e-22, "{x}");
        }
    }

    #[test]
    fn corners() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for op in ["silu", "gelu", "gelu_erf"] {
            assert!(at(op, -inf).nearest().is_nan() && at(op, nan).nearest().is_nan(), "{op}");
            assert_eq!((at(op, inf).nearest(), at(op, 1.7e308).nearest()), (inf, 1.7e308), "{op}");
            assert_eq!(at(op, -1.7e308).nearest(), 0.0, "{op}");
        }
        for (x, y) in [(0.5, 1.0), (-0.5, -1.0), (2.5, 3.0), (0.499_999_999_999_999_94, 0.0), (inf, inf)] {
            assert_eq!(at("round", x).nearest(), y);
        }
        for (x, y) in [(1.9, 1.0), (-1.9, -1.0), (2.0, 2.0), (-inf, -inf)] {
            assert_eq!(at("trunc", x).nearest(), y);
        }
        assert_eq!((at("expm1", -inf).nearest(), at("expm1", inf).nearest()), (-1.0, inf));
        assert_eq!((at("log1p", -1.0).nearest(), at("log1p", inf).nearest()), (-inf, inf));
        assert!(at("log1p", -2.0).nearest().is_nan() && at("expm1", nan).nearest().is_nan());
        assert_eq!((at("expm1", -5e-324).nearest(), at("log1p", 5e-324).nearest()), (-5e-324, 5e-324));
        assert!(at("relu", nan).nearest().is_nan() && at("sin", inf).nearest().is_nan());
        assert_eq!((at("sign", nan).nearest(), at("sign", -3.0).nearest()), (0.0, -1.0));
        assert_eq!((at("erf", inf).nearest(), at("erf", -inf).nearest()), (1.0, -1.0));
        let two = |op: &str, a, b| binary(op).expect("a function")(of(a), of(b)).nearest();
        for op in ["maximum", "minimum"] {
            assert!(two(op, nan, 1.0).is_nan() && two(op, 1.0, nan).is_nan());
        }
        assert_eq!((two("maximum", 1.0, -2.0), two("minimum", 1.0, -2.0)), (1.0, -2.0));
        assert_eq!((two("maximum", -2.0, 1.0), two("minimum", -2.0, 1.0)), (1.0, -2.0));
    }
}
