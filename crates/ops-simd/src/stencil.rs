//! Weighted sums of shifted rows: what a convolution of a single channel computes.

use crate::error::{Error, same_len};
use crate::gemm::Scalar;
use crate::isa::Isa;
use crate::simd::{MAX_LANES, Simd, VectorFn};

/// Vectors that are summed side by side.
const VECTORS: usize = 4;

/// The elements that are summed: element (i, j) of the result is `start + Σ weights[t] · x[offsets[t] + i · step + j]`.
#[derive(Clone, Copy, Debug)]
pub struct Stencil<'a, T> {
    /// Where each term is in `x` for the first element of the result.
    pub offsets: &'a [usize],
    /// The factor of each term.
    pub weights: &'a [T],
    /// Elements of `x` between rows.
    pub step: usize,
    /// Added to every sum.
    pub start: T,
}

/// Computes whole rows of `width` elements of `y`.
///
/// Rows shorter than a vector are computed as a whole vector if `x` continues for a vector after the last
/// element that is read.
///
/// # Errors
/// [`Error::Length`] if there is not one weight for each offset, or `y` is not whole rows; [`Error::Bounds`] if `x` is too short.
pub fn stencil<T: Scalar>(
    isa: Isa,
    x: &[T],
    of: Stencil<'_, T>,
    width: usize,
    y: &mut [T],
) -> Result<(), Error> {
    same_len("weights", of.weights.len(), of.offsets.len())?;
    let rows = y.len().checked_div(width).unwrap_or(0);
    same_len("y", y.len(), rows * width)?;
    if rows == 0 {
        return Ok(());
    }
    let farthest = of.offsets.iter().max().copied().unwrap_or(0);
    let need = (rows - 1).checked_mul(of.step).and_then(|n| n.checked_add(farthest)?.checked_add(width));
    let need = if of.offsets.is_empty() { 0 } else { need.unwrap_or(usize::MAX) };
    if need > x.len() {
        return Err(Error::Bounds { operand: "x", len: x.len(), need });
    }
    isa.run(Rows { x, of, width, y, spare: x.len() - need });
    Ok(())
}

struct Rows<'a, T> {
    x: &'a [T],
    of: Stencil<'a, T>,
    width: usize,
    y: &'a mut [T],
    /// Elements of `x` after the last one that is read.
    spare: usize,
}

impl<T: Scalar> VectorFn for Rows<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Self { x, of, width, y, spare } = self;
        let lanes = T::lanes::<S>();
        // Without terms, any step is permitted.
        let step = if of.offsets.is_empty() { 0 } else { of.step };
        let first = |i: usize| x.get(i * step..).unwrap_or(&[]);
        if width >= lanes {
            for (i, y) in y.chunks_exact_mut(width).enumerate() {
                whole_row(s, first(i), &of, y);
            }
        } else if spare >= lanes - width {
            let mut row = [T::default(); MAX_LANES];
            for (i, y) in y.chunks_exact_mut(width).enumerate() {
                sums::<S, T, 1>(s, first(i), &of, [0], &mut row[..lanes]);
                y.copy_from_slice(&row[..width]);
            }
        } else {
            for (i, y) in y.chunks_exact_mut(width).enumerate() {
                let x = first(i);
                for (j, y) in y.iter_mut().enumerate() {
                    let terms = of.offsets.iter().zip(of.weights);
                    *y = terms.fold(of.start, |sum, (at, w)| T::plus_product(sum, x[at + j], *w));
                }
            }
        }
    }
}

/// A row of at least a vector. The last vectors overlap others, so that all are whole.
#[inline(always)]
fn whole_row<S: Simd, T: Scalar>(s: S, x: &[T], of: &Stencil<'_, T>, y: &mut [T]) {
    let lanes = T::lanes::<S>();
    let last = y.len() - lanes;
    for j in (0..y.len()).step_by(VECTORS * lanes) {
        let mut at = [last; VECTORS];
        for (q, at) in at.iter_mut().enumerate() {
            *at = last.min(j + q * lanes);
        }
        sums::<S, T, VECTORS>(s, x, of, at, y);
    }
}

/// The sums of `N` vectors at these places of a row.
#[inline(always)]
fn sums<S: Simd, T: Scalar, const N: usize>(s: S, x: &[T], of: &Stencil<'_, T>, at: [usize; N], y: &mut [T]) {
    let lanes = T::lanes::<S>();
    let reach = at.iter().fold(0, |most, at| (*at).max(most)) + lanes;
    let mut acc = [T::splat(s, of.start); N];
    for (offset, w) in of.offsets.iter().zip(of.weights) {
        let (w, from) = (T::splat(s, *w), x[*offset..][..reach].as_ptr());
        for (acc, at) in acc.iter_mut().zip(at) {
            // SAFETY: a vector at `at` ends at `reach` or before, and the slice has that length.
            *acc = T::mul_add(s, unsafe { T::load_ptr(s, from.add(at)) }, w, *acc);
        }
    }
    let to = y[..reach].as_mut_ptr();
    for (acc, at) in acc.into_iter().zip(at) {
        // SAFETY: as above.
        unsafe { T::store_ptr(s, to.add(at), acc) }
    }
}
