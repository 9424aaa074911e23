//! Batch normalisation.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::pool::ORDERS;
use super::{Expect, FLOATS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("batch_norm", FLOATS) {
        batch_norm(s, dtype);
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
        // A mean that needs all of its digits.
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
    // Whole numbers, which no order of the operations rounds.
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
