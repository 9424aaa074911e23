//! Everything that looks at one element of each operand.
use super::Reference;
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use ops_core::ops::{
    Affine, AffineArgs, AffineInplace, AffineInplaceArgs, Binary, BinaryArgs, BinaryFn, Cast, CastArgs, Copy,
    CopyArgs, Fill, FillArgs, Glu, GluArgs, GluFn, Unary, UnaryArgs, UnaryFn, Where, WhereArgs,
};
use ops_core::{DType, Element, Error, Float, Index, Num, Reason, Result, Scalar, Wide};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
// The gates are −∞ · 0 at −∞: NaN, as their formulas have it and PyTorch gives it.
fn silu(x: f64) -> f64 {
    x * sigmoid(x)
}
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh())
}
fn gelu_erf(x: f64) -> f64 {
    // erfc keeps its accuracy where 1 + erf cancels.
    0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// A function that a newer core has and this backend has not: said so, not guessed.
pub(crate) fn unknown(op: &'static str) -> Error {
    Error::Unsupported { op, backend: "cpu", reason: Reason::Missing }
}

/// The functions that only floats have.
fn of_float(f: UnaryFn, x: f64) -> f64 {
    match f {
        UnaryFn::Sigmoid => sigmoid(x),
        UnaryFn::Silu => silu(x),
        UnaryFn::Gelu => gelu(x),
        UnaryFn::GeluErf => gelu_erf(x),
        UnaryFn::Tanh => x.tanh(),
        UnaryFn::Erf => libm::erf(x),
        UnaryFn::Exp => x.exp(),
        UnaryFn::Log => x.ln(),
        UnaryFn::Sin => x.sin(),
        UnaryFn::Cos => x.cos(),
        UnaryFn::Sqrt => x.sqrt(),
        UnaryFn::Recip => 1.0 / x,
        UnaryFn::Floor => x.floor(),
        UnaryFn::Ceil => x.ceil(),
        UnaryFn::Round => x.round(),
        _ => f64::NAN,
    }
}

pub(crate) fn of_num<T: Num>(f: UnaryFn, x: T) -> T {
    match f {
        UnaryFn::Neg => x.neg(),
        UnaryFn::Abs => x.abs(),
        UnaryFn::Sqr => x.mul(x),
        UnaryFn::Relu => x.relu(),
        UnaryFn::Sign => x.sign(),
        f => T::from_f64(of_float(f, x.to_f64())),
    }
}

fn unary(f: UnaryFn, x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let positions = x.layout.positions().zip(y.layout.positions());
    on_num!(x.dtype, T => {
        let (x, y) = (x.slice::<T>(), y.slice::<T>());
        positions.for_each(|(p, q)| y[q] = of_num(f, x[p]));
        Ok(())
    }, else Err(unknown(f.name())))
}

fn binary(f: BinaryFn, a: Raw<'_>, b: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let positions = a.layout.positions().zip(b.layout.positions()).zip(y.layout.positions());
    on_num!(a.dtype, T => {
        let f = match f {
            BinaryFn::Add => T::add,
            BinaryFn::Sub => T::sub,
            BinaryFn::Mul => T::mul,
            BinaryFn::Div => T::div,
            BinaryFn::Maximum => <T as Num>::maximum,
            BinaryFn::Minimum => <T as Num>::minimum,
            other => return Err(unknown(other.name())),
        };
        let (a, b, y) = (a.slice::<T>(), b.slice::<T>(), y.slice::<T>());
        positions.for_each(|((p, q), r)| y[r] = f(a[p], b[q]));
        Ok(())
    }, else Err(unknown(f.name())))
}

fn glu(f: GluFn, gate: Raw<'_>, up: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let f = match f {
        GluFn::Swiglu => silu,
        GluFn::Geglu => gelu,
        _ => return Err(unknown("glu")),
    };
    for ((p, q), r) in gate.layout.positions().zip(up.layout.positions()).zip(y.layout.positions()) {
        y.set(r, f(gate.f64(p)) * up.f64(q));
    }
    Ok(())
}

