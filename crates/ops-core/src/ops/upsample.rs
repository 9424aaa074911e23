//! Upsampling along the last one or two axes.
use super::declare::family;
use super::options::{Options, Refused, per_axis};
use crate::option::OptionValue;
use crate::{
    AsView, AsViewMut, Backend, DType, Error, Execute, Float, Layout, MAX_RANK, Op, Operands, Result, Shape,
    TensorOf, Tolerance, Written, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// How an upsampled element is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UpsampleFn {
    /// Along the last axis: element ⌊i · in / out⌋.
    Nearest1d,
    /// The same along the last two axes.
    Nearest2d,
    /// Along the last two axes: interpolates linearly between the two nearest elements of each axis.
    Bilinear2d {
        /// Whether the first and last elements of an axis keep their positions: element i is at i · (in − 1)
        /// / (out − 1). Otherwise elements are areas: element i is at (i + ½) · in / out − ½, or at 0 if that
        /// is negative.
        align_corners: bool,
    },
}

impl UpsampleFn {
    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            UpsampleFn::Nearest1d => "upsample_nearest1d",
            UpsampleFn::Nearest2d => "upsample_nearest2d",
            UpsampleFn::Bilinear2d { .. } => "upsample_bilinear2d",
        }
    }
    /// Number of axes, counted from the last, that change.
    pub const fn axes(self) -> usize {
        if matches!(self, UpsampleFn::Nearest1d) { 1 } else { 2 }
    }
    /// Positions on an axis of `len` elements of the elements of an axis of `size`.
    pub fn source(self, len: usize, size: usize) -> Source {
        let (len, size) = (len as i128, size as i128);
        let (step, start, by) = match self {
            UpsampleFn::Nearest1d | UpsampleFn::Nearest2d => (len, 0, size),
            UpsampleFn::Bilinear2d { align_corners: true } => (len - 1, 0, size - 1),
            UpsampleFn::Bilinear2d { align_corners: false } => (2 * len, len - size, 2 * size),
        };
        // With one element there is nothing to align.
        let step = if by < 1 { 0 } else { step };
        Source { step, start, by: by.max(1), len: len.max(1) as u128 }
    }
}

/// Positions along an axis as fractions: element `i` is at `(i · step + start) / by`, or at 0 if that is
/// negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Numerator of the distance between neighbours.
    pub step: i128,
    /// Numerator of the position of element 0.
    pub start: i128,
    /// The denominator, positive.
    pub by: i128,
    len: u128,
}

impl Source {
    /// The last element at or before position `i`, and the weight of the next one: below 1, and 0 if there is
    /// no next element.
    pub fn at(&self, i: usize) -> (usize, f64) {
        let place = (i as i128 * self.step + self.start).max(0);
        let (before, rest) = (place / self.by, place % self.by);
        if before as u128 + 1 >= self.len {
            return (self.len as usize - 1, 0.0);
        }
        (before as usize, rest as f64 / self.by as f64)
    }
    /// The same fractions in lowest terms.
    pub fn reduced(self) -> Self {
        let divisor = |a: i128, b: i128| {
            let (mut a, mut b) = (a.abs(), b.abs());
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a.max(1)
        };
        let d = divisor(divisor(self.step, self.start), self.by);
        Source { step: self.step / d, start: self.start / d, by: self.by / d, ..self }
    }
}

