//! Host memory for elements whose type is known only at run time.
use crate::CallError;
use bytemuck::allocation::try_zeroed_vec;
use ops_core::ops::registry::Group;
use ops_core::{BlockInfo, DType, Element, Layout, Scalar, Wide, with_type};

/// Elements of one type, aligned for every element type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    dtype: DType,
    size: usize,
    len: usize,
    // Stored as u64, so that a slice of any element type is aligned.
    words: Vec<u64>,
}

/// Maximum bytes per array: far above any case, and small enough to be harmless.
const MAX_BYTES: usize = 1 << 30;

impl Array {
    /// `len` elements with all bytes 0.
    ///
    /// # Errors
    /// This build does not have the type, or the array would exceed 1 GiB.
    pub fn zeroed(dtype: DType, len: usize) -> Result<Self, CallError> {
        if !Group::Elements.members().contains(&dtype) {
            return Err(CallError::Unsupported(format!("{dtype} is not a type of this build")));
        }
        let size = dtype.size();
        let too_large = || CallError::Malformed(format!("{len} elements of {dtype} exceed 1 GiB"));
        let bytes = len.checked_mul(size).filter(|b| *b <= MAX_BYTES).ok_or_else(too_large)?;
        let words = try_zeroed_vec(bytes.div_ceil(8)).map_err(|()| too_large())?;
        Ok(Array { dtype, size, len, words })
    }

    /// Copies `elements`.
    ///
    /// # Errors
    /// As [`Array::zeroed`].
    pub fn from_slice<T: Element>(elements: &[T]) -> Result<Self, CallError> {
        Self::from_bytes(DType::of::<T>(), bytemuck::cast_slice(elements))
    }

    /// Copies stored elements.
    ///
    /// # Errors
    /// As [`Array::zeroed`], and if the bytes are not a whole number of elements.
    pub fn from_bytes(dtype: DType, bytes: &[u8]) -> Result<Self, CallError> {
        let size = Self::zeroed(dtype, 0)?.size;
        if !bytes.len().is_multiple_of(size) {
            let got = bytes.len();
            return Err(CallError::Malformed(format!(
                "{got} bytes are not a whole number of {dtype} elements of {size} bytes"
            )));
        }
        let mut array = Self::zeroed(dtype, bytes.len() / size)?;
        array.bytes_mut().copy_from_slice(bytes);
        Ok(array)
    }

    /// Converts to the nearest values of a scalar type, by the cast rules.
    ///
    /// # Errors
    /// As [`Array::zeroed`], and if the type is a block type.
    pub fn from_f64(dtype: DType, values: &[f64]) -> Result<Self, CallError> {
        Self::from_wide(dtype, values.iter().map(|v| Wide::Float(*v)))
    }

    /// Converts to the nearest values of a scalar type, by the cast rules.
    pub(crate) fn from_wide(dtype: DType, values: impl Iterator<Item = Wide>) -> Result<Self, CallError> {
        with_type!(scalars, dtype, T => Self::from_slice(&values.map(T::from_wide).collect::<Vec<_>>()), _ => {
            Err(CallError::Unsupported(format!("not available in {dtype}")))
        })
    }

    /// The values; exact except for large `i64`.
    ///
    /// # Errors
    /// The elements are blocks.
    pub fn to_f64(&self) -> Result<Vec<f64>, CallError> {
        self.numbers(Wide::to_f64)
    }

    /// The exact values.
    ///
    /// # Errors
    /// The elements are blocks.
    pub fn to_wide(&self) -> Result<Vec<Wide>, CallError> {
        self.numbers(|number| number)
    }

    fn numbers<N>(&self, of: impl Fn(Wide) -> N) -> Result<Vec<N>, CallError> {
        with_type!(scalars, self.dtype, T => Ok(self.slice::<T>()?.iter().map(|v| of(v.to_wide())).collect()), _ => {
            Err(CallError::Unsupported(format!("not available in {}", self.dtype)))
        })
    }

