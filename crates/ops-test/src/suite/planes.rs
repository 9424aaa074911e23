//! Batch normalisation, pooling and upsampling.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::place::{IN, OUT, Placement};
use super::{Expect, FLOATS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;
use serde_json::json;

const PLAIN: (Placement, Placement) = (Placement::Plain, Placement::Plain);

/// Memory orders of images besides the usual one: channels last, and rows and columns exchanged.
const ORDERS: [Placement; 2] = [Placement::Order(&[0, 2, 3, 1]), Placement::Order(&[0, 1, 3, 2])];

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("batch_norm", FLOATS) {
        batch_norm(s, dtype);
    }
    for op in ["max_pool2d", "avg_pool2d"] {
        for dtype in s.asked(op, FLOATS) {
            pool(s, Pool { op, dtype });
        }
    }
    for op in ["upsample_nearest1d", "upsample_nearest2d", "upsample_bilinear2d"] {
        for dtype in s.asked(op, FLOATS) {
            upsample(s, Upsample { op, dtype });
        }
    }
}

/// One case, with the fields that tests vary.
#[derive(Clone, Copy)]
struct Batch<'a> {
    dtype: DType,
    dims: &'a [usize],
    numbers: Distribution,
    mean: Distribution,
    eps: f64,
    x: Placement,
    y: Placement,
    parameters: Placement,
    /// The types of weight and bias, and of mean and variance.
    types: [DType; 2],
    given: (bool, bool),
}

impl<'a> Batch<'a> {
    fn new(dtype: DType, dims: &'a [usize]) -> Self {
        Batch {
            dtype,
            dims,
            numbers: NORMAL,
            mean: NORMAL,
            eps: 1e-5,
            x: Placement::Plain,
            y: Placement::Plain,
            parameters: Placement::Plain,
            types: [dtype; 2],
            given: (true, true),
        }
    }
    fn draft(self) -> CaseBuilder {
        let seed = format!("batch_norm {:?}", self.dims);
        let x = draw(&mut Random::of(&seed), self.dtype, self.dims.iter().product(), self.numbers);
        self.with(&x)
    }
    fn with(self, x: &Array) -> CaseBuilder {
        let (c, how, [affine, statistics]) = ([self.dims[1]], self.parameters, self.types);
        let draft = CaseBuilder::new("batch_norm", self.dtype).param("eps", self.eps);
        let mut draft = draft.given("x", x, self.dims, self.x);
        if self.given.0 {
            draft = draft.read_as("weight", affine, &c, how, Distribution::Normal(1.0, 0.3));
        }
        if self.given.1 {
            draft = draft.read_as("bias", affine, &c, how, NORMAL);
        }
        let draft = draft.read_as("mean", statistics, &c, how, self.mean);
        draft.read_as("var", statistics, &c, how, Distribution::Positive).write("y", self.dims, self.y)
    }
}

