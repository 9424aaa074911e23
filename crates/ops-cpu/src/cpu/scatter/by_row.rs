//! Adding whole rows.
use super::indices::each_place;
use crate::cpu::reduce_loops::Wider;
use crate::cpu::rows::{Scratch, for_each_row, reserve, row, row_position};
use crate::cpu::vectors::unsupported_dtype;
use crate::host::raw::{Raw, RawMut, on_num};
use bytemuck::{Zeroable, cast_slice_mut};
use ops_core::{Num, Result};
use ops_simd::{Isa, Simd, VectorFn};

/// The numbers of the indices of each element, in order: those of element `p` are
/// `numbers[starts[p]..starts[p + 1]]`.
struct ByPlace {
    starts: Vec<usize>,
    numbers: Vec<usize>,
}

fn zeros(len: usize) -> Result<Vec<usize>> {
    let mut zeros = reserve(len)?;
    zeros.resize(len, 0);
    Ok(zeros)
}

impl ByPlace {
    fn new(ids: Raw<'_>, bound: usize) -> Result<Self> {
        let mut gathered = Scratch::default();
        let bytes = row(&ids, 0, &mut gathered);
        let mut starts = zeros(bound + 1)?;
        let mut len = 0;
        each_place(ids.dtype, bytes, bound, &mut |_, place| {
            starts[place + 1] += 1;
            len += 1;
        });
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        // Filling advances each start to the next element's, so they are shifted by one afterwards.
        let mut numbers = zeros(len)?;
        each_place(ids.dtype, bytes, bound, &mut |j, place| {
            numbers[starts[place]] = j;
            starts[place] += 1;
        });
        starts.rotate_right(1);
        starts[0] = 0;
        Ok(ByPlace { starts, numbers })
    }
    fn of(&self, place: usize) -> &[usize] {
        &self.numbers[self.starts[place]..self.starts[place + 1]]
    }
}

/// Adds whole rows of `src`, for an axis that is not the last: each row of `dst` is read and written once. Elements of a row are
/// neighbours in both.
pub(super) fn add_rows(dst: RawMut<'_>, ids: Raw<'_>, src: Raw<'_>, axis: usize) -> Result<()> {
    let (dtype, dims) = (dst.dtype, dst.layout.dims().to_vec());
    let (bound, n, last) = (dims[axis], src.dims()[axis], dst.layout.last());
    let by_place = ByPlace::new(ids, bound)?;
    // Rows of one element.
    let below: usize = dims[axis + 1..dims.len() - 1].iter().product();
    let cost = last.saturating_mul(1 + n / bound.max(1));
    let stride = src.layout.strides()[axis];
    for_each_row("index_add", dst, cost, &|_, i, dst| {
        let (outer, place, rest) = (i / below / bound, i / below % bound, i % below);
        let numbers = by_place.of(place);
        if numbers.is_empty() {
            return Ok(());
        }
        let first = row_position(&src.layout, outer * n * below + rest);
        on_num!(dtype, T => {
            Isa::best().run(Add { x: src.slice::<T>(), first, stride, numbers, y: cast_slice_mut(dst) });
            Ok(())
        }, else Err(unsupported_dtype(dtype)))
    })
}

/// Number of columns that are summed at once: their sums stay in registers.
const COLUMNS: usize = 32;

/// Adds rows of `x` to `y`: those with these numbers, where row 0 begins at `first` and the next one `stride` further. Floats are
/// added in f64 and rounded once.
struct Add<'a, T> {
    x: &'a [T],
    first: usize,
    stride: isize,
    numbers: &'a [usize],
    y: &'a mut [T],
}

impl<T: Wider> VectorFn for Add<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Add { x, first, stride, numbers, y } = self;
        let start = |number: usize| first.wrapping_add_signed(stride * number as isize);
        let (whole, rest) = y.as_chunks_mut::<COLUMNS>();
        let done = whole.len() * COLUMNS;
        for (i, y) in whole.iter_mut().enumerate() {
            let mut sums = [T::In::zeroed(); COLUMNS];
            sums.iter_mut().zip(&*y).for_each(|(sum, v)| *sum = v.wider());
            for number in numbers {
                let x = &x[start(*number) + i * COLUMNS..][..COLUMNS];
                sums.iter_mut().zip(x).for_each(|(sum, v)| *sum = sum.add(v.wider()));
            }
            y.iter_mut().zip(sums).for_each(|(y, sum)| *y = T::narrower(sum));
        }
        for (i, y) in rest.iter_mut().enumerate() {
            let add = |sum: T::In, number: &usize| sum.add(x[start(*number) + done + i].wider());
            *y = T::narrower(numbers.iter().fold(y.wider(), add));
        }
    }
}
