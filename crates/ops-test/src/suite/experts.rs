//! Products of rows with their experts' weight matrices.
use super::blocks::blocks;
use super::data::{Distribution, NORMAL};
use super::draft::CaseBuilder;
use super::index::{ids, sentinel};
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INDICES, Suite};
use crate::types::block_types;
use ops_core::DType;

mod fused;

pub(super) fn cases(s: &mut Suite<'_>) {
    fused::cases(s);
    for dtype in FLOATS {
        if s.wants("linear_experts", dtype) {
            floats(s, dtype);
            indices(s, dtype, dtype);
        }
        if s.wants("qlinear_experts", dtype) {
            for format in block_types() {
                of_blocks(s, dtype, format);
            }
            indices(s, dtype, DType::Block(&ops_core::quant::Q8_0));
        }
    }
}

/// Choices of `e` experts: some are chosen often and some never; a few choices are "no expert".
fn some_choices(count: usize, e: usize, index: DType) -> Vec<i64> {
    let choice = |at: usize| match at * 7 % 11 {
        5 => sentinel(index),
        _ if e == 0 => sentinel(index),
        by => (by * (at % 3 + 1) % e) as i64,
    };
    (0..count).map(choice).collect()
}

/// One case.
#[derive(Clone, Copy)]
struct Experts {
    dtype: DType,
    weight_type: DType,
    /// Numbers of tokens, rows per token, and choices per token.
    rows: [usize; 3],
    /// Numbers of experts, outputs, and elements or blocks per row.
    weight: [usize; 3],
    bias: Option<DType>,
    index: DType,
    /// Placements of x, weight, ids, bias and y.
    hows: [Placement; 5],
}

impl Experts {
    fn new(dtype: DType, weight_type: DType, rows: [usize; 3], weight: [usize; 3]) -> Self {
        let hows = [Placement::Plain; 5];
        Experts { dtype, weight_type, rows, weight, bias: None, index: DType::U32, hows }
    }
    fn choices(&self) -> Vec<i64> {
        let ([n, _, k], [e, ..]) = (self.rows, self.weight);
        some_choices(n * k, e, self.index)
    }
    fn draft(self) -> CaseBuilder {
        let choices = self.choices();
        self.with(&choices)
    }
    fn with(self, choices: &[i64]) -> CaseBuilder {
        let ([n, m, k], [e, o, d], [x, weight, i, bias, y]) = (self.rows, self.weight, self.hows);
        let op = if self.weight_type.is_block() { "qlinear_experts" } else { "linear_experts" };
        let draft = CaseBuilder::new(op, self.dtype);
        let draft = draft.read("x", &[n, m, d * self.weight_type.values()], x, NORMAL);
        let draft = match self.weight_type {
            DType::Block(_) => {
                draft.given("weight", &blocks(self.weight_type, e * o * d), &[e, o, d], weight)
            }
            dtype => draft.read_as("weight", dtype, &[e, o, d], weight, NORMAL),
        };
        let draft = draft.given("ids", &ids(self.index, choices), &[n, k], i);
        let draft = match self.bias {
            Some(dtype) => draft.read_as("bias", dtype, &[e, o], bias, Distribution::Normal(0.0, 3.0)),
            None => draft,
        };
        draft.write("y", &[n, k, o], y)
    }
}

fn floats(s: &mut Suite<'_>, dtype: DType) {
    let of = |rows, weight| Experts::new(dtype, dtype, rows, weight);
    for (rows, weight) in [
        ([1, 1, 1], [1, 1, 1]),
        ([1, 1, 2], [4, 33, 65]),
        ([3, 1, 2], [4, 9, 33]),
        ([3, 2, 2], [4, 9, 33]),
        ([5, 3, 3], [6, 17, 64]),
        ([33, 1, 4], [8, 31, 40]),
        ([70, 2, 2], [3, 65, 17]),
        ([2, 1, 3], [5, 3, 4097]),
        ([2, 1, 2], [300, 4, 8]),
        ([0, 1, 2], [4, 9, 33]),
        ([2, 0, 0], [4, 9, 33]),
        ([2, 1, 2], [4, 0, 33]),
        ([2, 1, 2], [4, 9, 0]),
        ([2, 1, 2], [0, 9, 33]),
    ] {
        for bias in [None, Some(dtype), Some(DType::F32)] {
            s.run(Experts { bias, ..of(rows, weight) }.draft());
        }
    }
    for weight_type in FLOATS {
        for (rows, weight) in [([3, 1, 2], [4, 9, 33]), ([3, 2, 2], [4, 18, 64]), ([40, 1, 2], [3, 9, 72])] {
            s.run(Experts { weight_type, ..of(rows, weight) }.draft());
        }
    }
    many_rows(s, of([67, 1, 3], [4, 70, 72]));
    many_rows(s, of([67, 3, 3], [4, 5, 33]));
    many_rows(s, of([700, 1, 3], [3, 2, 8]));
    layouts(s, of([3, 2, 2], [4, 9, 33]));
    layouts(s, of([3, 2, 2], [4, 9, 64]));
    layouts(s, of([40, 2, 2], [4, 9, 64]));
}

