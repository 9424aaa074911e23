//! Functions of one element, and gated activations.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, INTEGERS, LENGTHS, Suite};
use ops_core::DType;
use ops_core::ops::UnaryFn;

pub(super) fn cases(s: &mut Suite<'_>) {
    for f in UnaryFn::ALL {
        for dtype in s.asked(f.name(), FLOATS) {
            shapes(s, f.name(), dtype, domain(f));
            specials(s, f, dtype);
        }
        for dtype in s.asked(f.name(), INTEGERS.into_iter().filter(|_| f.on_integers())) {
            shapes(s, f.name(), dtype, Distribution::Bits);
            let bounds =
                draft(f.name(), dtype, &[5], (Placement::Plain, Placement::Plain), Distribution::Bits);
            s.run(given(bounds, dtype, &super::elementwise::bounds(dtype)));
        }
    }
    for op in ["swiglu", "geglu"] {
        for dtype in s.asked(op, FLOATS) {
            glu(s, op, dtype);
        }
    }
}

/// The interesting range of arguments for the function.
fn domain(f: UnaryFn) -> Distribution {
    match f {
        UnaryFn::Log | UnaryFn::Sqrt => Distribution::Positive,
        UnaryFn::Log1p => Distribution::Between(-0.9, 9.0),
        UnaryFn::Recip => Distribution::Nonzero,
        _ => Distribution::Normal(0.0, 3.0),
    }
}

fn draft(
    op: &str,
    dtype: DType,
    dims: &[usize],
    (x, y): (Placement, Placement),
    numbers: Distribution,
) -> CaseBuilder {
    CaseBuilder::new(op, dtype).read("x", dims, x, numbers).write("y", dims, y)
}

/// The case with these values as `x`.
fn given(draft: CaseBuilder, dtype: DType, values: &[f64]) -> CaseBuilder {
    let n = [values.len()];
    CaseBuilder::new(draft.op(), dtype)
        .given("x", &values_of(dtype, values), &n, Placement::Plain)
        .write("y", &n, Placement::Plain)
        .note("chosen values")
}

fn shapes(s: &mut Suite<'_>, op: &str, dtype: DType, numbers: Distribution) {
    let plain = (Placement::Plain, Placement::Plain);
    for n in LENGTHS {
        s.run(draft(op, dtype, &[n], plain, numbers));
    }
    for dims in [&[][..], &[3, 65], &[2, 3, 129], &[0], &[3, 0], &[0, 3], &[2, 1, 3, 2, 2, 5]] {
        s.run(draft(op, dtype, dims, plain, numbers));
    }
    for x in IN {
        s.run(draft(op, dtype, &[3, 4, 33], (x, Placement::Plain), numbers));
    }
    for y in OUT {
        s.run(draft(op, dtype, &[3, 4, 33], (Placement::Plain, y), numbers));
        s.run(draft(op, dtype, &[3, 4, 33], (Placement::Transposed, y), numbers));
    }
}

/// Values at the corners of functions and formats. Each group is judged separately, because errors of small
/// numbers would be hidden by large ones.
fn specials(s: &mut Suite<'_>, f: UnaryFn, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let (largest, tiny) = match dtype {
        DType::F16 => (65504.0, 2f64.powi(-24)),
        DType::BF16 => (3.38e38, 2f64.powi(-133)),
        DType::F32 => (3.4e38, 2f64.powi(-149)),
        _ => (1.7e308, 5e-324),
    };
    let groups: [(&str, Vec<f64>); 7] = [
        ("not finite", vec![nan, inf, -inf, 0.0, -0.0]),
        (
            "halves",
            vec![0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 3.0, -3.0, 0.499_999_97, -0.499_999_97, 7.75, -7.75],
        ),
        ("small", vec![1e-3, -1e-3, 3e-4, -2e-4, 1e-4, 5e-5]),
        ("subnormal", vec![tiny, 3.0 * tiny, 7.0 * tiny, 200.0 * tiny, -tiny, -5.0 * tiny]),
        ("moderate", vec![5.0, -5.0, 7.5, -7.5, 9.0, -9.0, 10.5]),
        ("negative tail", vec![-3.0, -3.5, -4.0, -4.5, -5.0, -5.5]),
        ("largest", vec![largest, -largest, largest / 2.0]),
    ];
    for (word, values) in groups {
        let plain = draft(f.name(), dtype, &[1], (Placement::Plain, Placement::Plain), NORMAL);
        s.run(given(plain, dtype, &values).note(word));
    }
    if matches!(f, UnaryFn::Sin | UnaryFn::Cos) {
        // The last is infinite in all types but f64.
        let sizes = [1e2, 6e4, 1e8, 1e30, 1e240];
        for size in &sizes[..if dtype == DType::F64 { 5 } else { 4 }] {
            let plain = (Placement::Plain, Placement::Plain);
            s.run(
                draft(f.name(), dtype, &[127], plain, Distribution::Between(-size, *size))
                    .note(&format!("up to {size:e}")),
            );
        }
    }
}

fn glu(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let draft = |dims: &[usize], [gate, up, y]: [Placement; 3]| {
        let numbers = Distribution::Normal(0.0, 2.0);
        CaseBuilder::new(op, dtype)
            .read("gate", dims, gate, numbers)
            .read("up", dims, up, numbers)
            .write("y", dims, y)
    };
    for n in LENGTHS {
        s.run(draft(&[n], [Placement::Plain; 3]));
    }
    for dims in [&[][..], &[3, 65], &[0], &[3, 0], &[2, 3, 129]] {
        s.run(draft(dims, [Placement::Plain; 3]));
    }
    for how in IN {
        s.run(draft(&[3, 4, 33], [how, Placement::Plain, Placement::Plain]));
        s.run(draft(&[3, 4, 33], [Placement::Plain, how, Placement::Plain]));
    }
    for how in OUT {
        s.run(draft(&[3, 4, 33], [Placement::Plain, Placement::Plain, how]));
    }
    // Gate and up as the two halves of a single projection.
    s.run(draft(&[3, 4, 32], [Placement::Gaps; 3]));
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let gate = values_of(dtype, &[nan, inf, -inf, 0.0, 1.0, -200.0]);
    let up = values_of(dtype, &[1.0, 2.0, 3.0, inf, nan, -2.0]);
    let draft = CaseBuilder::new(op, dtype).given("gate", &gate, &[6], Placement::Plain).given(
        "up",
        &up,
        &[6],
        Placement::Plain,
    );
    s.run(draft.write("y", &[6], Placement::Plain).note("infinities and nan"));
}
