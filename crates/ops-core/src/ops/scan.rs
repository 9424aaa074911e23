//! Running sums.
use super::declare::{family, methods, ops};
use crate::error::About;
use crate::{Backend, DType, Execute, Num, Op, Operands, Result, Shape, Tolerance};

ops! {
    /// `y[.., i, ..] = Σ x[.., j, ..]` over `j ≤ i` along an axis.
    ///
    /// Operands: `x` of any shape; `y` like `x`. Floats accumulate in f32 or wider, and each sum is rounded once. Integers wrap.
    pub struct CumSum<T: Num> {
        /// The axis to sum along; negative counts from the end.
        pub axis: isize,
    }
    /// Sums along `axis`.
    fn axis;
    operands cumsum { x: in T [.., n], y: out T [.., n] }
}
impl<T: Num> Op for CumSum<T> {
    fn infer(&self, on: &args::cumsum::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.shape().axis(self.axis).about(self.name(), "x")?;
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

family! {
    /// Running sums of `T`.
    pub trait ScanOps<T: Num>: Execute<CumSum<T>>;
    methods ScanMethods;
}

/// The methods of [`ScanOps`].
pub trait ScanMethods: Backend {
    methods! {
        ScanOps<T: Num>;
        /// [`CumSum`] of `x` along `axis`: `y[i] = Σ x[j]` over `j ≤ i`. `x` of any shape; `y` like `x`.
        example
        /// let x = b.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        /// assert_eq!(b.cumsum(&x, -1)?.to_vec(&b)?, [1.0, 3.0, 6.0, 4.0, 9.0, 15.0]);
        fn cumsum, cumsum_into(x: in T; y: T; axis: isize) = cumsum(CumSum::axis(axis));
    }
}
