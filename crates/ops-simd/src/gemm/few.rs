//! Products of a few bf16 rows with many that are read once, in place: attention for one token.

use half::bf16;

use super::matrix::{Mat, MatMut};
use crate::error::{Error, same_len};
use crate::isa::Isa;

#[cfg(target_arch = "x86_64")]
use super::bf16_avx512::Bf16Pairs;
#[cfg(target_arch = "x86_64")]
use super::few_avx512;

/// Proof that this processor multiplies pairs of bf16 at twice the rate of f32.
///
/// Products are exact and sums are f32, as in [`gemm`](super::gemm), but operands and sums below 2⁻¹²⁶ count as zero. A row's
/// result does not depend on the other rows.
#[derive(Clone, Copy)]
pub struct FewBf16(
    #[cfg(target_arch = "x86_64")] Bf16Pairs,
    #[cfg(not(target_arch = "x86_64"))] std::convert::Infallible,
);

impl FewBf16 {
    /// Up to this many rows, reading the other operand takes longer than the products.
    pub const MAX_ROWS: usize = 8;

    /// Whether the processor has such instructions, and `isa` may use them.
    pub fn detect(isa: Isa) -> Option<Self> {
        #[cfg(target_arch = "x86_64")]
        return Bf16Pairs::detect(isa).map(Self);
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = isa;
            None
        }
    }

    /// C = A·Bᵀ for A `[m, k]` and B `[n, k]`, both with contiguous rows.
    ///
    /// # Errors
    /// [`Error::Length`] if the dimensions do not match or rows are not contiguous.
    pub fn dots(self, a: Mat<'_, bf16>, b: Mat<'_, bf16>, c: MatMut<'_, f32>) -> Result<(), Error> {
        same_len("columns of b", b.cols(), a.cols())?;
        same_len("rows of c", c.rows(), a.rows())?;
        same_len("columns of c", c.cols(), b.rows())?;
        contiguous(&a)?;
        contiguous(&b)?;
        #[cfg(target_arch = "x86_64")]
        few_avx512::dots(self.0, &a, &b, &mut { c });
        Ok(())
    }

    /// C += A·B for A `[m, k]` and B `[k, n]`, both with contiguous rows.
    ///
    /// # Errors
    /// [`Error::Length`] if the dimensions do not match or rows are not contiguous.
    pub fn sums(self, a: Mat<'_, bf16>, b: Mat<'_, bf16>, c: MatMut<'_, f32>) -> Result<(), Error> {
        same_len("rows of b", b.rows(), a.cols())?;
        same_len("rows of c", c.rows(), a.rows())?;
        same_len("columns of c", c.cols(), b.cols())?;
        contiguous(&a)?;
        contiguous(&b)?;
        #[cfg(target_arch = "x86_64")]
        few_avx512::sums(self.0, &a, &b, &mut { c });
        Ok(())
    }
}

impl std::fmt::Debug for FewBf16 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FewBf16")
    }
}

/// Checks that rows are contiguous.
fn contiguous(x: &Mat<'_, bf16>) -> Result<(), Error> {
    let step = if x.cols() > 1 { x.col_stride() } else { 1 };
    same_len("elements between columns", step, 1)
}