/// Enlarges or reduces the last axes to a given size.
///
/// Operands: `x[.., h, w]`; `y[.., size[0], size[1]]`. For `upsample_nearest1d`, `x[.., w]` and `y[..,
/// size[0]]`. An element whose weight is 0 is ignored, even if it is NaN or infinite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upsample<T> {
    f: UpsampleFn,
    /// The new extents; the second is unused along one axis.
    size: [usize; 2],
    types: PhantomData<T>,
}
impl<T> Upsample<T> {
    /// The nearest elements along the last axis.
    pub fn nearest1d(size: usize) -> Self {
        Upsample { f: UpsampleFn::Nearest1d, size: [size, 1], types: PhantomData }
    }
    /// The nearest elements along the last two axes.
    pub fn nearest2d(size: [usize; 2]) -> Self {
        Upsample { f: UpsampleFn::Nearest2d, size, types: PhantomData }
    }
    /// Bilinear interpolation along the last two axes.
    pub fn bilinear2d(size: [usize; 2], align_corners: bool) -> Self {
        Upsample { f: UpsampleFn::Bilinear2d { align_corners }, size, types: PhantomData }
    }
    /// The function.
    pub fn function(&self) -> UpsampleFn {
        self.f
    }
    /// The new extents of the axes that change.
    pub fn size(&self) -> &[usize] {
        &self.size[..self.f.axes()]
    }
    pub(super) fn typed<U>(self) -> Upsample<U> {
        Upsample { f: self.f, size: self.size, types: PhantomData }
    }
}
impl Upsample<()> {
    pub(super) fn read<O: Options>(options: &O, f: UpsampleFn) -> core::result::Result<Self, O::Error> {
        let missing = Refused::Missing("size");
        let size = match f.axes() {
            1 => per_axis(options, "size")?.map(|[size]: [usize; 1]| [size, 1]).ok_or(missing)?,
            _ => per_axis(options, "size")?.ok_or(missing)?,
        };
        Ok(match f {
            UpsampleFn::Nearest1d => Upsample::nearest1d(size[0]),
            UpsampleFn::Nearest2d => Upsample::nearest2d(size),
            UpsampleFn::Bilinear2d { .. } => {
                Upsample::bilinear2d(size, options.flag("align_corners")?.unwrap_or(false))
            }
        })
    }
}
pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod upsample: Upsample<T: Float> { x: in T, y: out T });
}
impl<T: Float> Op for Upsample<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        let size = OptionValue::Counts(self.size[..self.f.axes()].to_vec());
        match self.f {
            UpsampleFn::Bilinear2d { align_corners } => {
                vec![("size", size), ("align_corners", align_corners.into())]
            }
            _ => vec![("size", size)],
        }
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Upsample { f, size, types: _ } = self;
        (f, size).hash(state);
    }
    fn infer(&self, on: &args::upsample::Shapes<'_>) -> Result<[Shape; 1]> {
        let (dims, axes) = (on.x.dims(), self.f.axes());
        let Some(leading) = dims.len().checked_sub(axes) else {
            let want = if axes == 1 { "[.., w]" } else { "[.., h, w]" };
            return Err(Error::shape(self.name(), "x", on.x, want));
        };
        if dims[leading..].iter().zip(self.size()).any(|(len, size)| *len == 0 && *size > 0) {
            return Err(Error::shape(
                self.name(),
                "x",
                on.x,
                "at least one element along every upsampled axis",
            ));
        }
        let mut out = [0; MAX_RANK];
        out[..leading].copy_from_slice(&dims[..leading]);
        out[leading..dims.len()].copy_from_slice(self.size());
        Ok([Shape::new(&out[..dims.len()])?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            UpsampleFn::Nearest1d | UpsampleFn::Nearest2d => Tolerance::Exact,
            UpsampleFn::Bilinear2d { .. } => Tolerance::rounded(dtype),
        }
    }
}

family! {
    /// Upsampling of `T` along the last axes.
    pub trait UpsampleOps<T: Float>: Execute<Upsample<T>>;
    methods UpsampleMethods;
}

/// The methods of [`UpsampleOps`].
pub trait UpsampleMethods: Backend {
    /// `x[.., w]` with `size` elements along the last axis; element i is that at ⌊i · w / size⌋.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 3], &[1.0f32, 2.0, 3.0])?;
    /// assert_eq!(b.upsample_nearest1d(&x, 5)?.to_vec(&b)?, [1.0, 1.0, 2.0, 2.0, 3.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn upsample_nearest1d<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        size: usize,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: UpsampleOps<T>,
    {
        upsampled(self, x, Upsample::nearest1d(size))
    }
    /// [`upsample_nearest1d`](Self::upsample_nearest1d) into `y`, whose last axis gives the size.
    ///
    /// # Errors
    /// As [`upsample_nearest1d`](Self::upsample_nearest1d), and for an output of another shape.
    fn upsample_nearest1d_into<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()>
    where
        Self: UpsampleOps<T>,
    {
        let y = y.view_mut();
        self.run(&Upsample::nearest1d(last_two(y.layout())[1]), args::upsample::Args { x: x.view(), y })
    }
    /// `x[.., h, w]` with these extents; element (i, j) is that at (⌊i · h / size\[0\]⌋, ⌊j · w / size\[1\]⌋).
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
    /// assert_eq!(b.upsample_nearest2d(&x, [2, 3])?.to_vec(&b)?, [1.0, 1.0, 2.0, 1.0, 1.0, 2.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn upsample_nearest2d<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        size: [usize; 2],
    ) -> Result<TensorOf<Self, T>>
    where
        Self: UpsampleOps<T>,
    {
        upsampled(self, x, Upsample::nearest2d(size))
    }
    /// [`upsample_nearest2d`](Self::upsample_nearest2d) into `y`, whose last two axes give the size.
    ///
    /// # Errors
    /// As [`upsample_nearest2d`](Self::upsample_nearest2d), and for an output of another shape.
    fn upsample_nearest2d_into<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()>
    where
        Self: UpsampleOps<T>,
    {
        let y = y.view_mut();
        self.run(&Upsample::nearest2d(last_two(y.layout())), args::upsample::Args { x: x.view(), y })
    }
    /// `x[.., h, w]` interpolated to these extents; [`UpsampleFn::Bilinear2d`] defines the positions.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 5.0])?;
    /// assert_eq!(b.upsample_bilinear2d(&x, [1, 4], false)?.to_vec(&b)?, [1.0, 2.0, 4.0, 5.0]);
    /// assert_eq!(b.upsample_bilinear2d(&x, [1, 5], true)?.to_vec(&b)?, [1.0, 2.0, 3.0, 4.0, 5.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn upsample_bilinear2d<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        size: [usize; 2],
        align_corners: bool,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: UpsampleOps<T>,
    {
        upsampled(self, x, Upsample::bilinear2d(size, align_corners))
    }
    /// [`upsample_bilinear2d`](Self::upsample_bilinear2d) into `y`, whose last two axes give the size.
    ///
    /// # Errors
    /// As [`upsample_bilinear2d`](Self::upsample_bilinear2d), and for an output of another shape.
    fn upsample_bilinear2d_into<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        align_corners: bool,
    ) -> Result<()>
    where
        Self: UpsampleOps<T>,
    {
        let y = y.view_mut();
        self.run(
            &Upsample::bilinear2d(last_two(y.layout()), align_corners),
            args::upsample::Args { x: x.view(), y },
        )
    }
}

