//! Picking by index.
use crate::{
    AsAny, DType, Element, Error, Execute, Mut, Op, Ref, Result, Shape, TensorOf, Tolerance, View, Written,
    operands,
};
use core::marker::PhantomData;

/// `y[.., i, ..] = x[.., ids[i], ..]` along an axis: an embedding lookup for axis 0.
///
/// Operands: `x` of any shape, `ids[n]` of an index type; `y` as `x` with `n` along the axis. The largest value of
/// the index type means "no element" and gives zeros; any other index outside is [`Error::Index`],
/// at the latest when the queue is next waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexSelect<T> {
    /// Along which axis; negative counts from the end.
    pub axis: isize,
    types: PhantomData<T>,
}
impl<T> IndexSelect<T> {
    /// Along this axis.
    pub fn axis(axis: isize) -> Self {
        IndexSelect { axis, types: PhantomData }
    }
}
operands!(IndexSelect<T: Element> { x: in T, ids: in any, y: out T });
impl<T: Element> Op for IndexSelect<T> {
    fn name(&self) -> &'static str {
        "index_select"
    }
    fn infer(&self, on: &IndexSelectShapes<'_>) -> Result<[Shape; 1]> {
        let axis = on.x.shape().axis(self.axis)?;
        on.ids.require(self.name(), DType::is_index, "u8, u32, i32 or i64")?;
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(self.name(), "ids", on.ids.layout, "[n]"));
        };
        let mut dims = on.x.dims().to_vec();
        dims[axis] = n;
        Ok([Shape::new(&dims)?])
    }
    fn tolerance(&self, _: &'static str, _: DType) -> Tolerance {
        Tolerance::Exact
    }
}

/// Picking elements of `T` by indices of any index type.
pub trait IndexOps<T: Element>: Execute<IndexSelect<T>> {
    /// [`IndexSelect`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and what the backend reports.
    fn index_select_into(
        &self,
        x: Ref<'_, Self, T>,
        ids: impl AsAny<Self::Space>,
        mut y: Mut<'_, Self, T>,
        op: IndexSelect<T>,
    ) -> Result<()> {
        self.run(&op, IndexSelectArgs { x: x.shorten(), ids: ids.any_view(), y: y.reborrow() })
    }
    /// [`IndexSelect`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and what the backend reports.
    fn index_select(
        &self,
        x: Ref<'_, Self, T>,
        ids: impl AsAny<Self::Space>,
        op: IndexSelect<T>,
    ) -> Result<TensorOf<Self, T>> {
        let ids = ids.any_view();
        let [shape] = op.infer(&IndexSelectShapes { x: x.layout(), ids: ids.operand("ids"), y: Written })?;
        let mut y = self.empty(shape)?;
        self.index_select_into(x, ids, y.as_mut(), op)?;
        Ok(y)
    }
}
impl<T: Element, B: Execute<IndexSelect<T>>> IndexOps<T> for B {}
