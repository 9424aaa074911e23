//! Pooling over windows of planes.
use super::declare::{family, methods, ops};
use super::options::{OptionField, Options, Refused, per_axis};
use crate::option::OptionValue;
use crate::{Backend, DType, Error, Execute, Float, Layout, Op, Operands, Result, Shape, Tolerance};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// The windows of a pooling op along the last two axes, rows first.
///
/// ```
/// use rocm_ops::ops::Windows;
///
/// let windows = Windows::of([3, 2]).stride([2, 1]).padding([1, 1]);
/// assert_eq!(windows.count([9, 7]), Some([5, 8]));
/// // By default windows lie next to each other.
/// assert_eq!(Windows::of([2, 2]).count([9, 11]), Some([4, 5]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Windows {
    /// Rows and columns of a window.
    pub kernel: [usize; 2],
    /// Distance between neighbouring windows.
    pub stride: [usize; 2],
    /// Padding before the first and after the last element of an axis; at most half the window.
    pub padding: [usize; 2],
}

impl Windows {
    /// Windows of this size, next to each other and without padding.
    pub const fn of(kernel: [usize; 2]) -> Self {
        Windows { kernel, stride: kernel, padding: [0, 0] }
    }
    /// Sets the distance between windows.
    pub const fn stride(self, stride: [usize; 2]) -> Self {
        Windows { stride, ..self }
    }
    /// Sets the padding on both sides of each axis.
    pub const fn padding(self, padding: [usize; 2]) -> Self {
        Windows { padding, ..self }
    }
    /// The number of windows on a plane of these extents, if a window fits on it.
    pub fn count(&self, extents: [usize; 2]) -> Option<[usize; 2]> {
        let along = |axis: usize| {
            let padded = self.padding[axis].checked_mul(2)?.checked_add(extents[axis])?;
            padded.checked_sub(self.kernel[axis])?.checked_div(self.stride[axis])?.checked_add(1)
        };
        Some([along(0)?, along(1)?])
    }

    fn infer(&self, op: &'static str, x: &Layout) -> Result<Shape> {
        let &[ref leading @ .., h, w] = x.dims() else {
            return Err(Error::shape(op, "x", x, "[.., h, w]"));
        };
        let Windows { kernel, stride, padding } = *self;
        for (param, values) in [("kernel", kernel), ("stride", stride)] {
            if values.contains(&0) {
                return Err(Error::param(op, param, format!("{values:?}"), "1 or more along both axes"));
            }
        }
        if padding.iter().zip(kernel).any(|(p, k)| *p > k / 2) {
            return Err(Error::param(
                op,
                "padding",
                format!("{padding:?}"),
                format!("at most half of {kernel:?}"),
            ));
        }
        let rows_and_columns = self.count([h, w]).ok_or_else(|| {
            Error::shape(
                op,
                "x",
                x,
                format!("[.., h, w] that holds a window of {kernel:?}, including padding {padding:?}"),
            )
        })?;
        let rank = x.rank();
        let mut dims = [0; crate::MAX_RANK];
        dims[..leading.len()].copy_from_slice(leading);
        dims[leading.len()..rank].copy_from_slice(&rows_and_columns);
        Shape::new(&dims[..rank])
    }
}

/// How a pool combines the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PoolFn {
    /// The largest; NaN if any is NaN. Padding is −∞.
    Max,
    /// The sum divided by the number of elements in a whole window. Padding is 0, and counts.
    Avg,
}

impl PoolFn {
    /// All functions.
    pub const ALL: [PoolFn; 2] = [PoolFn::Max, PoolFn::Avg];

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            PoolFn::Max => "max_pool2d",
            PoolFn::Avg => "avg_pool2d",
        }
    }
}

/// The options `kernel`, `stride` and `padding`.
impl OptionField for Windows {
    fn listed(self) -> Option<OptionValue> {
        Some(self.kernel.into())
    }
    fn list_as(self, _: &'static str, list: &mut Vec<(&'static str, OptionValue)>) {
        let Windows { kernel, stride, padding } = self;
        list.extend([("kernel", kernel.into()), ("stride", stride.into()), ("padding", padding.into())]);
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.hash(state);
    }
    fn read<O: Options>(options: &O, _: &'static str) -> core::result::Result<Option<Self>, O::Error> {
        let kernel = per_axis(options, "kernel")?.ok_or(Refused::Missing("kernel"))?;
        let stride = per_axis(options, "stride")?.unwrap_or(kernel);
        let padding = per_axis(options, "padding")?.unwrap_or([0, 0]);
        Ok(Some(Windows::of(kernel).stride(stride).padding(padding)))
    }
}

