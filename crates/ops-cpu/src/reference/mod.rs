//! The oracle: plain loops, f64 inside, one rounding at the store, every op, type and layout.
//!
//! Nothing here is fast, and nothing should become so: this is the code that everything else is
//! compared with, so it reads like the definition of each op.
use crate::host::{execute_kernels, host_backend};
use ops_core::Layout;

mod attention;
mod elementwise;
mod index;
mod matmul;
mod norm;
mod quant;
mod rope;
mod softmax;

pub(crate) use elementwise::{of_num, unknown};

/// Computes every op in f64 with plain loops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Reference {
    /// The reference backend.
    pub fn new() -> Self {
        Reference
    }
}

host_backend!(Reference, "reference");
execute_kernels!(Reference, |_reference, kernel| kernel());

/// The positions of one line along an axis, given the position of its first element.
fn line(layout: &Layout, axis: usize, first: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let (n, stride) = (layout.dims()[axis], layout.strides()[axis]);
    (0..n).map(move |i| first.wrapping_add_signed(stride * i as isize))
}

/// The positions of the first elements of all lines along an axis, in order.
fn lines(layout: &Layout, axis: usize) -> impl Iterator<Item = usize> + use<> {
    // Narrowed to one element each; an axis of length 0 has no lines worth visiting.
    let first = layout.narrow(axis as isize, 0, layout.dims()[axis].min(1));
    first.into_iter().flat_map(|first| first.positions())
}

/// The mean of no values is not a number, of others their sum over their count.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// The largest value; NaN if there is one.
fn max(values: &[f64]) -> f64 {
    values.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v })
}
