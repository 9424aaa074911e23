//! Sorting along an axis, and the largest elements of rows.
use super::registry::OptionValue;
use crate::error::About;
use crate::{
    AsView, AsViewMut, DType, Error, Execute, Layout, Num, Op, Operands, Result, Shape, TensorOf, Tolerance,
    Written, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

pub(super) mod args {
    use super::*;
    operands!(pub mod sort: Sort<T: Num> { x: in T, y: out T });
    operands!(pub mod argsort: ArgSort<T: Num> { x: in T, y: out u32 });
    operands!(pub mod topk: TopK<T: Num> { x: in T, values: out T, indices: out u32 });
}

/// Sorts along an axis. The sort is stable. NaN is the largest: last in ascending and first in descending order.
///
/// Operands: `x` of any shape, with at most 2³² elements along the axis; `y` like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sort<T> {
    /// The axis to sort along; negative counts from the end.
    pub axis: isize,
    /// Whether the largest element comes first.
    pub descending: bool,
    types: PhantomData<T>,
}
impl<T> Sort<T> {
    /// Ascending order along `axis`; `-1` is the last axis.
    pub fn axis(axis: isize) -> Self {
        Sort { axis, descending: false, types: PhantomData }
    }
    /// Puts the largest element first.
    pub fn descending(self) -> Self {
        Sort { descending: true, ..self }
    }
}
impl<T: Num> Op for Sort<T> {
    fn name(&self) -> &'static str {
        "sort"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("axis", self.axis.into()), ("descending", self.descending.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Sort { axis, descending, types: _ } = self;
        (axis, descending).hash(state);
    }
    fn infer(&self, on: &args::sort::Shapes<'_>) -> Result<[Shape; 1]> {
        indexable("sort", on.x, self.axis)?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// The indices along an axis that [`Sort`] the elements.
///
/// Operands: `x` of any shape, with at most 2³² elements along the axis; `y` of u32, like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ArgSort<T> {
    /// The axis to sort along; negative counts from the end.
    pub axis: isize,
    /// Whether the largest element comes first.
    pub descending: bool,
    types: PhantomData<T>,
}
impl<T> ArgSort<T> {
    /// Ascending order along `axis`; `-1` is the last axis.
    pub fn axis(axis: isize) -> Self {
        ArgSort { axis, descending: false, types: PhantomData }
    }
    /// Puts the largest element first.
    pub fn descending(self) -> Self {
        ArgSort { descending: true, ..self }
    }
}
impl<T: Num> Op for ArgSort<T> {
    fn name(&self) -> &'static str {
        "argsort"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("axis", self.axis.into()), ("descending", self.descending.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let ArgSort { axis, descending, types: _ } = self;
        (axis, descending).hash(state);
    }
    fn infer(&self, on: &args::argsort::Shapes<'_>) -> Result<[Shape; 1]> {
        indexable("argsort", on.x, self.axis)?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// The `k` largest elements of each row and their indices, in descending order. NaN is the largest; among equal elements the
/// lower index comes first.
///
/// Operands: `x[.., n]`, with `n` at most 2³²; `values[.., k]`; `indices[.., k]` of u32.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopK<T> {
    /// The number of elements; at most `n`.
    pub k: usize,
    types: PhantomData<T>,
}
impl<T> TopK<T> {
    /// The `k` largest elements.
    pub fn of(k: usize) -> Self {
        TopK { k, types: PhantomData }
    }
}
impl<T: Num> Op for TopK<T> {
    fn name(&self) -> &'static str {
        "topk"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("k", self.k.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let TopK { k, types: _ } = self;
        k.hash(state);
    }
    fn infer(&self, on: &args::topk::Shapes<'_>) -> Result<[Shape; 2]> {
        let n = indexable("topk", on.x, -1)?;
        if self.k > n {
            return Err(Error::param(
                "topk",
                "k",
                self.k,
                format!("at most {n}, the extent of the last axis of x"),
            ));
        }
        let shape = on.x.shape().with_last(self.k).about(self.name(), "x")?;
        Ok([shape, shape])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// The extent of an axis, if its indices are u32.
fn indexable(op: &'static str, x: &Layout, axis: isize) -> Result<usize> {
    let n = x.dims()[x.shape().axis(axis).about(op, "x")?];
    match u64::try_from(n) {
        Ok(elements) if elements <= 1 << 32 => Ok(n),
        _ => Err(Error::shape(op, "x", x, "at most 2^32 elements along the axis, since indices are u32")),
    }
}

/// Values and indices, as [`TopK`] gives them.
pub type ValuesAndIndices<B, T> = (TensorOf<B, T>, TensorOf<B, u32>);

/// Sorting of `T`.
pub trait SortOps<T: Num>: Execute<Sort<T>> + Execute<ArgSort<T>> + Execute<TopK<T>> {
    /// [`Sort`] of `x`: `y[i] = x[order[i]]` along the axis. `x` of any shape; `y` like `x`.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[4], &[2.0f32, f32::NEG_INFINITY, 3.0, -1.0])?;
    /// let y = b.sort(&x, Sort::axis(-1).descending())?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 2.0, -1.0, f32::NEG_INFINITY]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn sort(&self, x: impl AsView<Self::Space, T>, op: Sort<T>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.sort_into(x, &mut y, op)?;
        Ok(y)
    }
    /// [`sort`](Self::sort) into `y`.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 2], &[4, 1, 3, 2])?;
    /// let mut y = b.zeros(&[2, 2])?;
    /// b.sort_into(&x, &mut y, Sort::axis(0))?;
    /// assert_eq!(y.to_vec(&b)?, [3, 1, 4, 2]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn sort_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: Sort<T>,
    ) -> Result<()> {
        self.run(&op, args::sort::Args { x: x.view(), y: y.view_mut() })
    }
    /// [`ArgSort`] of `x`: the `order` by which [`sort`](Self::sort) sorts. `x` of any shape; `y` of u32, like `x`.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[5], &[2.0f32, f32::NAN, 2.0, -1.0, 0.0])?;
    /// assert_eq!(b.argsort(&x, ArgSort::axis(-1))?.to_vec(&b)?, [3, 4, 0, 2, 1]);
    /// assert_eq!(b.argsort(&x, ArgSort::axis(-1).descending())?.to_vec(&b)?, [1, 0, 2, 4, 3]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn argsort(&self, x: impl AsView<Self::Space, T>, op: ArgSort<T>) -> Result<TensorOf<Self, u32>> {
        let mut y = self.empty(x.view().shape())?;
        self.argsort_into(x, &mut y, op)?;
        Ok(y)
    }
    /// [`argsort`](Self::argsort) into `y`.
    ///
    /// # Errors
    /// [`Error::Axis`], [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 2], &[4, 1, 3, 2])?;
    /// let mut y = b.zeros(&[2, 2])?;
    /// b.argsort_into(&x, &mut y, ArgSort::axis(0))?;
    /// assert_eq!(y.to_vec(&b)?, [1, 0, 0, 1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn argsort_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, u32>,
        op: ArgSort<T>,
    ) -> Result<()> {
        self.run(&op, args::argsort::Args { x: x.view(), y: y.view_mut() })
    }
    /// [`TopK`] of `x[.., n]`: `values[.., k]` and `indices[.., k]` of u32, in descending order.
    ///
    /// # Errors
    /// [`Error::Param`] if `k` exceeds the last extent, [`Error::Axis`] for a scalar, [`Error::Shape`] and any error that the
    /// backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let logits = b.tensor(&[2, 4], &[1.0f32, 4.0, 4.0, 2.0, 0.0, 7.0, 8.0, 9.0])?;
    /// let (values, indices) = b.topk(&logits, 2)?;
    /// assert_eq!(values.to_vec(&b)?, [4.0, 4.0, 9.0, 8.0]);
    /// assert_eq!(indices.to_vec(&b)?, [1, 2, 3, 2]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn topk(&self, x: impl AsView<Self::Space, T>, k: usize) -> Result<ValuesAndIndices<Self, T>> {
        let (x, op) = (x.view(), TopK::<T>::of(k));
        let [values, indices] =
            op.infer(&args::topk::Shapes { x: x.layout(), values: Written, indices: Written })?;
        let (mut values, mut indices) = (self.empty(values)?, self.empty(indices)?);
        self.topk_into(x, &mut values, &mut indices, k)?;
        Ok((values, indices))
    }
    /// [`topk`](Self::topk) into `values` and `indices`.
    ///
    /// # Errors
    /// [`Error::Param`] if `k` exceeds the last extent, [`Error::Axis`] for a scalar, [`Error::Shape`] and any error that the
    /// backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let logits = b.tensor(&[4], &[1, 4, 4, 2])?;
    /// let (mut values, mut indices) = (b.zeros(&[2])?, b.zeros(&[2])?);
    /// b.topk_into(&logits, &mut values, &mut indices, 2)?;
    /// assert_eq!((values.to_vec(&b)?, indices.to_vec(&b)?), (vec![4, 4], vec![1, 2]));
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn topk_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut values: impl AsViewMut<Self::Space, T>,
        mut indices: impl AsViewMut<Self::Space, u32>,
        k: usize,
    ) -> Result<()> {
        let args = args::topk::Args { x: x.view(), values: values.view_mut(), indices: indices.view_mut() };
        self.run(&TopK::of(k), args)
    }
}
impl<T: Num, B: Execute<Sort<T>> + Execute<ArgSort<T>> + Execute<TopK<T>>> SortOps<T> for B {}
