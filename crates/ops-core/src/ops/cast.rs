//! Conversion between element types.
use crate::{DType, Execute, Mut, Op, Ref, Result, Scalar, Shape, TensorOf, Tolerance, View, operands};
use core::marker::PhantomData;

/// `y = x` in another type, by the rules of [`Scalar`]: float to integer truncates and saturates,
/// integer to integer wraps, everything else rounds to nearest even once.
///
/// Operands: `x` of any shape; `y` as `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast<A, B>(PhantomData<(A, B)>);
impl<A, B> Cast<A, B> {
    /// The op: it has no options.
    pub const OP: Self = Cast(PhantomData);
}
operands!(Cast<A: Scalar, B: Scalar> { x: in A, y: out B });
impl<A: Scalar, B: Scalar> Op for Cast<A, B> {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn infer(&self, on: &CastShapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType) -> Tolerance {
        Tolerance::Exact
    }
}

/// Casts from `A` to `B`.
pub trait CastOps<A: Scalar, B: Scalar>: Execute<Cast<A, B>> {
    /// [`Cast`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn cast_into(&self, x: Ref<'_, Self, A>, mut y: Mut<'_, Self, B>) -> Result<()> {
        self.run(&Cast::OP, CastArgs { x: x.shorten(), y: y.reborrow() })
    }
    /// [`Cast`].
    ///
    /// # Errors
    /// What the backend reports.
    fn cast(&self, x: Ref<'_, Self, A>) -> Result<TensorOf<Self, B>> {
        let mut y = self.empty(x.shape())?;
        self.cast_into(x, y.as_mut())?;
        Ok(y)
    }
}
impl<A: Scalar, B: Scalar, K: Execute<Cast<A, B>>> CastOps<A, B> for K {}
