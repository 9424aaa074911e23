//! Matrix views over slices.

use std::marker::PhantomData;

use crate::error::Error;

/// A matrix for reading, with any strides.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
}

/// Elements that a matrix spans from its first one; 0 if it is empty.
fn reach(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    (rows - 1).checked_mul(row_stride)?.checked_add((cols - 1).checked_mul(col_stride)?)?.checked_add(1)
}

impl<'a, T> Mat<'a, T> {
    /// Element (i, j) is `data[i * row_stride + j * col_stride]`. Strides may be 0.
    ///
    /// # Errors
    /// [`Error::Bounds`] if the matrix extends beyond `data`.
    pub fn new(
        data: &'a [T],
        rows: usize,
        cols: usize,
        row_stride: usize,
        col_stride: usize,
    ) -> Result<Self, Error> {
        let need = reach(rows, cols, row_stride, col_stride).unwrap_or(usize::MAX);
        if need > data.len() {
            return Err(Error::Bounds { operand: "matrix", len: data.len(), need });
        }
        Ok(Self { data, rows, cols, row_stride, col_stride })
    }

    /// A matrix with contiguous rows, one after the other.
    ///
    /// # Errors
    /// [`Error::Bounds`] if `data` is too short.
    pub fn row_major(data: &'a [T], rows: usize, cols: usize) -> Result<Self, Error> {
        Self::new(data, rows, cols, cols, 1)
    }

    /// The transpose of the same elements.
    pub fn transposed(self) -> Self {
        Self {
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            ..self
        }
    }

    /// Rows `start..end`.
    ///
    /// # Errors
    /// [`Error::Range`] if the matrix has fewer rows.
    pub fn row_range(self, start: usize, end: usize) -> Result<Self, Error> {
        if start > end || end > self.rows {
            return Err(Error::Range { operand: "rows", start, end, len: self.rows });
        }
        let data = if start == end { &[] } else { self.tail(start, 0) };
        Ok(Self { data, rows: end - start, ..self })
    }

    /// Columns `start..end`.
    ///
    /// # Errors
    /// [`Error::Range`] if the matrix has fewer columns.
    pub fn col_range(self, start: usize, end: usize) -> Result<Self, Error> {
        Ok(self.transposed().row_range(start, end)?.transposed())
    }

    /// `rows` rows from `i` and `cols` columns from `j`, all of which must exist.
    pub(crate) fn block(&self, i: usize, rows: usize, j: usize, cols: usize) -> Self {
        debug_assert!(i + rows <= self.rows && j + cols <= self.cols);
        Self { data: self.tail(i, j), rows, cols, ..*self }
    }

    /// The data from element (i, j) on; empty beyond the last element.
    pub(crate) fn tail(&self, i: usize, j: usize) -> &'a [T] {
        // Within the span that `new` checked, or of an empty matrix.
        let at = i.saturating_mul(self.row_stride).saturating_add(j.saturating_mul(self.col_stride));
        self.data.get(at..).unwrap_or(&[])
    }

    /// Element (i, j), if it exists.
    pub fn get(&self, i: usize, j: usize) -> Option<T>
    where
        T: Copy,
    {
        if i < self.rows && j < self.cols { self.tail(i, j).first().copied() } else { None }
    }

    /// The elements of row `i`, if its columns are contiguous.
    pub fn row(&self, i: usize) -> Option<&'a [T]> {
        let contiguous = i < self.rows && (self.col_stride == 1 || self.cols <= 1);
        contiguous.then(|| self.tail(i, 0).get(..self.cols)).flatten()
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements between the starts of consecutive rows.
    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// Elements between consecutive columns.
    pub fn col_stride(&self) -> usize {
        self.col_stride
    }
}

/// A matrix for writing, with contiguous rows at any stride. It can be split among threads.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: *mut T,
    rows: usize,
    cols: usize,
    row_stride: usize,
    life: PhantomData<&'a mut [T]>,
}

// SAFETY: it represents an exclusive borrow of its elements, and the parts of a split share no element.
unsafe impl<T: Send> Send for MatMut<'_, T> {}

impl<'a, T> MatMut<'a, T> {
    /// Element (i, j) is `data[i * row_stride + j]`.
    ///
    /// # Errors
    /// [`Error::Bounds`] if the matrix extends beyond `data` or its rows overlap.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, row_stride: usize) -> Result<Self, Error> {
        let need = reach(rows, cols, row_stride, 1).unwrap_or(usize::MAX);
        if need > data.len() || rows > 1 && row_stride < cols {
            return Err(Error::Bounds { operand: "c", len: data.len(), need });
        }
        Ok(Self { data: data.as_mut_ptr(), rows, cols, row_stride, life: PhantomData })
    }

    /// One row.
    pub(crate) fn of_row(row: &'a mut [T]) -> Self {
        let cols = row.len();
        Self { data: row.as_mut_ptr(), rows: 1, cols, row_stride: cols, life: PhantomData }
    }

    /// Splits before `row`, which is clamped to the number of rows.
    pub fn split_at_row(self, row: usize) -> (Self, Self) {
        let row = row.min(self.rows);
        // The address past the last row may be out of bounds, so it must not be formed; nor may that of a row without columns.
        let offset = if row == self.rows || self.cols == 0 { 0 } else { row * self.row_stride };
        // SAFETY: `row` is a row of the matrix that has elements, so the offset is within the slice.
        let data = unsafe { self.data.add(offset) };
        (Self { rows: row, ..self }, Self { data, rows: self.rows - row, ..self })
    }

    /// Splits before `col`, which is clamped to the number of columns.
    pub fn split_at_col(self, col: usize) -> (Self, Self) {
        let col = col.min(self.cols);
        let offset = if self.rows == 0 { 0 } else { col };
        // SAFETY: `col` is at most a row's length, and there is a row, so the offset is within the slice or one past it.
        let data = unsafe { self.data.add(offset) };
        (Self { cols: col, ..self }, Self { data, cols: self.cols - col, ..self })
    }

    /// Reborrows the same elements.
    pub fn reborrow(&mut self) -> MatMut<'_, T> {
        MatMut { life: PhantomData, ..*self }
    }

    /// Row `i`; empty if it does not exist.
    pub fn row_mut(&mut self, i: usize) -> &mut [T] {
        if i >= self.rows || self.cols == 0 {
            return &mut [];
        }
        // SAFETY: the row has elements, is within the slice and belongs to this matrix only.
        unsafe { std::slice::from_raw_parts_mut(self.data.add(i * self.row_stride), self.cols) }
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements between the starts of consecutive rows.
    pub fn row_stride(&self) -> usize {
        self.row_stride
    }

    /// The first element.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut T {
        self.data
    }
}
