//! Sorting along an axis, and the largest elements of rows.
//!
//! Elements are mapped to unsigned keys with the same order. A key of at most 32 bits and the element's index
//! fill one word. The words of long rows are sorted by the digits of the key; those of short rows, and pairs
//! of longer keys and indices, by comparison. No two are equal, so any sort of them is stable.
use super::Cpu;
use super::rows::{Scratch, for_each_row, for_each_row_pair, row};
use super::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, RawMut, on_num};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{ArgSort, Sort, TopK};
use ops_core::{Call, Element, Num, Result, bf16, f16};

/// An element that has a key.
trait Keyed: Element {
    const BITS: u32;
    /// Compares as the elements do. NaN is the largest, and zeros of either sign are equal.
    fn key(self) -> u64;
}
macro_rules! keyed_integers {
    ($($t:ty, $bits:ty, $low:expr;)+) => {$(
        impl Keyed for $t {
            const BITS: u32 = <$bits>::BITS;
            #[inline] fn key(self) -> u64 { u64::from(self as $bits ^ $low) }
        }
    )+};
}
keyed_integers! {
    u8, u8, 0; u32, u32, 0; i8, u8, 1 << 7; i16, u16, 1 << 15; i32, u32, 1 << 31; i64, u64, 1 << 63;
}
macro_rules! keyed_floats {
    ($($t:ty, $bits:ty;)+) => {$(
        impl Keyed for $t {
            const BITS: u32 = <$bits>::BITS;
            #[inline] fn key(self) -> u64 {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                let bits = self.to_bits();
                let bits = if bits == SIGN { 0 } else { bits };
                let key = if bits & SIGN == 0 { bits | SIGN } else { !bits };
                u64::from(if self.is_nan() { <$bits>::MAX } else { key })
            }
        }
    )+};
}
keyed_floats! { f16, u16; bf16, u16; f32, u32; f64, u64; }

/// Rows of at least this many words are sorted by digits.
const MIN_RADIX: usize = 256;
const DIGIT: u32 = 11;
const BINS: usize = 1 << DIGIT;

/// The first `k` indices of `x` in order, in `indices`.
fn order<T: Keyed>(x: &[T], descending: bool, [a, b]: [&mut Scratch; 2], indices: &mut [u32]) {
    let (n, k) = (x.len(), indices.len());
    let flip = if descending { u64::MAX >> (64 - T::BITS) } else { 0 };
    if T::BITS > 32 {
        let pairs: &mut [[u64; 2]] = cast_slice_mut(a.words(2 * n));
        for (i, (pair, v)) in pairs.iter_mut().zip(x).enumerate() {
            *pair = [v.key() ^ flip, i as u64];
        }
        let first = first_in_order(pairs, k);
        indices.iter_mut().zip(first).for_each(|(index, pair)| *index = pair[1] as u32);
        return;
    }
    let words = a.words(n);
    for (i, (word, v)) in words.iter_mut().zip(x).enumerate() {
        *word = (v.key() ^ flip) << 32 | i as u64;
    }
    // Selecting a few of many is faster than sorting all.
    let first = if n < MIN_RADIX || k < n / 8 || u32::try_from(n).is_err() {
        first_in_order(words, k)
    } else {
        &*by_digits(words, b.words(n), T::BITS)
    };
    indices.iter_mut().zip(first).for_each(|(index, word)| *index = *word as u32);
}

/// The first `k` of these, in order.
fn first_in_order<W: Ord>(words: &mut [W], k: usize) -> &[W] {
    if 0 < k && k < words.len() {
        words.select_nth_unstable(k - 1);
    }
    words[..k].sort_unstable();
    &words[..k]
}

