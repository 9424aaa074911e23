//! Shapes and operands as the kernels read them.
use crate::{ElementType, Refused};
use arrayvec::ArrayVec;

/// Largest number of dimensions that a kernel can walk, after [`elementwise`] or [`rows`] has merged dimensions.
pub const MAX_RANK: usize = 6;

/// Largest number of dimensions that operands may have before merging.
const MAX_DIMS: usize = 10;

/// One entry per dimension, outermost first.
pub(crate) type List<T> = ArrayVec<T, MAX_DIMS>;

/// Copies the values; fails if there are too many dimensions.
pub(crate) fn list<T: Copy>(values: &[T]) -> Result<List<T>, Refused> {
    List::try_from(values).map_err(|_| Refused::Rank(values.len()))
}

/// Bytes of the widest memory access.
const PACK_BYTES: u64 = 16;

/// Dimensions, outermost first and right-aligned. Made by [`elementwise`] and [`rows`].
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Shape {
    dim: [u64; MAX_RANK],
    magic: [u64; MAX_RANK],
    shift: [u32; MAX_RANK],
    rank: u32,
    pack: u32,
    count: u64,
}

// The offsets in `ops_view.h`. The test of argument structs checks the same numbers against the source.
const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(Shape, dim) == 0 && offset_of!(Shape, magic) == 48 && offset_of!(Shape, shift) == 96);
    assert!(offset_of!(Shape, rank) == 120 && offset_of!(Shape, pack) == 124);
    assert!(offset_of!(Shape, count) == 128 && size_of::<Shape>() == 136);
    assert!(offset_of!(Divider, by) == 0 && offset_of!(Divider, magic) == 8);
    assert!(offset_of!(Divider, shift) == 16 && size_of::<Divider>() == 24);
    assert!(
        offset_of!(StridedPointer, data) == 0
            && offset_of!(StridedPointer, stride) == 8
            && size_of::<StridedPointer>() == 56
    );
};

impl Shape {
    /// Number of elements.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of dimensions after merging.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Elements per access; 1 if an operand's alignment or strides do not allow more.
    pub fn pack(&self) -> u32 {
        self.pack
    }

    /// Size of the last dimension.
    pub fn inner(&self) -> u64 {
        self.dim[MAX_RANK - 1]
    }

    /// The same shape with one element per access.
    pub(crate) fn unpacked(self) -> Shape {
        self.with_pack(1)
    }

    /// The same shape with this many elements per access.
    pub(crate) fn with_pack(self, pack: u32) -> Shape {
        Shape { pack, ..self }
    }

    /// All dimensions, outermost first; those before the first in use are 1.
    pub(crate) fn dims(&self) -> &[u64; MAX_RANK] {
        &self.dim
    }

    // Inlined like the functions below: copying these structs would cost more than building them.
    #[inline(always)]
    fn new(dims: &[u64]) -> Result<Shape, Refused> {
        let mut shape = Shape {
            dim: [1; MAX_RANK],
            magic: [0; MAX_RANK],
            shift: [0; MAX_RANK],
            rank: 0,
            pack: 1,
            count: 1,
        };
        let first = MAX_RANK.checked_sub(dims.len()).ok_or(Refused::Rank(dims.len()))?;
        for (slot, &d) in (first..).zip(dims) {
            shape.dim[slot] = d;
            shape.count = shape.count.checked_mul(d).ok_or(Refused::Size)?;
            (shape.magic[slot], shape.shift[slot]) = magic(d);
        }
        shape.rank = dims.len() as u32;
        if shape.count < 1 << 63 { Ok(shape) } else { Err(Refused::Size) }
    }
}

/// Multiplier and shift such that `n / d == (2 n * magic >> 64) >> shift` for every `n < 2^63`. `d` may be 0 if nothing is
/// divided by it.
fn magic(d: u64) -> (u64, u32) {
    if d == 0 {
        return (0, 0);
    }
    let log = u64::BITS - (d - 1).leading_zeros();
    // The same without a 128-bit division.
    if d.is_power_of_two() {
        return ((1 << 63) + 1, log);
    }
    let magic = (1u128 << (63 + log)) / u128::from(d) + 1;
    (magic as u64, log)
}

