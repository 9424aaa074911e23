//! Elementwise arithmetic.
use super::activation::unary_methods;
use super::broadcast;
use super::extents;
use super::registry::OptionValue;
use crate::error::About;
use crate::{
    AsView, AsViewMut, DType, Execute, Num, Op, Operands, Result, Shape, TensorOf, Tolerance, View, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

mod unary;

pub use unary::*;

pub(super) mod args {
    pub use super::unary::args::unary;
    use super::*;
    operands!(pub mod binary: Binary<T: Num> { a: in T, b: in T, y: out T });
    operands!(pub mod affine: Affine<T: Num> { x: in T, y: out T });
    operands!(pub mod affine_inplace: AffineInplace<T: Num> { x: inout T });
}

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

/// `y = f(a, b)`, element by element. Integer arithmetic wraps.
///
/// Operands: `a` and `b` of equal extents (the methods of [`ElementwiseOps`] broadcast); `y` like `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary<T> {
    f: BinaryFn,
    types: PhantomData<T>,
}
impl<T> Binary<T> {
    /// Applies `f`.
    pub fn of(f: BinaryFn) -> Self {
        Binary { f, types: PhantomData }
    }
    /// The function that this op applies.
    pub fn function(&self) -> BinaryFn {
        self.f
    }
}
impl<T: Num> Op for Binary<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Binary { f, types: _ } = self;
        f.hash(state);
    }
    fn infer(&self, on: &args::binary::Shapes<'_>) -> Result<[Shape; 1]> {
        extents(self.name(), "b", on.b, on.a.dims())?;
        Ok([on.a.shape()])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        match self.f {
            BinaryFn::Maximum | BinaryFn::Minimum => Tolerance::Exact,
            _ => Tolerance::rounded(dtype),
        }
    }
}

/// `y = x · mul + add`. Integers are computed in f64 and cast back.
///
/// Operands: `x` of any shape; `y` like `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Affine<T> {
    /// The factor.
    pub mul: f64,
    /// The summand.
    pub add: f64,
    types: PhantomData<T>,
}
impl<T> Affine<T> {
    /// `x · mul + add`.
    pub fn new(mul: f64, add: f64) -> Self {
        Affine { mul, add, types: PhantomData }
    }
}
impl<T: Num> Op for Affine<T> {
    fn name(&self) -> &'static str {
        "affine"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("mul", self.mul.into()), ("add", self.add.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Affine { mul, add, types: _ } = self;
        [mul.to_bits(), add.to_bits()].hash(state);
    }
    fn infer(&self, on: &args::affine::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
}

/// [`Affine`] in place: reads and writes `x`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct AffineInplace<T> {
    /// The factor.
    pub mul: f64,
    /// The summand.
    pub add: f64,
    types: PhantomData<T>,
}
impl<T> AffineInplace<T> {
    /// `x · mul + add`.
    pub fn new(mul: f64, add: f64) -> Self {
        AffineInplace { mul, add, types: PhantomData }
    }
}
impl<T: Num> Op for AffineInplace<T> {
    fn name(&self) -> &'static str {
        "affine_inplace"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("mul", self.mul.into()), ("add", self.add.into())]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let AffineInplace { mul, add, types: _ } = self;
        [mul.to_bits(), add.to_bits()].hash(state);
    }
    fn infer(&self, _: &args::affine_inplace::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
}

/// Writes the methods of binary functions: `binary_methods!(add add_into Add: 6, 2 => 8)`. The values appear in the doc example.
macro_rules! binary_methods {
    ($($name:ident $into:ident $f:ident: $a:literal, $b:literal => $y:literal),+ $(,)?) => {$(
        #[doc = concat!("[`BinaryFn::", stringify!($f), "`] of two tensors that broadcast together.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
        ///
        /// ```
        /// # use ops_core::{Backend, ops::*};
        /// # let b = ops_cpu::Cpu::new();
        #[doc = concat!("let x = b.tensor(&[2], &[", stringify!($a), "; 2])?;")]
        #[doc = concat!("let z = b.tensor(&[1], &[", stringify!($b), "])?;")]
        #[doc = concat!("assert_eq!(b.", stringify!($name), "(&x, &z)?.to_vec(&b)?, [", stringify!($y), "; 2]);")]
        /// # Ok::<(), ops_core::Error>(())
        /// ```
        fn $name(
            &self,
            a: impl AsView<Self::Space, T>,
            b: impl AsView<Self::Space, T>,
        ) -> Result<TensorOf<Self, T>> {
            self.binary(a, b, BinaryFn::$f)
        }
        #[doc = concat!("[`", stringify!($name), "`](Self::", stringify!($name), ") into `y`. Broadcasts both to its extents.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
        ///
        /// ```
        /// # use ops_core::{Backend, ops::*};
        /// # let b = ops_cpu::Cpu::new();
        #[doc = concat!("let x = b.tensor(&[2], &[", stringify!($a), "; 2])?;")]
        #[doc = concat!("let z = b.tensor(&[1], &[", stringify!($b), "])?;")]
        /// let mut y = b.zeros(&[2])?;
        #[doc = concat!("b.", stringify!($into), "(&x, &z, &mut y)?;")]
        #[doc = concat!("assert_eq!(y.to_vec(&b)?, [", stringify!($y), "; 2]);")]
        /// # Ok::<(), ops_core::Error>(())
        /// ```
        fn $into(
            &self,
            a: impl AsView<Self::Space, T>,
            b: impl AsView<Self::Space, T>,
            y: impl AsViewMut<Self::Space, T>,
        ) -> Result<()> {
            self.binary_into(a, b, y, BinaryFn::$f)
        }
    )+};
}