/// Sorts words by the lowest `bits` of their upper half, from the lowest digit up. The result is in one of
/// the two.
fn by_digits<'w>(words: &'w mut [u64], other: &'w mut [u64], bits: u32) -> &'w mut [u64] {
    const MAX_DIGITS: usize = 32u32.div_ceil(DIGIT) as usize;
    let digit = |word: u64, pass: usize| (word >> (32 + DIGIT * pass as u32)) as usize & (BINS - 1);
    let passes = bits.div_ceil(DIGIT) as usize;
    let mut counts = [[0u32; BINS]; MAX_DIGITS];
    for word in &*words {
        for (pass, counts) in counts[..passes].iter_mut().enumerate() {
            counts[digit(*word, pass)] += 1;
        }
    }
    let (mut from, mut to) = (words, other);
    for (pass, places) in counts[..passes].iter_mut().enumerate() {
        // All in one bin: nothing to move.
        if from.first().is_some_and(|word| places[digit(*word, pass)] as usize == from.len()) {
            continue;
        }
        let mut next = 0;
        for place in &mut *places {
            next += core::mem::replace(place, next);
        }
        for word in &*from {
            let place = &mut places[digit(*word, pass)];
            to[*place as usize] = *word;
            *place += 1;
        }
        core::mem::swap(&mut from, &mut to);
    }
    from
}

/// Writes the elements in order, as many as there is room for.
fn pick(x: &[u8], size: usize, indices: &[u32], y: &mut [u8]) {
    for (y, index) in y.chunks_exact_mut(size).zip(indices) {
        y.copy_from_slice(&x[*index as usize * size..][..size]);
    }
}

/// The work of sorting `n` elements, in elements.
fn cost(n: usize) -> usize {
    n.saturating_mul(16)
}

/// Sorts rows; `find` receives the row, scratch memory and the memory for the indices.
fn ordered(
    x: &Raw<'_>,
    row: &[u8],
    descending: bool,
    scratch: [&mut Scratch; 2],
    indices: &mut [u32],
) -> TaskResult {
    on_num!(x.dtype, T => {
        order::<T>(cast_slice(row), descending, scratch, indices);
        Ok(())
    }, else Err(unsupported_dtype(x.dtype)))
}

/// Layouts with `axis` exchanged for the last one.
fn along<'x, 'y>(x: Raw<'x>, y: RawMut<'y>, axis: isize) -> Result<(Raw<'x>, RawMut<'y>)> {
    let (lx, ly) = (x.layout.transpose(axis, -1)?, y.layout.transpose(axis, -1)?);
    Ok((x.with_layout(lx), y.with_layout(ly)))
}

fn sort(x: Raw<'_>, y: RawMut<'_>, axis: isize, descending: bool) -> Result<()> {
    let (x, y) = along(x, y, axis)?;
    let n = x.layout.last();
    for_each_row("sort", y, cost(n), &|[gathered, a, b], i, y| {
        let from = row(&x, i, gathered);
        let mut indices = super::rows::zeros::<u32>(n).map_err(|_| "no memory for indices")?;
        ordered(&x, from, descending, [a, b], &mut indices)?;
        pick(from, x.size, &indices, y);
        Ok(())
    })
}

fn argsort(x: Raw<'_>, y: RawMut<'_>, axis: isize, descending: bool) -> Result<()> {
    let (x, y) = along(x, y, axis)?;
    for_each_row("argsort", y, cost(x.layout.last()), &|[gathered, a, b], i, y| {
        ordered(&x, row(&x, i, gathered), descending, [a, b], cast_slice_mut(y))
    })
}

fn topk(x: Raw<'_>, values: RawMut<'_>, indices: RawMut<'_>) -> Result<()> {
    let n = x.layout.last();
    for_each_row_pair(
        "topk",
        values,
        indices,
        n.saturating_mul(4),
        &|[gathered, a, b], i, values, indices| {
            let (from, indices) = (row(&x, i, gathered), cast_slice_mut::<u8, u32>(indices));
            ordered(&x, from, true, [a, b], indices)?;
            pick(from, x.size, indices, values);
            Ok(())
        },
    )
}

impl<T: Num> Kernel<Sort<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Sort<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        sort(Raw::of(&a.x), RawMut::of(&mut a.y), op.axis, op.descending)
    }
}
impl<T: Num> Kernel<ArgSort<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, ArgSort<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        argsort(Raw::of(&a.x), RawMut::of(&mut a.y), op.axis, op.descending)
    }
}
impl<T: Num> Kernel<TopK<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, TopK<T>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        topk(Raw::of(&a.x), RawMut::of(&mut a.values), RawMut::of(&mut a.indices))
    }
}
