//! Products of experts fused with the step after them.
use super::super::blocks::blocks;
use super::super::data::{Distribution, NORMAL};
use super::super::draft::CaseBuilder;
use super::super::index::{ids, sentinel};
use super::super::placement::{IN, OUT, Placement};
use super::super::{Expect, FLOATS, INDICES, Suite};
use super::some_choices;
use crate::Array;
use crate::types::block_types;
use ops_core::DType;
use ops_core::quant::BlockQ8_0;

const SWIGLU: &str = "linear_experts_swiglu";

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in [SWIGLU, "linear_experts_combine"] {
        for dtype in s.asked(op, FLOATS) {
            floats(s, op, dtype);
            for format in block_types() {
                of_blocks(s, op, dtype, format);
            }
            indices(s, op, dtype);
        }
    }
}

/// One case: placements of x, of what is read beside it, and of y.
#[derive(Clone, Copy)]
struct Fused<'a> {
    op: &'a str,
    dtype: DType,
    weight_type: DType,
    /// Numbers of tokens, rows per token, and choices per token.
    rows: [usize; 3],
    /// Numbers of experts, outputs, and elements or blocks per row.
    weight: [usize; 3],
    has_bias: bool,
    clamped: Option<[f64; 2]>,
    index: DType,
    hows: [Placement; 3],
}

impl<'a> Fused<'a> {
    /// Sums have a row of x for each choice.
    fn new(op: &'a str, dtype: DType, weight_type: DType, [n, m, k]: [usize; 3], weight: [usize; 3]) -> Self {
        let rows = [n, if op == SWIGLU { m } else { k }, k];
        let (hows, index) = ([Placement::Plain; 3], DType::U32);
        Fused { op, dtype, weight_type, rows, weight, has_bias: false, clamped: None, index, hows }
    }

    fn draft(self) -> CaseBuilder {
        let ([n, _, k], [e, ..]) = (self.rows, self.weight);
        self.with(&some_choices(n * k, e, self.index))
    }

    fn with(self, choices: &[i64]) -> CaseBuilder {
        let ([n, m, k], [e, o, d], [x, beside, y]) = (self.rows, self.weight, self.hows);
        let is_gated = self.op == SWIGLU;
        let mut draft = CaseBuilder::new(self.op, self.dtype);
        if let Some([alpha, limit]) = self.clamped {
            draft = draft.param("alpha", alpha).param("limit", limit);
        }
        draft = draft.read("x", &[n, m, d * self.weight_type.values()], x, NORMAL);
        for name in if is_gated { &["gate", "up"][..] } else { &["weight"] } {
            draft = self.read_weight(draft, name);
        }
        draft = draft.given("ids", &ids(self.index, choices), &[n, k], beside);
        let biases: &[&str] = match (self.has_bias, is_gated) {
            (false, _) => &[],
            (_, true) => &["gate_bias", "up_bias"],
            _ => &["bias"],
        };
        let bias_type = if self.dtype == DType::F64 { DType::F64 } else { DType::F32 };
        for name in biases {
            draft = draft.read_as(name, bias_type, &[e, o], beside, Distribution::Normal(0.0, 3.0));
        }
        if is_gated {
            return draft.write("y", &[n, k, o], y);
        }
        draft.read_as("weights", DType::F32, &[n, k], beside, NORMAL).write("y", &[n, o], y)
    }

    fn read_weight(&self, draft: CaseBuilder, name: &'static str) -> CaseBuilder {
        let ([e, o, d], how) = (self.weight, self.hows[1]);
        let DType::Block(_) = self.weight_type else {
            return draft.read_as(name, self.weight_type, &[e, o, d], how, NORMAL);
        };
        // All use one pool of blocks, so the gate's rows start at a different position in it.
        let (count, size) = (e * o * d, self.weight_type.size());
        let all = blocks(self.weight_type, count + 7);
        let first = if name == "gate" { 7 } else { 0 };
        let rows = Array::from_bytes(self.weight_type, &all.bytes()[first * size..][..count * size]);
        draft.given(name, &rows.unwrap_or_else(|e| unreachable!("{e}")), &[e, o, d], how)
    }
}

