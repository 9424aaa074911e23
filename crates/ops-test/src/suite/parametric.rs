//! Functions of one element with parameters.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, INTEGERS, LENGTHS, Suite};
use ops_core::DType;
use serde_json::{Value, json};

type Parameters = &'static [(&'static str, f64)];

const POWERS: [f64; 10] = [2.0, 0.5, -1.5, 3.0, -2.0, 0.0, 1.0, -1.0, 0.1, 2.4];
const ELU: Parameters = &[("alpha", 1.6733)];

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("powf", FLOATS) {
        for exponent in POWERS {
            let odd = [3.0, -1.0, 1.0, 2.0, -2.0, 0.0].contains(&exponent);
            let numbers = if odd { Distribution::Nonzero } else { Distribution::Positive };
            s.run(powf(dtype, exponent, &[4097], (Placement::Plain, Placement::Plain), numbers));
        }
        let numbers = Distribution::Positive;
        shapes(s, |dims, places| powf(dtype, 2.4, dims, places, numbers));
        special_powers(s, dtype);
    }
    for dtype in s.asked("elu", FLOATS) {
        let draft =
            |dims: &[usize], places, alpha: &[(&str, f64)]| plain("elu", dtype, alpha, dims, places, NORMAL);
        shapes(s, |dims, places| draft(dims, places, ELU));
        s.run(draft(&[65], (Placement::Plain, Placement::Plain), &[("alpha", -0.5)]));
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        for (word, values) in [
            ("not finite", vec![nan, inf, -inf, 0.0, -0.0, -200.0, 300.0]),
            ("small", vec![-1e-3, -2e-4, -0.02, 1e-3, -1e-7]),
            ("smaller", vec![-1e-4, -3e-5, -6e-5, -2e-5, -8e-5]),
            ("moderate", vec![-0.3, -0.36, -0.69, -0.71, -1.0, -3.0, -10.0, -30.0]),
        ] {
            s.run(given("elu", dtype, &values).param("alpha", 1.5).note(word));
        }
    }
    for dtype in s.asked("clamp", FLOATS.into_iter().chain(INTEGERS)) {
        clamp(s, dtype);
    }
}

fn plain(
    op: &str,
    dtype: DType,
    params: &[(&str, f64)],
    dims: &[usize],
    (x, y): (Placement, Placement),
    numbers: Distribution,
) -> CaseBuilder {
    let draft =
        params.iter().fold(CaseBuilder::new(op, dtype), |draft, (name, value)| draft.param(name, *value));
    draft.read("x", dims, x, numbers).write("y", dims, y)
}

fn powf(
    dtype: DType,
    exponent: f64,
    dims: &[usize],
    places: (Placement, Placement),
    numbers: Distribution,
) -> CaseBuilder {
    plain("powf", dtype, &[("exponent", exponent)], dims, places, numbers)
}

fn given(op: &str, dtype: DType, values: &[f64]) -> CaseBuilder {
    let n = [values.len()];
    let x = values_of(dtype, values);
    CaseBuilder::new(op, dtype).given("x", &x, &n, Placement::Plain).write("y", &n, Placement::Plain)
}

fn shapes(s: &mut Suite<'_>, draft: impl Fn(&[usize], (Placement, Placement)) -> CaseBuilder) {
    for n in LENGTHS {
        s.run(draft(&[n], (Placement::Plain, Placement::Plain)));
    }
    for dims in [&[][..], &[3, 65], &[0], &[3, 0], &[2, 3, 129], &[2, 1, 3, 2, 2, 5]] {
        s.run(draft(dims, (Placement::Plain, Placement::Plain)));
    }
    for x in IN {
        s.run(draft(&[3, 4, 33], (x, Placement::Plain)));
    }
    for y in OUT {
        s.run(draft(&[3, 4, 33], (Placement::Plain, y)));
    }
}

fn special_powers(s: &mut Suite<'_>, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let infinite = [json!("inf"), json!("-inf"), json!("nan")];
    for exponent in
        [0.0, 0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 2.5, -0.5].map(Value::from).into_iter().chain(infinite)
    {
        let corners = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0];
        s.run(given("powf", dtype, &corners).param("exponent", exponent.clone()).note("not finite"));
        s.run(given("powf", dtype, &[0.5, -0.5, 2.0, -2.0]).param("exponent", exponent).note("signs"));
    }
    // Large exponents of numbers near one, and results at the ends of the range: their logarithms take more than f32 has.
    let (long, top, tiny) = match dtype {
        DType::F16 => (300.0, 15.9, 2f64.powi(-24)),
        DType::BF16 => (1500.0, 127.0, 2f64.powi(-133)),
        DType::F32 => (80_000.0, 127.9, 2f64.powi(-149)),
        _ => (1e13, 1023.9, 5e-324),
    };
    let step = 2f64.powi(1 - dtype.precision().map_or(1, |p| p as i32));
    let near: Vec<f64> = (1..40).map(|i| 1.0 + f64::from(i % 10) * step).collect();
    s.run(given("powf", dtype, &near).param("exponent", long).note("near one"));
    s.run(given("powf", dtype, &near).param("exponent", -long).note("near one"));
    for base in [1.5, 3.0, 1.0625, 700.0] {
        let exponent = top / f64::log2(base);
        s.run(
            given("powf", dtype, &[base, base * 0.99, base * 0.97])
                .param("exponent", exponent)
                .note("large results"),
        );
        s.run(given("powf", dtype, &[base]).param("exponent", -exponent).note("small result"));
        s.run(
            given("powf", dtype, &[base, base * 1.5])
                .param("exponent", 3.0 * exponent)
                .note("beyond the range"),
        );
    }
    let subnormal = [tiny, 3.0 * tiny, 100.0 * tiny];
    for exponent in [0.5, 1.0, 0.1, -0.1] {
        s.run(given("powf", dtype, &subnormal).param("exponent", exponent).note("subnormal"));
    }
}

fn clamp(s: &mut Suite<'_>, dtype: DType) {
    let draft = |dims: &[usize], (x, y): (Placement, Placement), min: Value, max: Value| {
        let numbers = if dtype.is_float() { NORMAL } else { Distribution::Bits };
        let draft = CaseBuilder::new("clamp", dtype).param("min", min).param("max", max);
        draft.read("x", dims, x, numbers).write("y", dims, y)
    };
    let bounds = |a: f64, b: f64| (json!(a), json!(b));
    let (min, max) = if dtype.is_float() { bounds(-0.1, 0.7) } else { (json!(3), json!(50)) };
    shapes(s, |dims, places| draft(dims, places, min.clone(), max.clone()));
    let mut others = vec![(json!(5), json!(2)), (json!(0), json!(0))];
    if dtype.is_float() {
        let (inf, low) = (json!("inf"), json!("-inf"));
        others.extend([
            (low.clone(), inf.clone()),
            (json!("nan"), json!(1)),
            (json!(1), json!("nan")),
            (inf, low),
        ]);
    } else if dtype == DType::I64 {
        let large = (1i64 << 53) + 1;
        others.extend([(json!(-large), json!(large)), (json!(i64::MIN), json!(i64::MAX))]);
    }
    for (min, max) in others {
        s.run(draft(&[127], (Placement::Plain, Placement::Plain), min, max));
    }
    let corners = if dtype.is_float() {
        vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 0.7, -0.1]
    } else {
        super::elementwise::bounds(dtype)
    };
    s.run(given("clamp", dtype, &corners).param("min", min).param("max", max).note("corner values"));
}