/// An operand in a kernel's arguments: device address and strides. Mirrors `Operand` in `ops_view.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct StridedPointer {
    /// Device address of the first element.
    pub data: u64,
    /// Strides in elements, right-aligned: the last entry belongs to the last dimension.
    pub stride: [i64; MAX_RANK],
}

impl StridedPointer {
    /// Takes the strides of the last dimensions, outermost first; all others are 0.
    ///
    /// Strides beyond [`MAX_RANK`] are ignored; callers never pass more.
    pub fn new(data: u64, strides: &[i64]) -> StridedPointer {
        let mut stride = [0; MAX_RANK];
        for (slot, &s) in stride.iter_mut().rev().zip(strides.iter().rev()) {
            *slot = s;
        }
        StridedPointer { data, stride }
    }
}

/// An operand as described to a family's `prepare`.
#[derive(Clone, Copy, Debug)]
pub struct OperandView<'a> {
    /// Device address of the first element, including any offset.
    pub data: u64,
    /// Strides in elements, one per dimension; 0 broadcasts.
    pub strides: &'a [i64],
    /// Element type.
    pub dtype: ElementType,
}

impl OperandView<'_> {
    /// Whether each row can be read `n` elements at a time: elements of a row are adjacent, and rows begin at multiples of `n`.
    pub(crate) fn in_packs(&self, n: u64) -> bool {
        let [outer @ .., 1] = self.strides else { return false };
        let aligned = self.data.is_multiple_of(n * self.dtype.bytes() as u64);
        aligned && outer.iter().all(|step| step.unsigned_abs().is_multiple_of(n))
    }
    /// The same for accesses of [`PACK_BYTES`].
    pub(crate) fn in_full_packs(&self) -> bool {
        self.in_packs(per_pack(self.dtype))
    }
}

/// How many elements are in [`PACK_BYTES`].
pub(crate) fn per_pack(dtype: ElementType) -> u64 {
    PACK_BYTES / dtype.bytes() as u64
}

/// A divisor with its magic number, for division without a division instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Divider {
    by: u64,
    magic: u64,
    shift: u64,
}

impl Divider {
    /// Prepares division of any number below 2^63 by `by`, which must not be 0.
    pub fn new(by: u64) -> Divider {
        let (magic, shift) = magic(by);
        Divider { by, magic, shift: u64::from(shift) }
    }

    /// The divisor.
    pub fn by(&self) -> u64 {
        self.by
    }
}

