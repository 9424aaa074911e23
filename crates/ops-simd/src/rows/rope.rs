//! Rotary position embedding over rows.

use super::driver::{as_f32, round_approx, same_element_type};
use crate::cast::cast_views;
use crate::element::{Element, TypedOperands, View, ViewMut};
use crate::error::{Error, rows, same_len};
use crate::isa::{Isa, Run};
use crate::scratch::Scratch;
use crate::simd::pair::Pair;
use crate::simd::{Simd, VectorFn};
use crate::store::Store;

/// Which elements of a row of length d form pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// (i, i + d/2)
    Halves,
    /// (2i, 2i + 1)
    Adjacent,
}

/// Rotates each pair (a, b) of a row to (a·cos − b·sin, b·cos + a·sin). Rows of `x` and `y` have `d` elements, and rows of
/// the tables d/2; row r uses row r / `repeat` of the tables. Tables in f32 or in the type of the rows are used unconverted;
/// others are converted once per call.
///
/// # Errors
/// [`Error::Multiple`] if d is odd, `x` does not consist of whole rows, or `repeat` does not divide their number;
/// [`Error::Length`] if a table has the wrong length.
#[allow(clippy::too_many_arguments)]
pub fn rope<T: Element, C: Element>(
    isa: Isa,
    pairs: Pairs,
    x: &[T],
    d: usize,
    cos: &[C],
    sin: &[C],
    repeat: usize,
    y: &mut [T],
) -> Result<(), Error> {
    same_len("y", y.len(), x.len())?;
    check(x.len(), d, cos.len(), sin.len(), repeat)?;
    // Then `d` and `repeat` may be any numbers.
    if x.is_empty() {
        return Ok(());
    }
    dispatch(isa, Shape { pairs, d, repeat }, [C::view(cos), C::view(sin)], T::typed_operands([x], [y]));
    Ok(())
}

/// [`rope`] in place.
///
/// # Errors
/// As for [`rope`].
pub fn rope_in_place<T: Element, C: Element>(
    isa: Isa,
    pairs: Pairs,
    y: &mut [T],
    d: usize,
    cos: &[C],
    sin: &[C],
    repeat: usize,
) -> Result<(), Error> {
    check(y.len(), d, cos.len(), sin.len(), repeat)?;
    if y.is_empty() {
        return Ok(());
    }
    dispatch(isa, Shape { pairs, d, repeat }, [C::view(cos), C::view(sin)], T::typed_operands([&[]], [y]));
    Ok(())
}

fn check(len: usize, d: usize, cos: usize, sin: usize, repeat: usize) -> Result<(), Error> {
    if !d.is_multiple_of(2) {
        return Err(Error::Multiple { operand: "d", got: d, of: 2 });
    }
    let tables = rows("rows of x", rows("x", len, d)?, repeat)?;
    same_len("cos", cos, tables * (d / 2))?;
    same_len("sin", sin, tables * (d / 2))
}

#[derive(Clone, Copy)]
struct Shape {
    pairs: Pairs,
    d: usize,
    repeat: usize,
}

// 16-bit rows use 16-bit tables unconverted: half the bytes, and no conversion before the first row.
fn dispatch(isa: Isa, shape: Shape, tables: [View<'_>; 2], operands: TypedOperands<'_, 1, 1>) {
    match (operands, tables, isa.native()) {
        (TypedOperands::F16([x], [y]), [View::F16(cos), View::F16(sin)], Some(native)) => {
            native.run(Rope { shape, cos, sin, x, y })
        }
        (TypedOperands::Bf16([x], [y]), [View::Bf16(cos), View::Bf16(sin)], Some(native)) => {
            native.run(Rope { shape, cos, sin, x, y })
        }
        (operands, [cos, sin], _) => {
            let (mut wide_cos, mut wide_sin) = (Scratch::new(0), Scratch::new(0));
            let (cos, sin) = (as_f32(isa, cos, &mut wide_cos), as_f32(isa, sin, &mut wide_sin));
            rope_with_f32_tables(isa, shape, cos, sin, operands);
        }
    }
}

fn rope_with_f32_tables(isa: Isa, shape: Shape, cos: &[f32], sin: &[f32], operands: TypedOperands<'_, 1, 1>) {
    match (operands, isa.native()) {
        (TypedOperands::F32([x], [y]), _) => isa.run(Rope { shape, cos, sin, x, y }),
        (TypedOperands::F16([x], [y]), Some(native)) => native.run(Rope { shape, cos, sin, x, y }),
        (TypedOperands::Bf16([x], [y]), Some(native)) => native.run(Rope { shape, cos, sin, x, y }),
        (TypedOperands::F16([x], [y]), None) => rope_through_f32(isa, shape, [cos, sin], x, y),
        (TypedOperands::Bf16([x], [y]), None) => rope_through_f32(isa, shape, [cos, sin], x, y),
    }
}

/// Converts the rows that share a row of the tables to f32, and back.
fn rope_through_f32<T: Element>(isa: Isa, shape: Shape, [cos, sin]: [&[f32]; 2], x: &[T], y: &mut [T]) {
    let (rows, half) = (shape.repeat * shape.d, shape.d / 2);
    if rows == 0 {
        return;
    }
    let mut wide = Scratch::<f32>::new(rows);
    for (i, y) in y.chunks_mut(rows).enumerate() {
        let from = if x.is_empty() { &*y } else { &x[i * rows..][..rows] };
        cast_views(isa, T::view(from), ViewMut::F32(&mut wide), Store::Cached);
        let (cos, sin) = (&cos[i * half..][..half], &sin[i * half..][..half]);
        isa.run(Rope { shape, cos, sin, x: &[], y: &mut wide[..] });
        cast_views(isa, View::F32(&wide), T::view_mut(y), Store::Cached);
    }
}

struct Rope<'a, T, C> {
    shape: Shape,
    cos: &'a [C],
    sin: &'a [C],
    /// Empty if `y` is rotated in place.
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Element, C: Element> VectorFn for Rope<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Shape { pairs, d, repeat } = self.shape;
        if d == 0 {
            return;
        }
        for (r, y) in self.y.chunks_exact_mut(d).enumerate() {
            let at = r / repeat * (d / 2);
            let (cos, sin) = (&self.cos[at..at + d / 2], &self.sin[at..at + d / 2]);
            let x = if self.x.is_empty() { None } else { Some(&self.x[r * d..][..d]) };
            match pairs {
                Pairs::Halves => halves(s, x, y, cos, sin),
                Pairs::Adjacent => adjacent(s, x, y, cos, sin),
            }
        }
    }
}

