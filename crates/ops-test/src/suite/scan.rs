//! Running sums.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::elementwise::bounds;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INTEGERS, LENGTHS, Suite};
use ops_core::DType;

const PLAIN: (Placement, Placement) = (Placement::Plain, Placement::Plain);

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("cumsum", FLOATS.into_iter().chain(INTEGERS)) {
        sizes(s, dtype);
        layouts(s, dtype);
        values(s, dtype);
    }
}

fn draft(dtype: DType, dims: &[usize], axis: isize, (x, y): (Placement, Placement)) -> CaseBuilder {
    let numbers = if dtype.is_float() { NORMAL } else { Distribution::Bits };
    let draft = CaseBuilder::new("cumsum", dtype).param("axis", axis);
    draft.read("x", dims, x, numbers).write("y", dims, y)
}

fn sizes(s: &mut Suite<'_>, dtype: DType) {
    for n in LENGTHS {
        s.run(draft(dtype, &[3, n], -1, PLAIN));
        s.run(draft(dtype, &[n, 65], 0, PLAIN));
        s.run(draft(dtype, &[n], 0, PLAIN));
    }
    for (dims, axis) in [
        (&[1, 70_001][..], 1),
        (&[2, 40_000], 1),
        (&[5000, 4], 1),
        (&[4, 5000], 0),
        (&[9001, 3], 0),
        (&[3, 33, 5], 1),
        (&[3, 33, 5], -2),
        (&[2, 3, 2, 1, 2, 7], 3),
        (&[2, 3, 2, 3, 2, 7], 2),
        (&[0, 5], 1),
        (&[5, 0], 1),
        (&[0], 0),
    ] {
        s.run(draft(dtype, dims, axis, PLAIN));
    }
}

fn layouts(s: &mut Suite<'_>, dtype: DType) {
    for axis in [-1, 0, 1] {
        for x in IN {
            s.run(draft(dtype, &[3, 20, 33], axis, (x, Placement::Plain)));
        }
        for y in OUT {
            s.run(draft(dtype, &[3, 20, 33], axis, (Placement::Plain, y)));
        }
    }
    s.run(draft(dtype, &[3, 4, 65], -1, (Placement::Transposed, Placement::Strided)));
    s.run(draft(dtype, &[2, 300, 40], 1, (Placement::Order(&[2, 0, 1]), Placement::Gaps)));
}

fn values(s: &mut Suite<'_>, dtype: DType) {
    let given = |x: &[f64], dims: &[usize], axis: isize| {
        let draft = CaseBuilder::new("cumsum", dtype).param("axis", axis);
        draft.given("x", &values_of(dtype, x), dims, Placement::Plain).write("y", dims, Placement::Plain)
    };
    if !dtype.is_float() {
        let corners = bounds(dtype);
        s.run(given(&corners.repeat(9), &[9, corners.len()], -1).note("corner values"));
        return s.run(given(&corners.repeat(9), &[9, corners.len()], 0).note("corner values"));
    }
    // Sums that stop growing in low precision.
    let step = if dtype == DType::F16 { 0.25 } else { 0.1 };
    for (dims, axis) in [([1, 9001], 1), ([9001, 1], 0)] {
        s.run(given(&vec![step; 9001], &dims, axis).note("all equal"));
    }
    // From the first NaN or infinity on, the sums are NaN or infinite too.
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for special in [inf, -inf, nan] {
        for at in [0, 3, 63, 299] {
            let mut x: Vec<f64> = (0..300).map(|i| f64::from(i % 7) - 3.0).collect();
            x[at] = special;
            s.run(given(&x, &[1, 300], -1).note(&format!("{special} at {at}")));
            s.run(given(&x, &[300, 1], 0).note(&format!("{special} at {at}")));
        }
    }
    s.run(given(&[inf, -inf, 1.0, 2.0], &[4], 0).note("opposite infinities"));
    // Whole numbers, whose sums every type represents exactly.
    let x: Vec<f64> = (0..4097).map(|i| f64::from(i % 5 - 2)).collect();
    for (dims, axis) in [([1, 4097], 1), ([4097, 1], 0), ([17, 241], 1), ([17, 241], 0)] {
        s.expect(given(&x, &dims, axis).note("exact"), Expect::Exactly);
    }
}
