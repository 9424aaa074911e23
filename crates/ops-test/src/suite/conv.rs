//! Convolutions over one axis and two, and transposed ones.
use super::data::{Distribution, NORMAL, Random, values_of};
use super::draft::CaseBuilder;
use super::exact;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, Suite};
use ops_core::DType;
use serde_json::json;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        for op in ["conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d"] {
            if s.wants(op, dtype) {
                options(s, op, dtype);
                sizes(s, op, dtype);
                layouts(s, op, dtype);
                values(s, op, dtype);
            }
        }
    }
}

/// The options of one axis: stride, padding, dilation, output padding.
type Axis = [usize; 4];
const PLAIN: Axis = [1, 0, 1, 0];

/// One case, over two axes. Ops with a single axis use only the second.
#[derive(Clone, Copy)]
struct Problem {
    op: &'static str,
    dtype: DType,
    batch: usize,
    /// Input and output channels of a group, and groups.
    channels: [usize; 3],
    x: [usize; 2],
    kernel: [usize; 2],
    axes: [Axis; 2],
    bias: Option<DType>,
    hows: [Placement; 4],
}

impl Problem {
    fn new(op: &'static str, dtype: DType) -> Self {
        Problem {
            op,
            dtype,
            batch: 1,
            channels: [1, 1, 1],
            x: [5, 7],
            kernel: [3, 3],
            axes: [PLAIN; 2],
            bias: None,
            hows: [Placement::Plain; 4],
        }
    }
    fn transposed(&self) -> bool {
        self.op.contains("transpose")
    }
    /// The values for the axes that the op has.
    fn own<T: Copy>(&self, both: [T; 2]) -> Vec<T> {
        both[if self.op.ends_with("1d") { 1 } else { 0 }..].to_vec()
    }
    /// The extents of `y` along each axis.
    fn y(&self) -> [usize; 2] {
        core::array::from_fn(|at| {
            let ([stride, padding, dilation, more], n) = (self.axes[at], self.x[at] as i64);
            let [s, p, d, more] = [stride, padding, dilation, more].map(|v| v as i64);
            let reach = d * (self.kernel[at] as i64 - 1) + 1;
            let extent = if self.transposed() {
                (n - 1) * s - 2 * p + reach + more
            } else {
                (n + 2 * p - reach).div_euclid(s) + 1
            };
            extent.max(0) as usize
        })
    }
    fn shapes(&self) -> [Vec<usize>; 3] {
        let [inputs, outputs, groups] = self.channels;
        let with = |outer: [usize; 2], both: [usize; 2]| [&outer[..], &self.own(both)].concat();
        let weight = if self.transposed() { [inputs * groups, outputs] } else { [outputs * groups, inputs] };
        [
            with([self.batch, inputs * groups], self.x),
            with(weight, self.kernel),
            with([self.batch, outputs * groups], self.y()),
        ]
    }
    fn outputs(&self) -> usize {
        self.channels[1] * self.channels[2]
    }
    /// The op with its options. Options at their defaults are left out.
    fn start(&self) -> CaseBuilder {
        let mut draft = CaseBuilder::new(self.op, self.dtype);
        let axes = self.own(self.axes);
        let names = [("stride", 0, 1), ("padding", 1, 0), ("dilation", 2, 1), ("output_padding", 3, 0)];
        for (name, at, default) in names {
            let values: Vec<usize> = axes.iter().map(|axis| axis[at]).collect();
            if values.iter().any(|v| *v != default) {
                draft = draft.param(name, json!(values));
            }
        }
        if self.channels[2] != 1 {
            draft = draft.param("groups", self.channels[2]);
        }
        draft
    }
    fn draft(&self) -> CaseBuilder {
        let ([x, weight, y], hows) = (self.shapes(), self.hows);
        let draft = self.start().read("x", &x, hows[0], NORMAL).read("weight", &weight, hows[1], NORMAL);
        let draft = match self.bias {
            Some(dtype) => {
                let numbers = Distribution::Normal(0.0, 3.0);
                draft.read_as("bias", dtype, &[self.outputs()], hows[2], numbers)
            }
            None => draft,
        };
        draft.write("y", &y, hows[3])
    }
    fn run(&self, s: &mut Suite<'_>) {
        s.run(self.draft());
    }
}

