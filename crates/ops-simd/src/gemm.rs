//! Matrix products: C = A·B or C += A·B, C of f32 (f64 for f64 operands), A and B of any element type and strides.
//!
//! A product is cut in blocks that fit the caches. Blocks of A and B are copied to panels, converted to the type of C
//! on the way, and a kernel that keeps a tile of C in registers runs over the panels. Operands small enough for
//! the first-level cache are read in place instead, and so is a B that few rows of A meet, which is bound by reading it. Callers split C by rows or columns and give each thread its part.

#[cfg(target_arch = "x86_64")]
mod bf16_avx512;
mod blocked;
mod direct;
mod matrix;
mod micro;
mod pack;
mod packed;
mod scalar;
mod skinny;

pub use matrix::{Mat, MatMut};
pub use packed::{Columns, PackedB, gemm_packed};
pub use scalar::{Input, Operand, Scalar};

use crate::error::{Error, same_len};
use crate::isa::Isa;

/// C = A·B, or C += A·B when `accumulate`, for A `[m, k]`, B `[k, n]`, C `[m, n]`. Where k is 0, A·B is 0.
///
/// # Errors
/// [`Error::Length`] when the dimensions do not fit together.
pub fn gemm<A: Input, B: Input<Acc = A::Acc>>(
    isa: Isa,
    a: Mat<'_, A>,
    b: Mat<'_, B>,
    c: MatMut<'_, A::Acc>,
    accumulate: bool,
) -> Result<(), Error> {
    same_len("rows of b", b.rows(), a.cols())?;
    same_len("rows of c", c.rows(), a.rows())?;
    same_len("columns of c", c.cols(), b.cols())?;
    A::Acc::product(isa, A::operand(a), B::operand(b), c, accumulate);
    Ok(())
}
