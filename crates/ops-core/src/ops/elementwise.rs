//! Arithmetic, element by element.
use super::extents;
use super::functions::{Unary, UnaryFn, unary};
use crate::{
    DType, Execute, Mut, Num, Op, Operands, Ref, Result, Shape, TensorOf, Tolerance, View, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

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
    /// `a / b`; integers truncate, and a zero divisor gives 0.
    Div,
    /// The larger; NaN if either is.
    Maximum,
    /// The smaller; NaN if either is.
    Minimum,
}
impl BinaryFn {
    /// All of them.
    pub const ALL: [BinaryFn; 6] =
        [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div, BinaryFn::Maximum, BinaryFn::Minimum];

    /// The name of the op.
    pub const fn name(self) -> &'static str {
        match self {
            BinaryFn::Add => "add",
            BinaryFn::Sub => "sub",
            BinaryFn::Mul => "mul",
            BinaryFn::Div => "div",
            BinaryFn::Maximum => "maximum",
            BinaryFn::Minimum => "minimum",
        }
    }
}

/// `y = f(a, b)`, element by element; integers wrap.
///
/// Operands: `a` and `b` of equal extents (the methods of [`ElementwiseOps`] broadcast); `y` as `a`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary<T> {
    f: BinaryFn,
    types: PhantomData<T>,
}
impl<T> Binary<T> {
    /// This function.
    pub fn of(f: BinaryFn) -> Self {
        Binary { f, types: PhantomData }
    }
    /// The function.
    pub fn function(&self) -> BinaryFn {
        self.f
    }
}
operands!(pub mod binary: Binary<T: Num> { a: in T, b: in T, y: out T });
impl<T: Num> Op for Binary<T> {
    fn name(&self) -> &'static str {
        self.f.name()
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Binary { f, types: _ } = self;
        f.hash(state);
    }
    fn infer(&self, on: &binary::Shapes<'_>) -> Result<[Shape; 1]> {
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

/// `y = x · mul + add`; integers compute in f64 and cast back.
///
/// Operands: `x` of any shape; `y` as `x`.
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
operands!(pub mod affine: Affine<T: Num> { x: in T, y: out T });
impl<T: Num> Op for Affine<T> {
    fn name(&self) -> &'static str {
        "affine"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Affine { mul, add, types: _ } = self;
        [mul.to_bits(), add.to_bits()].hash(state);
    }
    fn infer(&self, on: &affine::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
}

/// [`Affine`] in place: `x` is read and written.
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
operands!(pub mod affine_inplace: AffineInplace<T: Num> { x: inout T });
impl<T: Num> Op for AffineInplace<T> {
    fn name(&self) -> &'static str {
        "affine_inplace"
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let AffineInplace { mul, add, types: _ } = self;
        [mul.to_bits(), add.to_bits()].hash(state);
    }
    fn infer(&self, _: &affine_inplace::Shapes<'_>) -> Result<[Shape; 0]> {
        Ok([])
    }
}

/// Writes the methods of a [`BinaryFn`] and of a [`UnaryFn`] that integers have.
macro_rules! methods {
    (binary $($name:ident: $f:ident),+ $(,)?) => {$(
        #[doc = concat!("[`BinaryFn::", stringify!($f), "`] of two tensors that broadcast together.")]
        ///
        /// # Errors
        /// [`Error::Broadcast`](crate::Error::Broadcast) and what the backend reports.
        fn $name(&self, a: Ref<'_, Self, T>, b: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
            self.binary(a, b, BinaryFn::$f)
        }
    )+};
    (unary $($name:ident: $f:ident),+ $(,)?) => {$(
        #[doc = concat!("[`UnaryFn::", stringify!($f), "`] of every element.")]
        ///
        /// # Errors
        /// What the backend reports.
        fn $name(&self, x: Ref<'_, Self, T>) -> Result<TensorOf<Self, T>> {
            let mut y = self.empty(x.shape())?;
            self.run(&Unary::on_all(UnaryFn::$f), unary::Args { x: x.shorten(), y: y.as_mut() })?;
            Ok(y)
        }
    )+};
}

/// Arithmetic on any number type.
pub trait ElementwiseOps<T: Num>:
    Execute<Binary<T>> + Execute<Unary<T>> + Execute<Affine<T>> + Execute<AffineInplace<T>>
{
    /// Any [`BinaryFn`] into `y`, whose extents `a` and `b` are broadcast to.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and what the backend reports.
    fn binary_into(
        &self,
        a: Ref<'_, Self, T>,
        b: Ref<'_, Self, T>,
        mut y: Mut<'_, Self, T>,
        f: BinaryFn,
    ) -> Result<()> {
        let (a, b) = (a.broadcast(y.dims())?, b.broadcast(y.dims())?);
        self.run(&Binary::of(f), binary::Args { a: a.shorten(), b: b.shorten(), y: y.reborrow() })
    }
    /// Any [`BinaryFn`] of two tensors that broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`](crate::Error::Broadcast) and what the backend reports.
    fn binary(&self, a: Ref<'_, Self, T>, b: Ref<'_, Self, T>, f: BinaryFn) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(a.shape().broadcast_with(&b.shape())?)?;
        self.binary_into(a, b, y.as_mut(), f)?;
        Ok(y)
    }
    methods!(binary add: Add, sub: Sub, mul: Mul, div: Div, maximum: Maximum, minimum: Minimum);
    methods!(unary neg: Neg, abs: Abs, sqr: Sqr, relu: Relu, sign: Sign);

    /// [`Affine`] into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`](crate::Error::Shape) and what the backend reports.
    fn affine_into(&self, x: Ref<'_, Self, T>, mut y: Mut<'_, Self, T>, mul: f64, add: f64) -> Result<()> {
        self.run(&Affine::new(mul, add), affine::Args { x: x.shorten(), y: y.reborrow() })
    }
    /// [`Affine`].
    ///
    /// # Errors
    /// What the backend reports.
    fn affine(&self, x: Ref<'_, Self, T>, mul: f64, add: f64) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.affine_into(x, y.as_mut(), mul, add)?;
        Ok(y)
    }
    /// [`AffineInplace`].
    ///
    /// # Errors
    /// What the backend reports.
    fn affine_inplace(&self, mut x: Mut<'_, Self, T>, mul: f64, add: f64) -> Result<()> {
        self.run(&AffineInplace::new(mul, add), affine_inplace::Args { x: x.reborrow() })
    }
}
impl<T: Num, B> ElementwiseOps<T> for B where
    B: Execute<Binary<T>> + Execute<Unary<T>> + Execute<Affine<T>> + Execute<AffineInplace<T>>
{
}