#[inline(always)]
fn rotate<S: Simd>(s: S, a: S::F, b: S::F, c: S::F, t: S::F) -> (S::F, S::F) {
    (s.neg_mul_add(b, t, s.mul(a, c)), s.mul_add(a, t, s.mul(b, c)))
}

#[inline(always)]
fn halves<S: Simd, T: Element, C: Element>(s: S, x: Option<&[T]>, y: &mut [T], cos: &[C], sin: &[C]) {
    let half = cos.len();
    let pair = Pair(s);
    let mut at = 0;
    while same_element_type::<T, C>() && half - at >= 2 * S::LANES {
        let end = at + 2 * S::LANES;
        let x = x.unwrap_or(y);
        let (a, b) = (T::load_two(s, &x[at..end]), T::load_two(s, &x[half + at..half + end]));
        let (a, b) = rotate(pair, a, b, C::load_two(s, &cos[at..end]), C::load_two(s, &sin[at..end]));
        T::store_two_approx(s, &mut y[at..end], a);
        T::store_two_approx(s, &mut y[half + at..half + end], b);
        at = end;
    }
    while half - at >= S::LANES {
        let end = at + S::LANES;
        let x = x.unwrap_or(y);
        let (a, b) = (T::load(s, &x[at..end]), T::load(s, &x[half + at..half + end]));
        let (a, b) = rotate(s, a, b, C::load(s, &cos[at..end]), C::load(s, &sin[at..end]));
        T::store(s, &mut y[at..end], round_approx::<S, T, C>(s, a));
        T::store(s, &mut y[half + at..half + end], round_approx::<S, T, C>(s, b));
        at = end;
    }
    if at < half {
        let x = x.unwrap_or(y);
        let (a, b) = (T::load_partial(s, &x[at..half], 0.0), T::load_partial(s, &x[half + at..], 0.0));
        let (c, t) = (C::load_partial(s, &cos[at..], 0.0), C::load_partial(s, &sin[at..], 0.0));
        let (a, b) = rotate(s, a, b, c, t);
        T::store_partial(s, &mut y[at..half], round_approx::<S, T, C>(s, a));
        T::store_partial(s, &mut y[half + at..], round_approx::<S, T, C>(s, b));
    }
}

#[inline(always)]
fn adjacent<S: Simd, T: Element, C: Element>(s: S, x: Option<&[T]>, y: &mut [T], cos: &[C], sin: &[C]) {
    let half = cos.len();
    let mut at = 0;
    while half - at >= S::LANES {
        let end = at + S::LANES;
        let x = x.unwrap_or(y);
        let (a, b) = T::load_deinterleaved(s, &x[2 * at..2 * end]);
        let (a, b) = rotate(s, a, b, C::load(s, &cos[at..end]), C::load(s, &sin[at..end]));
        let y = &mut y[2 * at..2 * end];
        if same_element_type::<T, C>() {
            T::store_interleaved_approx(s, y, a, b)
        } else {
            T::store_interleaved(s, y, a, b)
        }
        at = end;
    }
    for i in at..half {
        let x = x.unwrap_or(y);
        let (a, b) = (x[2 * i].to_f32(), x[2 * i + 1].to_f32());
        let (c, t) = (cos[i].to_f32(), sin[i].to_f32());
        y[2 * i] = T::from_f32(a * c - b * t);
        y[2 * i + 1] = T::from_f32(b * c + a * t);
    }
}
