//! Elementwise ops: each output element depends on one element of each operand.
use super::Reference;
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::{unary_function, unknown_function};
use crate::{Host, Kernel};
use ops_core::ops::{
    Affine, AffineInplace, Binary, BinaryFn, Cast, Fill, Glu, GluFn, TensorCopy, Unary, UnaryFn, Where,
};
use ops_core::{Call, Element, Float, Num, Result, Scalar, Wide};

fn unary(f: UnaryFn, x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let positions = x.layout.positions().zip(y.layout.positions());
    on_num!(x.dtype, T => {
        let f = unary_function::<T>(f);
        let (x, y) = (x.slice::<T>(), y.slice::<T>());
        positions.for_each(|(p, q)| y[q] = f(x[p]));
        Ok(())
    }, else Err(unknown_function(f.name())))
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
            BinaryFn::Pow => <T as Num>::pow,
            other => return Err(unknown_function(other.name())),
        };
        let (a, b, y) = (a.slice::<T>(), b.slice::<T>(), y.slice::<T>());
        positions.for_each(|((p, q), r)| y[r] = f(a[p], b[q]));
        Ok(())
    }, else Err(unknown_function(f.name())))
}

fn glu(f: GluFn, gate: Raw<'_>, up: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let f = match f {
        GluFn::Swiglu => UnaryFn::Silu,
        GluFn::Geglu => UnaryFn::Gelu,
        _ => return Err(unknown_function("glu")),
    };
    for ((p, q), r) in gate.layout.positions().zip(up.layout.positions()).zip(y.layout.positions()) {
        y.set(r, f.at(gate.f64(p)) * up.f64(q));
    }
    Ok(())
}

/// `x · mul + add`. Integers are also computed in f64 and cast back.
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
    fn compute(&self, call: Call<'_, '_, Unary<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        unary(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Binary<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Binary<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        binary(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<Glu<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Glu<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        glu(op.function(), Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Affine<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Affine<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        affine(Some(Raw::of(&a.x)), RawMut::of(&mut a.y), op.mul, op.add);
        Ok(())
    }
}
impl<T: Num> Kernel<AffineInplace<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, AffineInplace<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        affine(None, RawMut::of(&mut a.x), op.mul, op.add);
        Ok(())
    }
}
impl<T: Scalar> Kernel<Cast<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Cast<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        cast(Raw::any(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Element> Kernel<TensorCopy<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, TensorCopy<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        copy(Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<T: Element> Kernel<Fill<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Fill<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        fill(RawMut::of(&mut a.y), bytemuck::bytes_of(&op.value));
        Ok(())
    }
}
impl<T: Element> Kernel<Where<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Where<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        choose(Raw::any(&a.cond), Raw::of(&a.on_true), Raw::of(&a.on_false), RawMut::of(&mut a.y));
        Ok(())
    }
}
