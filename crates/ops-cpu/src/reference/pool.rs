//! Pooling.
use super::{Reference, max};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Pool2d, PoolFn, Windows};
use ops_core::{Call, Float, Result};

/// The indices of a window that lie on an axis of `len` elements.
fn window(windows: &Windows, axis: usize, at: usize, len: usize) -> core::ops::Range<usize> {
    let (first, padding) = (at * windows.stride[axis], windows.padding[axis]);
    first.saturating_sub(padding)..(first + windows.kernel[axis]).saturating_sub(padding).min(len)
}

fn pool2d(f: PoolFn, windows: &Windows, x: Raw<'_>, mut y: RawMut<'_>) {
    let (lx, ly) = (x.layout, y.layout);
    let rows = ly.rank() - 2;
    let (h, w) = (lx.dims()[rows], lx.dims()[rows + 1]);
    let elements = windows.kernel[0] as f64 * windows.kernel[1] as f64;
    for (n, py) in ly.positions().enumerate() {
        let index = ly.index_of(n);
        let columns = window(windows, 1, index[rows + 1], w);
        let of_window = window(windows, 0, index[rows], h).flat_map(|r| columns.clone().map(move |c| [r, c]));
        let position = |at: [usize; 2]| lx.position(&[&index[..rows], &at].concat());
        let values = x.gather(of_window.map(position));
        let result = if f == PoolFn::Max { max(&values) } else { values.iter().sum::<f64>() / elements };
        y.set(py, result);
    }
}
impl<T: Float> Kernel<Pool2d<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Pool2d<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        pool2d(op.f, &op.windows, Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
