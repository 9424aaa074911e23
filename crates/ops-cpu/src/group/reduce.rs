//! Sums and maxima over the ranks, in rank order.
use crate::host::raw::{on_float, on_integer, on_num};
use core::ops::Range;
use ops_core::group::Reduction;
use ops_core::{DType, Float, Num};
use std::sync::Arc;

/// The sum or maximum of these elements of all ranks. Sums follow the accumulation rule: 16-bit floats are added in f32 and rounded once.
pub(super) fn reduce(f: Reduction, dtype: DType, ranks: &[Arc<Vec<u8>>], elements: Range<usize>) -> Vec<u8> {
    let bytes = elements.start * dtype.size()..elements.end * dtype.size();
    let ranks: Vec<&[u8]> = ranks.iter().map(|rank| &rank[bytes.clone()]).collect();
    let mut y = vec![0; bytes.len()];
    match f {
        Reduction::Sum if dtype.is_float() => {
            on_float!(dtype, T => sum_floats::<T>(&ranks, &mut y), else not_a_number(dtype))
        }
        Reduction::Sum => {
            on_integer!(dtype, T => fold::<T>(&ranks, &mut y, <T as Num>::add), else not_a_number(dtype))
        }
        Reduction::Max => {
            on_num!(dtype, T => fold::<T>(&ranks, &mut y, <T as Num>::maximum), else not_a_number(dtype))
        }
    }
    y
}

#[cold]
fn not_a_number(dtype: DType) -> ! {
    unreachable!("a checked call adds numbers only, not {dtype}")
}

/// Elements of memory that need not be aligned for them.
fn elements<T: Num>(bytes: &[u8]) -> impl Iterator<Item = T> {
    bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned)
}

fn sum_floats<T: Float>(ranks: &[&[u8]], y: &mut [u8]) {
    let Some((first, others)) = ranks.split_first() else { return };
    let mut sums: Vec<T::Acc> = elements::<T>(first).map(T::acc).collect();
    for rank in others {
        for (sum, v) in sums.iter_mut().zip(elements::<T>(rank)) {
            *sum = Num::add(*sum, v.acc());
        }
    }
    store(y, sums.into_iter().map(T::from_acc));
}

fn fold<T: Num>(ranks: &[&[u8]], y: &mut [u8], join: impl Fn(T, T) -> T) {
    let Some((first, others)) = ranks.split_first() else { return };
    let mut all: Vec<T> = elements(first).collect();
    for rank in others {
        for (a, v) in all.iter_mut().zip(elements(rank)) {
            *a = join(*a, v);
        }
    }
    store(y, all.into_iter());
}

fn store<T: Num>(y: &mut [u8], values: impl Iterator<Item = T>) {
    for (place, v) in y.chunks_exact_mut(size_of::<T>()).zip(values) {
        place.copy_from_slice(bytemuck::bytes_of(&v));
    }
}
