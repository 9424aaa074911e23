//! Normalisation.
use super::Cpu;
use super::rows::{each, each_pair, map, packed, row, widened, zeros};
use super::vectors::{on_vector, store, sure};
use super::wide;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{
    AddRmsNorm, AddRmsNormArgs, GroupNorm, GroupNormArgs, LayerNorm, LayerNormArgs, RmsNorm, RmsNormArgs,
};
use ops_core::{DType, Float, Layout, Result, bf16, f16};
use ops_simd::{Isa, rows as vector};
use std::borrow::Cow;

/// What rows are multiplied by, and what is added where there is that.
enum Weights<'a> {
    /// In the type of the rows, where they stand.
    Same(&'a [u8], Option<&'a [u8]>),
    /// As f32.
    Wide(Cow<'a, [f32]>, Option<Cow<'a, [f32]>>),
}

impl<'a> Weights<'a> {
    /// For rows of `dtype`.
    fn of(dtype: DType, weight: Raw<'a>, bias: Option<Raw<'a>>) -> Result<Self> {
        let same = |w: &Raw<'a>| if w.dtype == dtype { w.contiguous() } else { None };
        match (same(&weight), bias.as_ref().map(same)) {
            (Some(weight), None) => return Ok(Self::Same(weight, None)),
            (Some(weight), Some(Some(bias))) => return Ok(Self::Same(weight, Some(bias))),
            _ => {}
        }
        Ok(Self::Wide(widened(&weight)?, bias.map(|b| widened(&b)).transpose()?))
    }
}

fn rms_norm(x: Raw<'_>, weight: Raw<'_>, y: RawMut<'_>, eps: f64) -> Result<()> {
    let (isa, n, dtype, store) = (Isa::best(), weight.layout.len(), x.dtype, store(y.bytes.len()));
    if dtype == DType::F64 {
        let w = weight.values();
        map([x], y, n, 2, &|[x], y| wide::rms_norm(cast_slice(x), &w, eps, cast_slice_mut(y)));
        return Ok(());
    }
    let eps = eps as f32;
    let w = Weights::of(dtype, weight, None)?;
    map([x], y, n, 2, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            sure(match &w {
                Weights::Same(w, _) => vector::rms_norm(isa, x, cast_slice::<u8, T>(w), eps, y, store),
                Weights::Wide(w, _) => vector::rms_norm(isa, x, w, eps, y, store),
            })
        }, else ())
    });
    Ok(())
}

fn layer_norm(
    x: Raw<'_>,
    weight: Option<Raw<'_>>,
    bias: Option<Raw<'_>>,
    y: RawMut<'_>,
    eps: f64,
) -> Result<()> {
    let (isa, n, dtype, store) = (Isa::best(), x.layout.last(), x.dtype, store(y.bytes.len()));
    if dtype == DType::F64 {
        let w = weight.map_or_else(|| vec![1.0; n], |w| w.values());
        let b = bias.map_or_else(|| vec![0.0; n], |b| b.values());
        map([x], y, n, 3, &|[x], y| wide::layer_norm(cast_slice(x), &w, &b, eps, cast_slice_mut(y)));
        return Ok(());
    }
    let eps = eps as f32;
    let weights = match weight {
        Some(weight) => Weights::of(dtype, weight, bias)?,
        None => Weights::Wide(vec![1.0; n].into(), bias.map(|b| widened(&b)).transpose()?),
    };
    map([x], y, n, 3, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            sure(match &weights {
                Weights::Same(w, b) => {
                    let b = b.map(cast_slice::<u8, T>);
                    vector::layer_norm(isa, x, cast_slice::<u8, T>(w), b, eps, y, store)
                }
                Weights::Wide(w, b) => vector::layer_norm(isa, x, w, b.as_deref(), eps, y, store),
            })
        }, else ())
    });
    Ok(())
}

fn add_rms_norm(
    x: Raw<'_>,
    residual: Raw<'_>,
    weight: Raw<'_>,
    y: RawMut<'_>,
    sum: RawMut<'_>,
    eps: f64,
) -> Result<()> {
    let (isa, n, dtype) = (Isa::best(), weight.layout.len(), x.dtype);
    let (w, w64) = if dtype == DType::F64 {
        (Weights::Same(&[], None), weight.values())
    } else {
        (Weights::of(dtype, weight, None)?, vec![])
    };
    each_pair(y, sum, 3 * n, &|[sx, sr, _], i, y, sum| {
        let (x, r) = (row(&x, i, sx), row(&residual, i, sr));
        on_vector!(dtype, T => {
            let (x, r) = (cast_slice::<u8, T>(x), cast_slice::<u8, T>(r));
            let (y, sum) = (cast_slice_mut::<u8, T>(y), cast_slice_mut::<u8, T>(sum));
            sure(match &w {
                Weights::Same(w, _) => {
                    vector::add_rms_norm(isa, x, r, cast_slice::<u8, T>(w), eps as f32, y, sum)
                }
                Weights::Wide(w, _) => vector::add_rms_norm(isa, x, r, w, eps as f32, y, sum),
            })
        }, else {
            let sum = cast_slice_mut::<u8, f64>(sum);
            let added = cast_slice::<u8, f64>(x).iter().zip(cast_slice::<u8, f64>(r)).map(|(x, r)| x + r);
            sum.iter_mut().zip(added).for_each(|(s, v)| *s = v);
            wide::rms_norm(sum, &w64, eps, cast_slice_mut(y));
        })
    });
    Ok(())
}

