//! Everything that looks at one element of each operand.
//!
//! Layouts are merged to as few axes as all operands allow; a fully contiguous call becomes one
//! long row, which is cut into runs.
use super::Cpu;
use super::rows::{Rows, each_under};
use crate::reference::unknown;
use crate::{Host, Kernel};
use ops_core::ops::{
    Affine, AffineArgs, AffineInplace, AffineInplaceArgs, Binary, BinaryArgs, BinaryFn, Cast, CastArgs, Copy,
    CopyArgs, Fill, FillArgs, Glu, GluArgs, GluFn, Unary, UnaryArgs, UnaryFn, Where, WhereArgs,
};
use ops_core::{Element, Float, Index, Layout, Num, Result, Scalar, TensorMut, TensorRef, View};

/// Elements of a run: small enough for the first cache with its operands, large enough to hide the loop around it.
const RUN: usize = 4096;

/// Calls `f` with the layouts to loop over: as they are, or a long row as runs of equal length and
/// a remainder.
fn runs<const N: usize>(layouts: [Layout; N], mut f: impl FnMut([Layout; N])) {
    let len = layouts[0].len();
    if len <= RUN || !layouts.iter().all(|l| l.rank() == 1 && l.is_contiguous()) {
        return f(layouts);
    }
    let part = |start: usize, dims: [usize; 2]| -> Result<[Layout; N]> {
        let mut parts = layouts;
        for p in &mut parts {
            *p = p.narrow(0, start, dims[0] * dims[1])?.reshape(&dims)?;
        }
        Ok(parts)
    };
    let whole = len / RUN * RUN;
    for parts in [part(0, [len / RUN, RUN]), part(whole, [1, len - whole])].into_iter().flatten() {
        f(parts);
    }
}

/// `y = f(x)`.
fn map1<A: Element, B: Element>(
    x: TensorRef<'_, Host, A>,
    y: &mut TensorMut<'_, Host, B>,
    cost: usize,
    f: impl Fn(A) -> B + Sync,
) {
    runs(Layout::merged([x.layout(), y.layout()]), |[lx, ly]| {
        let rows = Rows::with(&x, lx);
        each_under(y, ly, ly.last() * cost, Vec::new, |scratch, i, out| {
            for (y, x) in out.iter_mut().zip(rows.get(i, scratch)) {
                *y = f(*x);
            }
        });
    });
}

/// `y = f(a, b)`.
fn map2<A: Element, B: Element, C: Element>(
    a: TensorRef<'_, Host, A>,
    b: TensorRef<'_, Host, B>,
    y: &mut TensorMut<'_, Host, C>,
    cost: usize,
    f: impl Fn(A, B) -> C + Sync,
) {
    runs(Layout::merged([a.layout(), b.layout(), y.layout()]), |[la, lb, ly]| {
        let (ra, rb) = (Rows::with(&a, la), Rows::with(&b, lb));
        each_under(y, ly, ly.last() * cost, <(Vec<A>, Vec<B>)>::default, |(sa, sb), i, out| {
            for ((y, a), b) in out.iter_mut().zip(ra.get(i, sa)).zip(rb.get(i, sb)) {
                *y = f(*a, *b);
            }
        });
    });
}

/// `y = f(y)`.
fn map_inplace<T: Element>(y: &mut TensorMut<'_, Host, T>, f: impl Fn(T) -> T + Sync) {
    runs(Layout::merged([y.layout()]), |[layout]| {
        each_under(y, layout, layout.last(), || (), |(), _, out| out.iter_mut().for_each(|v| *v = f(*v)));
    });
}

fn sigmoid<A: num_traits::Float>(x: A) -> A {
    A::one() / (A::one() + (-x).exp())
}
fn silu<A: num_traits::Float>(x: A) -> A {
    // x · 0 would be NaN at −∞.
    if x == A::neg_infinity() { A::neg_zero() } else { x * sigmoid(x) }
}
fn gelu<A: Float<Acc = A> + num_traits::Float>(x: A) -> A {
    if x == A::neg_infinity() {
        return A::neg_zero();
    }
    let (half, slope, cubic) =
        (A::from_f64(0.5), A::from_f64(0.797_884_560_802_865_4), A::from_f64(0.044715));
    // tanh(u) + 1 cancels for large negative u; 2 / (1 + exp(−2u)) does not.
    let u = slope * (x + cubic * x * x * x);
    half * x * (A::one() + A::one()) * sigmoid(u + u)
}

