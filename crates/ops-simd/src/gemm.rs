//! Matrix products: C = A·B or C += A·B. A and B have any element type and strides; C is f64 for f64 operands and f32
//! otherwise.
//!
//! A product is split into blocks that fit the caches. Blocks of A and B are packed into panels, and a kernel that keeps
//! a tile of C in registers runs over the panels. Two cases read operands in place instead: operands that fit the L1
//! cache, and B when A has few rows, because reading B then limits the speed. Callers split C by rows or columns and give
//! each thread a part.

#[cfg(target_arch = "x86_64")]
mod bf16_amx;
#[cfg(target_arch = "x86_64")]
mod bf16_avx512;
mod blocked;
mod by_row;
mod direct;
mod dispatch;
mod few;
#[cfg(target_arch = "x86_64")]
mod few_avx512;
mod gathered;
mod input;
mod matrix;
mod micro;
mod pack;
mod packed;
#[cfg(target_arch = "x86_64")]
mod row_avx512;
mod skinny;
mod transpose;

pub use dispatch::{Input, Scalar};
pub use few::FewBf16;
pub use gathered::{Gathered, PackedA, gemm_gathered};
pub use input::{Accumulator, Operand, Widen};
pub use matrix::{Mat, MatMut};
pub use packed::{Columns, PackedB};

use std::ops::Range;

use crate::error::{Error, same_len};
use crate::isa::Isa;
use packed::Sums;

/// C = A·B, or C += A·B if `accumulate`, for A `[m, k]`, B `[k, n]` and C `[m, n]`. If k is 0, A·B is 0.
///
/// # Errors
/// [`Error::Length`] if the dimensions do not match.
pub fn gemm<A: Input, B: Input<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> Result<(), Error> {
    dimensions_match(&a, &b, &c)?;
    // SAFETY: the dimensions match.
    unsafe { A::Acc::product(isa, A::operand(a), B::operand(b), c, accumulate) };
    Ok(())
}

fn dimensions_match<A: Input, B: Input<Acc = A::Acc>>(
    a: &Mat<'_, A>,
    b: &Mat<'_, B>,
    c: &MatMut<'_, A::Acc>,
) -> Result<(), Error> {
    same_len("rows of b", b.rows(), a.cols())?;
    same_len("rows of c", c.rows(), a.rows())?;
    same_len("columns of c", c.cols(), b.cols())
}

/// As [`gemm`], but the order in which a row of C is summed depends only on the depth and on the strides of
/// B, so a row has the same bits whatever the other rows and columns are. It is as fast as [`gemm`] for one
/// row, and slower for many.
///
/// # Errors
/// As [`gemm`].
pub fn gemm_by_row<A: Input, B: Input<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> Result<(), Error> {
    dimensions_match(&a, &b, &c)?;
    // SAFETY: the dimensions match.
    unsafe { A::Acc::product_by_row(isa, A::operand(a), B::operand(b), c, accumulate) };
    Ok(())
}

/// C = A·B or C += A·B for the columns `columns` of a packed B; C has the same number of columns. A range starts on a tile
/// and ends on one or at the last column.
///
/// # Errors
/// [`Error::Length`] if the dimensions do not match, [`Error::Range`] if the range does not consist of whole tiles.
pub fn gemm_packed<A: Input, B: Input<Acc = A::Acc>>(
    a: Mat<'_, A>,
    b: &PackedB<'_, B>,
    columns: Range<usize>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> Result<(), Error> {
    let columns = packed::whole_tiles(&a, b, columns, &c)?;
    B::multiply_packed(b, A::operand(a), columns, c, accumulate, Sums::Fastest);
    Ok(())
}

/// As [`gemm_packed`], but the order in which a row of C is summed depends on the depth alone, so that a row has the same bits
/// whatever the other rows are.
///
/// # Errors
/// As [`gemm_packed`].
pub fn gemm_packed_by_row<A: Input, B: Input<Acc = A::Acc>>(
    a: Mat<'_, A>,
    b: &PackedB<'_, B>,
    columns: Range<usize>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> Result<(), Error> {
    let columns = packed::whole_tiles(&a, b, columns, &c)?;
    B::multiply_packed(b, A::operand(a), columns, c, accumulate, Sums::ByRow);
    Ok(())
}