/// What group norm does to each group.
struct Groups {
    /// A group is a row of this shape.
    shape: Layout,
    num_groups: usize,
    /// Elements of a channel.
    inner: usize,
    weight: Vec<f64>,
    bias: Vec<f64>,
    eps: f64,
}

fn group_norm(groups: &Groups, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    match x.dtype {
        DType::F16 => groups.normalise::<f16>(x, y),
        DType::BF16 => groups.normalise::<bf16>(x, y),
        DType::F32 => groups.normalise::<f32>(x, y),
        _ => groups.normalise::<f64>(x, y),
    }
}

impl Groups {
    fn new(x: &Raw<'_>, weight: Option<Raw<'_>>, bias: Option<Raw<'_>>, op: (usize, f64)) -> Result<Self> {
        let (num_groups, eps) = op;
        let (batch, channels) = (x.dims()[0], x.dims()[1]);
        let inner = x.dims()[2..].iter().product::<usize>();
        Ok(Groups {
            shape: Layout::contiguous(&[batch * num_groups, channels / num_groups * inner])?,
            num_groups,
            inner,
            weight: weight.map_or_else(|| vec![1.0; channels], |w| w.values()),
            bias: bias.map_or_else(|| vec![0.0; channels], |b| b.values()),
            eps,
        })
    }

    fn normalise<T: Float>(&self, x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
        let (n, per_group) = (self.shape.last(), self.weight.len() / self.num_groups);
        let x = packed::<T>(&x)?;
        let mut out = zeros::<T>(x.len())?;
        let raw = RawMut {
            bytes: cast_slice_mut(&mut out),
            size: size_of::<T>(),
            dtype: T::DTYPE,
            layout: self.shape,
        };
        each(raw, 3 * n, &|_, i, y| {
            let x: Vec<f64> = x[i * n..][..n].iter().map(|v| v.to_f64()).collect();
            let (shift, mean, scale) = wide::moments(&x, self.eps);
            for (j, (y, x)) in cast_slice_mut::<u8, T>(y).iter_mut().zip(x).enumerate() {
                let c = i % self.num_groups * per_group + j / self.inner;
                *y = T::from_f64((x - shift - mean) * scale * self.weight[c] + self.bias[c]);
            }
        });
        let (positions, to) = (y.layout.positions(), y.slice::<T>());
        positions.zip(&out).for_each(|(p, v)| to[p] = *v);
        Ok(())
    }
}

impl<T: Float, W: Float> Kernel<RmsNorm<T, W>> for Cpu {
    fn compute(&self, op: &RmsNorm<T, W>, a: &mut RmsNormArgs<'_, Host, T, W>) -> Result<()> {
        rms_norm(Raw::of(&a.x), Raw::of(&a.weight), RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float, W: Float> Kernel<LayerNorm<T, W>> for Cpu {
    fn compute(&self, op: &LayerNorm<T, W>, a: &mut LayerNormArgs<'_, Host, T, W>) -> Result<()> {
        let (weight, bias) = (Raw::optional(&a.weight), Raw::optional(&a.bias));
        layer_norm(Raw::of(&a.x), weight, bias, RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float, W: Float> Kernel<AddRmsNorm<T, W>> for Cpu {
    fn compute(&self, op: &AddRmsNorm<T, W>, a: &mut AddRmsNormArgs<'_, Host, T, W>) -> Result<()> {
        let (x, residual, weight) = (Raw::of(&a.x), Raw::of(&a.residual), Raw::of(&a.weight));
        add_rms_norm(x, residual, weight, RawMut::of(&mut a.y), RawMut::of(&mut a.sum), op.eps)
    }
}
impl<T: Float, W: Float> Kernel<GroupNorm<T, W>> for Cpu {
    fn compute(&self, op: &GroupNorm<T, W>, a: &mut GroupNormArgs<'_, Host, T, W>) -> Result<()> {
        let (weight, bias) = (Raw::optional(&a.weight), Raw::optional(&a.bias));
        let x = Raw::of(&a.x);
        group_norm(&Groups::new(&x, weight, bias, (op.num_groups, op.eps))?, x, RawMut::of(&mut a.y))
    }
}
