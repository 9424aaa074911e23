//! Products in which the order of a row's sums depends only on the depth and on the strides of B, so a row
//! has the same bits whatever the other rows and columns are.

use super::blocked::{Blocked, DEPTH};
use super::direct::{Direct, fits_direct};
use super::input::{Operand, Widen};
use super::matrix::{Mat, MatMut};
use super::skinny;
use crate::element::Element;
use crate::isa::Isa;

/// C = A·B or C += A·B for an A that accumulates in f32.
pub(super) fn in_f32<A: Widen<Acc = f32> + Element>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Operand<'_>,
    c: MatMut<'_, f32>,
    accumulate: bool,
) {
    match b {
        Operand::F32(b) => dots_or_blocks(isa, a, b, c, accumulate),
        Operand::F16(b) => dots_or_blocks(isa, a, b, c, accumulate),
        Operand::Bf16(b) => dots_or_blocks(isa, a, b, c, accumulate),
    }
}

/// Dot products where columns of B are contiguous, for any number of rows; otherwise blocks.
fn dots_or_blocks<A, B>(isa: Isa, a: Mat<'_, A>, b: Mat<'_, B>, mut c: MatMut<'_, f32>, accumulate: bool)
where
    A: Widen<Acc = f32> + Element,
    B: Widen<Acc = f32> + Element,
{
    if b.row_stride() != 1 || b.cols() == 0 {
        return product(isa, a, b, c, accumulate);
    }
    // This many rows of A stay in the L2 cache while all columns pass.
    let together = (skinny::ROWS_BYTES / (4 * a.cols().max(1))).clamp(4, skinny::MOST_ROWS) / 4 * 4;
    for i in (0..a.rows()).step_by(together) {
        let (now, rest) = c.split_at_row(together);
        let rows = a.block(i, now.rows(), 0, a.cols());
        skinny::dots(isa, rows, b, now, accumulate);
        c = rest;
    }
}

/// Blocks, or operands in place where the sums are the same.
pub(super) fn product<A: Widen, B: Widen<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) {
    match A::wide(a) {
        Some(a) if a.cols() <= DEPTH && fits_direct(isa, &a, &b) => isa.run(Direct { a, b, c, accumulate }),
        _ => isa.run(Blocked { a, b, c, accumulate }),
    }
}
