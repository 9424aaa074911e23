//! Batch normalisation with given statistics.
use super::Cpu;
use super::rows::{for_each_part, gather, row_position};
use super::vectors::{TaskResult, on_vector, only_f64, store_mode};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::BatchNorm;
use ops_core::{Call, DType, Float, Layout, Result, Scalar};
use ops_simd::{Isa, Normalize, Store};

/// Maximum number of elements per task. A multiple of every vector's length.
const PART: usize = 1 << 15;

/// The factors and summands of each channel, in f64.
struct Channels {
    mean: Vec<f64>,
    scale: Vec<f64>,
    bias: Vec<f64>,
}

impl Channels {
    fn of([weight, bias]: [Option<Raw<'_>>; 2], [mean, var]: [Raw<'_>; 2], eps: f64) -> Self {
        let (mean, mut scale) = (mean.values(), var.values());
        scale.iter_mut().for_each(|v| *v = 1.0 / (*v + eps).sqrt());
        if let Some(weight) = weight {
            scale.iter_mut().zip(weight.values()).for_each(|(scale, w)| *scale *= w);
        }
        let bias = bias.map_or_else(|| vec![0.0; mean.len()], |bias| bias.values());
        Channels { mean, scale, bias }
    }
    fn in_f32(&self, c: usize) -> Normalize {
        Normalize::new(self.mean[c], self.scale[c], self.bias[c])
    }
    fn in_f64(&self, c: usize, x: f64) -> f64 {
        (x - self.mean[c]) * self.scale[c] + self.bias[c]
    }

    /// Elements of one channel.
    fn one(&self, dtype: DType, x: &[u8], c: usize, y: &mut [u8], store: Store) -> TaskResult {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            Ok(ops_simd::normalize(Isa::best(), self.in_f32(c), x, y, store)?)
        }, else {
            only_f64(dtype)?;
            let (x, y) = (cast_slice::<u8, f64>(x), cast_slice_mut::<u8, f64>(y));
            y.iter_mut().zip(x).for_each(|(y, x)| *y = self.in_f64(c, *x));
            Ok(())
        })
    }

    /// Elements of neighbouring channels from `c` on.
    fn along(&self, dtype: DType, x: &[u8], c: usize, y: &mut [u8]) -> TaskResult {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            for (i, (y, x)) in y.iter_mut().zip(x).enumerate() {
                *y = <T as Scalar>::from_f64(self.in_f64(c + i, Scalar::to_f64(*x)));
            }
            Ok(())
        }, else {
            only_f64(dtype)?;
            let (x, y) = (cast_slice::<u8, f64>(x), cast_slice_mut::<u8, f64>(y));
            y.iter_mut().zip(x).enumerate().for_each(|(i, (y, x))| *y = self.in_f64(c + i, *x));
            Ok(())
        })
    }
}

fn batch_norm(channels: &Channels, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let (dtype, size, store) = (x.dtype, x.size, store_mode(y.bytes.len()));
    // A layout whose positions are the channel numbers. Axes merge where all three layouts allow it.
    let steps: Vec<isize> = (0..x.layout.rank()).map(|axis| isize::from(axis == 1)).collect();
    let channel = Layout::strided(x.dims(), &steps, 0)?;
    let [lx, ly, lc] = Layout::merged([&x.layout, &y.layout, &channel]);
    for_each_part("batch_norm", y.with_layout(ly), PART, 2, &|scratch, (row, start), y| {
        let first = |l: &Layout| row_position(l, row).wrapping_add_signed(l.last_stride() * start as isize);
        let x = gather(&x, first(&lx), y.len() / size, lx.last_stride(), scratch);
        match lc.last_stride() {
            // Axes of one element may have any stride.
            _ if channels.mean.len() == 1 => channels.one(dtype, x, 0, y, store),
            0 => channels.one(dtype, x, first(&lc), y, store),
            _ => channels.along(dtype, x, first(&lc), y),
        }
    })
}

impl<T: Float> Kernel<BatchNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, BatchNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (affine, statistics) = ([&a.weight, &a.bias].map(Raw::any_if), [&a.mean, &a.var].map(Raw::any));
        batch_norm(&Channels::of(affine, statistics, op.eps), Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
