//! Conversion between element types.
use super::declare::{family, methods, ops};
use crate::{Backend, DType, Execute, Op, Operands, Result, Scalar, Shape, Tolerance};

ops! {
    /// Converts `x` to another element type by the rules of [`Scalar`]: float to integer truncates and saturates, integer to
    /// integer wraps, and everything else rounds once, to nearest even.
    ///
    /// Operands: `x` of any shape and scalar type; `y` like `x`.
    pub struct Cast<T: Scalar> {}
    const OP;
    operands cast { x: in any [..], y: out T [..] }
}
impl<T: Scalar> Op for Cast<T> {
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

family! {
    /// Conversion to `T`.
    pub trait CastOps<T: Scalar>: Execute<Cast<T>>;
    methods CastMethods;
}

/// The methods of [`CastOps`].
pub trait CastMethods: Backend {
    methods! {
        CastOps<T: Scalar>;
        /// [`Cast`] to `T`.
        example
        /// let x = b.tensor(&[2], &[1.5f32, -1.5])?;
        /// let y: rocm_ops::TensorOf<rocm_ops::Cpu, i32> = b.cast(&x)?;
        /// assert_eq!(y.to_vec(&b)?, [1, -1]);
        fn cast, cast_into(x: in any; y: T) = cast(Cast::OP);
    }
}
