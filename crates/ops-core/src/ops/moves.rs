//! Moving and setting elements.
use crate::{
    DType, Element, Execute, Mut, Op, Operands, Ref, Result, Shape, TensorOf, Tolerance, View, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y = x`, from any strides to any strides.
///
/// Operands: `x` of any shape and element type, blocks included; `y` as `x`.
#[derive(Clone, core::marker::Copy, Debug, PartialEq)]
pub struct Copy<T>(PhantomData<T>);
impl<T> Copy<T> {
    /// The op: it has no options.
    pub const OP: Self = Copy(PhantomData);
}
operands!(pub mod copy: Copy<T: Element> { x: in T, y: out T });
impl<T: Element> Op for Copy<T> {
    fn name(&self) -> &'static str {
        "copy"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &copy::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Sets every element of `y` to one value.
///
/// Operands: `y`, which keeps its shape and is only written.
#[derive(Clone, core::marker::Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Fill<T> {
    /// The value.
    pub value: T,
}
impl<T> Fill<T> {
    /// With this value.
    pub fn new(value: T) -> Self {
        Fill { value }
    }
}
operands!(pub mod fill: Fill<T: Element> { y: inout T });
impl<T: Element> Op for Fill<T> {
    fn name(&self) -> &'static str {
        "fill"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        bytemuck::bytes_of(&self.value).hash(state);
    }
    fn infer(&self, _: &fill::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Moving and setting elements of any type.
pub trait CopyOps<T: Element>: Execute<Copy<T>> + Execute<Fill<T>> {
    /// [`Copy`](struct@Copy) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn copy_into(&self, x: Ref<'_, Self, T>, mut y: Mut<'_, Self, T>) -> Result<()> {
        self.run(&Copy::OP, copy::Args { x: x.shorten(), y: y.reborrow() })
    }
    /// A contiguous copy of a view.
    ///
    /// # Errors
    /// What the backend reports.
    fn contiguous(&self, x: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.copy_into(x, y.as_mut())?;
        Ok(y)
    }
    /// [`Fill`].
    ///
    /// # Errors
    /// What the backend reports.
    fn fill(&self, mut y: Mut<'_, Self, T>, value: T) -> Result<()> {
        self.run(&Fill::new(value), fill::Args { y: y.reborrow() })
    }
}
impl<T: Element, B: Execute<Copy<T>> + Execute<Fill<T>>> CopyOps<T> for B {}
