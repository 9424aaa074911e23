//! Running sums.
use super::registry::OptionValue;
use crate::error::About;
use crate::{
    AsView, AsViewMut, DType, Execute, Num, Op, Operands, Result, Shape, TensorOf, Tolerance, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// `y[.., i, ..] = Σ x[.., j, ..]` over `j ≤ i` along an axis.
///
/// Operands: `x` of any shape; `y` like `x`. Floats accumulate in f32 or wider, and each sum is rounded once. Integers wrap.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CumSum<T> {
    /// The axis to sum along; negative counts from the end.
    pub axis: isize,
    types: PhantomData<T>,
}
impl<T> CumSum<T> {
    /// Sums along `axis`.
    pub fn axis(axis: isize) -> Self {
        CumSum { axis, types: PhantomData }
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod cumsum: CumSum<T: Num> { x: in T, y: out T });
}
impl<T: Num> Op for CumSum<T> {
    fn name(&self) -> &'static str {
        "cumsum"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("axis", self.axis.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let CumSum { axis, types: _ } = self;
        axis.hash(state);
    }
    fn infer(&self, on: &args::cumsum::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis).about(self.name(), "x")?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

/// Running sums of `T`.
pub trait ScanOps<T: Num>: Execute<CumSum<T>> {
    /// [`CumSum`] of `x` along `axis`: `y[i] = Σ x[j]` over `j ≤ i`. `x` of any shape; `y` like `x`.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    /// assert_eq!(b.cumsum(&x, -1)?.to_vec(&b)?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn cumsum(&self, x: impl AsView<Self::Space, T>, axis: isize) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.cumsum_into(x, &mut y, axis)?;
        Ok(y)
    }
    /// [`cumsum`](Self::cumsum) into `y`.
    ///
    /// # Errors
    /// [`Error::Axis`](crate::Error::Axis), [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2, 3], &[1, 2, 3, 4, 5, 6])?;
    /// let mut y = b.zeros(&[2, 3])?;
    /// b.cumsum_into(&x, &mut y, 0)?;
    /// assert_eq!(y.to_vec(&b)?, [1, 2, 3, 5, 7, 9]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn cumsum_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        axis: isize,
    ) -> Result<()> {
        self.run(&CumSum::axis(axis), args::cumsum::Args { x: x.view(), y: y.view_mut() })
    }
}
impl<T: Num, B: Execute<CumSum<T>>> ScanOps<T> for B {}
