//! Selecting elements from two tensors by a condition.
use super::declare::family;
use super::options::no_options;
use super::{extents, same_type};
use crate::error::About;
use crate::{
    AsAny, AsView, AsViewMut, Backend, DType, Element, Execute, Op, Operands, Result, Shape, TensorOf,
    Tolerance, operands,
};
use core::hash::Hasher;

/// `y = on_true` where `cond` is non-zero, otherwise `on_false`.
///
/// Operands: `cond` of an index type; `on_true` and `on_false` with the extents of `cond` and any strides; `y` like
/// `on_true`. The methods of [`WhereOps`] broadcast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where;
pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod where_: Where { cond: in any, on_true: in any, on_false: in any, y: out any });
}
no_options!(Where);
impl Op for Where {
    fn name(&self) -> &'static str {
        "where"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::where_::Shapes<'_>) -> Result<[Shape; 1]> {
        on.cond.require(self.name(), DType::is_index, "u8, u32, i32 or i64")?;
        same_type(self.name(), "on_false", on.on_false.dtype, on.on_true)?;
        same_type(self.name(), "y", on.y, on.on_true)?;
        extents(self.name(), "on_true", on.on_true.layout, on.cond.dims())?;
        extents(self.name(), "on_false", on.on_false.layout, on.cond.dims())?;
        Ok([on.cond.layout.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Selection of elements of `T` by a condition of any index type.
    pub trait WhereOps: Execute<Where>;
    methods WhereMethods;
}

/// The methods of [`WhereOps`].
pub trait WhereMethods: Backend {
    /// [`Where`] on three tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let cond = b.tensor(&[2], &[1u8, 0])?;
    /// let (yes, no) = (b.tensor(&[2], &[1, 2])?, b.tensor(&[1], &[-1])?);
    /// let y = b.where_(&cond, &yes, &no)?;
    /// assert_eq!(y.to_vec(&b)?, [1, -1]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn where_<T: Element>(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: impl AsView<Self::Space, T>,
        on_false: impl AsView<Self::Space, T>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: WhereOps,
    {
        let (yes, no) = (on_true.view().shape(), on_false.view().shape());
        let shape = yes.broadcast_with(&no).about("where", "on_true and on_false")?;
        let mut y = self.empty(cond.any_view().shape().broadcast_with(&shape).about("where", "cond")?)?;
        self.where_into(cond, on_true, on_false, &mut y)?;
        Ok(y)
    }
    /// [`where_`](Self::where_) into `y`. The operands are broadcast to the extents of `y`.
    ///
    /// # Errors
    /// As [`where_`](Self::where_), and for an output of another shape.
    fn where_into<T: Element>(
        &self,
        cond: impl AsAny<Self::Space>,
        on_true: impl AsView<Self::Space, T>,
        on_false: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()>
    where
        Self: WhereOps,
    {
        let mut y = y.view_mut();
        let cond = cond.any_view().broadcast(y.dims()).about("where", "cond")?;
        let on_true = on_true.view().broadcast(y.dims()).about("where", "on_true")?;
        let on_false = on_false.view().broadcast(y.dims()).about("where", "on_false")?;
        self.run(
            &Where,
            args::where_::Args {
                cond: cond.shorten(),
                on_true: on_true.shorten().any(),
                on_false: on_false.shorten().any(),
                y: y.reborrow().any(),
            },
        )
    }
}
