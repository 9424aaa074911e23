//! Products fused with the step before or after them.
use super::blocks::blocks;
use super::data::NORMAL;
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, Suite};
use crate::types::block_types;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["linear_swiglu", "linear_add", "rms_norm_linear", "rms_norm_linear_swiglu"] {
        for dtype in s.asked(op, FLOATS) {
            floats(s, op, dtype);
            for format in block_types() {
                of_blocks(s, op, dtype, format);
            }
            beside(s, op, dtype);
        }
    }
}

/// A product of `[.., k]` by weights `[n, k]`, k in values; placements of x, of all weights, and of y and what is added to it.
#[derive(Clone, Copy)]
struct Product<'a> {
    op: &'a str,
    dtype: DType,
    rows: &'a [usize],
    n: usize,
    k: usize,
    /// Types of the gate and the up, or of the only weight.
    weights: [DType; 2],
    norm: DType,
    eps: f64,
    bias: Option<DType>,
    how: [Placement; 3],
}

impl<'a> Product<'a> {
    fn new(op: &'a str, dtype: DType, (rows, n, k): (&'a [usize], usize, usize), weight: DType) -> Self {
        let (weights, how) = ([weight; 2], [Placement::Plain; 3]);
        let norm = if dtype == DType::F64 { dtype } else { DType::F32 };
        Product { op, dtype, rows, n, k, weights, norm, eps: 1e-5, bias: None, how }
    }

    fn sized<'b>(self, rows: &'b [usize], n: usize, k: usize) -> Product<'b>
    where
        'a: 'b,
    {
        Product { rows, n, k, ..self }
    }

    fn draft(self) -> CaseBuilder {
        let [x, weight, y] = self.how;
        let rows = |last| [self.rows, &[last]].concat();
        let mut draft = CaseBuilder::new(self.op, self.dtype).read("x", &rows(self.k), x, NORMAL);
        if self.op.starts_with("rms_norm") {
            draft = draft.param("eps", self.eps).read_as("norm", self.norm, &[self.k], weight, NORMAL);
        }
        let names: &[&str] = if self.op.ends_with("swiglu") { &["gate", "up"] } else { &["weight"] };
        for (name, of) in names.iter().zip(self.weights) {
            let dims = [self.n, self.k / of.values()];
            draft = match of {
                DType::Block(_) => {
                    // All use one pool of blocks, so the gate's rows start at a different position in it.
                    let all = blocks(of, dims[0] * dims[1] + 7);
                    let first = if *name == "gate" { 7 } else { 0 };
                    let rows = &all.bytes()[first * of.size()..][..dims[0] * dims[1] * of.size()];
                    let rows = crate::Array::from_bytes(of, rows);
                    draft.given(name, &rows.unwrap_or_else(|e| unreachable!("{e}")), &dims, weight)
                }
                _ => draft.read_as(name, of, &dims, weight, NORMAL),
            };
        }
        if let Some(bias) = self.bias {
            draft = draft.read_as("bias", bias, &[self.n], weight, NORMAL);
        }
        if self.op == "linear_add" {
            let how = if y == Placement::Plain { x } else { y };
            draft = draft.read("residual", &rows(self.n), how, NORMAL);
        }
        draft.write("y", &rows(self.n), y)
    }
}

