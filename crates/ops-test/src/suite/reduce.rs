//! Reductions over axes.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::elementwise::bounds;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INTEGERS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;
use ops_core::ops::ReduceFn;
use serde_json::json;

/// An op and the type of its cases.
#[derive(Clone, Copy)]
struct Of {
    op: &'static str,
    dtype: DType,
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        for f in ReduceFn::ALL.into_iter().filter(|f| dtype.is_float() || f.on_integers()) {
            if s.wants(f.name(), dtype) {
                all(s, Of { op: f.name(), dtype });
            }
        }
        for op in ["argmax", "argmin"] {
            if s.wants(op, dtype) {
                all(s, Of { op, dtype });
            }
        }
    }
}

fn all(s: &mut Suite<'_>, of: Of) {
    sizes(s, of);
    several_axes(s, of);
    layouts(s, of);
    values(s, of);
    if of.dtype.is_float() {
        special(s, of);
    }
    if matches!(of.op, "sum" | "mean") && of.dtype.is_float() {
        sums(s, of);
    }
}

impl Of {
    fn is_arg(self) -> bool {
        self.op.starts_with("arg")
    }
    fn numbers(self) -> Distribution {
        match (self.dtype.is_float(), self.op) {
            (false, _) => Distribution::Bits,
            // Products of many elements that stay in range.
            (true, "prod") => Distribution::Between(0.97, 1.03),
            _ => NORMAL,
        }
    }
    fn options(self, axes: &[isize], keep: bool) -> CaseBuilder {
        let draft = CaseBuilder::new(self.op, self.dtype);
        match self.is_arg() {
            true => draft.param("axis", axes[0]),
            false => draft.param("axes", json!(axes)).param("keep_dims", keep),
        }
    }
    /// The extents of the output.
    fn shape(self, dims: &[usize], axes: &[isize], keep: bool) -> Vec<usize> {
        let reduced = |axis: usize| axes.iter().any(|a| a.rem_euclid(dims.len() as isize) as usize == axis);
        let extent = |(axis, d): (usize, &usize)| match (reduced(axis), keep && !self.is_arg()) {
            (false, _) => Some(*d),
            (true, true) => Some(1),
            (true, false) => None,
        };
        dims.iter().enumerate().filter_map(extent).collect()
    }
    fn draft(
        self,
        dims: &[usize],
        axes: &[isize],
        keep: bool,
        (x, y): (Placement, Placement),
    ) -> CaseBuilder {
        let draft = self.options(axes, keep).read("x", dims, x, self.numbers());
        self.output(draft, &self.shape(dims, axes, keep), y)
    }
    fn given(self, x: &Array, dims: &[usize], axis: isize) -> CaseBuilder {
        let draft = self.options(&[axis], false).given("x", x, dims, Placement::Plain);
        self.output(draft, &self.shape(dims, &[axis], false), Placement::Plain)
    }
    fn output(self, draft: CaseBuilder, dims: &[usize], y: Placement) -> CaseBuilder {
        if self.is_arg() { draft.write_as("y", DType::U32, dims, y) } else { draft.write("y", dims, y) }
    }
}

const PLAIN: (Placement, Placement) = (Placement::Plain, Placement::Plain);

fn sizes(s: &mut Suite<'_>, of: Of) {
    for n in LENGTHS {
        s.run(of.draft(&[3, n], &[-1], false, PLAIN));
        s.run(of.draft(&[n, 3], &[0], true, PLAIN));
        s.run(of.draft(&[n, 65], &[0], false, PLAIN));
        s.run(of.draft(&[n], &[0], n % 2 == 0, PLAIN));
    }
    // Few long rows and columns, which kernels split; many short ones; rows in the middle.
    for (dims, axis) in [
        (&[1, 70_001][..], 1),
        (&[9001, 40], 0),
        (&[2, 9001, 40], 1),
        (&[5000, 4], 1),
        (&[4, 5000], 0),
        (&[3, 33, 5], 1),
        (&[3, 33, 5], -2),
        (&[2, 3, 2, 1, 2, 7], 3),
        (&[2, 3, 2, 3, 2, 7], 2),
    ] {
        s.run(of.draft(dims, &[axis], false, PLAIN));
    }
    for (dims, axis) in [(&[0, 5][..], 1), (&[5, 0, 3], 0), (&[5, 3, 0], 1)] {
        s.run(of.draft(dims, &[axis], false, PLAIN));
    }
    // No elements to reduce.
    if matches!(of.op, "sum" | "mean" | "prod") {
        for (dims, axes) in [(&[0, 5][..], &[0][..]), (&[5, 0], &[-1]), (&[3, 0, 4], &[0, 1]), (&[0], &[0])] {
            s.run(of.draft(dims, axes, false, PLAIN));
        }
    }
}

