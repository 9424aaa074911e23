//! Quantized tensors.
use super::blocks::{any_bits, blocks};
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::index::{ids, sentinel};
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INDICES, Suite};
use crate::types::{block_types, moved_block_types};
use ops_core::{DType, Tolerance};

pub(super) fn cases(s: &mut Suite<'_>) {
    for format in block_types() {
        if s.wants("quantize", DType::F32) && encodes(format) {
            quantize(s, format);
        }
        if s.wants("dequantize", format) {
            dequantize(s, format);
        }
        for dtype in FLOATS {
            if s.wants("qlinear", dtype) {
                linear(s, dtype, format);
            }
            if s.wants("qembedding", dtype) {
                embedding(s, dtype, format);
            }
        }
    }
}

/// As many blocks as hold `k` blocks of 32 values, at least one. Rows of super-blocks are then no longer than
/// others.
fn blocks_of(format: DType, k: usize) -> usize {
    (k * 32).div_ceil(format.values())
}

fn encodes(format: DType) -> bool {
    matches!(format, DType::Block(info) if info.encodes())
}

fn quantize(s: &mut Suite<'_>, format: DType) {
    let draft = |rows: &[usize], n: usize, x: Placement, y: Placement, numbers: Distribution| {
        let (values, blocks) = ([rows, &[n * format.values()]].concat(), [rows, &[n]].concat());
        CaseBuilder::new("quantize", DType::F32)
            .read("x", &values, x, numbers)
            .write_as("y", format, &blocks, y)
    };
    for (rows, n) in [(&[][..], 1), (&[3], 1), (&[2], 33), (&[2, 3], 5), (&[0], 2), (&[3], 0), (&[1], 129)] {
        s.run(draft(rows, n, Placement::Plain, Placement::Plain, NORMAL));
    }
    for numbers in [
        Distribution::Between(0.0, 0.0),
        Distribution::Normal(0.0, 1e-6),
        Distribution::Normal(0.0, 1e4),
        Distribution::Normal(5.0, 0.1),
    ] {
        s.run(draft(&[3], 4, Placement::Plain, Placement::Plain, numbers).note(&format!("{numbers:?}")));
    }
    for x in IN {
        s.run(draft(&[3, 2], 3, x, Placement::Plain, NORMAL));
    }
    for y in OUT {
        s.run(draft(&[3, 2], 3, Placement::Plain, y, NORMAL));
    }
    // Values half-way between two codes, of both signs, with a scale of one; and the extremes twice.
    let n = format.values();
    let first = |block: usize| [127.0, -8.0, -127.0, 8.0][block % 4];
    let steps: Vec<f64> =
        (0..4 * n).map(|i| if i % n == 0 { first(i / n) } else { (i % 31) as f64 * 0.5 - 7.5 }).collect();
    let ends: Vec<f64> = (0..4 * n).map(|i| if i / n % 2 == i % 2 { -127.0 } else { 127.0 }).collect();
    for (word, values) in [("halves", steps), ("equal extremes", ends)] {
        let values = values_of(DType::F32, &values);
        let draft = CaseBuilder::new("quantize", DType::F32)
            .given("x", &values, &[2, 2 * n], Placement::Plain)
            .note(word);
        s.run(draft.write_as("y", format, &[2, 2], Placement::Plain));
    }
}

fn dequantize(s: &mut Suite<'_>, format: DType) {
    let draft = |rows: &[usize], n: usize, x: Placement, y: Placement| {
        let (stored, values) = ([rows, &[n]].concat(), [rows, &[n * format.values()]].concat());
        let blocks = blocks(format, stored.iter().product());
        CaseBuilder::new("dequantize", format).given("x", &blocks, &stored, x).write_as(
            "y",
            DType::F32,
            &values,
            y,
        )
    };
    for (rows, n) in [(&[][..], 1), (&[3], 1), (&[2], 33), (&[2, 3], 5), (&[0], 2), (&[3], 0), (&[1], 129)] {
        s.run(draft(rows, n, Placement::Plain, Placement::Plain));
    }
    for x in IN {
        s.run(draft(&[3, 2], 3, x, Placement::Plain));
    }
    for y in OUT {
        s.run(draft(&[3, 2], 3, Placement::Plain, y));
    }
    // Scales of every size: zero, subnormal and large.
    let draft = CaseBuilder::new("dequantize", format).note("any bits");
    let draft = draft.given("x", &any_bits(format, 500), &[500], Placement::Plain);
    s.run(draft.write_as("y", DType::F32, &[500 * format.values()], Placement::Plain));
}

