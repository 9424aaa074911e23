//! Elementwise ops: each output element depends on one element of each operand.
use super::Cpu;
use super::runs::map_runs;
use super::vectors::{TaskResult, on_vector, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::host::types::{unary_function, unknown_function};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{Affine, AffineInplace, Binary, BinaryFn, Unary, UnaryFn};
use ops_core::{Call, Element, Num, Result};
use ops_simd::{Isa, binary as vector_binary, unary as vector_unary};

/// `y = f(x)` over slices of elements.
pub(super) fn apply<A: Element, B: Element>(x: &[u8], y: &mut [u8], f: impl Fn(A) -> B) -> TaskResult {
    for (y, x) in cast_slice_mut::<u8, B>(y).iter_mut().zip(cast_slice::<u8, A>(x)) {
        *y = f(*x);
    }
    Ok(())
}

/// `y = f(a, b)` over slices of elements of one type.
pub(super) fn apply2<T: Element>(a: &[u8], b: &[u8], y: &mut [u8], f: impl Fn(T, T) -> T) -> TaskResult {
    let operands = cast_slice::<u8, T>(a).iter().zip(cast_slice::<u8, T>(b));
    for (y, (a, b)) in cast_slice_mut::<u8, T>(y).iter_mut().zip(operands) {
        *y = f(*a, *b);
    }
    Ok(())
}

pub(super) fn unary(f: UnaryFn, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, dtype, store) = (Isa::best(), x.dtype, store_mode(y.bytes.len()));
    let op = ops_simd::Unary::named(f.name());
    let cost = if f.on_integers() { 1 } else { 4 };
    map_runs(f.name(), [x], y, 1, cost, &|[x], y| {
        // Without a vector kernel, apply the definition element by element.
        let Some(op) = op else {
            return on_num!(dtype, T => apply::<T, T>(x, y, unary_function::<T>(f)), else Err(unsupported_dtype(dtype)));
        };
        on_vector!(dtype, T => {
            Ok(vector_unary(isa, op, cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y), store)?)
        }, else on_num!(dtype, T => apply::<T, T>(x, y, unary_function::<T>(f)), else Err(unsupported_dtype(dtype))))
    })
}

pub(super) fn binary(f: BinaryFn, a: Raw<'_>, b: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    use ops_simd::Binary as V;
    let (isa, dtype, store) = (Isa::best(), a.dtype, store_mode(y.bytes.len()));
    let op = match f {
        BinaryFn::Add => V::Add,
        BinaryFn::Sub => V::Sub,
        BinaryFn::Mul => V::Mul,
        BinaryFn::Div => V::Div,
        BinaryFn::Maximum => V::Maximum,
        BinaryFn::Minimum => V::Minimum,
        BinaryFn::Pow => V::Pow,
        other => return Err(unknown_function(other.name())),
    };
    let cost = if f == BinaryFn::Pow { 4 } else { 1 };
    map_runs(f.name(), [a, b], y, 1, cost, &|[a, b], y| {
        on_vector!(dtype, T => {
            let (a, b) = (cast_slice::<u8, T>(a), cast_slice::<u8, T>(b));
            Ok(vector_binary(isa, op, a, b, cast_slice_mut::<u8, T>(y), store)?)
        }, else on_num!(dtype, T => match op {
            V::Add => apply2::<T>(a, b, y, T::add),
            V::Sub => apply2::<T>(a, b, y, T::sub),
            V::Mul => apply2::<T>(a, b, y, T::mul),
            V::Div => apply2::<T>(a, b, y, T::div),
            V::Maximum => apply2::<T>(a, b, y, <T as Num>::maximum),
            V::Minimum => apply2::<T>(a, b, y, <T as Num>::minimum),
            V::Pow => apply2::<T>(a, b, y, <T as Num>::pow),
            V::SwiGlu | V::GeGlu => Err("a gated activation reached the binary kernel".into()),
        }, else Err(unsupported_dtype(dtype))))
    })
}

pub(super) fn affine(x: Raw<'_>, y: RawMut<'_>, mul: f64, add: f64) -> Result<()> {
    let (isa, dtype, store) = (Isa::best(), x.dtype, store_mode(y.bytes.len()));
    map_runs("affine", [x], y, 1, 1, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            Ok(ops_simd::affine(isa, x, mul as f32, add as f32, y, store)?)
        }, else on_num!(dtype, T => apply::<T, T>(x, y, |v| v.affine(mul, add)), else Err(unsupported_dtype(dtype))))
    })
}

pub(super) fn affine_inplace(y: RawMut<'_>, mul: f64, add: f64) -> Result<()> {
    let (isa, dtype) = (Isa::best(), y.dtype);
    map_runs("affine_inplace", [], y, 1, 1, &|[], y| {
        on_vector!(dtype, T => {
            ops_simd::affine_in_place(isa, mul as f32, add as f32, cast_slice_mut::<u8, T>(y));
            Ok(())
        }, else on_num!(dtype, T => {
            cast_slice_mut::<u8, T>(y).iter_mut().for_each(|v| *v = v.affine(mul, add));
            Ok(())
        }, else Err(unsupported_dtype(dtype))))
    })
}

impl<T: Num> Kernel<Unary<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Unary<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        unary(op.function(), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Binary<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Binary<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        binary(op.function(), Raw::of(&a.a), Raw::of(&a.b), RawMut::of(&mut a.y))
    }
}
impl<T: Num> Kernel<Affine<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Affine<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        affine(Raw::of(&a.x), RawMut::of(&mut a.y), op.mul, op.add)
    }
}
impl<T: Num> Kernel<AffineInplace<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, AffineInplace<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        affine_inplace(RawMut::of(&mut a.x), op.mul, op.add)
    }
}