fn several_axes(s: &mut Suite<'_>, of: Of) {
    if of.is_arg() {
        return;
    }
    for (dims, axes) in [
        (&[3, 5, 7][..], &[0, 2][..]),
        (&[3, 5, 7], &[-1, 1]),
        (&[3, 5, 7], &[0, 1, 2]),
        (&[3, 5, 7], &[]),
        (&[2, 3, 33, 2, 9], &[1, 3]),
        (&[2, 3, 33, 2, 9], &[0, 2, 4]),
        (&[2, 3, 2, 3, 2, 3], &[0, 2, 4]),
        (&[2, 3, 2, 3, 2, 3], &[1, 3, 5]),
        (&[4, 65, 66], &[1, 2]),
        (&[300, 2, 70], &[0, 2]),
    ] {
        for keep in [false, true] {
            s.run(of.draft(dims, axes, keep, PLAIN));
        }
    }
    // All axes by default, and of a scalar.
    for dims in [&[3, 5][..], &[]] {
        let draft = CaseBuilder::new(of.op, of.dtype).read("x", dims, Placement::Plain, of.numbers());
        s.run(draft.write("y", &[], Placement::Plain).note("no axes given"));
    }
}

fn layouts(s: &mut Suite<'_>, of: Of) {
    for axis in [-1, 0, 1] {
        for x in IN {
            s.run(of.draft(&[3, 20, 33], &[axis], false, (x, Placement::Plain)));
        }
        for y in OUT {
            s.run(of.draft(&[3, 20, 33], &[axis], true, (Placement::Plain, y)));
        }
    }
    for order in [&[1, 0, 2], &[2, 0, 1], &[0, 2, 1]] {
        let x = Placement::Order(order);
        s.run(of.draft(&[12, 9, 70], &[1], false, (x, Placement::Strided)));
        if !of.is_arg() {
            s.run(of.draft(&[12, 9, 70], &[0, 2], false, (x, Placement::Strided)));
        }
    }
    s.run(of.draft(&[3, 4, 65], &[-1], false, (Placement::Transposed, Placement::Strided)));
}

/// Corner values of integers; equal elements of either sign; the largest element at every place of a vector or wave.
fn values(s: &mut Suite<'_>, of: Of) {
    let Of { op, dtype } = of;
    if !dtype.is_float() {
        let corners = bounds(dtype);
        let n = corners.len();
        let x: Vec<f64> = (0..n * n).flat_map(|i| [corners[i % n], corners[i / n]]).collect();
        s.run(of.given(&values_of(dtype, &x), &[n * n, 2], 1).note("pairs of corner values"));
        s.run(of.given(&values_of(dtype, &x), &[2, n * n], 0).note("pairs of corner values"));
    }
    if !matches!(op, "max" | "min" | "argmax" | "argmin") {
        return;
    }
    let (usual, best) = if op.ends_with("max") { (1.0, 3.0) } else { (3.0, 1.0) };
    for n in [70, 300, 4096, 4097] {
        // One, and two that are equal.
        let places: Vec<[usize; 2]> =
            [[0, 0], [1, 5], [n - 1, n - 1], [33, 65], [n / 2, n - 1], [63, 64], [7, n - 2], [34, 37]].into();
        let mut x = vec![usual; places.len() * n];
        for (row, places) in places.iter().enumerate() {
            places.iter().for_each(|at| x[row * n + at] = best);
        }
        s.run(of.given(&values_of(dtype, &x), &[places.len(), n], -1).note("equal elements"));
        let across: Vec<f64> =
            (0..n * places.len()).map(|i| x[i % places.len() * n + i / places.len()]).collect();
        s.run(of.given(&values_of(dtype, &across), &[n, places.len()], 0).note("equal elements"));
    }
    // All elements are equal, at an end of the range.
    for v in if dtype.is_float() { vec![f64::NEG_INFINITY, f64::INFINITY, 0.0] } else { bounds(dtype) } {
        s.run(of.given(&values_of(dtype, &[v; 99]), &[3, 33], -1).note(&format!("all {v}")));
        s.run(of.given(&values_of(dtype, &[v; 99]), &[3, 33], 0).note(&format!("all {v}")));
        // Rows of whole packs.
        s.run(of.given(&values_of(dtype, &[v; 192]), &[3, 64], -1).note(&format!("all {v}")));
    }
}