    /// Quantizes values to the nearest blocks of a format.
    ///
    /// # Errors
    /// As [`Array::zeroed`], and if the type is not a block type or is read-only.
    pub(crate) fn quantized(format: DType, values: &[f32]) -> Result<Self, CallError> {
        let info = block_info(format)?;
        let mut blocks = Self::zeroed(format, values.len().div_ceil(info.values()))?;
        for (at, values) in values.chunks(info.values()).enumerate() {
            if !info.encode(values, blocks.element_mut(at)) {
                return Err(CallError::Unsupported(format!(
                    "values cannot be quantized to {format}, which is read-only"
                )));
            }
        }
        Ok(blocks)
    }

    /// Decodes blocks.
    ///
    /// # Errors
    /// The elements are not blocks.
    pub(crate) fn dequantized(&self) -> Result<Vec<f32>, CallError> {
        let info = block_info(self.dtype)?;
        let mut values = vec![0.0; self.len * info.values()];
        for (at, values) in values.chunks_exact_mut(info.values()).enumerate() {
            info.decode(self.element(at), values);
        }
        Ok(values)
    }

    /// Converts the values to another type, if that changes none of them.
    ///
    /// # Errors
    /// Some value cannot be represented in that type, or one of the types is a block type.
    pub fn to_equal(&self, dtype: DType) -> Result<Self, CallError> {
        let wide = self.to_wide()?;
        let cast = Self::from_wide(dtype, wide.iter().copied())?;
        if let Some(at) = wide.iter().zip(cast.to_wide()?).position(|(a, b)| !same(*a, b)) {
            let value = wide[at];
            return Err(CallError::Unsupported(format!(
                "{value:?} of {} cannot be represented in {dtype}",
                self.dtype
            )));
        }
        Ok(cast)
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// The stored bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len * self.size]
    }
    /// The stored bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len * self.size]
    }
    /// Fills all bytes with a pattern, so that a write of any common value is visible.
    pub(crate) fn fill_with_pattern(&mut self) {
        for (i, byte) in self.bytes_mut().iter_mut().enumerate() {
            *byte = 0xa5 ^ (i as u8).wrapping_mul(29);
        }
    }
    /// The bytes of one element.
    #[inline]
    pub fn element(&self, at: usize) -> &[u8] {
        &self.bytes()[at * self.size..][..self.size]
    }
    /// The bytes of one element, for writing.
    #[inline]
    pub fn element_mut(&mut self, at: usize) -> &mut [u8] {
        let size = self.size;
        &mut self.bytes_mut()[at * size..][..size]
    }

    /// The elements, if they are of type `T`.
    ///
    /// # Errors
    /// They are of another type.
    pub fn slice<T: Element>(&self) -> Result<&[T], CallError> {
        if T::DTYPE != self.dtype {
            return Err(CallError::Malformed(format!("is {}, wanted {}", self.dtype, T::DTYPE)));
        }
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The elements of a view, in row-major order.
    ///
    /// # Errors
    /// The view extends beyond the array.
    pub fn gather(&self, layout: &Layout) -> Result<Self, CallError> {
        self.covers(layout)?;
        let mut out = Self::zeroed(self.dtype, layout.len())?;
        out.copy_elements(self, (0..layout.len()).zip(layout.positions()));
        Ok(out)
    }

    /// Sets the elements of a view to `values`, given in row-major order.
    ///
    /// # Errors
    /// The view extends beyond the array, or has another number of elements or another type.
    pub fn scatter(&mut self, layout: &Layout, values: &Self) -> Result<(), CallError> {
        self.covers(layout)?;
        if (values.dtype, values.len) != (self.dtype, layout.len()) {
            let (got, dtype) = (values.len, values.dtype);
            return Err(CallError::Malformed(format!(
                "{got} elements of {dtype} do not fit a view {layout}"
            )));
        }
        self.copy_elements(values, layout.positions().zip(0..layout.len()));
        Ok(())
    }

    /// Copies elements of an array of the same type: to the first position of each pair, from the second.
    pub(crate) fn copy_elements(&mut self, from: &Self, positions: impl Iterator<Item = (usize, usize)>) {
        debug_assert_eq!(self.dtype, from.dtype);
        match self.size {
            1 => copy::<u8>(self, from, positions),
            2 => copy::<u16>(self, from, positions),
            4 => copy::<u32>(self, from, positions),
            8 => copy::<u64>(self, from, positions),
            _ => positions.for_each(|(to, at)| self.element_mut(to).copy_from_slice(from.element(at))),
        }
    }

    /// The first element whose bytes differ from those of `other`, which has the same type and length.
    pub(crate) fn first_change(&self, other: &Self) -> Option<usize> {
        if self.bytes() == other.bytes() {
            return None;
        }
        (0..self.len).find(|&at| self.element(at) != other.element(at))
    }

    /// The first element outside `layout` in which `self` and `other` differ.
    pub fn first_change_outside(&self, other: &Self, layout: &Layout) -> Option<usize> {
        let mut inside = vec![false; self.len];
        layout.positions().for_each(|p| inside[p] = true);
        let elements = self.bytes().chunks_exact(self.size).zip(other.bytes().chunks_exact(self.size));
        elements.zip(inside).position(|((a, b), inside)| !inside && a != b)
    }

    fn covers(&self, layout: &Layout) -> Result<(), CallError> {
        if layout.fits(self.len) {
            return Ok(());
        }
        Err(CallError::Malformed(format!("the view {layout} reaches beyond {} elements", self.len)))
    }
}

