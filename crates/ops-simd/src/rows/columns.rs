//! Reductions over the rows of a matrix to one row: each lane belongs to one column.

use super::fold::flip_of;
use crate::element::{Element, View};
use crate::error::{Error, same_len};
use crate::isa::Isa;
use crate::simd::{Simd, VectorFn};

/// How columns are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// acc + x, in f32: add few rows at a time to a wider total.
    Sum,
    /// The larger; NaN if either is NaN.
    Max,
    /// The smaller; NaN if either is NaN.
    Min,
}

/// acc\[j\] = f(acc\[j\], x\[start + j\]) for each of `starts`.
///
/// # Errors
/// [`Error::Bounds`] if a row reaches beyond `x`.
pub fn fold_columns<T: Element>(
    isa: Isa,
    f: Columns,
    x: &[T],
    starts: &[usize],
    acc: &mut [f32],
) -> Result<(), Error> {
    check(x.len(), starts, acc.len())?;
    match f {
        Columns::Sum => of_view(isa, T::view(x), starts, acc, Add),
        Columns::Max => of_view(isa, T::view(x), starts, acc, Larger(flip_of(false))),
        Columns::Min => of_view(isa, T::view(x), starts, acc, Larger(flip_of(true))),
    }
    Ok(())
}

/// The row of the largest (or smallest) element of each column, whose value is in `best`: row `first` is that at the first of
/// `starts`. The first NaN wins, otherwise the first among equal elements.
///
/// # Errors
/// [`Error::Bounds`] if a row reaches beyond `x`; [`Error::Length`] if `index` and `best` differ in length.
pub fn arg_columns<T: Element>(
    isa: Isa,
    smallest: bool,
    x: &[T],
    (starts, first): (&[usize], u32),
    best: &mut [f32],
    index: &mut [u32],
) -> Result<(), Error> {
    check(x.len(), starts, best.len())?;
    same_len("index", index.len(), best.len())?;
    let (flip, index) = (flip_of(smallest), bytemuck::cast_slice_mut(index));
    match T::view(x) {
        View::F32(x) => isa.run(ArgColumns { x, starts, first, best, index, flip }),
        View::F16(x) => isa.run(ArgColumns { x, starts, first, best, index, flip }),
        View::Bf16(x) => isa.run(ArgColumns { x, starts, first, best, index, flip }),
    }
    Ok(())
}

fn check(len: usize, starts: &[usize], n: usize) -> Result<(), Error> {
    let need = starts.iter().map(|start| start.saturating_add(n)).max().unwrap_or(0);
    if need <= len { Ok(()) } else { Err(Error::Bounds { operand: "x", len, need }) }
}

/// How two vectors become one.
trait Combine: Copy {
    /// Applied to every operand and to the result. It is its own inverse.
    #[inline(always)]
    fn map<S: Simd>(self, _s: S, x: S::F) -> S::F {
        x
    }
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

#[derive(Clone, Copy)]
struct Add;
impl Combine for Add {
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.add(a, b)
    }
}

/// The larger after the bits `.0` are flipped.
#[derive(Clone, Copy)]
struct Larger(i32);
impl Combine for Larger {
    #[inline(always)]
    fn map<S: Simd>(self, s: S, x: S::F) -> S::F {
        s.from_bits(s.xor_i(s.to_bits(x), s.splat_i(self.0)))
    }
    #[inline(always)]
    fn join<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F {
        s.maximum(a, b)
    }
}

fn of_view<C: Combine>(isa: Isa, x: View<'_>, starts: &[usize], acc: &mut [f32], f: C) {
    match x {
        View::F32(x) => isa.run(FoldColumns { x, starts, acc, f }),
        View::F16(x) => isa.run(FoldColumns { x, starts, acc, f }),
        View::Bf16(x) => isa.run(FoldColumns { x, starts, acc, f }),
    }
}

struct FoldColumns<'a, T, C> {
    x: &'a [T],
    starts: &'a [usize],
    acc: &'a mut [f32],
    f: C,
}

/// Rows in one pass over the accumulators: the more, the less often those are loaded and stored.
const ROWS: usize = 4;

impl<T: Element, C: Combine> VectorFn for FoldColumns<'_, T, C> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let FoldColumns { x, starts, acc, f } = self;
        let n = acc.len();
        let (fours, rest) = starts.as_chunks::<ROWS>();
        for starts in fours {
            let rows = starts.map(|start| &x[start..start + n]);
            fold_rows(s, rows, acc, f);
        }
        for start in rest {
            fold_rows(s, [&x[*start..start + n]], acc, f);
        }
    }
}

