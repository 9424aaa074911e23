//! Elementwise ops: each output element depends on one element of each operand.
use super::Cpu;
use super::rows::map_runs;
use super::turned::Turned;
use super::vectors::{TaskResult, on_vector, only_f64, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num, on_scalar};
use crate::host::types::{unary_function, unknown_function};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{
    Affine, AffineInplace, Binary, BinaryFn, Cast, Fill, Glu, GluFn, TensorCopy, Unary, UnaryFn, Where,
};
use ops_core::{Call, DType, Element, Float, Num, Result, Scalar};
use ops_simd::{Isa, binary as vector_binary, unary as vector_unary};

/// `y = f(x)` over slices of elements.
fn apply<A: Element, B: Element>(x: &[u8], y: &mut [u8], f: impl Fn(A) -> B) -> TaskResult {
    for (y, x) in cast_slice_mut::<u8, B>(y).iter_mut().zip(cast_slice::<u8, A>(x)) {
        *y = f(*x);
    }
    Ok(())
}

/// `y = f(a, b)` over slices of elements of one type.
fn apply2<T: Element>(a: &[u8], b: &[u8], y: &mut [u8], f: impl Fn(T, T) -> T) -> TaskResult {
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

pub(super) fn glu(f: GluFn, gate: Raw<'_>, up: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    use ops_simd::Binary as V;
    let (isa, dtype, store) = (Isa::best(), gate.dtype, store_mode(y.bytes.len()));
    let (op, wide) = match f {
        GluFn::Swiglu => (V::SwiGlu, UnaryFn::Silu),
        GluFn::Geglu => (V::GeGlu, UnaryFn::Gelu),
        _ => return Err(unknown_function("glu")),
    };
    map_runs("glu", [gate, up], y, 1, 4, &|[gate, up], y| {
        on_vector!(dtype, T => {
            let (gate, up) = (cast_slice::<u8, T>(gate), cast_slice::<u8, T>(up));
            Ok(vector_binary(isa, op, gate, up, cast_slice_mut::<u8, T>(y), store)?)
        }, else {
            only_f64(dtype)?;
            apply2::<f64>(gate, up, y, |g, u| wide.at(g) * u)
        })
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

pub(super) fn cast(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, from, to, store) = (Isa::best(), x.dtype, y.dtype, store_mode(y.bytes.len()));
    map_runs("cast", [x], y, 1, 1, &|[x], y| {
        on_vector!(from, A => on_vector!(to, B => {
            return Ok(ops_simd::cast(isa, cast_slice::<u8, A>(x), cast_slice_mut::<u8, B>(y), store)?);
        }, else {}), else {});
        if let Some(widen) = widening(from) {
            on_vector!(to, B => {
                return cast_widened(isa, x, x.len() / from.size(), widen, cast_slice_mut::<u8, B>(y), store);
            }, else {});
        }
        on_scalar!(from, A => on_scalar!(to, B => {
            apply::<A, B>(x, y, |v| B::from_wide(v.to_wide()))
        }, else Err(unsupported_dtype(to))), else Err(unsupported_dtype(from)))
    })
}

/// Reads elements from an index on, as f32.
type Widen = fn(&[u8], usize, &mut [f32]);

/// How to read a small integer as f32, which represents all of its values.
fn widening(from: DType) -> Option<Widen> {
    fn read<A: Element + Into<f32>>(x: &[u8], first: usize, to: &mut [f32]) {
        for (to, x) in to.iter_mut().zip(&cast_slice::<u8, A>(x)[first..]) {
            *to = (*x).into();
        }
    }
    match from {
        DType::U8 => Some(read::<u8>),
        DType::I8 => Some(read::<i8>),
        DType::I16 => Some(read::<i16>),
        _ => None,
    }
}

/// A cast through f32, in blocks that stay in the L1 cache.
fn cast_widened<B: ops_simd::Element>(
    isa: Isa,
    x: &[u8],
    n: usize,
    widen: Widen,
    y: &mut [B],
    store: ops_simd::Store,
) -> TaskResult {
    let mut block = [0f32; 1024];
    for first in (0..n).step_by(block.len()) {
        let block = &mut block[..(n - first).min(1024)];
        widen(x, first, block);
        ops_simd::cast(isa, block, &mut y[first..first + block.len()], store)?;
    }
    Ok(())
}

fn copy(x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    if let Some(turned) = Turned::of(&x, &y) {
        return turned.copy(x, y);
    }
    map_runs("copy", [x], y, 1, 1, &|[x], y| {
        y.copy_from_slice(x);
        Ok(())
    })
}

fn fill(y: RawMut<'_>, value: &[u8]) -> Result<()> {
    map_runs("fill", [], y, 1, 1, &|[], y| {
        y.chunks_exact_mut(value.len()).for_each(|e| e.copy_from_slice(value));
        Ok(())
    })
}

fn choose(cond: Raw<'_>, on_true: Raw<'_>, on_false: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (isa, size, width) = (Isa::best(), y.size, cond.size);
    map_runs("where", [cond, on_true, on_false], y, 1, 1, &|[cond, on_true, on_false], y| {
        if width == 1 && matches!(size, 1 | 2 | 4 | 8) {
            return choose_vector(isa, size, cond, on_true, on_false, y);
        }
        let choices = on_true.chunks_exact(size).zip(on_false.chunks_exact(size));
        for ((y, c), (t, f)) in y.chunks_exact_mut(size).zip(cond.chunks_exact(width)).zip(choices) {
            y.copy_from_slice(if c.iter().any(|b| *b != 0) { t } else { f });
        }
        Ok(())
    })
}

/// [`choose`] for one-byte conditions and elements of 1, 2, 4 or 8 bytes.
fn choose_vector(
    isa: Isa,
    size: usize,
    cond: &[u8],
    on_true: &[u8],
    on_false: &[u8],
    y: &mut [u8],
) -> TaskResult {
    macro_rules! as_type {
        ($T:ty) => {
            ops_simd::choose::<$T>(isa, cond, cast_slice(on_true), cast_slice(on_false), cast_slice_mut(y))
        };
    }
    Ok(match size {
        1 => as_type!(u8),
        2 => as_type!(u16),
        4 => as_type!(u32),
        8 => as_type!(u64),
        _ => return Err("`where` has no vector kernel for this element size".into()),
    }?)
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
impl<T: Float> Kernel<Glu<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Glu<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        glu(op.function(), Raw::of(&a.gate), Raw::of(&a.up), RawMut::of(&mut a.y))
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
impl<T: Scalar> Kernel<Cast<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Cast<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        cast(Raw::any(&a.x), RawMut::of(&mut a.y))
    }
}
impl Kernel<TensorCopy> for Cpu {
    fn compute(&self, call: Call<'_, '_, TensorCopy, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        copy(Raw::any(&a.x), RawMut::any(&mut a.y))
    }
}
impl<T: Element> Kernel<Fill<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Fill<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        fill(RawMut::of(&mut a.y), bytemuck::bytes_of(&op.value))
    }
}
impl Kernel<Where> for Cpu {
    fn compute(&self, call: Call<'_, '_, Where, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        choose(Raw::any(&a.cond), Raw::any(&a.on_true), Raw::any(&a.on_false), RawMut::any(&mut a.y))
    }
}