fn batch_norm(s: &mut Suite<'_>, dtype: DType) {
    for n in LENGTHS {
        s.run(Batch::new(dtype, &[2, 3, n]).draft());
        s.run(Batch::new(dtype, &[2, n, 3]).draft());
        s.run(Batch::new(dtype, &[3, n]).draft());
    }
    for dims in [
        &[2, 6, 5, 7][..],
        &[1, 2, 70, 71],
        &[2, 1, 3, 2, 1, 33],
        &[1, 1],
        &[1, 2, 40_000],
        &[0, 4, 3],
        &[2, 4, 0],
        &[2, 0, 5],
        &[0, 0],
    ] {
        s.run(Batch::new(dtype, dims).draft());
    }
    let batch = Batch::new(dtype, &[3, 4, 6, 33]);
    for how in IN {
        s.run(Batch { x: how, ..batch }.draft());
        s.run(Batch { parameters: how, ..batch }.draft());
        s.run(Batch { parameters: how, dims: &[5, 33], ..batch }.draft());
    }
    for y in OUT.into_iter().chain(ORDERS) {
        s.run(Batch { y, ..batch }.draft());
        s.run(Batch { y, x: ORDERS[0], ..batch }.draft());
    }
    for first in FLOATS {
        for second in FLOATS {
            s.run(Batch { types: [first, second], ..batch }.draft());
        }
        // A mean that needs full precision.
        let far = Distribution::Normal(if dtype == DType::F32 { 1000.0 } else { 30.0 }, 1.0);
        s.run(Batch { types: [first; 2], numbers: far, mean: far, ..batch }.draft().note("large mean"));
    }
    for given in [(true, false), (false, true), (false, false)] {
        s.run(Batch { given, ..batch }.draft());
    }
    for eps in [0.0, 1e-3, 0.5] {
        s.run(Batch { eps, ..batch }.draft());
    }
    let mut x: Vec<f64> = (0..3 * 4 * 6 * 33).map(|i| f64::from(i % 13) - 6.0).collect();
    (x[0], x[70], x[500]) = (f64::NAN, f64::INFINITY, f64::NEG_INFINITY);
    s.run(batch.with(&values_of(dtype, &x)).note("infinities and nan"));
    // Whole numbers, for which no order of operations rounds.
    let exact = CaseBuilder::new("batch_norm", dtype).param("eps", 1.0);
    let whole: Vec<f64> = (0..2 * 2 * 9).map(|i| f64::from(i % 9) - 4.0).collect();
    let vector = |values: [f64; 2]| values_of(dtype, &values);
    let exact = exact.given("x", &values_of(dtype, &whole), &[2, 2, 9], Placement::Plain);
    let exact = exact.given("weight", &vector([2.0, -8.0]), &[2], Placement::Plain);
    let exact = exact.given("bias", &vector([-3.0, 1.0]), &[2], Placement::Plain);
    let exact = exact.given("mean", &vector([1.0, -2.0]), &[2], Placement::Plain);
    let exact = exact.given("var", &vector([3.0, 15.0]), &[2], Placement::Plain);
    s.expect(exact.write("y", &[2, 2, 9], Placement::Plain).note("exact"), Expect::Exactly);
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
    // A single window over the whole plane, and windows that barely overlap it.
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
        // Sums that stop growing in low precision.
        let step = if of.dtype == DType::F16 { 0.25 } else { 0.1 };
        for kernel in [[1, 4096], [4096, 1], [64, 64]] {
            let shape = (kernel, [1, 1], [0, 0]);
            s.run(of.given(&vec![step; 4096], &kernel, shape).note("all equal"));
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
    /// Replaces the last two axes by the given size; for ops with one axis, only the last.
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
    /// Both ways to position elements, for ops that have them.
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
        // Infinite or NaN elements: they may only affect elements of y in which they have a weight.
        for (value, at) in [(f64::NAN, 0), (f64::INFINITY, 7), (f64::NAN, 29), (f64::NEG_INFINITY, 12)] {
            let mut x: Vec<f64> = (0..30).map(|i| f64::from(i * 7 % 13) - 6.0).collect();
            x[at] = value;
            for size in [[6, 5], [12, 10], [11, 9], [4, 3], [2, 2]] {
                s.run(of.given(&x, &[6, 5], size, corners).note(&format!("{value} at {at}")));
            }
        }
        // Positions whose weights are powers of two.
        let whole: Vec<f64> = (0..40).map(|i| f64::from(i * 16 % 144) - 64.0).collect();
        let size = if corners { [9, 15] } else { [10, 16] };
        s.expect(of.given(&whole, &[5, 8], size, corners).note("exact"), Expect::Exactly);
    }
    // Long axes, where positions in f32 would be inaccurate.
    let long: Vec<f64> = (0..70_001).map(|i| f64::from(i * 37 % 101) - 50.0).collect();
    for corners in of.corners().iter().copied() {
        s.run(of.given(&long, &[1, 70_001], [1, 99_991], corners).note("long"));
    }
}