ops! {
    /// The maximum or the average over each window of the last two axes.
    ///
    /// Operands: `x[.., h, w]`; `y[.., h', w']` with h' = ⌊(h + 2 · padding − kernel) / stride⌋ + 1, likewise w'.
    pub struct Pool2d<T: Float> {
        /// The windows.
        pub windows: Windows,
    }
    variant {
        /// The function.
        pub f: PoolFn
    }
    operands pool2d { x: in T, y: out T }
}
impl<T> Pool2d<T> {
    /// The function over these windows.
    pub fn of(f: PoolFn, windows: Windows) -> Self {
        Pool2d { f, windows, types: PhantomData }
    }
}
impl<T: Float> Op for Pool2d<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn infer(&self, on: &args::pool2d::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([self.windows.infer(self.name(), on.x)?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            PoolFn::Max => Tolerance::Exact,
            PoolFn::Avg => Tolerance::rounded(dtype),
        }
    }
}

family! {
    /// Pooling of `T` over the last two axes.
    pub trait PoolOps<T: Float>: Execute<Pool2d<T>>;
    methods PoolMethods;
}

/// The methods of [`PoolOps`].
pub trait PoolMethods: Backend {
    methods! {
        PoolOps<T: Float>;
        /// The largest element of each window of `x[.., h, w]`; NaN if any is NaN. Padding is −∞.
        example
        /// let x = b.tensor(&[1, 2, 4], &[1.0f32, 2.0, 3.0, -4.0, 5.0, -6.0, -7.0, -8.0])?;
        /// let y = b.max_pool2d(&x, Windows::of([2, 2]))?;
        /// assert_eq!(y.to_vec(&b)?, [5.0, 3.0]);
        fn max_pool2d, max_pool2d_into(x: in T; y: T; windows: Windows) = pool2d(Pool2d::of(PoolFn::Max, windows));

        /// The average of each window of `x[.., h, w]`. Padding is 0, and counts.
        example
        /// let x = b.tensor(&[1, 2, 4], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])?;
        /// let y = b.avg_pool2d(&x, Windows::of([2, 2]))?;
        /// assert_eq!(y.to_vec(&b)?, [3.5, 5.5]);
        fn avg_pool2d, avg_pool2d_into(x: in T; y: T; windows: Windows) = pool2d(Pool2d::of(PoolFn::Avg, windows));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(windows: Windows, dims: &[usize]) -> Result<Vec<usize>> {
        let x = Layout::contiguous(dims)?;
        windows.infer("max_pool2d", &x).map(|shape| shape.dims().to_vec())
    }

    #[test]
    fn incomplete_windows_are_left_out() {
        assert_eq!(shape(Windows::of([3, 2]).stride([1, 2]), &[1, 3, 9, 11]).unwrap(), [1, 3, 7, 5]);
        assert_eq!(shape(Windows::of([2, 3]).padding([0, 1]).stride([1, 2]), &[9, 7]).unwrap(), [8, 4]);
        assert_eq!(shape(Windows::of([1, 1]), &[0, 5, 5]).unwrap(), [0, 5, 5]);
    }

    #[test]
    fn what_has_no_windows_is_an_error_that_says_why() {
        let error = |windows, dims| shape(windows, dims).unwrap_err().to_string();
        assert_eq!(
            error(Windows::of([3, 3]).padding([0, 1]), &[1, 2, 2]),
            "max_pool2d: x has shape [1, 2, 2], expected [.., h, w] that holds a window of [3, 3], including padding [0, 1]"
        );
        assert_eq!(
            error(Windows::of([2, 2]).padding([0, 2]), &[4, 4]),
            "max_pool2d: padding is [0, 2], expected at most half of [2, 2]"
        );
        for windows in [Windows::of([0, 1]), Windows::of([1, 1]).stride([1, 0])] {
            assert!(matches!(shape(windows, &[4, 4]), Err(Error::Param { .. })), "{windows:?}");
        }
        assert!(shape(Windows::of([1, 1]), &[4]).is_err());
        let most = usize::MAX;
        let absurd = [
            Windows::of([most, most]),
            Windows::of([most, 1]).padding([most / 2, 0]),
            Windows::of([1, 1]).stride([most, most]),
        ];
        absurd.into_iter().for_each(|windows| drop(shape(windows, &[3, 3])));
    }
}