impl<T: Num> Kernel<Unary<T>> for Cpu {
    fn compute(&self, op: &Unary<T>, a: &mut UnaryArgs<'_, Host, T>) -> Result<()> {
        let (x, y) = (a.x, &mut a.y);
        match op.function() {
            UnaryFn::Neg => map1(x, y, 1, T::neg),
            UnaryFn::Abs => map1(x, y, 1, T::abs),
            UnaryFn::Sqr => map1(x, y, 1, |v| v.mul(v)),
            UnaryFn::Relu => map1(x, y, 1, T::relu),
            UnaryFn::Sign => map1(x, y, 1, T::sign),
            f => map1(x, y, 16, crate::reference::unary_of::<T>(f)),
        }
        Ok(())
    }
}

impl<T: Num> Kernel<Binary<T>> for Cpu {
    fn compute(&self, op: &Binary<T>, args: &mut BinaryArgs<'_, Host, T>) -> Result<()> {
        let (a, b, y) = (args.a, args.b, &mut args.y);
        match op.function() {
            BinaryFn::Add => map2(a, b, y, 1, T::add),
            BinaryFn::Sub => map2(a, b, y, 1, T::sub),
            BinaryFn::Mul => map2(a, b, y, 1, T::mul),
            BinaryFn::Div => map2(a, b, y, 1, T::div),
            BinaryFn::Maximum => map2(a, b, y, 1, T::maximum),
            BinaryFn::Minimum => map2(a, b, y, 1, T::minimum),
            other => return Err(unknown(other.name())),
        }
        Ok(())
    }
}

impl<T: Float> Kernel<Glu<T>> for Cpu {
    fn compute(&self, op: &Glu<T>, a: &mut GluArgs<'_, Host, T>) -> Result<()> {
        let (gate, up, y) = (a.gate, a.up, &mut a.y);
        match op.function() {
            GluFn::Swiglu => map2(gate, up, y, 16, |g: T, u: T| T::from_acc(silu(g.acc()) * u.acc())),
            GluFn::Geglu => map2(gate, up, y, 16, |g: T, u: T| T::from_acc(gelu(g.acc()) * u.acc())),
            _ => return Err(unknown("glu")),
        }
        Ok(())
    }
}

impl<T: Num> Kernel<Affine<T>> for Cpu {
    fn compute(&self, op: &Affine<T>, a: &mut AffineArgs<'_, Host, T>) -> Result<()> {
        map1(a.x, &mut a.y, 1, |v: T| v.affine(op.mul, op.add));
        Ok(())
    }
}
impl<T: Num> Kernel<AffineInplace<T>> for Cpu {
    fn compute(&self, op: &AffineInplace<T>, a: &mut AffineInplaceArgs<'_, Host, T>) -> Result<()> {
        map_inplace(&mut a.x, |v: T| v.affine(op.mul, op.add));
        Ok(())
    }
}
impl<A: Scalar, B: Scalar> Kernel<Cast<A, B>> for Cpu {
    fn compute(&self, _: &Cast<A, B>, a: &mut CastArgs<'_, Host, A, B>) -> Result<()> {
        map1(a.x, &mut a.y, 1, |v: A| B::from_wide(v.to_wide()));
        Ok(())
    }
}
impl<T: Element> Kernel<Copy<T>> for Cpu {
    fn compute(&self, _: &Copy<T>, a: &mut CopyArgs<'_, Host, T>) -> Result<()> {
        map1(a.x, &mut a.y, 1, |v: T| v);
        Ok(())
    }
}
impl<T: Element> Kernel<Fill<T>> for Cpu {
    fn compute(&self, op: &Fill<T>, a: &mut FillArgs<'_, Host, T>) -> Result<()> {
        map_inplace(&mut a.y, |_| op.value);
        Ok(())
    }
}
impl<T: Element, I: Index> Kernel<Where<T, I>> for Cpu {
    fn compute(&self, _: &Where<T, I>, a: &mut WhereArgs<'_, Host, T, I>) -> Result<()> {
        let layouts =
            Layout::merged([a.cond.layout(), a.on_true.layout(), a.on_false.layout(), a.y.layout()]);
        runs(layouts, |[lc, lt, lf, ly]| {
            let cond = Rows::with(&a.cond, lc);
            let (on_true, on_false) = (Rows::with(&a.on_true, lt), Rows::with(&a.on_false, lf));
            each_under(
                &mut a.y,
                ly,
                ly.last(),
                <(Vec<I>, Vec<T>, Vec<T>)>::default,
                |(sc, st, sf), i, out| {
                    let chosen =
                        cond.get(i, sc).iter().zip(on_true.get(i, st).iter().zip(on_false.get(i, sf)));
                    for (y, (c, (t, f))) in out.iter_mut().zip(chosen) {
                        *y = if c.to_i64() != 0 { *t } else { *f };
                    }
                },
            );
        });
        Ok(())
    }
}
