//! Operands whose element type is a value.
//!
//! Kernels on these operands are compiled once, in this crate, and not for every type in every program
//! that calls them. Only the few lines that convert a typed operand are generic.
use crate::Host;
use ops_core::{
    AnyMut, AnyRef, BlockInfo, DType, Element, Error, Layout, Result, Scalar, TensorMut, TensorRef, Wide,
    bf16, f16,
};

/// An operand to read.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub(crate) bytes: &'a [u8],
    /// Bytes of an element.
    pub(crate) size: usize,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

/// An operand to write.
pub(crate) struct RawMut<'a> {
    pub(crate) bytes: &'a mut [u8],
    /// Bytes per element.
    pub(crate) size: usize,
    pub(crate) dtype: DType,
    pub(crate) layout: Layout,
}

/// Evaluates `$body` with `$T` as the numeric type that `$dtype` names, or `$otherwise` for other dtypes.
macro_rules! on_num {
    ($dtype:expr, $T:ident => $body:expr, else $otherwise:expr) => {
        ops_core::with_type!(numbers, $dtype, $T => $body, _ => $otherwise)
    };
}

/// Like [`on_num`], for integers.
macro_rules! on_integer {
    ($dtype:expr, $T:ident => $body:expr, else $otherwise:expr) => {
        ops_core::with_type!(integers, $dtype, $T => $body, _ => $otherwise)
    };
}

/// Like [`on_num`], for the float types that ops compute in.
macro_rules! on_float {
    ($dtype:expr, $T:ident => $body:expr, else $otherwise:expr) => {
        ops_core::with_type!(floats, $dtype, $T => $body, _ => $otherwise)
    };
}

/// Like [`on_num`], for every type except blocks.
macro_rules! on_scalar {
    ($dtype:expr, $T:ident => $body:expr, else $otherwise:expr) => {
        ops_core::with_type!(scalars, $dtype, $T => $body, _ => $otherwise)
    };
}
pub(crate) use {on_float, on_integer, on_num, on_scalar};

/// Panics because a kernel got elements that are not numbers. [`Scalar`] is sealed, so no op's rule admits them.
#[cold]
fn no_number(dtype: DType) -> ! {
    unreachable!("elements of {dtype} are not numbers, and `Scalar` is sealed")
}

/// Reads the element at position `p`.
fn read<T: Element>(bytes: &[u8], p: usize) -> T {
    let size = size_of::<T>();
    bytemuck::pod_read_unaligned(&bytes[p * size..][..size])
}

impl<'a> Raw<'a> {
    /// From an operand whose type is already a value.
    pub(crate) fn any(x: &AnyRef<'a, Host>) -> Self {
        Raw { bytes: x.bytes(), size: x.dtype().size(), dtype: x.dtype(), layout: *x.layout() }
    }
    /// Like [`any`](Self::any), for an optional operand.
    pub(crate) fn any_if(x: &Option<AnyRef<'a, Host>>) -> Option<Self> {
        x.as_ref().map(Raw::any)
    }
    pub(crate) fn of<T: Element>(x: &TensorRef<'a, Host, T>) -> Self {
        let bytes = bytemuck::cast_slice(x.data());
        Raw { bytes, size: size_of::<T>(), dtype: DType::of::<T>(), layout: *x.layout() }
    }
    /// A slice as one contiguous row.
    pub(crate) fn row<T: Element>(x: &'a [T]) -> Result<Self> {
        let layout = Layout::contiguous(&[x.len()])?;
        Ok(Raw { bytes: bytemuck::cast_slice(x), size: size_of::<T>(), dtype: DType::of::<T>(), layout })
    }
    pub(crate) fn with_layout(self, layout: Layout) -> Self {
        Raw { layout, ..self }
    }
    pub(crate) fn dims(&self) -> &[usize] {
        self.layout.dims()
    }
    /// The memory as a slice of `T`, which must be the operand's element type.
    pub(crate) fn slice<T: Element>(&self) -> &'a [T] {
        bytemuck::cast_slice(self.bytes)
    }
    /// The bytes of all elements, if they are contiguous in row-major order.
    pub(crate) fn contiguous(&self) -> Option<&'a [u8]> {
        let extent = self.layout.extent();
        self.layout.is_contiguous().then(|| &self.bytes[extent.start * self.size..extent.end * self.size])
    }
    /// The bytes of the element at position `p`.
    pub(crate) fn element(&self, p: usize) -> &'a [u8] {
        &self.bytes[p * self.size..][..self.size]
    }
    /// The number at position `p`.
    pub(crate) fn wide(&self, p: usize) -> Wide {
        on_scalar!(self.dtype, T => read::<T>(self.bytes, p).to_wide(), else no_number(self.dtype))
    }
    /// The number at position `p`, as f64.
    #[inline]
    pub(crate) fn f64(&self, p: usize) -> f64 {
        match self.dtype {
            DType::F16 => f64::from(read::<f16>(self.bytes, p)),
            DType::BF16 => f64::from(read::<bf16>(self.bytes, p)),
            DType::F32 => f64::from(read::<f32>(self.bytes, p)),
            DType::F64 => read::<f64>(self.bytes, p),
            _ => match self.wide(p) {
                Wide::Float(v) => v,
                Wide::Int(v) => v as f64,
            },
        }
    }
    /// The numbers at these positions, as f64.
    pub(crate) fn gather(&self, positions: impl Iterator<Item = usize>) -> Vec<f64> {
        positions.map(|p| self.f64(p)).collect()
    }
    /// All numbers in row-major order, as f64.
    pub(crate) fn values(&self) -> Vec<f64> {
        self.gather(self.layout.positions())
    }
}

