//! Numbers in equal steps.
use crate::ops::declare::{family, ops};
use crate::{
    AsViewMut, Backend, DType, Error, Execute, Num, Op, Operands, Result, Scalar, Shape, TensorOf, Tolerance,
    Wide,
};

ops! {
    /// Numbers in equal steps: element `i` of `y`, in row-major order, is `start + i · step`.
    ///
    /// Operands: `y` of any shape, which is only written.
    ///
    /// In floats, `i` is converted to f64, the product and the sum are rounded once to f64 (a fused multiply-add), and the result once
    /// to `T`. Integers are computed in i64, which wraps, and so does the result in `T`. Results are equal bit for bit on all backends.
    pub struct Arange<T: Num> {
        /// The first number.
        pub start: Wide [or Wide::Int(0)],
        /// The distance between two numbers.
        pub step: Wide [or Wide::Int(1)],
    }
    operands arange { y: inout T }
}
impl<T> Arange<T> {
    /// Numbers from `start`, `step` apart. They may be of any type, but only integers lead to integers.
    pub fn new(start: impl Into<Wide>, step: impl Into<Wide>) -> Self {
        Arange { start: start.into(), step: step.into(), types: core::marker::PhantomData }
    }
    /// The same options for numbers of another type.
    pub fn of_type<U>(self) -> Arange<U> {
        self.typed()
    }
}
impl<T: Num> Arange<T> {
    /// The definition: element `i`.
    pub fn at(&self, i: u64) -> T {
        if T::IS_FLOAT {
            return T::from_f64((i as f64).mul_add(self.step.to_f64(), self.start.to_f64()));
        }
        let [start, step] = [self.start, self.step].map(<i64 as Scalar>::from_wide);
        T::from_wide(Wide::Int(step.wrapping_mul(i as i64).wrapping_add(start)))
    }
}
impl<T: Num> Op for Arange<T> {
    fn infer(&self, _: &args::arange::Shapes<'_>) -> Result<[Shape; 0]> {
        for (name, value) in [("start", self.start), ("step", self.step)] {
            if let (Wide::Float(value), false) = (value, T::IS_FLOAT) {
                let want = "an integer, as the tensor has; make floats and cast them instead";
                return Err(Error::param(self.name(), name, value.to_string(), want));
            }
        }
        Ok([])
    }
    fn tolerance(&self, _: &'static str, _: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::Exact
    }
}

family! {
    /// Tensors of numbers in equal steps.
    pub trait ArangeOps<T: Num>: Execute<Arange<T>>;
    methods ArangeMethods;
}

/// The methods of [`ArangeOps`].
pub trait ArangeMethods: Backend {
    /// `len` numbers from `start`, `step` apart: [`Arange`].
    ///
    /// # Errors
    /// A `start` or `step` that is a float, for integers; and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// assert_eq!(b.arange::<f32>(0.5, 0.25, 3)?.to_vec(&b)?, [0.5, 0.75, 1.0]);
    /// assert_eq!(b.arange::<i64>(5, -2, 3)?.to_vec(&b)?, [5, 3, 1]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn arange<T: Num>(
        &self,
        start: impl Into<Wide>,
        step: impl Into<Wide>,
        len: usize,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: ArangeOps<T>,
    {
        let mut y = self.empty(Shape::new(&[len])?)?;
        self.arange_into(&mut y, start, step)?;
        Ok(y)
    }
    /// Numbers from `start`, `step` apart, into `y` of any shape, in row-major order: [`Arange`].
    ///
    /// # Errors
    /// As [`arange`](Self::arange).
    fn arange_into<T: Num>(
        &self,
        mut y: impl AsViewMut<Self::Space, T>,
        start: impl Into<Wide>,
        step: impl Into<Wide>,
    ) -> Result<()>
    where
        Self: ArangeOps<T>,
    {
        self.run(&Arange::new(start, step), args::arange::Args { y: y.view_mut() })
    }
}
