//! Rotary position embedding over rows.

use super::driver::as_f32;
use crate::element::{Element, Same};
use crate::error::{Error, rows, same_len};
use crate::isa::Isa;
use crate::scratch::Scratch;
use crate::simd::{Kernel, Simd};

/// Which elements of a row of d turn together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// (i, i + d/2)
    Halves,
    /// (2i, 2i + 1)
    Adjacent,
}

/// Turns each pair (a, b) of a row to (a·cos − b·sin, b·cos + a·sin). Rows of `x` and `y` have `d` elements, rows of the
/// tables d/2; row r uses row r / `repeat` of the tables. Tables in f32 are used as they are, others are converted
/// once per call.
///
/// # Errors
/// [`Error::Multiple`] when d is odd, `x` not whole rows or `repeat` does not divide them;
/// [`Error::Length`] when a table is not as long as the rows need.
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
    let (mut wide_cos, mut wide_sin) = (Scratch::new(0), Scratch::new(0));
    let (cos, sin) = (as_f32(isa, C::view(cos), &mut wide_cos), as_f32(isa, C::view(sin), &mut wide_sin));
    dispatch(isa, Turn { pairs, d, cos, sin, repeat }, T::same([x], [y]));
    Ok(())
}

/// [`rope`] with x and y the same rows.
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
    let (mut wide_cos, mut wide_sin) = (Scratch::new(0), Scratch::new(0));
    let (cos, sin) = (as_f32(isa, C::view(cos), &mut wide_cos), as_f32(isa, C::view(sin), &mut wide_sin));
    dispatch(isa, Turn { pairs, d, cos, sin, repeat }, T::same([&[]], [y]));
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
struct Turn<'a> {
    pairs: Pairs,
    d: usize,
    cos: &'a [f32],
    sin: &'a [f32],
    repeat: usize,
}

fn dispatch(isa: Isa, turn: Turn<'_>, operands: Same<'_, 1, 1>) {
    match operands {
        Same::F32([x], [y]) => isa.run(Rope { turn, x, y }),
        Same::F16([x], [y]) => isa.run(Rope { turn, x, y }),
        Same::Bf16([x], [y]) => isa.run(Rope { turn, x, y }),
    }
}

struct Rope<'a, T> {
    turn: Turn<'a>,
    /// Empty when `y` is turned in place.
    x: &'a [T],
    y: &'a mut [T],
}

impl<T: Element> Kernel for Rope<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Turn { pairs, d, cos, sin, repeat } = self.turn;
        if d == 0 {
            return;
        }
        for (r, y) in self.y.chunks_exact_mut(d).enumerate() {
            let at = r / repeat * (d / 2);
            let (cos, sin) = (&cos[at..at + d / 2], &sin[at..at + d / 2]);
            let x = if self.x.is_empty() { None } else { Some(&self.x[r * d..][..d]) };
            match pairs {
                Pairs::Halves => halves(s, x, y, cos, sin),
                Pairs::Adjacent => adjacent(s, x, y, cos, sin),
            }
        }
    }
}

#[inline(always)]
fn turn<S: Simd>(s: S, a: S::F, b: S::F, c: S::F, t: S::F) -> (S::F, S::F) {
    (s.neg_mul_add(b, t, s.mul(a, c)), s.mul_add(a, t, s.mul(b, c)))
}

#[inline(always)]
fn halves<S: Simd, T: Element>(s: S, x: Option<&[T]>, y: &mut [T], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    let mut at = 0;
    while at < half {
        let end = half.min(at + S::LANES);
        let x = x.unwrap_or(y);
        if end - at == S::LANES {
            let (a, b) = (T::load(s, &x[at..end]), T::load(s, &x[half + at..half + end]));
            let (a, b) = turn(s, a, b, s.load(&cos[at..end]), s.load(&sin[at..end]));
            T::store(s, &mut y[at..end], a);
            T::store(s, &mut y[half + at..half + end], b);
        } else {
            let a = T::load_partial(s, &x[at..end], 0.0);
            let b = T::load_partial(s, &x[half + at..half + end], 0.0);
            let (c, t) = (s.load_partial(&cos[at..end], 0.0), s.load_partial(&sin[at..end], 0.0));
            let (a, b) = turn(s, a, b, c, t);
            T::store_partial(s, &mut y[at..end], a);
            T::store_partial(s, &mut y[half + at..half + end], b);
        }
        at = end;
    }
}

#[inline(always)]
fn adjacent<S: Simd, T: Element>(s: S, x: Option<&[T]>, y: &mut [T], cos: &[f32], sin: &[f32]) {
    let half = cos.len();
    let mut at = 0;
    while half - at >= S::LANES {
        let end = at + S::LANES;
        let x = x.unwrap_or(y);
        let (a, b) = T::load_deinterleaved(s, &x[2 * at..2 * end]);
        let (a, b) = turn(s, a, b, s.load(&cos[at..end]), s.load(&sin[at..end]));
        T::store_interleaved(s, &mut y[2 * at..2 * end], a, b);
        at = end;
    }
    for i in at..half {
        let x = x.unwrap_or(y);
        let (a, b) = (x[2 * i].to_f32(), x[2 * i + 1].to_f32());
        y[2 * i] = T::from_f32(a * cos[i] - b * sin[i]);
        y[2 * i + 1] = T::from_f32(b * cos[i] + a * sin[i]);
    }
}