fn floats(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let of = |rows, weight| Fused::new(op, dtype, dtype, rows, weight);
    for (rows, weight) in [
        ([1, 1, 1], [1, 3, 8]),
        ([1, 1, 2], [4, 33, 72]),
        ([3, 1, 2], [40, 9, 40]),
        ([3, 2, 2], [40, 10, 32]),
        ([1, 1, 37], [60, 17, 40]),
        // A row that several waves share.
        ([2, 1, 3], [50, 3, 4104]),
        // What kernels for few tokens leave to the parts: odd rows, more choices or tokens, and rows that are sorted by expert.
        ([3, 1, 2], [40, 9, 33]),
        ([1, 1, 70], [80, 5, 8]),
        ([9, 1, 2], [40, 9, 40]),
        ([8, 1, 2], [3, 9, 40]),
        ([0, 1, 2], [4, 9, 40]),
        ([2, 1, 0], [4, 9, 40]),
        ([2, 1, 2], [40, 0, 40]),
        ([2, 1, 2], [40, 9, 0]),
        ([2, 1, 2], [0, 9, 40]),
    ] {
        for has_bias in [false, true] {
            s.run(Fused { has_bias, ..of(rows, weight) }.draft());
        }
    }
    for weight_type in FLOATS {
        s.run(Fused { weight_type, ..of([3, 1, 2], [40, 18, 72]) }.draft());
    }
    let one = Fused { has_bias: true, ..of([3, 2, 2], [40, 9, 40]) };
    for operand in 0..3 {
        for how in if operand == 2 { &OUT[..] } else { &IN[..] } {
            let mut hows = one.hows;
            hows[operand] = *how;
            s.run(Fused { hows, ..one }.draft());
        }
    }
    if op == SWIGLU {
        for has_bias in [false, true] {
            s.run(Fused { clamped: Some([1.702, 0.5]), has_bias, ..one }.draft());
        }
    }
}

fn of_blocks(s: &mut Suite<'_>, op: &str, dtype: DType, format: DType) {
    // The number of blocks that hold this many values.
    let blocks = |values: usize| values.div_ceil(format.values());
    let of = |rows, [e, o, d]: [usize; 3]| Fused::new(op, dtype, format, rows, [e, o, blocks(d)]);
    s.run(Fused { has_bias: true, ..of([3, 1, 2], [8, 70, 256]) }.draft());
    s.run(of([1, 1, 3], [4, 65, 512]).draft());
    if matches!(format.name(), "q4_0" | "q6_k" | "mxfp4") {
        let (plain, one) = (Placement::Plain, Fused { has_bias: true, ..of([2, 2, 2], [8, 66, 96]) });
        for place in [Placement::Offset, Placement::Gaps, Placement::Strided] {
            s.run(Fused { hows: [place, plain, place], ..one }.draft());
            s.run(Fused { hows: [plain, place, plain], ..one }.draft());
        }
        // One row that is repeated for each choice.
        s.run(Fused { hows: [Placement::Same, plain, plain], ..one }.draft());
        // Rows so long that a group of lanes takes them in pieces, and a token's rows that do not follow each other.
        for how in [plain, Placement::Gaps] {
            s.run(Fused { hows: [how, plain, plain], ..of([1, 1, 4], [4, 66, 8320]) }.draft());
        }
        for (rows, weight) in [([0, 1, 2], [4, 9, 1]), ([2, 1, 2], [8, 0, 1]), ([2, 1, 2], [8, 9, 0])] {
            s.run(Fused::new(op, dtype, format, rows, weight).draft());
        }
        if op == SWIGLU {
            s.run(Fused { clamped: Some([1.702, 2.0]), ..one }.draft());
        }
    }
}

fn indices(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let q8_0 = DType::of::<BlockQ8_0>();
    for (weight_type, weight) in [(dtype, [20, 9, 40]), (q8_0, [20, 70, 2])] {
        for index in INDICES {
            let of = Fused { index, has_bias: true, ..Fused::new(op, dtype, weight_type, [4, 3, 3], weight) };
            s.run(of.draft());
            s.run(of.with(&[sentinel(index); 12]).note("no expert"));
            let mut choices = some_choices(12, 20, index);
            choices[7] = 20;
            let wrong = Expect::Index { operand: "ids", position: 7, index: 20, bound: 20 };
            s.expect(of.with(&choices).note("outside"), wrong);
        }
        let of = Fused { index: DType::I32, ..Fused::new(op, dtype, weight_type, [2, 1, 2], weight) };
        let negative = Expect::Index { operand: "ids", position: 2, index: -1, bound: 20 };
        s.expect(of.with(&[0, 1, -1, 2]).note("negative"), negative);
    }
}
