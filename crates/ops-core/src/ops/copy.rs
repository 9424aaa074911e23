//! Copying and filling.
use super::declare::family;
use super::options::{OptionField, Options, no_options};
use super::same_type;
use crate::option::OptionValue;
use crate::{
    AsView, AsViewMut, Backend, DType, Element, Execute, Op, Operands, Result, Scalar, Shape, TensorOf,
    Tolerance, Wide, operands,
};
use core::hash::{Hash, Hasher};

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
    /// Copies a view into a new contiguous tensor: [`TensorCopy`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, View, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 2], &[1, 2, 3, 4])?;
    /// let y = b.contiguous(x.as_ref().transpose(0, 1)?)?;
    /// assert_eq!(y.to_vec(&b)?, [1, 3, 2, 4]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn contiguous<T: Element>(&self, x: impl AsView<Self::Space, T>) -> Result<TensorOf<Self, T>>
    where
        Self: CopyOps,
    {
        let mut y = self.empty(x.view().shape())?;
        self.copy_into(x, &mut y)?;
        Ok(y)
    }
    /// Copies `x` into `y`, which has the same extents: [`TensorCopy`].
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous), and for an output of another shape.
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
}

/// The methods of [`FillOps`].
pub trait FillMethods: Backend {
    /// Sets every element of `y` to `value`: [`Fill`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let mut y = b.zeros(&[2])?;
    /// b.fill(&mut y, 7)?;
    /// assert_eq!(y.to_vec(&b)?, [7, 7]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn fill<T: Element>(&self, mut y: impl AsViewMut<Self::Space, T>, value: T) -> Result<()>
    where
        Self: FillOps<T>,
    {
        self.run(&Fill::new(value), args::fill::Args { y: y.view_mut() })
    }
}
