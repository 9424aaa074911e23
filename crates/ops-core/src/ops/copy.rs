//! Copying and filling.
use super::declare::family;
use super::options::{OptionField, Options, no_options};
use super::same_type;
use crate::option::OptionValue;
use crate::{
    AnyOf, AsAny, AsView, AsViewMut, Backend, DType, Element, Execute, IntoShape, Op, Operands, Result,
    Scalar, Shape, TensorOf, Tolerance, Wide, operands,
};
use core::hash::{Hash, Hasher};

pub(super) mod arange;
mod cat;

pub use arange::*;

pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod copy: TensorCopy { x: in any, y: out any });
    operands!(pub mod fill: Fill<T: Element> { y: inout T });
}

/// Copies `x` to `y`. Both may have any strides.
///
/// Operands: `x` of any shape and element type, block formats included; `y` like `x`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCopy;
no_options!(TensorCopy);
impl Op for TensorCopy {
    fn name(&self) -> &'static str {
        "copy"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::copy::Shapes<'_>) -> Result<[Shape; 1]> {
        same_type(self.name(), "y", on.y, on.x)?;
        Ok([on.x.layout.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Sets every element of `y` to one value.
///
/// Operands: `y`, which is only written and keeps its shape.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fill<T> {
    /// The value to write.
    pub value: T,
}
impl<T> Fill<T> {
    /// Fills with `value`.
    pub fn new(value: T) -> Self {
        Fill { value }
    }
}
impl Fill<()> {
    pub(super) fn read<O: Options>(options: &O, _: ()) -> core::result::Result<Fill<Wide>, O::Error> {
        Ok(Fill::new(Wide::needed(options, "value")?))
    }
}
impl Fill<Wide> {
    pub(super) fn typed<T: Scalar>(self) -> Fill<T> {
        Fill::new(T::from_wide(self.value))
    }
}
impl<T: Element> Op for Fill<T> {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        let value = T::DTYPE.number(bytemuck::bytes_of(&self.value));
        value.map(|value| ("value", OptionValue::Value(value))).into_iter().collect()
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        bytemuck::bytes_of(&self.value).hash(state);
    }
    fn infer(&self, _: &args::fill::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Copying tensors of any element type.
    pub trait CopyOps: Execute<TensorCopy>;
    methods CopyMethods;
}
family! {
    /// Filling tensors of `T`.
    pub trait FillOps<T: Element>: Execute<Fill<T>>;
    methods FillMethods;
}

/// The methods of [`CopyOps`].
pub trait CopyMethods: Backend {
    /// Copies a tensor or a view into a new contiguous tensor: [`TensorCopy`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor([2, 2], &[1, 2, 3, 4])?;
    /// let y = b.copy_of(x.transpose(0, 1)?)?;
    /// assert_eq!(y.to_vec(&b)?, [1, 3, 2, 4]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn copy_of<T: Element>(&self, x: impl AsView<Self::Space, T>) -> Result<TensorOf<Self, T>>
    where
        Self: CopyOps,
    {
        let mut y = self.empty(x.view().shape())?;
        self.copy_into(x, &mut y)?;
        Ok(y)
    }
    /// [`copy_of`](Self::copy_of) for elements whose type is known only at run time, blocks included.
    ///
    /// # Errors
    /// As [`copy_of`](Self::copy_of); [`Error::Unsupported`](crate::Error::Unsupported) for packed elements.
    ///
    /// ```
    /// # use rocm_ops::{AnyTensor, Backend, DType, ops::*};
    /// # let b = rocm_ops::Cpu::new();
    /// let x = b.any_tensor(DType::U8, [2, 2], &[1, 2, 3, 4])?;
    /// let y: AnyTensor<_> = b.copy_of_any(x.narrow(1, 1, 1)?)?;
    /// assert_eq!((y.dims(), y.to_vec(&b)?), (&[2, 1][..], vec![2, 4]));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn copy_of_any(&self, x: impl AsAny<Self::Space>) -> Result<AnyOf<Self>>
    where
        Self: CopyOps,
    {
        let x = x.any_view();
        let mut y = self.empty_any(x.dtype(), x.shape())?;
        // A tensor that was just made is not packed.
        if let Some(y) = y.as_mut() {
            self.run(&TensorCopy, args::copy::Args { x: x.shorten(), y })?;
        }
        Ok(y)
    }
    /// Copies `x` into `y`, which has the same extents: [`TensorCopy`].
    ///
    /// # Errors
    /// As [`copy_of`](Self::copy_of), and for an output of another shape.
    fn copy_into<T: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()>
    where
        Self: CopyOps,
    {
        self.run(&TensorCopy, args::copy::Args { x: x.view().any(), y: y.view_mut().any() })
    }
    /// Tensors one after another along `axis`: `y` has the extents of each, and along `axis` the sum of their extents.
    ///
    /// The tensors may have any strides, and no elements. Each is copied by [`TensorCopy`].
    ///
    /// # Errors
    /// No tensors; tensors whose extents differ in another axis, the first of which is named; an axis that does not exist; and any error
    /// that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (x, z) = (b.tensor(&[2, 1], &[1, 2])?, b.tensor(&[2, 2], &[3, 4, 5, 6])?);
    /// assert_eq!(b.cat(&[&x, &z, &x], 1)?.to_vec(&b)?, [1, 3, 4, 1, 2, 5, 6, 2]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn cat<T: Element>(
        &self,
        tensors: &[impl AsView<Self::Space, T>],
        axis: isize,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: CopyOps,
    {
        let views: Vec<_> = tensors.iter().map(AsView::view).collect();
        cat::joined(self, "cat", &views, axis)
    }
    /// [`cat`](Self::cat) into `y`.
    ///
    /// # Errors
    /// As [`cat`](Self::cat), and for an output of another shape.
    fn cat_into<T: Element>(
        &self,
        tensors: &[impl AsView<Self::Space, T>],
        mut y: impl AsViewMut<Self::Space, T>,
        axis: isize,
    ) -> Result<()>
    where
        Self: CopyOps,
    {
        let views: Vec<_> = tensors.iter().map(AsView::view).collect();
        cat::joined_into(self, "cat", &views, y.view_mut(), axis)
    }
    /// Tensors of equal extents side by side along a new axis, which comes before `axis` of each: `y[.., i, ..]` is tensor `i`.
    ///
    /// # Errors
    /// As [`cat`](Self::cat); all extents must be equal. A result of more than [`MAX_RANK`](crate::MAX_RANK) axes.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (x, z) = (b.tensor(&[2], &[1, 2])?, b.tensor(&[2], &[3, 4])?);
    /// assert_eq!(b.stack(&[&x, &z], 0)?.to_vec(&b)?, [1, 2, 3, 4]);
    /// assert_eq!(b.stack(&[&x, &z], 1)?.to_vec(&b)?, [1, 3, 2, 4]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn stack<T: Element>(
        &self,
        tensors: &[impl AsView<Self::Space, T>],
        axis: isize,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: CopyOps,
    {
        cat::joined(self, "stack", &cat::unsqueezed(tensors, axis)?, axis)
    }
    /// [`stack`](Self::stack) into `y`.
    ///
    /// # Errors
    /// As [`stack`](Self::stack), and for an output of another shape.
    fn stack_into<T: Element>(
        &self,
        tensors: &[impl AsView<Self::Space, T>],
        mut y: impl AsViewMut<Self::Space, T>,
        axis: isize,
    ) -> Result<()>
    where
        Self: CopyOps,
    {
        cat::joined_into(self, "stack", &cat::unsqueezed(tensors, axis)?, y.view_mut(), axis)
    }
}

/// The methods of [`FillOps`].
pub trait FillMethods: Backend {
    /// Sets every element of `y` to `value`: [`Fill`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut y = b.zeros(&[2])?;
    /// b.fill(&mut y, 7)?;
    /// assert_eq!(y.to_vec(&b)?, [7, 7]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn fill<T: Element>(&self, mut y: impl AsViewMut<Self::Space, T>, value: T) -> Result<()>
    where
        Self: FillOps<T>,
    {
        self.run(&Fill::new(value), args::fill::Args { y: y.view_mut() })
    }
    /// Makes a tensor of this shape, every element of which is `value`: [`Fill`].
    ///
    /// # Errors
    /// As [`Backend::empty`]; any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// assert_eq!(b.full([2, 2], 0.5f32)?.to_vec(&b)?, [0.5; 4]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn full<T: Element>(&self, shape: impl IntoShape, value: T) -> Result<TensorOf<Self, T>>
    where
        Self: FillOps<T>,
    {
        let mut y = self.empty(shape)?;
        self.fill(&mut y, value)?;
        Ok(y)
    }
    /// Makes a tensor of ones: [`full`](Self::full).
    ///
    /// # Errors
    /// As [`full`](Self::full).
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// assert_eq!(b.ones::<bf16>(3)?.to_vec(&b)?, [bf16::ONE; 3]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn ones<T: Scalar>(&self, shape: impl IntoShape) -> Result<TensorOf<Self, T>>
    where
        Self: FillOps<T>,
    {
        self.full(shape, T::from_wide(Wide::Int(1)))
    }
}
