//! A product of strided matrices in the terms of linear algebra libraries: column-major, with each operand
//! optionally transposed.
use ops_core::{Layout, Reason};

/// Three operands by name: `c[.., m, n] = a[.., m, k] · b[.., k, n]`, with the same batch axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operands<'l> {
    pub(super) layouts: [&'l Layout; 3],
    pub(super) names: [&'static str; 3],
}

/// A column-major matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// Which operand it is: 0 for `a`, 1 for `b`, 2 for `c`.
    pub(crate) operand: usize,
    /// Whether its transpose is multiplied.
    pub(crate) transposed: bool,
    /// Elements from one column to the next.
    pub(crate) ld: i32,
    /// Elements from one matrix of the batch to the next.
    pub(crate) stride: i64,
}

/// The arguments of `rocblas_gemm_strided_batched_ex`, except types and addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Rows of `c` that share one matrix of `b`.
    pub(crate) rows: usize,
    pub(crate) m: i32,
    pub(crate) n: i32,
    pub(crate) k: i32,
    pub(crate) left: Matrix,
    pub(crate) right: Matrix,
    pub(crate) out: Matrix,
    pub(crate) batch: i32,
    /// One entry per call: where its matrices start, in elements from each operand's first.
    pub(crate) calls: Vec<[i64; 3]>,
}

/// Batches that a single stride cannot describe need one call per outer step. Beyond this many, other kernels
/// are faster.
const MAX_CALLS: usize = 32;

/// One operand's matrices: extents and strides of rows, columns and batch.
#[derive(Clone, Copy, Debug)]
struct Side {
    operand: usize,
    rows: usize,
    columns: usize,
    row: isize,
    column: isize,
    batch: isize,
}

impl Side {
    fn transpose(self) -> Self {
        Side { rows: self.columns, columns: self.rows, row: self.column, column: self.row, ..self }
    }

    /// As a column-major matrix, or a row-major one to be transposed; `None` if both axes have gaps.
    fn matrix(self) -> Option<Matrix> {
        let by_columns = |side: Side| {
            let dense = side.rows <= 1 || side.row == 1;
            let apart = side.columns <= 1 || side.column >= side.rows.max(1) as isize;
            let ld = if side.columns <= 1 { side.rows.max(1) as isize } else { side.column };
            (dense && apart).then(|| i32::try_from(ld).ok())?
        };
        let matrix =
            |transposed, ld| Matrix { operand: self.operand, transposed, ld, stride: self.batch as i64 };
        let straight = by_columns(self).map(|ld| matrix(false, ld));
        straight.or_else(|| by_columns(self.transpose()).map(|ld| matrix(true, ld)))
    }
}

impl Operands<'_> {
    /// The calls that compute the product.
    ///
    /// # Errors
    /// [`Reason::Stride`] for an operand that no leading dimension describes; [`Reason::Limit`] beyond 32 bits.
    pub(crate) fn plan(&self) -> Result<Plan, Reason> {
        let (batch, calls) = self.batches()?;
        let sides = [0, 1, 2].map(|operand| self.side(operand, batch.strides[operand]));
        let (sides, batch) = stacked(sides, batch.count);
        let rows = sides[2].rows;
        // A row-major result is the transpose of a column-major one, and so are its factors.
        let by_columns = sides[2].matrix().filter(|matrix| !matrix.transposed);
        let [a, b, c] = if by_columns.is_some() {
            sides
        } else {
            [sides[1].transpose(), sides[0].transpose(), sides[2].transpose()]
        };
        let matrix = |side: Side| side.matrix().ok_or(Reason::Stride(self.names[side.operand]));
        let out = matrix(c)?;
        if out.transposed {
            return Err(Reason::Stride(self.names[2]));
        }
        let (left, right) = (matrix(a)?, matrix(b)?);
        let number = |what, n: usize| {
            i32::try_from(n).map_err(|_| Reason::Limit { what, got: n, max: i32::MAX as usize })
        };
        let (m, n, k) = (number("m", c.rows)?, number("n", c.columns)?, number("k", a.columns)?);
        Ok(Plan { rows, m, n, k, left, right, out, batch: number("batch", batch)?, calls })
    }

    fn side(&self, operand: usize, batch: isize) -> Side {
        let layout = self.layouts[operand];
        let last = |list: &[isize], back: usize| list.len().checked_sub(back).map_or(0, |at| list[at]);
        let extent = |back: usize| layout.rank().checked_sub(back).map_or(1, |at| layout.dims()[at]);
        Side {
            operand,
            rows: extent(2),
            columns: extent(1),
            row: last(layout.strides(), 2),
            column: last(layout.strides(), 1),
            batch,
        }
    }

    /// The batch axes merged into one, and where each call starts if several are needed.
    fn batches(&self) -> Result<(Batch, Vec<[i64; 3]>), Reason> {
        let batch_of = |operand: usize| {
            let layout = self.layouts[operand];
            let axes = layout.rank().saturating_sub(2);
            Layout::strided(&layout.dims()[..axes], &layout.strides()[..axes], layout.offset())
                .map_err(|_| Reason::Stride(self.names[operand]))
        };
        let [a, b, c] = [batch_of(0)?, batch_of(1)?, batch_of(2)?];
        let merged = Layout::merged([&a, &b, &c]);
        if let Some(at) = merged.iter().position(|layout| layout.strides().iter().any(|s| *s < 0)) {
            return Err(Reason::Stride(self.names[at]));
        }
        let Some(inner) = merged[0].rank().checked_sub(1) else {
            return Ok((Batch { count: 1, strides: [0; 3] }, vec![[0; 3]]));
        };
        let batch = Batch {
            count: merged[0].dims()[inner],
            strides: merged.each_ref().map(|layout| layout.strides()[inner]),
        };
        let calls: usize = merged[0].dims()[..inner].iter().product();
        if calls > MAX_CALLS {
            return Err(Reason::Limit { what: "separate batches", got: calls, max: MAX_CALLS });
        }
        // `rows` walks all axes but the innermost.
        let mut walks = merged.each_ref().map(|layout| layout.rows());
        let starts = (0..calls).filter_map(|_| {
            let mut start = [0; 3];
            for (at, walk) in walks.iter_mut().enumerate() {
                start[at] = walk.next()? as i64 - merged[at].offset() as i64;
            }
            Some(start)
        });
        Ok((batch, starts.collect()))
    }
}