fn floats(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let of = Product::new(op, dtype, (&[], 0, 0), dtype);
    for (rows, n, k) in [
        (1, 1, 1),
        (1, 33, 65),
        (1, 257, 128),
        (2, 7, 64),
        (4, 64, 96),
        (5, 31, 33),
        (8, 66, 256),
        (9, 17, 40),
        (33, 65, 37),
        (1, 3, 4097),
        (3, 1025, 8),
    ] {
        s.run(of.sized(&[rows], n, k).draft());
    }
    for (rows, n, k) in
        [(&[][..], 5, 8), (&[2, 3], 5, 8), (&[0], 3, 8), (&[2], 0, 8), (&[2], 3, 0), (&[1], 3, 0)]
    {
        s.run(of.sized(rows, n, k).draft());
    }
    for gate in FLOATS {
        for rows in [1, 3, 12] {
            s.run(Product { weights: [gate; 2], ..of.sized(&[rows], 34, 72) }.draft());
        }
        if op.ends_with("swiglu") {
            s.run(Product { weights: [gate, dtype], ..of.sized(&[2], 34, 72) }.draft());
        }
    }
    for operand in 0..3 {
        for place in if operand == 2 { &OUT[..] } else { &IN[..] } {
            let mut how = [Placement::Plain; 3];
            how[operand] = *place;
            s.run(Product { how, ..of.sized(&[2, 3], 18, 33) }.draft());
        }
    }
}

fn of_blocks(s: &mut Suite<'_>, op: &str, dtype: DType, format: DType) {
    let values = |blocks: usize| (blocks * 32).next_multiple_of(format.values());
    let of = Product::new(op, dtype, (&[], 0, 0), format);
    // The kernels are those of `linear_swiglu` and `qlinear`, which run in all these cases.
    let few = if op == "linear_swiglu" { 7 } else { 3 };
    let sizes = [(1, 65, 3), (1, 67, 129), (2, 33, 2), (1, 1, 1), (5, 9, 5), (8, 31, 33), (9, 17, 2)];
    for (rows, n, k) in sizes.into_iter().take(few) {
        s.run(of.sized(&[rows], n, values(k)).draft());
    }
    if op != "linear_swiglu" {
        return;
    }
    for (rows, n, k) in [(&[2, 3][..], 5, 2), (&[0], 3, 2), (&[2], 0, 2), (&[2], 3, 0)] {
        s.run(of.sized(rows, n, values(k)).draft());
    }
    s.run(Product { weights: [format, dtype], ..of.sized(&[3], 18, values(2)) }.draft());
    s.run(Product { weights: [dtype, format], ..of.sized(&[3], 18, values(2)) }.draft());
    for place in [Placement::Offset, Placement::Gaps, Placement::Strided] {
        let plain = Placement::Plain;
        s.run(Product { how: [place, plain, place], ..of.sized(&[2], 35, values(3)) }.draft());
        s.run(Product { how: [plain, place, plain], ..of.sized(&[1], 66, values(3)) }.draft());
    }
}

/// What is computed beside the product: norms and biases of other types, and rows that several workgroups or pieces share.
fn beside(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let q8_0 = DType::of::<ops_core::quant::BlockQ8_0>();
    if op == "linear_swiglu" {
        return;
    }
    for weight in [dtype, q8_0] {
        let place = Placement::Strided;
        for how in [[place, Placement::Plain, place], [Placement::Plain, place, Placement::Plain]] {
            s.run(Product { how, ..Product::new(op, dtype, (&[2, 1], 66, 96), weight) }.draft());
            s.run(Product { how, ..Product::new(op, dtype, (&[1], 66, 96), weight) }.draft());
        }
        let one = Product::new(op, dtype, (&[1], 130, 96), weight);
        for (rows, k) in [(&[1][..], 8192 + 64), (&[1], 20_000 / 32 * 32), (&[4], 4096)] {
            s.run(Product { rows, k, n: 66, ..one }.draft());
        }
        if op == "linear_add" {
            continue;
        }
        for norm in FLOATS {
            s.run(Product { norm, ..one }.draft());
        }
        for eps in [0.0, 0.5] {
            s.run(Product { eps, ..one }.draft());
        }
        if op == "rms_norm_linear" {
            for bias in FLOATS {
                s.run(Product { bias: Some(bias), ..one }.draft());
                s.run(Product { bias: Some(bias), rows: &[3], ..one }.draft());
            }
            s.run(
                Product {
                    bias: Some(dtype),
                    how: [Placement::Plain, Placement::Strided, Placement::Plain],
                    ..one
                }
                .draft(),
            );
        }
    }
}
