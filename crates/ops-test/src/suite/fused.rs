//! Products fused with the step that follows them.
use super::blocks::blocks;
use super::data::NORMAL;
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, Suite};
use crate::types::block_types;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("linear_swiglu", FLOATS) {
        floats(s, dtype);
        for format in block_types() {
            of_blocks(s, dtype, format);
        }
    }
}

/// `[.., k]` by gate and up `[n, k]`, k in values; placements of x, both weights, and y.
fn draft(
    dtype: DType,
    (rows, n, k): (&[usize], usize, usize),
    weights: [DType; 2],
    [x, weight, y]: [Placement; 3],
) -> CaseBuilder {
    let mut draft = CaseBuilder::new("linear_swiglu", dtype).read("x", &[rows, &[k]].concat(), x, NORMAL);
    for (name, of) in ["gate", "up"].into_iter().zip(weights) {
        let dims = [n, k / of.values()];
        draft = match of {
            DType::Block(_) => {
                // Both use one pool of blocks, so the gate's rows start at a different position in it.
                let all = blocks(of, dims[0] * dims[1] + 7);
                let first = if name == "gate" { 7 } else { 0 };
                let rows = &all.bytes()[first * of.size()..][..dims[0] * dims[1] * of.size()];
                let rows = crate::Array::from_bytes(of, rows);
                draft.given(name, &rows.unwrap_or_else(|e| unreachable!("{e}")), &dims, weight)
            }
            _ => draft.read_as(name, of, &dims, weight, NORMAL),
        };
    }
    draft.write("y", &[rows, &[n]].concat(), y)
}

const PLAIN: [Placement; 3] = [Placement::Plain; 3];

fn floats(s: &mut Suite<'_>, dtype: DType) {
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
        s.run(draft(dtype, (&[rows], n, k), [dtype; 2], PLAIN));
    }
    for (rows, n, k) in
        [(&[][..], 5, 8), (&[2, 3], 5, 8), (&[0], 3, 8), (&[2], 0, 8), (&[2], 3, 0), (&[1], 3, 0)]
    {
        s.run(draft(dtype, (rows, n, k), [dtype; 2], PLAIN));
    }
    for gate in FLOATS {
        for rows in [1, 3, 12] {
            s.run(draft(dtype, (&[rows], 34, 72), [gate; 2], PLAIN));
        }
        s.run(draft(dtype, (&[2], 34, 72), [gate, dtype], PLAIN));
    }
    for operand in 0..3 {
        for how in if operand == 2 { &OUT[..] } else { &IN[..] } {
            let mut hows = PLAIN;
            hows[operand] = *how;
            s.run(draft(dtype, (&[2, 3], 18, 33), [dtype; 2], hows));
        }
    }
}

fn of_blocks(s: &mut Suite<'_>, dtype: DType, format: DType) {
    let values = |blocks: usize| (blocks * 32).next_multiple_of(format.values());
    for (rows, n, k) in [(1, 1, 1), (1, 65, 3), (1, 67, 129), (2, 33, 2), (5, 9, 5), (8, 31, 33), (9, 17, 2)]
    {
        s.run(draft(dtype, (&[rows], n, values(k)), [format; 2], PLAIN));
    }
    for (rows, n, k) in [(&[2, 3][..], 5, 2), (&[0], 3, 2), (&[2], 0, 2), (&[2], 3, 0)] {
        s.run(draft(dtype, (rows, n, values(k)), [format; 2], PLAIN));
    }
    s.run(draft(dtype, (&[3], 18, values(2)), [format, dtype], PLAIN));
    s.run(draft(dtype, (&[3], 18, values(2)), [dtype, format], PLAIN));
    for how in [Placement::Offset, Placement::Gaps, Placement::Strided] {
        s.run(draft(dtype, (&[2], 35, values(3)), [format; 2], [how, Placement::Plain, how]));
        s.run(draft(dtype, (&[1], 66, values(3)), [format; 2], [Placement::Plain, how, Placement::Plain]));
    }
}