/// Arithmetic on any number type.
pub trait ElementwiseOps<T: Num>:
    Execute<Binary<T>> + Execute<Unary<T>> + Execute<Affine<T>> + Execute<AffineInplace<T>>
{
    /// Any [`BinaryFn`] on two tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[6, 8])?;
    /// let two = b.tensor(&[1], &[2])?;
    /// assert_eq!(b.binary(&x, &two, BinaryFn::Div)?.to_vec(&b)?, [3, 4]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn binary(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
        f: BinaryFn,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(broadcast(f.name(), &a.view(), &b.view())?)?;
        self.binary_into(a, b, &mut y, f)?;
        Ok(y)
    }
    /// [`binary`](Self::binary) into `y`. Both operands are broadcast to the extents of `y`.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[6, 8])?;
    /// let two = b.tensor(&[1], &[2])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.binary_into(&x, &two, &mut y, BinaryFn::Div)?;
    /// assert_eq!(y.to_vec(&b)?, [3, 4]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn binary_into(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        f: BinaryFn,
    ) -> Result<()> {
        let mut y = y.view_mut();
        let a = a.view().broadcast(y.dims()).about(f.name(), "a")?;
        let b = b.view().broadcast(y.dims()).about(f.name(), "b")?;
        self.run(&Binary::of(f), args::binary::Args { a: a.shorten(), b: b.shorten(), y: y.reborrow() })
    }
    binary_methods! {
        add add_into Add: 6, 2 => 8,
        sub sub_into Sub: 6, 2 => 4,
        mul mul_into Mul: 6, 2 => 12,
        div div_into Div: 6, 2 => 3,
        maximum maximum_into Maximum: 6, 2 => 6,
        minimum minimum_into Minimum: 6, 2 => 2,
        pow pow_into Pow: 6, 2 => 36,
    }
    unary_methods! {
        neg neg_into Neg: 1.0 => -1.0,
        abs abs_into Abs: -1.0 => 1.0,
        sqr sqr_into Sqr: 3.0 => 9.0,
        relu relu_into Relu: -1.0 => 0.0,
        sign sign_into Sign: -3.0 => -1.0,
    }

    /// [`Affine`]: `x · mul + add`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// assert_eq!(b.affine(&x, 2.0, 1.0)?.to_vec(&b)?, [3.0, 5.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn affine(&self, x: impl AsView<Self::Space, T>, mul: f64, add: f64) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.affine_into(x, &mut y, mul, add)?;
        Ok(y)
    }
    /// [`affine`](Self::affine) into `y`.
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// let mut y = b.zeros(&[2])?;
    /// b.affine_into(&x, &mut y, 2.0, 1.0)?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 5.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn affine_into(
        &self,
        x: impl AsView<Self::Space, T>,
        mut y: impl AsViewMut<Self::Space, T>,
        mul: f64,
        add: f64,
    ) -> Result<()> {
        self.run(&Affine::new(mul, add), args::affine::Args { x: x.view(), y: y.view_mut() })
    }
    /// [`affine`](Self::affine) in place: [`AffineInplace`].
    ///
    /// # Errors
    /// Any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let mut x = b.tensor(&[2], &[1.0f32, 2.0])?;
    /// b.affine_inplace(&mut x, 2.0, 1.0)?;
    /// assert_eq!(x.to_vec(&b)?, [3.0, 5.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn affine_inplace(&self, mut x: impl AsViewMut<Self::Space, T>, mul: f64, add: f64) -> Result<()> {
        self.run(&AffineInplace::new(mul, add), args::affine_inplace::Args { x: x.view_mut() })
    }
}
impl<T: Num, B> ElementwiseOps<T> for B where
    B: Execute<Binary<T>> + Execute<Unary<T>> + Execute<Affine<T>> + Execute<AffineInplace<T>>
{
}