/// The last two extents, or 1 where there is no such axis: the check then reports the rank.
fn last_two(y: &Layout) -> [usize; 2] {
    let mut from_the_end = y.dims().iter().rev().copied().chain([1, 1]);
    let last = from_the_end.next().unwrap_or(1);
    [from_the_end.next().unwrap_or(1), last]
}

fn upsampled<T: Float, B: Execute<Upsample<T>>>(
    b: &B,
    x: impl AsView<B::Space, T>,
    op: Upsample<T>,
) -> Result<TensorOf<B, T>> {
    let x = x.view();
    let [shape] = op.infer(&args::upsample::Shapes { x: x.layout(), y: Written })?;
    let mut y = b.empty(shape)?;
    b.run(&op, args::upsample::Args { x, y: y.view_mut() })?;
    Ok(y)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(f: UpsampleFn, len: usize, size: usize) -> Vec<(usize, f64)> {
        let source = f.source(len, size);
        let places: Vec<_> = (0..size).map(|i| source.at(i)).collect();
        let reduced = source.reduced();
        assert_eq!(places, (0..size).map(|i| reduced.at(i)).collect::<Vec<_>>());
        places
    }

    #[test]
    fn places_are_those_of_the_formulas() {
        let nearest = |len, size| {
            places(UpsampleFn::Nearest1d, len, size).into_iter().map(|(i, _)| i).collect::<Vec<_>>()
        };
        assert_eq!(nearest(5, 7), [0, 0, 1, 2, 2, 3, 4]);
        assert_eq!(nearest(5, 2), [0, 2]);
        let corners = UpsampleFn::Bilinear2d { align_corners: true };
        assert_eq!(places(corners, 2, 3), [(0, 0.0), (0, 0.5), (1, 0.0)]);
        assert_eq!(places(corners, 5, 1), [(0, 0.0)]);
        assert_eq!(places(corners, 1, 2), [(0, 0.0); 2]);
        let areas = UpsampleFn::Bilinear2d { align_corners: false };
        assert_eq!(places(areas, 2, 4), [(0, 0.0), (0, 0.25), (0, 0.75), (1, 0.0)]);
        assert_eq!(places(areas, 4, 2), [(0, 0.5), (2, 0.5)]);
    }

    #[test]
    fn sizes_are_checked() {
        let shape = |op: Upsample<f32>, dims: &[usize]| {
            let x = Layout::contiguous(dims)?;
            op.infer(&args::upsample::Shapes { x: &x, y: Written }).map(|[shape]| shape.dims().to_vec())
        };
        assert_eq!(shape(Upsample::nearest1d(7), &[2, 3, 5]).unwrap(), [2, 3, 7]);
        assert_eq!(shape(Upsample::nearest2d([0, 4]), &[2, 0, 5]).unwrap(), [2, 0, 4]);
        assert!(matches!(shape(Upsample::nearest2d([1, 4]), &[2, 0, 5]), Err(Error::Shape { .. })));
        assert!(matches!(shape(Upsample::bilinear2d([1, 4], true), &[5]), Err(Error::Shape { .. })));
        assert!(shape(Upsample::nearest2d([usize::MAX; 2]), &[1, 1]).is_err());
        // The largest possible tensor.
        let most = isize::MAX as usize;
        for f in [UpsampleFn::Nearest1d, UpsampleFn::Bilinear2d { align_corners: false }] {
            assert!(f.source(most, most).at(most - 1).0 < most);
        }
    }
}