/// `x · mul + add`; integers compute in f64 too, and cast back.
fn affine(x: Option<Raw<'_>>, mut y: RawMut<'_>, mul: f64, add: f64) {
    let lx = x.map_or(y.layout, |x| x.layout);
    for (p, q) in lx.positions().zip(y.layout.positions()) {
        let v = x.map_or_else(|| y.as_raw().f64(p), |x| x.f64(p));
        y.set(q, v * mul + add);
    }
}

fn cast(x: Raw<'_>, mut y: RawMut<'_>) {
    for (p, q) in x.layout.positions().zip(y.layout.positions()) {
        y.set_wide(q, x.wide(p));
    }
}

fn copy(x: Raw<'_>, mut y: RawMut<'_>) {
    for (p, q) in x.layout.positions().zip(y.layout.positions()) {
        y.element(q).copy_from_slice(x.element(p));
    }
}

fn fill(mut y: RawMut<'_>, value: &[u8]) {
    for p in y.layout.positions() {
        y.element(p).copy_from_slice(value);
    }
}

fn choose(cond: Raw<'_>, on_true: Raw<'_>, on_false: Raw<'_>, mut y: RawMut<'_>) {
    let choices = on_true.layout.positions().zip(on_false.layout.positions());
    for ((c, (t, f)), q) in cond.layout.positions().zip(choices).zip(y.layout.positions()) {
        let chosen = if cond.wide(c) != Wide::Int(0) { on_true.element(t) } else { on_false.element(f) };
        y.element(q).copy_from_slice(chosen);
    }
}

impl<T: Num> Kernel<Unary<T>> for Reference {
    fn compute(&self, op: &Unary<T>, a: &mut UnaryArgs<'_, Host, T>) -> Result<()> {
        unary(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Binary<T>> for Reference {
    fn compute(&self, op: &Binary<T>, a: &mut BinaryArgs<'_, Host, T>) -> Result<()> {
        binary(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<Glu<T>> for Reference {
    fn compute(&self, op: &Glu<T>, a: &mut GluArgs<'_, Host, T>) -> Result<()> {
        glu(op.function(), Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Affine<T>> for Reference {
    fn compute(&self, op: &Affine<T>, a: &mut AffineArgs<'_, Host, T>) -> Result<()> {
        affine(Some(Raw::of(&a.x)), RawMut::of(&mut a.y), op.mul, op.add);
        Ok(())
    }
}
impl<T: Num> Kernel<AffineInplace<T>> for Reference {
    fn compute(&self, op: &AffineInplace<T>, a: &mut AffineInplaceArgs<'_, Host, T>) -> Result<()> {
        affine(None, RawMut::of(&mut a.x), op.mul, op.add);
        Ok(())
    }
}
impl<A: Scalar, B: Scalar> Kernel<Cast<A, B>> for Reference {
    fn compute(&self, _: &Cast<A, B>, a: &mut CastArgs<'_, Host, A, B>) -> Result<()> {
        cast(Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Element> Kernel<Copy<T>> for Reference {
    fn compute(&self, _: &Copy<T>, a: &mut CopyArgs<'_, Host, T>) -> Result<()> {
        copy(Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Element> Kernel<Fill<T>> for Reference {
    fn compute(&self, op: &Fill<T>, a: &mut FillArgs<'_, Host, T>) -> Result<()> {
        fill(RawMut::of(&mut a.y), bytemuck::bytes_of(&op.value));
        Ok(())
    }
}
impl<T: Element, I: Index> Kernel<Where<T, I>> for Reference {
    fn compute(&self, _: &Where<T, I>, a: &mut WhereArgs<'_, Host, T, I>) -> Result<()> {
        choose(Raw::of(&a.cond), Raw::of(&a.on_true), Raw::of(&a.on_false), RawMut::of(&mut a.y));
        Ok(())
    }
}
