//! Everything that looks at one element of each operand.
use super::Reference;
use crate::{Host, Kernel};
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};
use ops_core::ops::{
    Affine, AffineArgs, AffineInplace, AffineInplaceArgs, Binary, BinaryArgs, BinaryFn, Cast, CastArgs, Copy,
    CopyArgs, Fill, FillArgs, Glu, GluArgs, GluFn, Unary, UnaryArgs, UnaryFn, Where, WhereArgs,
};
use ops_core::{Element, Float, Index, Num, Result, Scalar, View};

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
fn silu(x: f64) -> f64 {
    // x · 0 would be NaN at −∞.
    if x == f64::NEG_INFINITY { -0.0 } else { x * sigmoid(x) }
}
fn gelu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return -0.0;
    }
    0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh())
}
fn gelu_erf(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return -0.0;
    }
    // erfc keeps its accuracy where 1 + erf cancels.
    0.5 * x * libm::erfc(-x * FRAC_1_SQRT_2)
}

/// A function of floats, computed in f64 and rounded once.
pub(crate) fn unary_of<T: Num>(f: UnaryFn) -> impl Fn(T) -> T {
    move |x| T::from_f64(unary(f, x.to_f64()))
}

/// The functions of floats, in f64.
fn unary(f: UnaryFn, x: f64) -> f64 {
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
        // The rest is arithmetic that integers have too, see `Kernel<Unary<T>>`.
        _ => f64::NAN,
    }
}

impl<T: Num> Kernel<Unary<T>> for Reference {
    fn compute(&self, op: &Unary<T>, a: &mut UnaryArgs<'_, Host, T>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = match op.function() {
                UnaryFn::Neg => x[p].neg(),
                UnaryFn::Abs => x[p].abs(),
                UnaryFn::Sqr => x[p].mul(x[p]),
                UnaryFn::Relu => x[p].relu(),
                UnaryFn::Sign => x[p].sign(),
                f => unary_of(f)(x[p]),
            };
        }
        Ok(())
    }
}

impl<T: Num> Kernel<Binary<T>> for Reference {
    fn compute(&self, op: &Binary<T>, args: &mut BinaryArgs<'_, Host, T>) -> Result<()> {
        let (la, lb, ly) = (*args.a.layout(), *args.b.layout(), *args.y.layout());
        let (a, b, y) = (args.a.data(), args.b.data(), args.y.data_mut());
        let f = match op.function() {
            BinaryFn::Add => T::add,
            BinaryFn::Sub => T::sub,
            BinaryFn::Mul => T::mul,
            BinaryFn::Div => T::div,
            BinaryFn::Maximum => T::maximum,
            BinaryFn::Minimum => T::minimum,
            other => return Err(unknown(other.name())),
        };
        for ((p, q), r) in la.positions().zip(lb.positions()).zip(ly.positions()) {
            y[r] = f(a[p], b[q]);
        }
        Ok(())
    }
}

/// A function that a newer core has and this backend has not: said so, not guessed.
pub(crate) fn unknown(op: &'static str) -> ops_core::Error {
    ops_core::Error::Unsupported { op, backend: "cpu", reason: ops_core::Reason::Missing }
}

impl<T: Float> Kernel<Glu<T>> for Reference {
    fn compute(&self, op: &Glu<T>, a: &mut GluArgs<'_, Host, T>) -> Result<()> {
        let (lg, lu, ly) = (*a.gate.layout(), *a.up.layout(), *a.y.layout());
        let (gate, up, y) = (a.gate.data(), a.up.data(), a.y.data_mut());
        let f = match op.function() {
            GluFn::Swiglu => silu,
            GluFn::Geglu => gelu,
            _ => return Err(unknown("glu")),
        };
        for ((p, q), r) in lg.positions().zip(lu.positions()).zip(ly.positions()) {
            y[r] = T::from_f64(f(gate[p].to_f64()) * up[q].to_f64());
        }
        Ok(())
    }
}

impl<T: Num> Kernel<Affine<T>> for Reference {
    fn compute(&self, op: &Affine<T>, a: &mut AffineArgs<'_, Host, T>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = x[p].affine(op.mul, op.add);
        }
        Ok(())
    }
}
impl<T: Num> Kernel<AffineInplace<T>> for Reference {
    fn compute(&self, op: &AffineInplace<T>, a: &mut AffineInplaceArgs<'_, Host, T>) -> Result<()> {
        let (layout, x) = (*a.x.layout(), a.x.data_mut());
        for p in layout.positions() {
            x[p] = x[p].affine(op.mul, op.add);
        }
        Ok(())
    }
}

impl<A: Scalar, B: Scalar> Kernel<Cast<A, B>> for Reference {
    fn compute(&self, _: &Cast<A, B>, a: &mut CastArgs<'_, Host, A, B>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = B::from_wide(x[p].to_wide());
        }
        Ok(())
    }
}

impl<T: Element> Kernel<Copy<T>> for Reference {
    fn compute(&self, _: &Copy<T>, a: &mut CopyArgs<'_, Host, T>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = x[p];
        }
        Ok(())
    }
}
impl<T: Element> Kernel<Fill<T>> for Reference {
    fn compute(&self, op: &Fill<T>, a: &mut FillArgs<'_, Host, T>) -> Result<()> {
        let (layout, y) = (*a.y.layout(), a.y.data_mut());
        for p in layout.positions() {
            y[p] = op.value;
        }
        Ok(())
    }
}

impl<T: Element, I: Index> Kernel<Where<T, I>> for Reference {
    fn compute(&self, _: &Where<T, I>, a: &mut WhereArgs<'_, Host, T, I>) -> Result<()> {
        let (lc, lt, lf, ly) = (*a.cond.layout(), *a.on_true.layout(), *a.on_false.layout(), *a.y.layout());
        let (cond, on_true, on_false, y) =
            (a.cond.data(), a.on_true.data(), a.on_false.data(), a.y.data_mut());
        let operands = lc.positions().zip(lt.positions().zip(lf.positions()));
        for ((c, (t, f)), q) in operands.zip(ly.positions()) {
            y[q] = if cond[c].to_i64() != 0 { on_true[t] } else { on_false[f] };
        }
        Ok(())
    }
}
