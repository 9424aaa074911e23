//! Elementwise functions of two operands, gated activations, and affine maps.

use crate::cast::from_copy;
use crate::element::{Element, TypedOperands};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::map::{Map, elementwise};
use crate::math;
use crate::simd::Simd;
use crate::store::Store;

/// A function of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// a + b
    Add,
    /// a − b
    Sub,
    /// a · b
    Mul,
    /// a / b
    Div,
    /// The larger; NaN when either is.
    Maximum,
    /// The smaller; NaN when either is.
    Minimum,
    /// a to the power of b, with the special values of C's `pow`.
    Pow,
    /// silu(a) · b
    SwiGlu,
    /// gelu(a) · b
    GeGlu,
}

impl Binary {
    /// All functions.
    pub const ALL: [Self; 9] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Maximum,
        Self::Minimum,
        Self::Pow,
        Self::SwiGlu,
        Self::GeGlu,
    ];
}

/// y\[i\] = op(a\[i\], b\[i\])
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn binary<T: Element>(
    isa: Isa,
    op: Binary,
    a: &[T],
    b: &[T],
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    same_len("a", a.len(), y.len())?;
    same_len("b", b.len(), y.len())?;
    dispatch(isa, op, T::typed_operands([a, b], [y]), store);
    Ok(())
}

// Not generic, so that the kernels are compiled in this crate.
fn dispatch(isa: Isa, op: Binary, operands: TypedOperands<'_, 2, 1>, store: Store) {
    match operands {
        TypedOperands::F32(x, [y]) => by_op(isa, op, x, y, store),
        TypedOperands::F16(x, [y]) => by_op(isa, op, x, y, store),
        TypedOperands::Bf16(x, [y]) => by_op(isa, op, x, y, store),
    }
}

fn by_op<T: Element>(isa: Isa, op: Binary, x: [&[T]; 2], y: &mut [T], store: Store) {
    match op {
        Binary::Add => elementwise(isa, Add, x, y, store),
        Binary::Sub => elementwise(isa, Sub, x, y, store),
        Binary::Mul => elementwise(isa, Mul, x, y, store),
        Binary::Div => elementwise(isa, Div, x, y, store),
        Binary::Maximum => elementwise(isa, Maximum, x, y, store),
        Binary::Minimum => elementwise(isa, Minimum, x, y, store),
        Binary::Pow => elementwise(isa, Pow, x, y, store),
        Binary::SwiGlu => elementwise(isa, SwiGlu, x, y, store),
        Binary::GeGlu => elementwise(isa, GeGlu, x, y, store),
    }
}

/// y\[i\] = x\[i\] · mul + add
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn affine<T: Element>(
    isa: Isa,
    x: &[T],
    mul: f32,
    add: f32,
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    same_len("x", x.len(), y.len())?;
    affine_same(isa, Affine { mul, add }, T::typed_operands([x], [y]), store);
    Ok(())
}

fn affine_same(isa: Isa, map: Affine, operands: TypedOperands<'_, 1, 1>, store: Store) {
    match operands {
        TypedOperands::F32(x, [y]) => elementwise(isa, map, x, y, store),
        TypedOperands::F16(x, [y]) => elementwise(isa, map, x, y, store),
        TypedOperands::Bf16(x, [y]) => elementwise(isa, map, x, y, store),
    }
}

/// y\[i\] = y\[i\] · mul + add
pub fn affine_in_place<T: Element>(isa: Isa, mul: f32, add: f32, y: &mut [T]) {
    let map = Affine { mul, add };
    from_copy(y, |x, y| affine_same(isa, map, T::typed_operands([x], [y]), Store::Cached));
}

/// y\[i\] = map(x₀\[i\], x₁\[i\], ..), for functions that this crate does not provide.
///
/// # Errors
/// [`Error::Length`] when the lengths differ.
pub fn map<F: Map<N>, T: Element, const N: usize>(
    isa: Isa,
    map: F,
    x: [&[T]; N],
    y: &mut [T],
    store: Store,
) -> Result<(), Error> {
    for x in x {
        same_len("x", x.len(), y.len())?;
    }
    elementwise(isa, map, x, y, store);
    Ok(())
}

#[derive(Clone, Copy)]
pub(crate) struct Add;

impl Map<2> for Add {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.add(a, b)
    }
}

#[derive(Clone, Copy)]
struct Sub;

impl Map<2> for Sub {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.sub(a, b)
    }
}

#[derive(Clone, Copy)]
struct Mul;

impl Map<2> for Mul {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.mul(a, b)
    }
}

#[derive(Clone, Copy)]
struct Div;

impl Map<2> for Div {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.div(a, b)
    }
}

#[derive(Clone, Copy)]
struct Maximum;

impl Map<2> for Maximum {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.maximum(a, b)
    }
}

#[derive(Clone, Copy)]
struct Minimum;

impl Map<2> for Minimum {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.minimum(a, b)
    }
}

#[derive(Clone, Copy)]
struct Pow;

impl Map<2> for Pow {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        math::pow::<S, T>(s, a, b, 0.0)
    }
}

#[derive(Clone, Copy)]
struct SwiGlu;

impl Map<2> for SwiGlu {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.mul(math::silu::<S, T>(s, a), b)
    }
}

#[derive(Clone, Copy)]
struct GeGlu;

impl Map<2> for GeGlu {
    const APPROXIMATE: bool = true;
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [a, b]: [S::F; 2]) -> S::F {
        s.mul(math::gelu::<S, T>(s, a), b)
    }
}

#[derive(Clone, Copy)]
struct Affine {
    mul: f32,
    add: f32,
}

impl Map<1> for Affine {
    #[inline(always)]
    fn eval<S: Simd, T: Element>(self, s: S, [x]: [S::F; 1]) -> S::F {
        s.mul_add(x, s.splat(self.mul), s.splat(self.add))
    }
}
