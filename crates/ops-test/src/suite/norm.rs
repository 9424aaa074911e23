//! Normalisation.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;

/// One case, with the fields that tests vary.
#[derive(Clone, Copy)]
struct Norm<'a> {
    op: &'a str,
    dtype: DType,
    dims: &'a [usize],
    numbers: Distribution,
    eps: f64,
    groups: usize,
    x: Placement,
    y: Placement,
    weights: Placement,
    /// The type of weight and bias. If they are optional, also which are present.
    weight_type: DType,
    given: (bool, bool),
}

impl<'a> Norm<'a> {
    fn new(op: &'a str, dtype: DType, dims: &'a [usize]) -> Self {
        Norm {
            op,
            dtype,
            dims,
            numbers: NORMAL,
            eps: 1e-5,
            groups: 2,
            x: Placement::Plain,
            y: Placement::Plain,
            weights: Placement::Plain,
            weight_type: dtype,
            given: (true, true),
        }
    }

    fn channels(&self) -> usize {
        let axis = if self.op == "group_norm" { 1 } else { self.dims.len() - 1 };
        self.dims[axis]
    }

    fn draft(self) -> CaseBuilder {
        let values = self.values();
        self.with(&values)
    }

    fn values(&self) -> Array {
        let seed = format!("{} {:?}", self.op, self.dims);
        draw(&mut Random::of(&seed), self.dtype, self.dims.iter().product(), self.numbers)
    }

    /// Uses these numbers as `x`.
    fn with(self, x: &Array) -> CaseBuilder {
        self.with_weight(x, None)
    }

    fn with_weight(self, x: &Array, weight: Option<&Array>) -> CaseBuilder {
        let mut draft = CaseBuilder::new(self.op, self.dtype).param("eps", self.eps);
        let optional = matches!(self.op, "layer_norm" | "group_norm");
        if self.op == "group_norm" {
            draft = draft.param("num_groups", self.groups);
        }
        draft = draft.given("x", x, self.dims, self.x);
        if self.op == "add_rms_norm" {
            draft = draft.read("residual", self.dims, self.x, NORMAL);
        }
        let n = [self.channels()];
        if let Some(weight) = weight {
            draft = draft.given("weight", weight, &n, self.weights);
        } else if self.given.0 || !optional {
            draft =
                draft.read_as("weight", self.weight_type, &n, self.weights, Distribution::Normal(1.0, 0.3));
        }
        if optional && self.given.1 {
            draft = draft.read_as("bias", self.weight_type, &n, self.weights, NORMAL);
        }
        draft = draft.write("y", self.dims, self.y);
        if self.op == "add_rms_norm" {
            draft = draft.write("sum", self.dims, self.y);
        }
        draft
    }
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["rms_norm", "layer_norm", "add_rms_norm", "group_norm"] {
        for dtype in s.asked(op, FLOATS) {
            sizes(s, op, dtype);
            layouts(s, op, dtype);
            options(s, op, dtype);
            numbers(s, op, dtype);
            sharp(s, op, dtype);
        }
    }
}

fn sizes(s: &mut Suite<'_>, op: &str, dtype: DType) {
    if op == "group_norm" {
        for n in LENGTHS {
            s.run(Norm::new(op, dtype, &[2, 4, n]).draft());
        }
        for groups in [1, 2, 3, 6] {
            s.run(Norm { groups, ..Norm::new(op, dtype, &[2, 6, 5, 7]) }.draft());
        }
        for dims in [&[3, 4][..], &[0, 4, 3], &[2, 4, 0], &[2, 0, 5], &[1, 2, 3, 1, 2, 3]] {
            s.run(Norm::new(op, dtype, dims).draft());
        }
        return;
    }
    for n in LENGTHS {
        s.run(Norm::new(op, dtype, &[if n == 4097 { 2 } else { 3 }, n]).draft());
    }
    for dims in [&[65][..], &[1, 33], &[2, 3, 31], &[1025, 7], &[2, 1, 3, 2, 1, 33]] {
        s.run(Norm::new(op, dtype, dims).draft());
    }
    for dims in [&[0, 5][..], &[3, 0], &[2, 0, 33], &[0]] {
        s.run(Norm::new(op, dtype, dims).draft());
    }
}

fn layouts(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let norm = Norm::new(op, dtype, &[3, 4, 33]);
    for x in IN {
        s.run(Norm { x, ..norm }.draft());
    }
    for weights in IN {
        s.run(Norm { weights, ..norm }.draft());
    }
    for y in OUT {
        s.run(Norm { y, ..norm }.draft());
        s.run(Norm { y, x: Placement::Gaps, dims: &[2, 4, 65], ..norm }.draft());
    }
    s.run(
        Norm { x: Placement::Transposed, y: Placement::Strided, weights: Placement::Reversed, ..norm }
            .draft(),
    );
}

