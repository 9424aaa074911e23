//! Neighbouring lines, which are processed together, one index position at a time, so that each line of the cache is read once. Each element of
//! the output still meets its indices in their order.
use super::indices::{NONE, resolve_row};
use crate::cpu::reduce_loops::Wider;
use crate::cpu::rows::{Line, Scratch, gather, row_position};
use crate::cpu::threads;
use crate::cpu::vectors::{TaskResult, unsupported_dtype};
use crate::host::raw::{Raw, on_num};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::{DType, Layout, Num, Scalar};
use ops_simd::{Isa, Simd, VectorFn, prefetch};

/// Number of columns that are processed together, at most.
pub(super) const COLUMNS: usize = 64;
/// Rows of such columns are far apart, so they are prefetched: that many rows ahead.
const AHEAD: usize = 16;
/// Columns of f32 in a line of the cache.
const NEIGHBOURS: usize = 16;
/// Bytes of the sums of such columns, which are to stay in the L2 cache.
pub(super) const SUMS: usize = 512 << 10;
/// With more places than this, a thread would need over 8 MiB for sums.
pub(super) const MAX_PLACES: usize = 1 << 16;

/// Number of lines along `axis` that are processed together: at most `most`, in whole lines of the cache, but at least one of these and
/// at most `COLUMNS`; 1 if the lines are not neighbours.
pub(super) fn neighbours(dst: &Layout, src: &[usize], axis: usize, most: usize) -> usize {
    let columns = src.last().copied().unwrap_or(1);
    if axis + 1 == dst.rank() || dst.last_stride() != 1 || columns < NEIGHBOURS / 2 {
        return 1;
    }
    let even = columns.div_ceil(2 * threads::count()).next_multiple_of(NEIGHBOURS);
    even.min(most / NEIGHBOURS * NEIGHBOURS).clamp(NEIGHBOURS, COLUMNS)
}

/// Calls `f` with each row of `width` lines from line `i` on: the places that its indices refer to, `NONE` for no element, and its
/// source.
pub(super) fn each_row(
    [ids, src]: [Raw<'_>; 2],
    (i, width): (usize, usize),
    [a, b, _]: &mut [Scratch; 3],
    f: &mut dyn FnMut(&[usize], &[u8]),
) {
    let across = |x: &Raw<'_>| x.layout.strides().iter().nth_back(1).copied().unwrap_or(1);
    let (first_id, first_src) = (row_position(&ids.layout, i), row_position(&src.layout, i));
    let at = |first: usize, x: &Raw<'_>, j| first.wrapping_add_signed(x.layout.last_stride() * j as isize);
    let mut places = [NONE; COLUMNS];
    let (places, n) = (&mut places[..width], ids.layout.last());
    for j in 0..n {
        let later = (j + AHEAD).min(n - 1);
        prefetch(ids.element(at(first_id, &ids, later)));
        prefetch(src.element(at(first_src, &src, later)));
        let row = gather(&ids, at(first_id, &ids, j), width, across(&ids), a);
        resolve_row(ids.dtype, row, places);
        f(places, gather(&src, at(first_src, &src, j), width, across(&src), b));
    }
}

/// Adds to neighbouring lines, of which the first has number `i`.
pub(super) fn add_neighbours(
    dtype: DType,
    dst: &mut Line<'_>,
    operands: [Raw<'_>; 2],
    (i, bound): (usize, usize),
    scratches: &mut [Scratch; 3],
) -> TaskResult {
    let mut sums = core::mem::take(&mut scratches[2]);
    let words = sums.words(bound * dst.width());
    on_num!(dtype, T => {
        let sums = &mut cast_slice_mut::<u64, <T as Wider>::In>(words)[..bound * dst.width()];
        Isa::best().run(Add::<T> { dst, operands, i, sums, scratches });
    }, else return Err(unsupported_dtype(dtype)));
    scratches[2] = sums;
    Ok(())
}

struct Add<'a, 's, T: Wider> {
    dst: &'a mut Line<'s>,
    operands: [Raw<'a>; 2],
    /// The number of the first line.
    i: usize,
    /// That of line `l` of a place is `sums[place * width + l]`.
    sums: &'a mut [T::In],
    scratches: &'a mut [Scratch; 3],
}

impl<T: Wider> VectorFn for Add<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Add { dst, operands, i, sums, scratches } = self;
        let (width, bound) = (dst.width(), sums.len() / dst.width());
        for (place, sums) in sums.chunks_exact_mut(width).enumerate() {
            prefetch(dst.element((place + AHEAD).min(bound - 1)));
            let old = cast_slice::<u8, T>(dst.element(place));
            sums.iter_mut().zip(old).for_each(|(sum, v)| *sum = v.wider());
        }
        each_row(operands, (i, width), scratches, &mut |places, src| {
            for (c, (place, v)) in places.iter().zip(cast_slice::<u8, T>(src)).enumerate() {
                // No sum has the place `NONE`.
                if let Some(sum) = sums.get_mut(place.wrapping_mul(width).wrapping_add(c)) {
                    *sum = sum.add(v.wider());
                }
            }
        });
        for (place, sums) in sums.chunks_exact(width).enumerate() {
            prefetch(dst.element((place + AHEAD).min(bound - 1)));
            for (to, sum) in cast_slice_mut::<u8, T>(dst.element(place)).iter_mut().zip(sums) {
                // A float without an index keeps its bits, even if it is NaN.
                let same = T::IS_FLOAT && to.wider().to_f64().to_bits() == sum.to_f64().to_bits();
                *to = if same { *to } else { T::narrower(*sum) };
            }
        }
    }
}
