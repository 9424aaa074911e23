//! Selecting elements from two tensors by a condition.
use super::extents;
use crate::{
    AsAny, AsView, AsViewMut, DType, Element, Execute, Op, Operands, Result, Shape, TensorOf, Tolerance,
    View, operands,
};
use core::hash::Hasher;
use core::marker::PhantomData;

/// `y = on_true` where `cond` is non-zero, else `on_false`.
///
/// Operands: `cond` of an index type; `on_true` and `on_false` with the extents of `cond` and any strides; `y` like
/// `on_true`. The methods of [`WhereOps`] broadcast.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Where<T>(PhantomData<T>);
impl<T> Where<T> {
    /// The op; it has no options.
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

/// Selection of elements of `T` by a condition of any index type.
pub trait WhereOps<T: Element>: Execute<Where<T>> {
    /// [`Where`] on three tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let cond = b.tensor(&[2], &[1u8, 0])?;
    /// let (yes, no) = (b.tensor(&[2], &[1, 2])?, b.tensor(&[1], &[-1])?);
    /// let y = b.where_(&cond, &yes, &no)?;
    /// assert_eq!(y.to_vec(&b)?, [1, -1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn where_(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: impl AsView<Self::Space, T>,
        on_false: impl AsView<Self::Space, T>,
    ) -> Result<TensorOf<Self, T>> {
        let shape = on_true.view().shape().broadcast_with(&on_false.view().shape())?;
        let mut y = self.empty(cond.any_view().shape().broadcast_with(&shape)?)?;
        self.where_into(cond, on_true, on_false, &mut y)?;
        Ok(y)
    }
    /// [`where_`](Self::where_) into `y`. The operands are broadcast to the extents of `y`.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let cond = b.tensor(&[2], &[1u8, 0])?;
    /// let (yes, no) = (b.tensor(&[2], &[1, 2])?, b.tensor(&[1], &[-1])?);
    /// let mut y = b.zeros(&[2])?;
    /// b.where_into(&cond, &yes, &no, &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [1, -1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn where_into(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: impl AsView<Self::Space, T>,
        on_false: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()> {
        let mut y = y.view_mut();
        let cond = cond.any_view().broadcast(y.dims())?;
        let (on_true, on_false) = (on_true.view().broadcast(y.dims())?, on_false.view().broadcast(y.dims())?);
        self.run(
            &Where::OP,
            where_::Args {
                cond: cond.shorten(),
                on_true: on_true.shorten(),
                on_false: on_false.shorten(),
                y: y.reborrow(),
            },
        )
    }
}
impl<T: Element, B: Execute<Where<T>>> WhereOps<T> for B {}
