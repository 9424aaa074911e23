//! Picking by index.
use crate::{
    DType, Element, Error, Execute, Index, Mut, Op, Ref, Result, Shape, TensorOf, Tolerance, View, Written,
    operands,
};
use core::marker::PhantomData;

/// `y[.., i, ..] = x[.., ids[i], ..]` along an axis: an embedding lookup for axis 0.
///
/// Operands: `x` of any shape, `ids[n]`; `y` as `x` with `n` along the axis. The largest value of
/// the index type means "no element" and gives zeros; any other index outside is [`Error::Index`],
/// at the latest when the queue is next waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct IndexSelect<T, I> {
    /// Along which axis; negative counts from the end.
    pub axis: isize,
    types: PhantomData<(T, I)>,
}
impl<T, I> IndexSelect<T, I> {
    /// Along this axis.
    pub fn axis(axis: isize) -> Self {
        IndexSelect { axis, types: PhantomData }
    }
}
operands!(IndexSelect<T: Element, I: Index> { x: in T, ids: in I, y: out T });
impl<T: Element, I: Index> Op for IndexSelect<T, I> {
    fn name(&self) -> &'static str {
        "index_select"
    }
    fn infer(&self, on: &IndexSelectShapes<'_>) -> Result<[Shape; 1]> {
        let axis = on.x.shape().axis(self.axis)?;
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(self.name(), "ids", on.ids, "[n]"));
        };
        let mut dims = on.x.dims().to_vec();
        dims[axis] = n;
        Ok([Shape::new(&dims)?])
    }
    fn tolerance(&self, _: &'static str, _: DType) -> Tolerance {
        Tolerance::Exact
    }
}

/// Picking elements of `T` by indices of `I`.
pub trait IndexOps<T: Element, I: Index = u32>: Execute<IndexSelect<T, I>> {
    /// [`IndexSelect`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and what the backend reports.
    fn index_select_into(
        &self,
        x: Ref<'_, Self, T>,
        ids: Ref<'_, Self, I>,
        mut y: Mut<'_, Self, T>,
        op: IndexSelect<T, I>,
    ) -> Result<()> {
        self.run(&op, IndexSelectArgs { x: x.shorten(), ids: ids.shorten(), y: y.reborrow() })
    }
    /// [`IndexSelect`].
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and what the backend reports.
    fn index_select(
        &self,
        x: Ref<'_, Self, T>,
        ids: Ref<'_, Self, I>,
        op: IndexSelect<T, I>,
    ) -> Result<TensorOf<Self, T>> {
        let [shape] = op.infer(&IndexSelectShapes { x: x.layout(), ids: ids.layout(), y: Written })?;
        let mut y = self.empty(shape)?;
        self.index_select_into(x, ids, y.as_mut(), op)?;
        Ok(y)
    }
}
impl<T: Element, I: Index, B: Execute<IndexSelect<T, I>>> IndexOps<T, I> for B {}