impl<'a> RawMut<'a> {
    pub(crate) fn of<T: Element>(y: &'a mut TensorMut<'_, Host, T>) -> Self {
        let layout = *y.layout();
        RawMut {
            bytes: bytemuck::cast_slice_mut(y.data_mut()),
            size: size_of::<T>(),
            dtype: DType::of::<T>(),
            layout,
        }
    }
    /// From an operand whose type is already a value.
    pub(crate) fn any(y: &'a mut AnyMut<'_, Host>) -> Self {
        let (dtype, layout) = (y.dtype(), *y.layout());
        RawMut { bytes: y.bytes_mut(), size: dtype.size(), dtype, layout }
    }
    pub(crate) fn with_layout(self, layout: Layout) -> Self {
        RawMut { layout, ..self }
    }
    pub(crate) fn reborrow(&mut self) -> RawMut<'_> {
        RawMut { bytes: self.bytes, ..*self }
    }
    /// The same operand, for reading.
    pub(crate) fn as_raw(&self) -> Raw<'_> {
        Raw { bytes: self.bytes, size: self.size, dtype: self.dtype, layout: self.layout }
    }
    /// The memory as a slice of `T`, which must be the operand's element type.
    pub(crate) fn slice<T: Element>(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes)
    }
    /// The bytes of the element at position `p`.
    pub(crate) fn element(&mut self, p: usize) -> &mut [u8] {
        &mut self.bytes[p * self.size..][..self.size]
    }
    /// Stores a number, converted by the cast rules.
    pub(crate) fn set_wide(&mut self, p: usize, wide: Wide) {
        on_scalar!(self.dtype, T => self.element(p).copy_from_slice(bytemuck::bytes_of(&T::from_wide(wide))), else no_number(self.dtype));
    }
    /// Stores a number, rounded once.
    pub(crate) fn set(&mut self, p: usize, v: f64) {
        self.set_wide(p, Wide::Float(v));
    }
    /// Stores numbers at these positions, each rounded once.
    pub(crate) fn scatter(
        &mut self,
        positions: impl Iterator<Item = usize>,
        values: impl IntoIterator<Item = f64>,
    ) {
        for (p, v) in positions.zip(values) {
            self.set(p, v);
        }
    }
    /// `v` rounded to this operand's element type.
    pub(crate) fn rounded(&self, v: f64) -> f64 {
        on_scalar!(self.dtype, T => Scalar::to_f64(<T as Scalar>::from_f64(v)), else no_number(self.dtype))
    }
}

/// The block format of `dtype`, or an error if `dtype` is not a block type.
pub(crate) fn block_info(op: &'static str, dtype: DType) -> Result<&'static BlockInfo> {
    match dtype {
        DType::Block(info) => Ok(info),
        other => {
            Err(Error::Device { backend: "cpu", call: op, status: format!("{other} is not a block format") })
        }
    }
}

/// The table row for each of `t` tokens of `b` batch entries: given by `positions[b or 1, t]`, or otherwise
/// consecutive from `start` on. All positions are checked before any write.
pub(crate) fn table_rows(
    op: &'static str,
    positions: Option<Raw<'_>>,
    start: usize,
    [b, t]: [usize; 2],
    bound: usize,
) -> Result<Vec<usize>> {
    let Some(positions) = positions else { return Ok((0..b * t).map(|i| start + i % t).collect()) };
    let row = |(position, p): (usize, usize)| {
        let Wide::Int(index) = positions.wide(p) else { no_number(positions.dtype) };
        let row = usize::try_from(index).ok().filter(|i| *i < bound);
        row.ok_or(Error::Index { op, operand: "positions", position, index, bound })
    };
    let rows: Vec<usize> = positions.layout.positions().enumerate().map(row).collect::<Result<_>>()?;
    Ok((0..b * t).map(|i| rows[i % rows.len()]).collect())
}

/// The rows that `ids` selects, with `None` for the index that selects nothing. All indices are checked before any write.
pub(crate) fn resolve(op: &'static str, ids: Raw<'_>, bound: usize) -> Result<Vec<Option<usize>>> {
    resolve_operand(op, "ids", ids, bound)
}

/// [`resolve`] of the operand with this name.
pub(crate) fn resolve_operand(
    op: &'static str,
    operand: &'static str,
    ids: Raw<'_>,
    bound: usize,
) -> Result<Vec<Option<usize>>> {
    let none = match ids.dtype {
        DType::U8 => u8::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::I32 => i32::MAX.into(),
        DType::I64 => i64::MAX,
        dtype => unreachable!("{dtype} is not an index type, and `Index` is sealed"),
    };
    let row = |(position, p): (usize, usize)| {
        let Wide::Int(index) = ids.wide(p) else { no_number(ids.dtype) };
        if index == none {
            return Ok(None);
        }
        let row = usize::try_from(index).ok().filter(|i| *i < bound);
        row.map(Some).ok_or(Error::Index { op, operand, position, index, bound })
    };
    ids.layout.positions().enumerate().map(row).collect()
}
