//! Choosing between two tensors.
use super::extents;
use crate::{
    AsAny, DType, Element, Execute, Mut, Op, Operands, Ref, Result, Shape, TensorOf, Tolerance, View,
    operands,
};
use core::hash::Hasher;
use core::marker::PhantomData;

/// `y = on_true` where `cond` is not zero, else `on_false`.
///
/// Operands: `cond` of an index type, `on_true` and `on_false` of equal extents and independent layouts (the methods
/// of [`WhereOps`] broadcast); `y` as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Where<T>(PhantomData<T>);
impl<T> Where<T> {
    /// The op: it has no options.
    pub const OP: Self = Where(PhantomData);
}
operands!(pub mod where_: Where<T: Element> { cond: in any, on_true: in T, on_false: in T, y: out T });
impl<T: Element> Op for Where<T> {
    fn name(&self) -> &'static str {
        "where"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &where_::Shapes<'_>) -> Result<[Shape; 1]> {
        on.cond.require(self.name(), DType::is_index, "u8, u32, i32 or i64")?;
        extents(self.name(), "on_true", on.on_true, on.cond.dims())?;
        extents(self.name(), "on_false", on.on_false, on.cond.dims())?;
        Ok([on.cond.layout.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Choosing elements of `T` by conditions of any index type.
pub trait WhereOps<T: Element>: Execute<Where<T>> {
    /// [`Where`] into `y`, whose extents the operands are broadcast to.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and what the backend reports.
    fn where_into(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: Ref<'_, Self, T>,
        on_false: Ref<'_, Self, T>,
        mut y: Mut<'_, Self, T>,
    ) -> Result<()> {
        let cond = cond.any_view().broadcast(y.dims())?;
        let (on_true, on_false) =
            (on_true.broadcast(y.dims())?.shorten(), on_false.broadcast(y.dims())?.shorten());
        self.run(&Where::OP, where_::Args { cond, on_true, on_false, y: y.reborrow() })
    }
    /// [`Where`] of three tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and what the backend reports.
    fn where_(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: Ref<'_, Self, T>,
        on_false: Ref<'_, Self, T>,
    ) -> Result<TensorOf<Self, T>> {
        let shape =
            cond.any_view().shape().broadcast_with(&on_true.shape())?.broadcast_with(&on_false.shape())?;
        let mut y = self.empty(shape)?;
        self.where_into(cond, on_true, on_false, y.as_mut())?;
        Ok(y)
    }
}
impl<T: Element, B: Execute<Where<T>>> WhereOps<T> for B {}
