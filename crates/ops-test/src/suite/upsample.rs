//! Upsampling.
use super::data::{NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::pool::{ORDERS, PLAIN};
use super::{Expect, FLOATS, LENGTHS, Suite};
use ops_core::DType;
use serde_json::json;

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d"] {
        for dtype in s.asked(op, FLOATS) {
            upsample(s, Upsample { op, dtype });
        }
    }
}

/// An op and the type of its cases.
#[derive(Clone, Copy)]
struct Upsample {
    op: &'static str,
    dtype: DType,
}

impl Upsample {
    fn axes(self) -> usize {
        if self.op.ends_with("1d") { 1 } else { 2 }
    }
    fn with_options(self, size: [usize; 2], corners: bool) -> CaseBuilder {
        let draft = CaseBuilder::new(self.op, self.dtype).param("size", json!(size[2 - self.axes()..]));
        if self.op.contains("bilinear") { draft.param("align_corners", corners) } else { draft }
    }
    /// With the size of the last two axes; the first of these is unchanged along one axis.
    fn out(self, dims: &[usize], size: [usize; 2]) -> Vec<usize> {
        let keep = dims.len() - self.axes();
        [&dims[..keep], &size[2 - self.axes()..]].concat()
    }
    fn draft(
        self,
        dims: &[usize],
        size: [usize; 2],
        corners: bool,
        (x, y): (Placement, Placement),
    ) -> CaseBuilder {
        self.with_options(size, corners).read("x", dims, x, NORMAL).write("y", &self.out(dims, size), y)
    }
    fn given(self, x: &[f64], dims: &[usize], size: [usize; 2], corners: bool) -> CaseBuilder {
        let draft =
            self.with_options(size, corners).given("x", &values_of(self.dtype, x), dims, Placement::Plain);
        draft.write("y", &self.out(dims, size), Placement::Plain)
    }
    /// Both ways to place elements, for ops that have them.
    fn corners(self) -> &'static [bool] {
        if self.op.contains("bilinear") { &[false, true] } else { &[false] }
    }
}

fn upsample(s: &mut Suite<'_>, of: Upsample) {
    for corners in of.corners().iter().copied() {
        for size in [[12, 10], [13, 7], [6, 5], [1, 1], [3, 2], [7, 64], [18, 33], [1, 9], [5, 1]] {
            s.run(of.draft(&[2, 3, 6, 5], size, corners, PLAIN));
        }
        for n in LENGTHS {
            s.run(of.draft(&[2, 3, 4], [5, n], corners, PLAIN));
            s.run(of.draft(&[2, 3, n], [5, 64], corners, PLAIN));
            s.run(of.draft(&[2, n, 3], [33, 6], corners, PLAIN));
        }
        for (dims, size) in [
            (&[0, 3, 4, 4][..], [8, 8]),
            (&[2, 3, 4, 4], [0, 0]),
            (&[2, 0, 4, 4], [8, 8]),
            (&[2, 1, 2, 1, 3, 4], [6, 5]),
            (&[3, 4], [6, 5]),
            (&[1, 1, 1, 1], [4, 5]),
        ] {
            s.run(of.draft(dims, size, corners, PLAIN));
        }
        for x in IN.into_iter().chain(ORDERS) {
            s.run(of.draft(&[2, 3, 6, 33], [9, 70], corners, (x, Placement::Plain)));
        }
        for y in OUT.into_iter().chain(ORDERS) {
            s.run(of.draft(&[2, 3, 6, 33], [9, 70], corners, (Placement::Plain, y)));
        }
        s.run(of.draft(&[2, 3, 6, 33], [9, 70], corners, (Placement::Transposed, Placement::Strided)));
        // Elements that are infinite or NaN: only those that have a share in an element of y show there.
        for (value, at) in [(f64::NAN, 0), (f64::INFINITY, 7), (f64::NAN, 29), (f64::NEG_INFINITY, 12)] {
            let mut x: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 13) - 6.0).collect();
            x[at] = value;
            for size in [[6, 5], [12, 10], [11, 9], [4, 3], [2, 2]] {
                s.run(of.given(&x, &[6, 5], size, corners).note(&format!("{value} at {at}")));
            }
        }
        // Places whose weights are powers of two.
        let whole: Vec<f64> = (0..40).map(|i| f64::from(i * 16 % 144) - 64.0).collect();
        let size = if corners { [9, 15] } else { [10, 16] };
        s.expect(of.given(&whole, &[5, 8], size, corners).note("exact"), Expect::Exactly);
    }
    // Long axes, where places in f32 would be off.
    let long: Vec<f64> = (0..70_001).map(|i| f64::from(i * 37 % 101) - 50.0).collect();
    for corners in of.corners().iter().copied() {
        s.run(of.given(&long, &[1, 70_001], [1, 99_991], corners).note("long"));
    }
}