fn options(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let norm = Norm::new(op, dtype, &[3, 4, 33]);
    for weight_type in FLOATS {
        s.run(Norm { weight_type, ..norm }.draft());
        // Rows longer than a wave holds in registers, and groups that are divided between workgroups.
        if op == "group_norm" {
            for how in [Placement::Plain, Placement::Gaps] {
                s.run(Norm { weight_type, groups: 1, x: how, y: how, dims: &[1, 4, 4100], ..norm }.draft());
            }
        } else {
            s.run(Norm { weight_type, dims: &[2, 4097], ..norm }.draft());
        }
    }
    // On a GPU, two or four of these rows or groups share a workgroup, the last one of which lacks some. With a single compute unit,
    // workgroups take several times as many.
    let [many, fewer] = if dtype == DType::F16 { [259, 131] } else { [3, 3] };
    for [rows, n] in [[many, 1208], [fewer, 2304]] {
        let dims = if op == "group_norm" { vec![rows, 2, n / 2] } else { vec![rows, n] };
        s.run(Norm { dims: &dims, groups: 1, ..norm }.draft());
    }
    for given in [(true, false), (false, true), (false, false)] {
        if matches!(op, "layer_norm" | "group_norm") {
            s.run(Norm { given, ..norm }.draft());
        }
    }
    for eps in [0.0, 1e-6, 0.5] {
        s.run(Norm { eps, ..norm }.draft());
    }
}

fn numbers(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let half = matches!(dtype, DType::F16 | DType::BF16);
    let norm = Norm::new(op, dtype, &[4, 4, 96]);
    // eps dominates the result.
    s.run(Norm { numbers: Distribution::Normal(0.0, 1e-3), ..norm }.draft().note("small"));
    s.run(Norm { numbers: Distribution::Between(0.0, 0.0), ..norm }.draft().note("zeros"));
    // The squares exceed the range of f16.
    s.run(Norm { numbers: Distribution::Normal(0.0, 8e3), ..norm }.draft().note("large"));
    // The variance is far below the square of the mean.
    let far = Norm { numbers: Distribution::Normal(if half { 30.0 } else { 1000.0 }, 1.0), ..norm };
    for dims in [&[2, 4, 257][..], &[1, 2, 4097]] {
        s.run(Norm { dims, ..far }.draft().note("large mean"));
    }
    // The first element, which an implementation may use as a shift, is far from the rest.
    let mut x = norm.values().to_f64().unwrap_or_default();
    x[0] = 1e3;
    s.run(norm.with(&values_of(dtype, &x)).note("outlier"));
    // The same in a long row or group, whose mean is computed in parts.
    if !half && matches!(op, "layer_norm" | "group_norm") {
        let long = Norm { dims: &[1, 2, 20_000], groups: 1, ..far };
        let mut x = long.values().to_f64().unwrap_or_default();
        x[0] = -3e4;
        s.run(long.with(&values_of(dtype, &x)).note("large mean and an outlier"));
    }
    x[0] = 1.0;
    x[97] = f64::NAN;
    s.run(norm.with(&values_of(dtype, &x)).note("nan in a row"));
}

/// f32 weights that make every result representable. Correct code then has almost no error, so an extra
/// rounding between load and store is detected.
fn sharp(s: &mut Suite<'_>, op: &str, dtype: DType) {
    if !matches!(dtype, DType::F16 | DType::BF16) || op == "add_rms_norm" {
        return;
    }
    for n in [5, 17, 33, 64, 100, 127] {
        let dims = if op == "group_norm" { vec![1, n] } else { vec![n] };
        let norm = Norm {
            numbers: Distribution::Nonzero,
            weight_type: DType::F32,
            given: (true, false),
            groups: 1,
            ..Norm::new(op, dtype, &dims)
        };
        let values = norm.values();
        let x = values.to_f64().unwrap_or_default();
        let mean = if op == "rms_norm" { 0.0 } else { x.iter().sum::<f64>() / n as f64 };
        let spread = (x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n as f64 + norm.eps).sqrt();
        let targets =
            draw(&mut Random::of("targets"), dtype, n, Distribution::Nonzero).to_f64().unwrap_or_default();
        let weight: Vec<f64> = targets.iter().zip(&x).map(|(t, x)| t * spread / (x - mean)).collect();
        let weight = values_of(DType::F32, &weight);
        s.run(norm.with_weight(&values, Some(&weight)).note("representable results"));
    }
}