/// Combines these rows with the accumulators.
#[inline(always)]
fn fold_rows<S: Simd, T: Element, C: Combine, const R: usize>(s: S, rows: [&[T]; R], acc: &mut [f32], f: C) {
    let n = acc.len();
    let mut at = 0;
    while at < n {
        let end = n.min(at + S::LANES);
        let mut v = [s.splat(0.0); R];
        for (v, row) in v.iter_mut().zip(rows) {
            *v = f.map(s, load(s, &row[at..end]));
        }
        // Pairs first, so that additions do not wait for each other.
        let mut width = R;
        while width > 1 {
            width /= 2;
            let mut i = 0;
            while i < width {
                v[i] = f.join(s, v[i], v[i + width]);
                i += 1;
            }
        }
        let old = f.map(s, load(s, &acc[at..end]));
        store(s, &mut acc[at..end], f.map(s, f.join(s, v[0], old)));
        at = end;
    }
}

/// A vector, or fewer elements.
#[inline(always)]
fn load<S: Simd, T: Element>(s: S, x: &[T]) -> S::F {
    if x.len() == S::LANES { T::load(s, x) } else { T::load_partial(s, x, 0.0) }
}

#[inline(always)]
fn store<S: Simd>(s: S, y: &mut [f32], v: S::F) {
    if y.len() == S::LANES { s.store(y, v) } else { s.store_partial(y, v) }
}

struct ArgColumns<'a, T> {
    x: &'a [T],
    starts: &'a [usize],
    first: u32,
    best: &'a mut [f32],
    /// Bits of u32.
    index: &'a mut [f32],
    flip: i32,
}

impl<T: Element> VectorFn for ArgColumns<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let ArgColumns { x, starts, first, best, index, flip } = self;
        let n = best.len();
        let (fours, rest) = starts.as_chunks::<ROWS>();
        let mut first = first;
        for starts in fours {
            arg_rows(s, (starts.map(|start| &x[start..start + n]), first), best, index, Larger(flip));
            first = first.wrapping_add(ROWS as u32);
        }
        for start in rest {
            arg_rows(s, ([&x[*start..start + n]], first), best, index, Larger(flip));
            first = first.wrapping_add(1);
        }
    }
}

/// Compares a few rows with the largest elements so far. With many rows at once, lines that map to the same
/// cache set would evict each other.
#[inline(always)]
fn arg_rows<S: Simd, T: Element, const R: usize>(
    s: S,
    (rows, first): ([&[T]; R], u32),
    bests: &mut [f32],
    indices: &mut [f32],
    larger: Larger,
) {
    let n = bests.len();
    let row = |i: usize| s.from_bits(s.splat_i(first.wrapping_add(i as u32) as i32));
    let mut at = 0;
    while at < n {
        let end = n.min(at + S::LANES);
        let mut v = [s.splat(0.0); R];
        // A sum is NaN if any of its terms is; the sum of opposite infinities only costs time.
        let mut sum = s.splat(0.0);
        for (v, row) in v.iter_mut().zip(rows) {
            *v = larger.map(s, load(s, &row[at..end]));
            sum = s.add(sum, *v);
        }
        let mut best = larger.map(s, load(s, &bests[at..end]));
        let mut index = load(s, &indices[at..end]);
        if s.any(s.is_nan(sum)) {
            (best, index) = arg_with_nan(s, &v, row, (best, index));
        } else {
            // Nothing is above a NaN.
            for (i, x) in v.into_iter().enumerate() {
                let above = s.lt(best, x);
                (best, index) = (s.select(above, x, best), s.select(above, row(i), index));
            }
        }
        store(s, &mut bests[at..end], larger.map(s, best));
        store(s, &mut indices[at..end], index);
        at = end;
    }
}

/// The larger elements and their rows where some may be NaN: the first NaN stays.
#[inline(always)]
fn arg_with_nan<S: Simd>(
    s: S,
    v: &[S::F],
    row: impl Fn(usize) -> S::F,
    (mut best, mut index): (S::F, S::F),
) -> (S::F, S::F) {
    for (i, x) in v.iter().enumerate() {
        let old = s.is_nan(best);
        let above = s.lt(best, *x);
        let (new_best, new_index) = (s.select(above, *x, best), s.select(above, row(i), index));
        let first_nan = s.is_nan(*x);
        let (new_best, new_index) =
            (s.select(first_nan, *x, new_best), s.select(first_nan, row(i), new_index));
        (best, index) = (s.select(old, best, new_best), s.select(old, index, new_index));
    }
    (best, index)
}