fn linear(s: &mut Suite<'_>, dtype: DType, format: DType) {
    let draft = |rows: &[usize], n: usize, k: usize, [x, weight, y]: [Placement; 3]| {
        let k = blocks_of(format, k);
        let draft =
            CaseBuilder::new("qlinear", dtype).read("x", &[rows, &[k * format.values()]].concat(), x, NORMAL);
        let draft = draft.given("weight", &blocks(format, n * k), &[n, k], weight);
        draft.write("y", &[rows, &[n]].concat(), y)
    };
    let plain = [Placement::Plain; 3];
    for (rows, n, k) in [
        (1, 1, 1),
        (17, 1, 1),
        (1, 65, 3),
        (3, 33, 1),
        (7, 31, 5),
        (33, 17, 2),
        (2, 127, 33),
        (1, 1, 129),
        (1, 67, 129),
    ] {
        s.run(draft(&[rows], n, k, plain));
    }
    for (rows, n, k) in [(&[][..], 5, 2), (&[2, 3], 5, 2), (&[0], 3, 2), (&[2], 0, 2), (&[2], 3, 0)] {
        s.run(draft(rows, n, k, plain));
    }
    for operand in 0..3 {
        for how in if operand == 2 { &OUT[..] } else { &IN[..] } {
            let mut hows = plain;
            hows[operand] = *how;
            s.run(draft(&[2, 4], 9, 3, hows));
        }
    }
    // The format's error budget, which is tighter than the tolerance: one row, few, and many. In f64 nothing is rounded to bytes.
    let (DType::Block(info), DType::F32 | DType::F64) = (format, dtype) else { return };
    let (budget, summed) = (info.error_budget(), Tolerance::summed(dtype));
    let limit = match (dtype, summed) {
        (DType::F32, Tolerance::Nmse { rounding, .. }) => Tolerance::Nmse { base: budget.bytes, rounding },
        // Decoded values are f32. The product of a code and q8_k's scale of f32 has more digits, which a kernel may keep.
        (DType::F64, Tolerance::Nmse { rounding, .. }) if *info == ops_core::quant::Q8_K => {
            Tolerance::Nmse { base: 1e-14, rounding }
        }
        _ => summed,
    };
    for rows in [1, 8, 40] {
        s.expect(draft(&[rows], 160, 24, plain).note("error budget"), Expect::Within(limit));
    }
}

fn embedding(s: &mut Suite<'_>, dtype: DType, format: DType) {
    // How ids are read does not depend on the format.
    let types = if moved_block_types().any(|f| f == format) { &INDICES[..] } else { &[DType::U32] };
    for &index in types {
        let draft = |rows: usize, k: usize, wanted: &[i64], [table, i, y]: [Placement; 3]| {
            let draft = CaseBuilder::new("qembedding", dtype).given(
                "table",
                &blocks(format, rows * k),
                &[rows, k],
                table,
            );
            let draft = draft.given("ids", &ids(index, wanted), &[wanted.len()], i);
            draft.write("y", &[wanted.len(), k * format.values()], y)
        };
        let (plain, none) = ([Placement::Plain; 3], sentinel(index));
        let some = [none, 3, 0, 2, 2, 4, none];
        for k in [1, 3, 33].map(|k| blocks_of(format, k)) {
            s.run(draft(5, k, &some, plain));
        }
        s.run(draft(5, 0, &some, plain));
        s.run(draft(5, 2, &[], plain));
        s.run(draft(0, 2, &[none], plain));
        for how in IN {
            s.run(draft(5, 3, &some, [how, Placement::Plain, Placement::Plain]));
        }
        s.run(draft(5, 3, &some, [Placement::Plain, Placement::Strided, Placement::Plain]));
        for how in OUT {
            s.run(draft(5, 3, &some, [Placement::Plain, Placement::Plain, how]));
        }
        for wrong in [5, 200] {
            let draft = draft(5, 2, &[1, wrong, 0], plain).note("outside");
            s.expect(draft, Expect::Index { operand: "ids", position: 1, index: wrong, bound: 5 });
        }
    }
}