struct Batch {
    count: usize,
    strides: [isize; 3],
}

/// Consecutive matrices that share `b` are one tall matrix.
fn stacked(sides: [Side; 3], count: usize) -> ([Side; 3], usize) {
    let [a, b, c] = sides;
    let follows = |side: &Side| side.batch == side.row * side.rows as isize;
    match a.rows.checked_mul(count) {
        Some(rows) if count > 1 && b.batch == 0 && follows(&a) && follows(&c) => {
            ([Side { rows, batch: 0, ..a }, b, Side { rows, batch: 0, ..c }], 1)
        }
        _ => (sides, count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contiguous(dims: &[usize]) -> Layout {
        Layout::contiguous(dims).unwrap()
    }

    fn plan(a: &Layout, b: &Layout, c: &Layout) -> Result<Plan, Reason> {
        Operands { layouts: [a, b, c], names: ["a", "b", "c"] }.plan()
    }

    #[test]
    fn row_major_factors_change_places() {
        let plan = plan(&contiguous(&[3, 5]), &contiguous(&[5, 7]), &contiguous(&[3, 7])).unwrap();
        assert_eq!((plan.m, plan.n, plan.k, plan.batch, plan.rows), (7, 3, 5, 1, 3));
        let side = |m: Matrix| (m.operand, m.transposed, m.ld);
        assert_eq!(
            (side(plan.left), side(plan.right), side(plan.out)),
            ((1, false, 7), (0, false, 5), (2, false, 7))
        );
    }

    #[test]
    fn transposed_views_are_transposed_by_the_library() {
        let b = contiguous(&[7, 5]).transpose(0, 1).unwrap();
        let product = plan(&contiguous(&[3, 5]), &b, &contiguous(&[3, 7])).unwrap();
        assert_eq!((product.left.operand, product.left.transposed, product.left.ld), (1, true, 5));
        // A column-major result is computed in place.
        let c = contiguous(&[7, 3]).transpose(0, 1).unwrap();
        let product = plan(&contiguous(&[3, 5]), &b, &c).unwrap();
        assert_eq!(
            (product.m, product.rows, product.left.operand, product.left.transposed, product.left.ld),
            (3, 3, 0, true, 5)
        );
    }

    #[test]
    fn what_no_leading_dimension_describes_is_declined() {
        let (a, c) = (contiguous(&[3, 5]), contiguous(&[3, 7]));
        let gaps = Layout::strided(&[5, 7], &[14, 2], 0).unwrap();
        assert_eq!(plan(&a, &gaps, &c), Err(Reason::Stride("b")));
        assert_eq!(
            plan(&Layout::strided(&[3, 5], &[0, 1], 0).unwrap(), &contiguous(&[5, 7]), &c),
            Err(Reason::Stride("a"))
        );
        assert_eq!(
            plan(&a, &contiguous(&[5, 7]), &Layout::strided(&[3, 7], &[14, 2], 0).unwrap()),
            Err(Reason::Stride("c"))
        );
        let backwards = Layout::strided(&[5, 7], &[-7, 1], 28).unwrap();
        assert_eq!(plan(&a, &backwards, &c), Err(Reason::Stride("b")));
        // A single row may start anywhere.
        let one = Layout::strided(&[1, 5], &[0, 1], 0).unwrap();
        assert!(plan(&one, &contiguous(&[5, 7]), &contiguous(&[1, 7])).is_ok());
    }

    #[test]
    fn batches_are_strided_stacked_or_called_one_by_one() {
        let product =
            plan(&contiguous(&[2, 4, 3, 5]), &contiguous(&[2, 4, 5, 7]), &contiguous(&[2, 4, 3, 7])).unwrap();
        assert_eq!(
            (product.batch, product.left.stride, product.right.stride, product.out.stride),
            (8, 35, 15, 21)
        );
        let shared = contiguous(&[5, 7]).broadcast(&[2, 4, 5, 7]).unwrap();
        let product = plan(&contiguous(&[2, 4, 3, 5]), &shared, &contiguous(&[2, 4, 3, 7])).unwrap();
        assert_eq!((product.batch, product.n, product.rows), (1, 24, 24), "one tall product");
        let heads = contiguous(&[2, 3, 4, 5]).permute(&[0, 2, 1, 3]).unwrap();
        let product = plan(&heads, &contiguous(&[2, 4, 5, 7]), &contiguous(&[2, 4, 3, 7])).unwrap();
        assert_eq!((product.batch, &product.calls[..]), (4, &[[0, 0, 0], [60, 140, 84]][..]));
        let many = contiguous(&[33, 3, 4, 5]).permute(&[0, 2, 1, 3]).unwrap();
        let declined = plan(&many, &contiguous(&[33, 4, 5, 7]), &contiguous(&[33, 4, 3, 7]));
        assert_eq!(declined, Err(Reason::Limit { what: "separate batches", got: 33, max: 32 }));
    }
}
