//! Elementwise ops: each output element depends on one element of each operand.
use super::Reference;
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::{unary_function, unknown_function};
use crate::{Host, Kernel};
use ops_core::ops::{Affine, AffineInplace, Binary, BinaryFn, Unary, UnaryFn};
use ops_core::{Call, Num, Result};

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

/// `x · mul + add`. Integers are also computed in f64 and cast back.
fn affine(x: Option<Raw<'_>>, mut y: RawMut<'_>, mul: f64, add: f64) {
    let lx = x.map_or(y.layout, |x| x.layout);
    for (p, q) in lx.positions().zip(y.layout.positions()) {
        let v = x.map_or_else(|| y.as_raw().f64(p), |x| x.f64(p));
        y.set(q, v * mul + add);
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