/// Every option alone and together, with groups and biases.
fn options(s: &mut Suite<'_>, op: &'static str, dtype: DType) {
    let base = Problem { batch: 2, channels: [3, 4, 2], x: [7, 11], ..Problem::new(op, dtype) };
    for bias in [None, Some(dtype), Some(DType::F32)] {
        Problem { bias, ..base }.run(s);
    }
    let more = usize::from(base.transposed());
    for axes in [
        [[2, 0, 1, 0], [3, 0, 1, 0]],
        [[1, 1, 1, 0], [1, 2, 1, 0]],
        [[1, 0, 2, 0], [1, 0, 3, 0]],
        [[2, 1, 1, more], [2, 1, 1, more]],
        [[3, 1, 2, 2 * more], [2, 2, 3, 2 * more]],
        [[1, 2, 2, more], [4, 3, 1, 3 * more]],
        // A kernel whose reach is longer than `x`, and more padding than kernel.
        [[1, 4, 3, 0], [2, 6, 5, 0]],
        [[2, 5, 1, 0], [3, 7, 1, 0]],
    ] {
        // With a lot of padding, nothing is left of a transposed convolution's result.
        let x = if base.transposed() { [8, 13] } else { base.x };
        Problem { axes, x, bias: Some(dtype), ..base }.run(s);
        Problem { axes, x, kernel: [2, 4], channels: [2, 1, 3], ..base }.run(s);
    }
    // Depthwise, with one output channel for each input channel, and with three.
    for outputs in [1, 3] {
        for axes in [[PLAIN; 2], [[1, 1, 1, 0]; 2], [[2, 1, 1, 0]; 2], [[1, 2, 2, 0]; 2], [[2, 3, 2, 0]; 2]] {
            let channels = [1, outputs, 5];
            Problem { channels, axes, x: [9, 70], bias: Some(dtype), ..base }.run(s);
        }
        Problem { channels: [1, outputs, 5], kernel: [5, 2], axes: [[1, 2, 1, 0]; 2], ..base }.run(s);
    }
}

/// Extents around the sizes of vectors and tiles, kernels of one element and as large as `x`, and empty axes.
fn sizes(s: &mut Suite<'_>, op: &'static str, dtype: DType) {
    let base = Problem { bias: Some(dtype), ..Problem::new(op, dtype) };
    let pad = [[1, 1, 1, 0]; 2];
    for (channels, x, kernel, axes) in [
        ([1, 1, 1], [1, 1], [1, 1], [PLAIN; 2]),
        ([3, 5, 1], [4, 9], [1, 1], [PLAIN; 2]),
        ([17, 33, 1], [6, 31], [1, 1], [PLAIN; 2]),
        ([64, 65, 1], [3, 66], [1, 1], [PLAIN; 2]),
        ([5, 6, 1], [5, 8], [1, 1], [[2, 0, 1, 0], [3, 0, 1, 0]]),
        ([7, 66, 1], [8, 17], [3, 3], pad),
        ([33, 16, 1], [9, 15], [3, 3], pad),
        ([4, 63, 2], [10, 33], [3, 3], pad),
        ([22, 17, 1], [7, 40], [3, 3], [[2, 1, 1, 0]; 2]),
        ([2, 3, 1], [12, 130], [3, 5], [[1, 1, 1, 0], [1, 2, 1, 0]]),
        ([3, 16, 1], [20, 21], [7, 7], [[2, 3, 1, 0]; 2]),
        ([2, 2, 1], [5, 7], [5, 7], [PLAIN; 2]),
        // Enough groups for large matrix-unit tiles, both over consecutive terms and over channels of one kernel element.
        ([2, 65, 8], [9, 15], [3, 3], pad),
        ([17, 66, 8], [9, 15], [1, 1], [PLAIN; 2]),
        ([1, 1, 7], [6, 3], [3, 3], pad),
        ([1, 1, 3], [40, 129], [3, 3], pad),
        ([2, 20, 1], [1, 1], [3, 3], pad),
    ] {
        Problem { channels, x, kernel, axes, ..base }.run(s);
    }
    Problem { batch: 5, channels: [4, 18, 1], x: [3, 11], ..base }.run(s);
    // Whole packs of channels, innermost in memory and not.
    for order in [&[0, 2, 3, 1][..], &[0, 1, 2, 3]] {
        let order =
            if op.ends_with("1d") { if order[1] == 1 { &[0, 1, 2] } else { &[0, 2, 1][..] } } else { order };
        let how = Placement::Order(order);
        let hows = [how, how, Placement::Plain, how];
        Problem { batch: 2, channels: [40, 17, 2], x: [4, 9], axes: pad, hows, ..base }.run(s);
    }
    // Enough images for one per thread.
    Problem { batch: 33, channels: [2, 3, 1], x: [4, 6], axes: pad, ..base }.run(s);
    for (batch, channels, x) in [
        (0, [3, 4, 1], [5, 7]),
        (2, [0, 4, 1], [5, 7]),
        (2, [3, 0, 1], [5, 7]),
        (2, [3, 4, 1], [5, 0]),
        (2, [0, 0, 2], [5, 7]),
    ] {
        Problem { batch, channels, x, ..base }.run(s);
        Problem { batch, channels, x, axes: pad, kernel: [1, 3], bias: None, ..base }.run(s);
        Problem { batch, channels, x, axes: [[1, 3, 1, 0]; 2], ..base }.run(s);
    }
    if !base.transposed() {
        // Almost everything is padding.
        let far = [[1 << 20, 1 << 20, 1, 0], [1 << 33, 1 << 33, 3, 0]];
        Problem { channels: [2, 3, 1], axes: far, kernel: [1, 2], ..base }.run(s);
        let reach = [[1, 0, 1, 0], [1, 1 << 34, 1 << 34, 0]];
        Problem { channels: [2, 3, 1], axes: reach, ..base }.run(s);
    }
}