/// Merges dimensions of operands that all have shape `dims`, for a kernel that visits every element.
///
/// Fails if more than [`MAX_RANK`] dimensions remain, if a stride list does not have one entry per dimension, or if the number of
/// elements does not fit 63 bits.
#[inline(always)]
pub fn elementwise<const N: usize>(
    dims: &[u64],
    views: [OperandView<'_>; N],
) -> Result<(Shape, [StridedPointer; N]), Refused> {
    let (dims, strides) = merge(dims, &views, 0)?;
    let mut shape = Shape::new(&dims)?;
    shape.pack = pack(&dims, &strides, &views, true);
    Ok((shape, operands(&views, &strides)))
}

/// Merges the leading dimensions and keeps the last `kept` unchanged, for a kernel that visits rows.
///
/// Fails like [`elementwise`], and if there are fewer than `kept` dimensions. Rows are always a whole number of packs.
#[inline(always)]
pub fn rows<const N: usize>(
    dims: &[u64],
    kept: usize,
    views: [OperandView<'_>; N],
) -> Result<(Shape, [StridedPointer; N]), Refused> {
    let (dims, strides) = merge(dims, &views, kept)?;
    let mut shape = Shape::new(&dims)?;
    let packs = pack(&dims, &strides, &views, false);
    if shape.inner().is_multiple_of(u64::from(packs)) {
        shape.pack = packs;
    }
    Ok((shape, operands(&views, &strides)))
}

#[inline(always)]
fn operands<const N: usize>(views: &[OperandView<'_>; N], strides: &[List<i64>; N]) -> [StridedPointer; N] {
    std::array::from_fn(|i| StridedPointer::new(views[i].data, &strides[i]))
}

/// Drops dimensions of size 1 and merges neighbours that every operand walks with one stride, except the last `kept`. At least
/// one dimension always remains: a scalar becomes one dimension of size 1.
#[inline(always)]
fn merge<const N: usize>(
    dims: &[u64],
    views: &[OperandView<'_>; N],
    kept: usize,
) -> Result<(List<u64>, [List<i64>; N]), Refused> {
    if let Some(odd) = views.iter().find(|v| v.strides.len() != dims.len()) {
        return Err(Refused::Rank(odd.strides.len()));
    }
    let leading = dims.len().checked_sub(kept).ok_or(Refused::Rank(dims.len()))?;
    if dims.len() > MAX_DIMS {
        return Err(Refused::Rank(dims.len()));
    }
    let (mut out_dims, mut out) = (List::<u64>::new(), [const { List::<i64>::new_const() }; N]);
    for (d, &size) in dims.iter().enumerate() {
        if d < leading && size == 1 {
            continue;
        }
        let joins = d < leading
            && !out_dims.is_empty()
            && views
                .iter()
                .zip(&out)
                .all(|(v, o)| o.last().copied() == v.strides[d].checked_mul(size as i64));
        match out_dims.last_mut() {
            Some(last) if joins => *last = last.checked_mul(size).ok_or(Refused::Size)?,
            _ => out_dims.push(size),
        }
        for (v, o) in views.iter().zip(&mut out) {
            if joins {
                o.pop();
            }
            o.push(v.strides[d]);
        }
    }
    if out_dims.is_empty() {
        out_dims.push(1);
        out.iter_mut().for_each(|o| o.push(1));
    }
    Ok((out_dims, out))
}

/// Elements of the widest operand in a 16-byte access, if the address and strides of every operand allow such accesses in every
/// row; otherwise 1. With `broadcast`, operands with stride 0 along the row are always allowed.
fn pack<const N: usize>(
    dims: &[u64],
    strides: &[List<i64>; N],
    views: &[OperandView<'_>; N],
    broadcast: bool,
) -> u32 {
    let widest = views.iter().map(|v| v.dtype.bytes() as u64).max().unwrap_or(PACK_BYTES);
    let n = (PACK_BYTES / widest.max(1)).max(1);
    let whole_rows = dims.len() <= 1 || dims.last().is_some_and(|d| d % n == 0);
    let fits = |view: &OperandView<'_>, strides: &[i64]| match strides.last() {
        Some(0) => broadcast,
        _ => OperandView { strides, ..*view }.in_packs(n),
    };
    if n > 1 && whole_rows && views.iter().zip(strides).all(|(v, s)| fits(v, s)) { n as u32 } else { 1 }
}

/// Makes `axis` the outermost dimension and merges the others as in [`elementwise`].
pub(crate) fn leading<const N: usize>(
    dims: &[u64],
    axis: usize,
    views: [OperandView<'_>; N],
) -> Result<(Shape, [StridedPointer; N]), Refused> {
    if axis >= dims.len() || views.iter().any(|v| v.strides.len() != dims.len()) {
        return Err(Refused::Rank(dims.len()));
    }
    let mut others = list(dims)?;
    let size = others.remove(axis);
    let (mut steps, mut strides) = ([0; N], [const { List::<i64>::new_const() }; N]);
    for ((view, strides), step) in views.iter().zip(&mut strides).zip(&mut steps) {
        *strides = list(view.strides)?;
        *step = strides.remove(axis);
    }
    let views: [OperandView<'_>; N] =
        std::array::from_fn(|i| OperandView { strides: &strides[i], ..views[i] });
    let (mut dims, mut strides) = merge(&others, &views, 0)?;
    dims.insert(0, size);
    for (list, step) in strides.iter_mut().zip(steps) {
        list.insert(0, step);
    }
    let mut shape = Shape::new(&dims)?;
    shape.pack = pack(&dims, &strides, &views, false);
    Ok((shape, operands(&views, &strides)))
}

/// Whether the strides of all dimensions with more than one index are multiples of `n`; that of the last counts if `with_last`.
pub(crate) fn outer_multiples(shape: &Shape, operand: &StridedPointer, n: u32, with_last: bool) -> bool {
    let dims = shape.dims().iter().zip(operand.stride).take(if with_last { MAX_RANK } else { MAX_RANK - 1 });
    dims.into_iter().all(|(d, s)| *d <= 1 || s % i64::from(n) == 0)
}

/// The unit's type, the dimensions in units, and each view's strides in units.
type Units<const N: usize> = (ElementType, List<u64>, [List<i64>; N]);

/// Describes views whose elements are moved as bits: the unit's type, and dimensions and strides in units. Types of 1, 2, 4 and
/// 8 bytes are their own unit; blocks are split into units along an extra last dimension.
pub(crate) fn as_units<const N: usize>(
    dims: &[u64],
    views: [OperandView<'_>; N],
) -> Result<Units<N>, Refused> {
    let dtype = views.first().map_or(ElementType::U8, |v| v.dtype);
    let (mut dims, mut strides) = (list(dims)?, [const { List::new_const() }; N]);
    for (out, view) in strides.iter_mut().zip(&views) {
        *out = list(view.strides)?;
    }
    if let Some(bits) = dtype.bits() {
        return Ok((bits, dims, strides));
    }
    let unit = if dtype.bytes().is_multiple_of(2) { ElementType::B16 } else { ElementType::B8 };
    let units = (dtype.bytes() / unit.bytes()) as i64;
    let full = |_| Refused::Rank(MAX_DIMS + 1);
    for out in &mut strides {
        for stride in out.iter_mut() {
            *stride = stride.checked_mul(units).ok_or(Refused::Size)?;
        }
        out.try_push(1).map_err(full)?;
    }
    dims.try_push(units as u64).map_err(|_| Refused::Rank(MAX_DIMS + 1))?;
    Ok((unit, dims, strides))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_divides() {
        let edges =
            [2, 3, 5, 7, 10, 127, 128, 129, 4096, 4097, (1 << 31) - 1, 1 << 32, (1 << 32) + 1, (1 << 62) + 1];
        for d in edges {
            let (m, s) = magic(d);
            let tops = [(1u64 << 63) - 1, 1 << 62, (1 << 32) - 1, d, d - 1, d + 1, 2 * d - 1];
            let near = (1..50u64).map(|k| k.saturating_mul(d).min((1 << 63) - 1)).flat_map(|n| [n, n - 1]);
            for n in tops.into_iter().chain(near).filter(|&n| n < 1 << 63) {
                let q = ((u128::from(n << 1) * u128::from(m)) >> 64) as u64 >> s;
                assert_eq!(q, n / d, "{n} / {d}");
            }
        }
    }

    fn view(data: u64, strides: &[i64], dtype: ElementType) -> OperandView<'_> {
        OperandView { data, strides, dtype }
    }

    #[test]
    fn merging() {
        let (shape, [a, b]) = elementwise(
            &[2, 3, 4],
            [view(16, &[12, 4, 1], ElementType::F32), view(32, &[12, 4, 1], ElementType::F32)],
        )
        .unwrap();
        assert_eq!((shape.rank(), shape.count(), shape.pack()), (1, 24, 4));
        assert_eq!((a.stride[5], b.stride[5]), (1, 1));
        let (shape, [_, b]) = elementwise(
            &[2, 3, 4],
            [view(16, &[12, 4, 1], ElementType::F32), view(32, &[0, 0, 1], ElementType::F32)],
        )
        .unwrap();
        assert_eq!((shape.rank(), shape.pack(), b.stride[4]), (2, 4, 0));
        let (shape, _) = elementwise(
            &[2, 3, 4],
            [view(8, &[12, 4, 1], ElementType::F32), view(32, &[0, 0, 1], ElementType::F32)],
        )
        .unwrap();
        assert_eq!(shape.pack(), 1, "address not a multiple of 16");
        let (shape, _) =
            elementwise(&[2, 3], [view(0, &[3, 1], ElementType::F16), view(0, &[4, 1], ElementType::F16)])
                .unwrap();
        assert_eq!(shape.pack(), 1, "rows not whole packs");
        let (shape, [s]) = elementwise(&[], [view(0, &[], ElementType::F16)]).unwrap();
        assert_eq!((shape.rank(), shape.count(), s.stride[5]), (1, 1, 1));
        let (shape, _) = rows(&[2, 3, 1, 8], 1, [view(0, &[24, 8, 8, 1], ElementType::F16)]).unwrap();
        assert_eq!((shape.rank(), shape.inner()), (2, 8));
        assert!(elementwise(&[1 << 32, 1 << 32], [view(0, &[0, 0], ElementType::U8)]).is_err());
        assert!(elementwise(&[2; 7], [view(0, &[1, 3, 9, 27, 81, 243, 729], ElementType::U8)]).is_err());
    }
}
