//! Pooling.
use super::data::{NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, LENGTHS, Suite};
use ops_core::DType;
use serde_json::json;

pub(super) const PLAIN: (Placement, Placement) = (Placement::Plain, Placement::Plain);

/// What memory orders images are kept in besides the usual one: channels last, and rows and columns exchanged.
pub(super) const ORDERS: [Placement; 2] = [Placement::Order(&[0, 2, 3, 1]), Placement::Order(&[0, 1, 3, 2])];

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["max_pool2d", "avg_pool2d"] {
        for dtype in s.asked(op, FLOATS) {
            pool(s, Pool { op, dtype });
        }
    }
}

/// An op and the type of its cases.
#[derive(Clone, Copy)]
struct Pool {
    op: &'static str,
    dtype: DType,
}

/// Kernel, stride and padding.
type Shape = ([usize; 2], [usize; 2], [usize; 2]);

impl Pool {
    fn with_options(self, (kernel, stride, padding): Shape) -> CaseBuilder {
        let draft = CaseBuilder::new(self.op, self.dtype);
        draft.param("kernel", json!(kernel)).param("stride", json!(stride)).param("padding", json!(padding))
    }
    fn out(dims: &[usize], (kernel, stride, padding): Shape) -> Vec<usize> {
        let (mut out, lead) = (dims.to_vec(), dims.len() - 2);
        for axis in 0..2 {
            out[lead + axis] = (dims[lead + axis] + 2 * padding[axis] - kernel[axis]) / stride[axis] + 1;
        }
        out
    }
    fn draft(self, dims: &[usize], shape: Shape, (x, y): (Placement, Placement)) -> CaseBuilder {
        self.with_options(shape).read("x", dims, x, NORMAL).write("y", &Self::out(dims, shape), y)
    }
    fn given(self, x: &[f64], dims: &[usize], shape: Shape) -> CaseBuilder {
        let draft = self.with_options(shape).given("x", &values_of(self.dtype, x), dims, Placement::Plain);
        draft.write("y", &Self::out(dims, shape), Placement::Plain)
    }
}

const SHAPES: [Shape; 9] = [
    ([2, 2], [2, 2], [0, 0]),
    ([3, 3], [2, 2], [1, 1]),
    ([3, 2], [1, 2], [1, 0]),
    ([2, 3], [2, 1], [0, 1]),
    ([1, 1], [1, 1], [0, 0]),
    ([1, 1], [3, 2], [0, 0]),
    ([5, 4], [1, 1], [2, 2]),
    ([4, 7], [3, 5], [2, 3]),
    ([2, 2], [5, 5], [1, 1]),
];

fn pool(s: &mut Suite<'_>, of: Pool) {
    for shape in SHAPES {
        for dims in [&[2, 3, 9, 11][..], &[1, 2, 7, 33], &[8, 8]] {
            s.run(of.draft(dims, shape, PLAIN));
        }
    }
    let usual = SHAPES[1];
    for n in LENGTHS {
        s.run(of.draft(&[1, 2, 3, n], usual, PLAIN));
        s.run(of.draft(&[1, 2, n, 3], usual, PLAIN));
        s.run(of.draft(&[n, 2, 3], ([2, 2], [1, 1], [0, 0]), PLAIN));
    }
    for dims in [&[0, 3, 4, 4][..], &[2, 0, 5, 5], &[2, 1, 3, 1, 6, 5], &[3, 3]] {
        s.run(of.draft(dims, usual, PLAIN));
    }
    // One window on the whole plane, and windows that hardly reach onto it.
    for (dims, kernel) in
        [(&[2, 3, 7, 7][..], [7, 7]), (&[1, 2, 64, 65], [64, 65]), (&[1, 1, 1, 4097], [1, 4097])]
    {
        s.run(of.draft(dims, (kernel, kernel, [0, 0]), PLAIN));
    }
    s.run(of.draft(&[1, 2, 2, 3], ([6, 7], [1, 1], [3, 3]), PLAIN));
    s.run(of.draft(&[1, 2, 0, 3], ([2, 3], [1, 1], [1, 1]), PLAIN).note("padding alone"));
    for x in IN.into_iter().chain(ORDERS) {
        s.run(of.draft(&[2, 3, 9, 33], usual, (x, Placement::Plain)));
        s.run(of.draft(&[2, 3, 9, 33], ([2, 3], [1, 1], [1, 1]), (x, Placement::Plain)));
    }
    for y in OUT.into_iter().chain(ORDERS) {
        s.run(of.draft(&[2, 3, 9, 33], usual, (Placement::Plain, y)));
    }
    s.run(of.draft(&[2, 3, 9, 33], usual, (Placement::Transposed, Placement::Strided)));
    // Without stride and padding: windows next to each other.
    let draft = CaseBuilder::new(of.op, of.dtype).param("kernel", json!([2, 3]));
    s.run(draft.read("x", &[2, 5, 7], Placement::Plain, NORMAL).write("y", &[2, 2, 2], Placement::Plain));
    special(s, of);
}

fn special(s: &mut Suite<'_>, of: Pool) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for shape in [SHAPES[0], SHAPES[1], ([3, 3], [1, 1], [1, 1])] {
        for (value, at) in [(nan, 0), (nan, 37), (nan, 142), (inf, 5), (-inf, 70)] {
            let mut x: Vec<f64> = (0..11 * 13).map(|i| f64::from(i * 7 % 31) - 40.0).collect();
            x[at] = value;
            s.run(of.given(&x, &[11, 13], shape).note(&format!("{value} at {at}")));
        }
        // Padding must not win over negative numbers, nor over −∞.
        s.run(of.given(&[-inf; 48], &[6, 8], shape).note("all -inf"));
        s.run(of.given(&[-3.0; 48], &[6, 8], shape).note("all negative"));
    }
    s.run(of.given(&[nan, inf, -inf, 1.0], &[2, 2], SHAPES[0]).note("nan and infinities"));
    s.run(of.given(&[inf, -inf, 1.0, 1.0], &[2, 2], SHAPES[0]).note("both infinities"));
    // Whole numbers, whose averages over powers of two are exact.
    let whole: Vec<f64> = (0..8 * 33).map(|i| f64::from(i * 5 % 17) - 8.0).collect();
    for shape in [([2, 2], [1, 2], [1, 1]), ([4, 2], [2, 1], [1, 1]), ([2, 4], [2, 2], [0, 2])] {
        s.expect(of.given(&whole, &[8, 33], shape).note("exact"), Expect::Exactly);
    }
    if of.op == "avg_pool2d" {
        // Sums that stop growing if they are kept in few bits.
        let step = if of.dtype == DType::F16 { 0.25 } else { 0.1 };
        for kernel in [[1, 4096], [4096, 1], [64, 64]] {
            let shape = (kernel, [1, 1], [0, 0]);
            s.run(of.given(&vec![step; 4096], &kernel, shape).note("all equal"));
        }
    }
}
