//! Gather and scatter: reading and writing single elements by index.
use super::declare::{family, ops};
use super::{extents, same_type};
use crate::error::About;
use crate::{
    AsAny, AsView, AsViewMut, Backend, DType, Element, Error, Execute, Layout, Num, Op, Operand, Operands,
    Result, Shape, TensorOf, Tolerance,
};

/// Resolves the axis. Checks that `ids` are indices with as many axes as `on`, none longer than in `on`
/// except along the axis.
fn within(
    op: &'static str,
    ids: &Operand<'_>,
    (operand, on): (&'static str, &Layout),
    axis: isize,
) -> Result<usize> {
    let axis = on.shape().axis(axis).about(op, operand)?;
    ids.require(op, DType::is_index, "u8, u32, i32 or i64")?;
    let fits = |(at, (ids, on)): (usize, (&usize, &usize))| at == axis || ids <= on;
    if ids.dims().len() == on.rank() && ids.dims().iter().zip(on.dims()).enumerate().all(fits) {
        return Ok(axis);
    }
    let want = format!("as many axes as {:?}, none longer except axis {axis}", on.dims());
    Err(Error::shape(op, "ids", ids.layout, want))
}

ops! {
    /// `y[i, j, ..] = x[ids[i, j, ..], j, ..]` for axis 0, and likewise for other axes.
    ///
    /// Operands: `x` of any shape; `ids` of an index type, with as many axes as `x`, none longer than in `x` except along the axis;
    /// `y` with the extents of `ids`. Indices follow the rules of [`IndexSelect`](super::IndexSelect).
    #[derive(Eq)]
    pub struct Gather {
        /// The axis that the indices count along; negative counts from the end.
        pub axis: isize [or 0],
    }
    /// Gathers along `axis`.
    fn axis;
    operands gather { x: in any, ids: in any(indices), y: out any }

    /// `dst[ids[i, j, ..], j, ..] = src[i, j, ..]` for axis 0, and likewise for other axes. If several values go
    /// to one element, the last in row-major order wins.
    ///
    /// Operands: `dst`, read and written; `ids` of an index type, with as many axes as `dst`, none longer than in `dst` except along
    /// the axis; `src` with the extents of `ids`. The largest value of the index type means "no element" and is skipped. Any other
    /// index outside the axis is [`Error::Index`].
    #[derive(Eq)]
    pub struct Scatter {
        /// The axis that the indices count along; negative counts from the end.
        pub axis: isize [or 0],
    }
    /// Scatters along `axis`.
    fn axis;
    operands scatter { dst: inout any, ids: in any(indices), src: in any }

    /// `dst[ids[i, j, ..], j, ..] += src[i, j, ..]` for axis 0, and likewise for other axes. Floats accumulate in
    /// f32 or wider, and each sum of 16-bit floats is rounded once. Integers wrap. Results do not depend on the
    /// number of threads.
    ///
    /// Operands: as for [`Scatter`].
    pub struct ScatterAdd<T: Num> {
        /// The axis that the indices count along; negative counts from the end.
        pub axis: isize [or 0],
    }
    /// Adds along `axis`.
    fn axis;
    operands scatter_add { dst: inout T, ids: in any(indices), src: in T }

    /// `dst[.., ids[i], ..] += src[.., i, ..]` along an axis. Sums follow the rules of [`ScatterAdd`].
    ///
    /// Operands: `dst`, read and written; `ids[n]` of an index type; `src` like `dst`, with extent `n` along the axis. Indices follow
    /// the rules of [`Scatter`].
    pub struct IndexAdd<T: Num> {
        /// The axis that the indices count along; negative counts from the end.
        pub axis: isize [or 0],
    }
    /// Adds along `axis`.
    fn axis;
    operands index_add { dst: inout T, ids: in any(indices), src: in T }
}
impl Op for Gather {
    fn infer(&self, on: &args::gather::Shapes<'_>) -> Result<[Shape; 1]> {
        same_type(self.name(), "y", on.y, on.x)?;
        within(self.name(), &on.ids, ("x", on.x.layout), self.axis)?;
        Ok([on.ids.layout.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl Op for Scatter {
    fn infer(&self, on: &args::scatter::Shapes<'_>) -> Result<[Shape; 0]> {
        same_type(self.name(), "src", on.src.dtype, on.dst)?;
        within(self.name(), &on.ids, ("dst", on.dst.layout), self.axis)?;
        extents(self.name(), "src", on.src.layout, on.ids.dims())?;
        Ok([])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

impl<T: Num> Op for ScatterAdd<T> {
    fn infer(&self, on: &args::scatter_add::Shapes<'_>) -> Result<[Shape; 0]> {
        within(self.name(), &on.ids, ("dst", on.dst), self.axis)?;
        extents(self.name(), "src", on.src, on.ids.dims())?;
        Ok([])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

impl<T: Num> Op for IndexAdd<T> {
    fn infer(&self, on: &args::index_add::Shapes<'_>) -> Result<[Shape; 0]> {
        let axis = on.dst.shape().axis(self.axis).about(self.name(), "dst")?;
        on.ids.require(self.name(), DType::is_index, "u8, u32, i32 or i64")?;
        let &[n] = on.ids.dims() else {
            return Err(Error::shape(self.name(), "ids", on.ids.layout, "[n]"));
        };
        let mut dims = on.dst.dims().to_vec();
        dims[axis] = n;
        extents(self.name(), "src", on.src, &dims)?;
        Ok([])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

family! {
    /// Reading and writing single elements at indices of any index type.
    pub trait GatherOps: Execute<Gather>, Execute<Scatter>;
    methods GatherMethods;
}

/// The methods of [`GatherOps`].
pub trait GatherMethods: Backend {
    /// [`Gather`]: `y[i, j, ..] = x[ids[i, j, ..], j, ..]` for axis 0.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[2, 2], &[1, 2, 3, 4])?;
    /// let ids = b.tensor(&[1, 2], &[1u32, 0])?;
    /// assert_eq!(b.gather(&x, &ids, 0)?.to_vec(&b)?, [3, 2]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn gather<T: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        op: impl Into<Gather>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: GatherOps,
    {
        let op = op.into();
        let (x, ids) = (x.view(), ids.any_view());
        let source = x.any();
        let on =
            args::gather::Shapes { x: source.operand("x"), ids: ids.operand("ids"), y: DType::of::<T>() };
        let [shape] = op.infer(&on)?;
        let mut y = self.empty(shape)?;
        self.gather_into(x, ids, &mut y, op)?;
        Ok(y)
    }
    /// [`gather`](Self::gather) into `y`.
    ///
    /// # Errors
    /// As [`gather`](Self::gather), and for an output of another shape.
    fn gather_into<T: Element>(
        &self,
        x: impl AsView<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: impl Into<Gather>,
    ) -> Result<()>
    where
        Self: GatherOps,
    {
        let op = op.into();
        self.run(&op, args::gather::Args { x: x.view().any(), ids: ids.any_view(), y: y.view_mut().any() })
    }
    /// [`Scatter`] in place: `dst[ids[i, j, ..], j, ..] = src[i, j, ..]` for axis 0.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut dst = b.tensor(&[3], &[1, 2, 3])?;
    /// let (ids, src) = (b.tensor(&[3], &[2u32, 0, 2])?, b.tensor(&[3], &[7, 8, 9])?);
    /// b.scatter(&mut dst, &ids, &src, 0)?;
    /// assert_eq!(dst.to_vec(&b)?, [8, 2, 9]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn scatter<T: Element>(
        &self,
        mut dst: impl AsViewMut<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        src: impl AsView<Self::Space, T>,
        op: impl Into<Scatter>,
    ) -> Result<()>
    where
        Self: GatherOps,
    {
        let op = op.into();
        let (mut dst, src) = (dst.view_mut(), src.view());
        self.run(&op, args::scatter::Args { dst: dst.reborrow().any(), ids: ids.any_view(), src: src.any() })
    }
}

family! {
    /// Adding to elements at indices of any index type.
    pub trait ScatterAddOps<T: Num>: Execute<ScatterAdd<T>>, Execute<IndexAdd<T>>;
    methods ScatterAddMethods;
}

/// The methods of [`ScatterAddOps`].
pub trait ScatterAddMethods: Backend {
    /// [`ScatterAdd`] in place: `dst[ids[i, j, ..], j, ..] += src[i, j, ..]` for axis 0.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut dst = b.tensor(&[3], &[1.0f32, 2.0, 3.0])?;
    /// let (ids, src) = (b.tensor(&[3], &[2u32, 0, 2])?, b.tensor(&[3], &[7.0, 8.0, 9.0])?);
    /// b.scatter_add(&mut dst, &ids, &src, 0)?;
    /// assert_eq!(dst.to_vec(&b)?, [9.0, 2.0, 19.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn scatter_add<T: Num>(
        &self,
        mut dst: impl AsViewMut<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        src: impl AsView<Self::Space, T>,
        op: impl Into<ScatterAdd<T>>,
    ) -> Result<()>
    where
        Self: ScatterAddOps<T>,
    {
        let op = op.into();
        self.run(&op, args::scatter_add::Args { dst: dst.view_mut(), ids: ids.any_view(), src: src.view() })
    }
    /// [`IndexAdd`] in place: adds slices of `src` to the slices of `dst` that `ids` selects along an axis.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Axis`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut dst = b.tensor(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let (ids, src) = (b.tensor(&[1], &[1u32])?, b.tensor(&[1, 2], &[10.0, 20.0])?);
    /// b.index_add(&mut dst, &ids, &src, 0)?;
    /// assert_eq!(dst.to_vec(&b)?, [1.0, 2.0, 13.0, 24.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn index_add<T: Num>(
        &self,
        mut dst: impl AsViewMut<Self::Space, T>,
        ids: impl AsAny<Self::Space>,
        src: impl AsView<Self::Space, T>,
        op: impl Into<IndexAdd<T>>,
    ) -> Result<()>
    where
        Self: ScatterAddOps<T>,
    {
        let op = op.into();
        self.run(&op, args::index_add::Args { dst: dst.view_mut(), ids: ids.any_view(), src: src.view() })
    }
}