fn layouts(s: &mut Suite<'_>, op: &'static str, dtype: DType) {
    let axes = [[2, 1, 1, 0], [1, 2, 2, 0]];
    let dense = Problem {
        batch: 2,
        channels: [3, 18, 1],
        x: [6, 9],
        axes,
        bias: Some(dtype),
        ..Problem::new(op, dtype)
    };
    let depthwise = Problem { channels: [1, 1, 6], ..dense };
    let pointwise = Problem { kernel: [1, 1], axes: [PLAIN; 2], ..dense };
    // Kernels read x differently, but weights and biases in the same way.
    for (base, operands) in [(dense, &[0, 1, 2, 3][..]), (depthwise, &[0, 3]), (pointwise, &[0, 3])] {
        for operand in operands.iter().copied() {
            for how in if operand == 3 { &OUT[..] } else { &IN[..] } {
                let mut hows = base.hows;
                hows[operand] = *how;
                Problem { hows, ..base }.run(s);
            }
        }
        // Channels innermost in memory.
        let last: &'static [usize] = if op.ends_with("1d") { &[0, 2, 1] } else { &[0, 2, 3, 1] };
        let last = Placement::Order(last);
        Problem { hows: [last, Placement::Plain, Placement::Plain, last], ..base }.run(s);
        Problem { hows: [last, last, Placement::Strided, Placement::Plain], ..base }.run(s);
        let swapped: &'static [usize] = if op.ends_with("1d") { &[2, 0, 1] } else { &[0, 1, 3, 2] };
        let swapped = Placement::Order(swapped);
        Problem { hows: [swapped, swapped, Placement::Plain, swapped], ..base }.run(s);
    }
}

/// Long sums, non-finite values, and integers whose sums are exact in any order.
fn values(s: &mut Suite<'_>, op: &'static str, dtype: DType) {
    let base = Problem { axes: [[1, 1, 1, 0]; 2], ..Problem::new(op, dtype) };
    let long = Problem { channels: [459, 2, 1], x: [2, 3], ..base };
    for outputs in [2, 34] {
        let long = Problem { channels: [459, outputs, 1], ..long };
        let [x, weight, y] = long.shapes();
        let positive = |name, dims: &[usize], draft: CaseBuilder| {
            draft.read(name, dims, Placement::Plain, Distribution::Positive)
        };
        let draft = positive("weight", &weight, positive("x", &x, long.start()));
        s.run(draft.write("y", &y, Placement::Plain).note("positive"));
    }
    // A non-finite value affects only the outputs whose sums contain it.
    for (special, outputs) in [(f64::INFINITY, 1), (f64::NAN, 1), (f64::NEG_INFINITY, 18)] {
        let spotted = Problem { channels: [2, outputs, 1], x: [6, 40], ..base };
        let [x, weight, y] = spotted.shapes();
        let mut numbers: Vec<f64> = (0..x.iter().product()).map(|i| (i % 5) as f64 + 1.0).collect();
        let middle = numbers.len() / 2 + 3;
        numbers[middle] = special;
        let draft = spotted.start().given("x", &values_of(dtype, &numbers), &x, Placement::Plain);
        let draft = draft.read("weight", &weight, Placement::Plain, Distribution::Positive);
        s.run(draft.write("y", &y, Placement::Plain).note(&format!("{special}")));
    }
    let shapes = [
        ([1, 1, 4], [3, 3], [[1, 1, 1, 0]; 2]),
        ([3, 18, 1], [3, 3], [[1, 1, 1, 0]; 2]),
        ([5, 3, 2], [2, 3], [[2, 0, 1, 0], [1, 1, 2, 0]]),
        ([16, 33, 1], [1, 1], [PLAIN; 2]),
    ];
    for (channels, kernel, axes) in shapes {
        integers(s, Problem { channels, kernel, axes, x: [9, 35], batch: 2, bias: Some(dtype), ..base });
    }
}

/// Small integers, for which results must be equal.
fn integers(s: &mut Suite<'_>, problem: Problem) {
    let [x, weight, y] = problem.shapes();
    let terms = problem.channels[0] * problem.kernel.iter().product::<usize>();
    let mut random = Random::of(&format!("exact {} {x:?} {weight:?}", problem.op));
    let [most_x, most_weight] = exact::factors(terms, problem.dtype);
    let mut given = |draft: CaseBuilder, name: &str, dims: &[usize], most: f64| {
        let numbers = exact::integers(&mut random, dims.iter().product(), most);
        draft.given(name, &values_of(problem.dtype, &numbers), dims, Placement::Plain)
    };
    let draft = given(problem.start().note("exact"), "x", &x, most_x);
    let draft = given(draft, "weight", &weight, most_weight);
    let draft = given(draft, "bias", &[problem.outputs()], 4.0);
    s.expect(draft.write("y", &y, Placement::Plain), Expect::Exactly);
}