fn special(s: &mut Suite<'_>, of: Of) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [-inf, -inf, -inf, -inf, -inf],
        [-inf, 1.0, -inf, 2.0, -inf],
        [0.5, inf, 1.0, -2.0, inf],
        [0.5, 1.0, nan, 2.0, nan],
        [nan, -inf, inf, 1.0, 1.0],
        [1.0, inf, -inf, 2.0, 3.0],
        [-0.0, 0.0, -0.0, 0.0, 0.0],
        [0.0, -0.0, 0.0, -0.0, -0.0],
    ];
    let values = values_of(of.dtype, rows.as_flattened());
    s.run(of.given(&values, &[8, 5], -1).note("infinities and nan"));
    s.run(of.given(&values, &[5, 8], 0).note("infinities and nan"));
    // The same within packs, among elements that cannot be the result.
    let worst = if of.op.ends_with("min") { inf } else { -inf };
    let packs = rows.iter().flat_map(|row| {
        let mut all = [worst; 16];
        all[6..11].copy_from_slice(row);
        all
    });
    let packs: Vec<f64> = packs.collect();
    s.run(of.given(&values_of(of.dtype, &packs), &[8, 16], -1).note("infinities and nan in packs"));
    // A NaN that only one lane sees, before and after the largest element.
    for at in [0, 37, 64, 4096, 8191] {
        // Products stay in range in any order.
        let usual =
            |i: i32| if of.op == "prod" { f64::from(i % 2 * 2 - 1) } else { f64::from(i % 31) - 15.0 };
        let mut x: Vec<f64> = (0..2 * 8192).map(|i| usual(i % 8192)).collect();
        x[8192 + at] = nan;
        s.run(of.given(&values_of(of.dtype, &x), &[2, 8192], -1).note(&format!("nan at {at}")));
        if at < 4096 {
            let wide = values_of(of.dtype, &x[8192..8192 + 4096 + 64]);
            s.run(of.given(&wide, &[65, 64], 0).note(&format!("nan at {at}")));
        }
    }
}

/// Sums that lose terms in low precision or in a single running sum.
fn sums(s: &mut Suite<'_>, of: Of) {
    let step = if of.dtype == DType::F16 { 0.25 } else { 0.1 };
    for n in [4097, 70_001] {
        let x = values_of(of.dtype, &vec![step; n]);
        for (dims, axis) in [([1, n], 1), ([n, 1], 0)] {
            s.run(of.given(&x, &dims, axis).note("all equal"));
        }
    }
    let columns = values_of(of.dtype, &vec![step; 4097 * 16]);
    s.run(of.given(&columns, &[4097, 16], 0).note("all equal"));
    // Single rows, so that a rounding of the row's sum is not averaged out.
    for seed in 0..6 {
        let draft = CaseBuilder::new(of.op, of.dtype).seed(seed).param("axes", json!([-1]));
        s.run(draft.read("x", &[1, 17], Placement::Plain, NORMAL).write("y", &[1], Placement::Plain));
    }
    if of.op == "sum" {
        // Whole numbers whose sum every type represents exactly, in any order.
        for (dims, axis) in [([2, 97], 1), ([97, 20], 0), ([1, 4097], 1), ([4097, 1], 0)] {
            let count = dims[0] * dims[1];
            let x: Vec<f64> = (0..count)
                .map(|i| if i % 31 == 0 { f64::from((i / 31 % 2) as u8) - 0.5 } else { 0.0 })
                .collect();
            s.expect(of.given(&values_of(of.dtype, &x), &dims, axis).note("exact"), Expect::Exactly);
        }
    }
}
