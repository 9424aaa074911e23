//! The oracle: plain loops in f64, one rounding at the store; every op, type and layout.
//!
//! Every other backend is compared with this code, so it reads like the definition of each op. Do not
//! optimise it.
use crate::host::{execute_kernels, host_backend};
use ops_core::{Determinism, Layout};

mod activation;
mod attention;
mod batch_norm;
mod bitwise;
mod cache;
mod cast;
mod compare;
mod conv;
mod copy;
mod elementwise;
mod experts;
mod gated;
mod index;
mod linear_attention;
mod matmul;
mod norm;
mod parametric;
mod pool;
mod qk_norm_rope;
mod quant;
mod reduce;
mod rope;
mod routing;
mod sampling;
mod scan;
mod scatter;
mod softmax;
mod sort;
mod upsample;
mod where_;

/// Computes every op in f64 with plain loops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Reference {
    /// Creates the reference backend.
    pub fn new() -> Self {
        Reference
    }
    /// Plain loops compute every row the same way, so there is nothing to request.
    pub(crate) fn wanted(&self) -> Determinism {
        Determinism::Run
    }
}

host_backend!(Reference, "reference", |_, bytes| bytes.fill(0));
execute_kernels!(Reference, |_reference, kernel| kernel());

/// The positions of one line along an axis, given the position of its first element.
fn line(layout: &Layout, axis: usize, first: usize) -> impl Iterator<Item = usize> + Clone + use<> {
    let (n, stride) = (layout.dims()[axis], layout.strides()[axis]);
    (0..n).map(move |i| first.wrapping_add_signed(stride * i as isize))
}

/// The positions of the first elements of all lines along an axis, in order.
fn lines(layout: &Layout, axis: usize) -> impl Iterator<Item = usize> + use<> {
    // Narrow the axis to one element; an axis of length 0 has no lines.
    let first = layout.narrow(axis as isize, 0, layout.dims()[axis].min(1));
    first.into_iter().flat_map(|first| first.positions())
}

/// The mean of `values`; NaN if there are none.
fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let n = values.len() as f64;
    values.sum::<f64>() / n
}

/// The largest value; NaN if any value is NaN.
fn max(values: &[f64]) -> f64 {
    values.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v })
}