/// Copies elements whose size is that of `Word`.
fn copy<Word: bytemuck::Pod>(to: &mut Array, from: &Array, positions: impl Iterator<Item = (usize, usize)>) {
    let (to, from) =
        (bytemuck::cast_slice_mut(to.bytes_mut()), bytemuck::cast_slice::<u8, Word>(from.bytes()));
    positions.for_each(|(into, at)| to[into] = from[at]);
}

fn block_info(dtype: DType) -> Result<&'static BlockInfo, CallError> {
    match dtype {
        DType::Block(info) => Ok(info),
        other => Err(CallError::Unsupported(format!("{other} is not a block format"))),
    }
}

/// Equality between types, as the exact tolerance defines it.
pub(crate) fn same(a: Wide, b: Wide) -> bool {
    match (a, b) {
        (Wide::Int(a), Wide::Int(b)) => a == b,
        (Wide::Float(a), Wide::Float(b)) => a == b || a.is_nan() && b.is_nan(),
        // f64 represents all integer values exactly except large i64, which are compared as integers.
        (Wide::Int(i), Wide::Float(f)) | (Wide::Float(f), Wide::Int(i)) => {
            i as f64 == f && (f as i128) == i128::from(i)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::{BlockInfo, quant};

    #[test]
    fn conversions_that_change_a_value_are_refused() {
        let exact = Array::from_slice(&[1.5f32, -0.0, f32::INFINITY, f32::NAN]).unwrap();
        assert_eq!(exact.to_equal(DType::F16).unwrap().to_f64().unwrap()[..3], [1.5, 0.0, f64::INFINITY]);
        assert!(Array::from_slice(&[0.1f32]).unwrap().to_equal(DType::BF16).is_err());
        assert!(Array::from_slice(&[i64::MAX]).unwrap().to_equal(DType::F64).is_err());
    }

    #[test]
    fn absurd_sizes_are_errors() {
        assert!(Array::zeroed(DType::F64, usize::MAX / 4).is_err());
        assert!(Array::zeroed(DType::F64, 1 << 40).is_err());
        assert!(Array::from_bytes(DType::Block(&quant::Q8_0), &[0; 35]).is_err());
        static OTHER: BlockInfo = BlockInfo::of::<quant::BlockQ8_0>("q9_9");
        assert!(Array::zeroed(DType::Block(&OTHER), 1).is_err());
    }

    #[test]
    fn views_are_read_and_written_in_logical_order() {
        let mut storage = Array::from_slice(&[0u8, 1, 2, 3, 4, 5, 6]).unwrap();
        let view = Layout::strided(&[2, 2], &[1, 3], 1).unwrap();
        assert_eq!(storage.gather(&view).unwrap().bytes(), [1, 4, 2, 5]);
        let before = storage.clone();
        storage.scatter(&view, &Array::from_slice(&[9u8; 4]).unwrap()).unwrap();
        assert_eq!(storage.bytes(), [0, 9, 9, 3, 9, 9, 6]);
        assert_eq!(before.first_change_outside(&storage, &view), None);
        storage.bytes_mut()[6] = 0;
        assert_eq!(before.first_change_outside(&storage, &view), Some(6));
    }
}