/// Many rows per expert: a backend may sort them by expert and multiply them in tiles, the last of which is
/// not full.
fn many_rows(s: &mut Suite<'_>, experts: Experts) {
    let ([n, _, k], [e, ..]) = (experts.rows, experts.weight);
    let with_bias = Experts { bias: Some(experts.dtype), ..experts };
    let none = sentinel(experts.index);
    let mut run = |note: &'static str, choice: &dyn Fn(usize) -> i64| {
        let choices: Vec<i64> = (0..n * k).map(choice).collect();
        s.run(with_bias.with(&choices).note(note));
    };
    run("all rows of the last expert", &|_| e as i64 - 1);
    run("experts without rows", &|at| if at % 5 < 3 { 0 } else { 2 });
    run("one row of each expert but the second", &|at| if at < e { at as i64 } else { 1 });
    run("tiles that are just full", &|at| (at / 64 % e) as i64);
    run("tiles with one row more", &|at| (at / 65 % e) as i64);
    run("no expert between others", &|at| if at % 2 == 0 { none } else { (at / 2 % e) as i64 });
    run("no expert at all", &|_| none);
    for wrong in [e as i64, none - 1] {
        let position = n * k - 1;
        let choices: Vec<i64> = (0..=position).map(|at| if at == position { wrong } else { 1 }).collect();
        let draft = experts.with(&choices).note("outside");
        s.expect(draft, Expect::Index { operand: "ids", position, index: wrong, bound: e });
    }
}

fn layouts(s: &mut Suite<'_>, experts: Experts) {
    for operand in 0..5 {
        for how in if operand == 4 { &OUT[..] } else { &IN[..] } {
            let mut hows = experts.hows;
            hows[operand] = *how;
            let bias = (operand == 3).then_some(experts.dtype);
            s.run(Experts { hows, bias, ..experts }.draft());
        }
    }
}

fn of_blocks(s: &mut Suite<'_>, dtype: DType, format: DType) {
    // The number of blocks that hold this many values.
    let blocks = |values: usize| values.div_ceil(format.values());
    let of = |rows, [e, o, d]: [usize; 3]| Experts::new(dtype, format, rows, [e, o, blocks(d)]);
    for (rows, weight) in [([3, 1, 2], [4, 33, 160]), ([3, 2, 2], [4, 34, 256]), ([40, 1, 3], [5, 17, 64])] {
        s.run(Experts { bias: Some(DType::F32), ..of(rows, weight) }.draft());
    }
    s.run(of([1, 1, 2], [3, 65, 512]).draft());
    s.run(of([40, 3, 3], [5, 70, 512]).draft());
    if matches!(format.name(), "q4_0" | "q6_k" | "mxfp4") {
        layouts(s, of([3, 2, 2], [4, 33, 96]));
        layouts(s, of([40, 2, 2], [4, 33, 96]));
        many_rows(s, of([67, 1, 3], [4, 5, 96]));
        // Rows so long that several waves share them.
        for rows in [[2, 1, 3], [1, 2, 2]] {
            s.run(Experts { bias: Some(dtype), ..of(rows, [3, 66, 4160]) }.draft());
        }
        for (rows, weight) in [([0, 1, 2], [4, 9, 1]), ([2, 1, 2], [4, 0, 1]), ([2, 1, 2], [4, 9, 0])] {
            s.run(Experts::new(dtype, format, rows, weight).draft());
        }
    }
}

fn indices(s: &mut Suite<'_>, dtype: DType, weight_type: DType) {
    for index in INDICES {
        let experts =
            Experts { index, bias: Some(dtype), ..Experts::new(dtype, weight_type, [4, 1, 3], [5, 9, 2]) };
        s.run(experts.draft());
        s.run(Experts { rows: [4, 3, 3], ..experts }.draft());
        s.run(experts.with(&[sentinel(index); 12]).note("no expert"));
        s.run(experts.with(&[3; 12]).note("one expert"));
        s.run(Experts { rows: [40, 1, 3], ..experts }.draft());
        let mut hows = experts.hows;
        hows[2] = Placement::Transposed;
        s.run(Experts { hows, ..experts }.draft());
        for wrong in [5, 200] {
            let mut choices = experts.choices();
            choices[7] = wrong;
            let draft = experts.with(&choices).note("outside");
            s.expect(draft, Expect::Index { operand: "ids", position: 7, index: wrong, bound: 5 });
        }
    }
    for index in [DType::I32, DType::I64] {
        let experts = Experts { index, ..Experts::new(dtype, weight_type, [2, 1, 2], [5, 9, 2]) };
        let draft = experts.with(&[0, 1, -1, 2]).note("negative");
        s.expect(draft, Expect::Index { operand: "ids", position: 2, index: -1, bound: 5 });
    }
}
