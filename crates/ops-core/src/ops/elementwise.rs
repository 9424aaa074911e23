//! Elementwise arithmetic.
use super::activation::unary_methods;
use super::declare::{family, methods, methods_of_two, ops};
use crate::{AsViewMut, Backend, DType, Execute, Num, Op, Operands, Result, Tolerance};
use core::hash::Hash;

pub(super) mod unary;

pub use unary::*;

/// A function of two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BinaryFn {
    /// `a + b`
    Add,
    /// `a − b`
    Sub,
    /// `a · b`
    Mul,
    /// `a / b`; integer division truncates, and division by zero gives 0.
    Div,
    /// The larger; NaN if either operand is NaN.
    Maximum,
    /// The smaller; NaN if either operand is NaN.
    Minimum,
    /// `a` to the power of `b`, with the special values of C's `pow`. For integers, the power wraps, and a
    /// negative exponent gives the truncated quotient `1 / a^−b`: 0 unless `a` is 1 or −1.
    Pow,
}
impl BinaryFn {
    /// All binary functions.
    pub const ALL: [BinaryFn; 7] = {
        use BinaryFn::*;
        [Add, Sub, Mul, Div, Maximum, Minimum, Pow]
    };

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryFn::Add => "add",
            BinaryFn::Sub => "sub",
            BinaryFn::Mul => "mul",
            BinaryFn::Div => "div",
            BinaryFn::Maximum => "maximum",
            BinaryFn::Minimum => "minimum",
            BinaryFn::Pow => "pow",
        }
    }
}

ops! {
    /// `y = f(a, b)`, element by element. Integer arithmetic wraps.
    ///
    /// Operands: `a` and `b` of equal extents (the methods of [`ElementwiseOps`] broadcast); `y` like `a`.
    pub struct Binary<T: Num> {}
    variant { f: BinaryFn }
    /// Applies `f`.
    fn of;
    operands binary { a: in T [..], b: in T [..], y: out T [..] }

    /// `y = x · mul + add`. Integers are computed in f64 and cast back.
    ///
    /// Operands: `x` of any shape; `y` like `x`.
    pub struct Affine<T: Num> {
        /// The factor.
        pub mul: f64,
        /// The summand.
        pub add: f64,
    }
    /// `x · mul + add`.
    fn new;
    operands affine { x: in T [..], y: out T [..] }

    /// [`Affine`] in place: reads and writes `x`.
    pub struct AffineInplace<T: Num> {
        /// The factor.
        pub mul: f64,
        /// The summand.
        pub add: f64,
    }
    /// `x · mul + add`.
    fn new;
    operands affine_inplace { x: inout T [..] }
}
impl<T> Binary<T> {
    /// The function that this op applies.
    pub fn function(&self) -> BinaryFn {
        self.f
    }
}
impl<T: Num> Op for Binary<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            BinaryFn::Maximum | BinaryFn::Minimum => Tolerance::Exact,
            _ => Tolerance::rounded(dtype),
        }
    }
}

impl<T: Num> Op for Affine<T> {}

impl<T: Num> Op for AffineInplace<T> {}

family! {
    /// Arithmetic on any number type.
    pub trait ElementwiseOps<T: Num>: Execute<Binary<T>>, Execute<Unary<T>>, Execute<Affine<T>>, Execute<AffineInplace<T>>;
    methods ElementwiseMethods;
}

/// The methods of [`ElementwiseOps`].
pub trait ElementwiseMethods: Backend {
    methods_of_two! {
        ElementwiseOps<T: Num>, BinaryFn -> T;
        example
        /// let x = b.tensor(&[2], &[6, 8])?;
        /// let two = b.tensor(&[1], &[2])?;
        /// assert_eq!(b.binary(&x, &two, BinaryFn::Div)?.to_vec(&b)?, [3, 4]);
        fn binary, binary_into = binary(Binary::of);
        of [2]:
        add add_into Add: [6, 8], [2] => [8, 10],
        sub sub_into Sub: [6, 8], [2] => [4, 6],
        mul mul_into Mul: [6, 8], [2] => [12, 16],
        div div_into Div: [6, 8], [2] => [3, 4],
        maximum maximum_into Maximum: [6, 8], [2] => [6, 8],
        minimum minimum_into Minimum: [6, 8], [2] => [2, 2],
        pow pow_into Pow: [6, 8], [2] => [36, 64],
    }
    unary_methods! {
        ElementwiseOps<T: Num>;
        neg neg_into Neg: 1.0 => -1.0,
        abs abs_into Abs: -1.0 => 1.0,
        sqr sqr_into Sqr: 3.0 => 9.0,
        relu relu_into Relu: -1.0 => 0.0,
        sign sign_into Sign: -3.0 => -1.0,
    }

    methods! {
        ElementwiseOps<T: Num>;
        /// [`Affine`]: `x · mul + add`.
        example
        /// let x = b.tensor(&[2], &[1.0f32, 2.0])?;
        /// assert_eq!(b.affine(&x, 2.0, 1.0)?.to_vec(&b)?, [3.0, 5.0]);
        fn affine, affine_into(x: in T; y: T; mul: f64, add: f64) = affine(Affine::new(mul, add));
    }
    /// [`affine`](Self::affine) in place: [`AffineInplace`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut x = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// b.affine_inplace(&mut x, 2.0, 1.0)?;
    /// assert_eq!(x.to_vec(&b)?, [3.0, 5.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn affine_inplace<T: Num>(&self, mut x: impl AsViewMut<Self::Space, T>, mul: f64, add: f64) -> Result<()>
    where
        Self: ElementwiseOps<T>,
    {
        self.run(&AffineInplace::new(mul, add), args::affine_inplace::Args { x: x.view_mut() })
    }
}
