//! Running sums and products.
use super::data::{Distribution, NORMAL, Random, values_of};
use super::draft::CaseBuilder;
use super::elementwise::bounds;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INTEGERS, LENGTHS, Suite};
use ops_core::DType;
use ops_core::ops::ScanFn;

const PLAIN: (Placement, Placement) = (Placement::Plain, Placement::Plain);

/// A function and the type of its cases.
#[derive(Clone, Copy)]
struct Of {
    f: ScanFn,
    dtype: DType,
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for f in ScanFn::ALL {
        for dtype in s.asked(f.name(), FLOATS.into_iter().chain(INTEGERS)) {
            let of = Of { f, dtype };
            sizes(s, of);
            layouts(s, of);
            values(s, of);
        }
    }
}

impl Of {
    fn draft(self, dims: &[usize], axis: isize, (x, y): (Placement, Placement)) -> CaseBuilder {
        let draft = CaseBuilder::new(self.f.name(), self.dtype).param("axis", axis);
        let draft = match (self.f, self.dtype.is_float()) {
            (ScanFn::Sum, true) => draft.read("x", dims, x, NORMAL),
            (ScanFn::Sum, false) => draft.read("x", dims, x, Distribution::Bits),
            // Products that stay in range.
            (_, true) => draft.read("x", dims, x, Distribution::Between(0.97, 1.03)),
            // Odd numbers: the product of even ones soon wraps to 0.
            (_, false) => {
                let mut random = Random::of(&format!("odd {dims:?}"));
                let odd = (0..dims.iter().product()).map(|_| 1.0 + 2.0 * (63.0 * random.unit()).floor());
                draft.given("x", &values_of(self.dtype, &odd.collect::<Vec<_>>()), dims, x)
            }
        };
        draft.write("y", dims, y)
    }
    fn given(self, x: &[f64], dims: &[usize], axis: isize) -> CaseBuilder {
        let draft = CaseBuilder::new(self.f.name(), self.dtype).param("axis", axis);
        draft.given("x", &values_of(self.dtype, x), dims, Placement::Plain).write("y", dims, Placement::Plain)
    }
}

fn sizes(s: &mut Suite<'_>, of: Of) {
    for n in LENGTHS {
        s.run(of.draft(&[3, n], -1, PLAIN));
        s.run(of.draft(&[n, 65], 0, PLAIN));
        s.run(of.draft(&[n], 0, PLAIN));
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
        s.run(of.draft(dims, axis, PLAIN));
    }
}

fn layouts(s: &mut Suite<'_>, of: Of) {
    for axis in [-1, 0, 1] {
        for x in IN {
            s.run(of.draft(&[3, 20, 33], axis, (x, Placement::Plain)));
        }
        for y in OUT {
            s.run(of.draft(&[3, 20, 33], axis, (Placement::Plain, y)));
        }
    }
    s.run(of.draft(&[3, 4, 65], -1, (Placement::Transposed, Placement::Strided)));
    s.run(of.draft(&[2, 300, 40], 1, (Placement::Order(&[2, 0, 1]), Placement::Gaps)));
}

fn values(s: &mut Suite<'_>, of: Of) {
    let given = |x: &[f64], dims: &[usize], axis: isize| of.given(x, dims, axis);
    if !of.dtype.is_float() {
        let corners = bounds(of.dtype);
        s.run(given(&corners.repeat(9), &[9, corners.len()], -1).note("corner values"));
        return s.run(given(&corners.repeat(9), &[9, corners.len()], 0).note("corner values"));
    }
    // Results that stop growing, or lose digits, in low precision.
    let step = match (of.f, of.dtype) {
        (ScanFn::Prod, _) => 1.0 + 2f64.powi(-7),
        (_, DType::F16) => 0.25,
        _ => 0.1,
    };
    for (dims, axis) in [([1, 9001], 1), ([9001, 1], 0)] {
        s.run(given(&vec![step; 9001], &dims, axis).note("all equal"));
    }
    // Numbers whose sums, or products, every type represents exactly.
    let number = |i: usize| match of.f {
        ScanFn::Sum => (i % 5) as f64 - 2.0,
        _ => [2.0, -1.0, 0.5, -2.0, 1.0, -0.5, -1.0][i % 7],
    };
    // From the first NaN or infinity on, the results are NaN or infinite too.
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for special in [inf, -inf, nan] {
        for at in [0, 3, 63, 299] {
            let mut x: Vec<f64> = (0..300).map(number).collect();
            x[at] = special;
            s.run(given(&x, &[1, 300], -1).note(&format!("{special} at {at}")));
            s.run(given(&x, &[300, 1], 0).note(&format!("{special} at {at}")));
        }
    }
    s.run(given(&[inf, -inf, 1.0, 2.0], &[4], 0).note("opposite infinities"));
    s.run(given(&[2.0, 0.0, 3.0, inf, 2.0], &[5], 0).note("zero, then infinity"));
    let x: Vec<f64> = (0..4097).map(number).collect();
    for (dims, axis) in [([1, 4097], 1), ([4097, 1], 0), ([17, 241], 1), ([17, 241], 0)] {
        s.expect(given(&x, &dims, axis).note("exact"), Expect::Exactly);
    }
}
