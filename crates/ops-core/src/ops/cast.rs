//! Conversion between element types.
use crate::{
    AsAny, AsViewMut, DType, Execute, Op, Operands, Result, Scalar, Shape, TensorOf, Tolerance, View,
    operands,
};
use core::hash::Hasher;
use core::marker::PhantomData;

/// Converts `x` to another element type by the rules of [`Scalar`]: float to integer truncates and saturates, integer to
/// integer wraps, and everything else rounds once, to nearest even.
///
/// Operands: `x` of any shape and scalar type; `y` like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast<T>(PhantomData<T>);
impl<T> Cast<T> {
    /// The op; it has no options.
    pub const OP: Self = Cast(PhantomData);
}
pub(super) mod args {
    use super::*;
    operands!(pub mod cast: Cast<T: Scalar> { x: in any, y: out T });
}
impl<T: Scalar> Op for Cast<T> {
    fn name(&self) -> &'static str {
        "cast"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::cast::Shapes<'_>) -> Result<[Shape; 1]> {
        on.x.require(
            self.name(),
            |dtype| !matches!(dtype, DType::Block(_)),
            "a number type, not a block format",
        )?;
        Ok([on.x.layout.shape()])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

/// Conversion to `T`.
pub trait CastOps<T: Scalar>: Execute<Cast<T>> {
    /// [`Cast`] to `T`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[1.5f32, -1.5])?;
    /// let y: ops_core::TensorOf<ops_cpu::Cpu, i32> = b.cast(&x)?;
    /// assert_eq!(y.to_vec(&b)?, [1, -1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn cast(&self, x: impl AsAny<Self::Space>) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.any_view().shape())?;
        self.cast_into(x, &mut y)?;
        Ok(y)
    }
    /// [`cast`](Self::cast) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[1.5f32, -1.5])?;
    /// let mut y = b.zeros::<i32>(&[2])?;
    /// b.cast_into(&x, &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [1, -1]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn cast_into(&self, x: impl AsAny<Self::Space>, mut y: impl AsViewMut<Self::Space, T>) -> Result<()> {
        self.run(&Cast::OP, args::cast::Args { x: x.any_view(), y: y.view_mut() })
    }
}
impl<T: Scalar, B: Execute<Cast<T>>> CastOps<T> for B {}
