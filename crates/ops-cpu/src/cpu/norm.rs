//! Normalisation.
use super::Cpu;
use super::f64_rows;
use super::rows::{RowOperand, for_each_row, for_each_row_pair, packed, row, zeros};
use super::runs::map_runs;
use super::vectors::{TaskResult, on_vector, only_f64, report, store_mode, unsupported_dtype};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use bytemuck::{cast_slice, cast_slice_mut};
use ops_core::ops::{AddRmsNorm, GroupNorm, LayerNorm, RmsNorm};
use ops_core::{Call, DType, Float, Layout, Result};
use ops_simd::{Isa, rows as vector};
use std::ops::Range;

pub(super) fn rms_norm(x: Raw<'_>, weight: Raw<'_>, y: RawMut<'_>, eps: f64) -> Result<()> {
    let (isa, n, dtype, store) = (Isa::best(), weight.layout.len(), x.dtype, store_mode(y.bytes.len()));
    if dtype == DType::F64 {
        let w = weight.values();
        return map_runs("rms_norm", [x], y, n, 2, &|[x], y| {
            f64_rows::rms_norm(cast_slice(x), &w, eps, cast_slice_mut(y));
            Ok(())
        });
    }
    let eps = eps as f32;
    let operands = RowOperand::of(dtype, [Some(weight)])?;
    map_runs("rms_norm", [x], y, n, 2, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            Ok(match &operands {
                RowOperand::Unconverted([w]) => vector::rms_norm(isa, x, cast_slice::<u8, T>(w), eps, y, store),
                RowOperand::Widened([w]) => vector::rms_norm(isa, x, w, eps, y, store),
            }?)
        }, else Err(unsupported_dtype(dtype)))
    })
}

pub(super) fn layer_norm(
    x: Raw<'_>,
    weight: Option<Raw<'_>>,
    bias: Option<Raw<'_>>,
    y: RawMut<'_>,
    eps: f64,
) -> Result<()> {
    let (isa, n, dtype, store) = (Isa::best(), x.layout.last(), x.dtype, store_mode(y.bytes.len()));
    if dtype == DType::F64 {
        let w = weight.map_or_else(|| vec![1.0; n], |w| w.values());
        let b = bias.map_or_else(|| vec![0.0; n], |b| b.values());
        return map_runs("layer_norm", [x], y, n, 3, &|[x], y| {
            f64_rows::layer_norm(cast_slice(x), &w, &b, eps, cast_slice_mut(y));
            Ok(())
        });
    }
    let eps = eps as f32;
    let ones = vec![1f32; if weight.is_none() { n } else { 0 }];
    let weight = weight.map_or_else(|| Raw::row(&ones), Ok)?;
    let operands = RowOperand::of(dtype, [Some(weight), bias])?;
    map_runs("layer_norm", [x], y, n, 3, &|[x], y| {
        on_vector!(dtype, T => {
            let (x, y) = (cast_slice::<u8, T>(x), cast_slice_mut::<u8, T>(y));
            Ok(match &operands {
                RowOperand::Unconverted([w, b]) => {
                    let (w, b) = (cast_slice::<u8, T>(w), cast_slice::<u8, T>(b));
                    vector::layer_norm(isa, x, w, Some(b).filter(|b| !b.is_empty()), eps, y, store)
                }
                RowOperand::Widened([w, b]) => {
                    vector::layer_norm(isa, x, w, Some(&**b).filter(|b| !b.is_empty()), eps, y, store)
                }
            }?)
        }, else Err(unsupported_dtype(dtype)))
    })
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
    let w64 = if dtype == DType::F64 { weight.values() } else { vec![] };
    let operands = RowOperand::of(dtype, [Some(weight)])?;
    for_each_row_pair("add_rms_norm", y, sum, 3 * n, &|[sx, sr, _], i, y, sum| {
        let (x, r) = (row(&x, i, sx), row(&residual, i, sr));
        on_vector!(dtype, T => {
            let (x, r) = (cast_slice::<u8, T>(x), cast_slice::<u8, T>(r));
            let (y, sum) = (cast_slice_mut::<u8, T>(y), cast_slice_mut::<u8, T>(sum));
            Ok(match &operands {
                RowOperand::Unconverted([w]) => {
                    vector::add_rms_norm(isa, x, r, cast_slice::<u8, T>(w), eps as f32, y, sum)
                }
                RowOperand::Widened([w]) => vector::add_rms_norm(isa, x, r, w, eps as f32, y, sum),
            }?)
        }, else {
            only_f64(dtype)?;
            let sum = cast_slice_mut::<u8, f64>(sum);
            let added = cast_slice::<u8, f64>(x).iter().zip(cast_slice::<u8, f64>(r)).map(|(x, r)| x + r);
            sum.iter_mut().zip(added).for_each(|(s, v)| *s = v);
            f64_rows::rms_norm(sum, &w64, eps, cast_slice_mut(y));
            Ok(())
        })
    })
}

/// The options of a group norm call.
struct Groups {
    num_groups: usize,
    /// Elements of a group.
    len: usize,
    weight: Vec<f64>,
    bias: Vec<f64>,
    eps: f64,
}

fn group_norm(groups: &Groups, x: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let dtype = x.dtype;
    on_vector!(dtype, T => {
        let narrow = |v: &[f64]| v.iter().map(|v| *v as f32).collect::<Vec<_>>();
        let (weight, bias) = (narrow(&groups.weight), narrow(&groups.bias));
        let (isa, eps, store) = (Isa::best(), groups.eps as f32, store_mode(y.bytes.len()));
        groups.each::<T>(x, y, &|channels, x, y| {
            Ok(vector::group_norm(isa, x, [&weight[channels.clone()], &bias[channels]], eps, y, store)?)
        })
    }, else {
        report("group_norm", only_f64(dtype))?;
        groups.each::<f64>(x, y, &|channels, x, y| {
            let (weight, bias) = (&groups.weight[channels.clone()], &groups.bias[channels]);
            f64_rows::group_norm(x, [weight, bias], groups.eps, y);
            Ok(())
        })
    })
}

/// Normalises one group, which has these channels.
type GroupFn<'f, T> = &'f (dyn Fn(Range<usize>, &[T], &mut [T]) -> TaskResult + Sync);

impl Groups {
    fn new(x: &Raw<'_>, weight: Option<Raw<'_>>, bias: Option<Raw<'_>>, op: (usize, f64)) -> Self {
        let (num_groups, eps) = op;
        let channels = x.dims()[1];
        Groups {
            num_groups,
            len: channels / num_groups * x.dims()[2..].iter().product::<usize>(),
            weight: weight.map_or_else(|| vec![1.0; channels], |w| w.values()),
            bias: bias.map_or_else(|| vec![0.0; channels], |b| b.values()),
            eps,
        }
    }

    /// Calls `f` for every group, in parallel.
    fn each<T: Float>(&self, x: Raw<'_>, mut y: RawMut<'_>, f: GroupFn<'_, T>) -> Result<()> {
        let (n, per_group) = (self.len, self.weight.len() / self.num_groups);
        let x = packed::<T>(&x)?;
        if x.is_empty() {
            return Ok(());
        }
        let (rows, extent) = ([x.len() / n, n], y.layout.extent());
        let group = |_: &mut _, i: usize, y: &mut [u8]| {
            let first = i % self.num_groups * per_group;
            f(first..first + per_group, &x[i * n..][..n], cast_slice_mut(y))
        };
        if y.layout.is_contiguous() {
            let groups = Layout::strided(&rows, &[n as isize, 1], extent.start)?;
            return for_each_row("group_norm", y.with_layout(groups), 3 * n, &group);
        }
        let mut out = zeros::<T>(x.len())?;
        let layout = Layout::contiguous(&rows)?;
        let raw = RawMut { bytes: cast_slice_mut(&mut out), size: size_of::<T>(), dtype: T::DTYPE, layout };
        for_each_row("group_norm", raw, 3 * n, &group)?;
        let (positions, to) = (y.layout.positions(), y.slice::<T>());
        positions.zip(&out).for_each(|(p, v)| to[p] = *v);
        Ok(())
    }
}

impl<T: Float> Kernel<RmsNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, RmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        rms_norm(Raw::of(&a.x), Raw::any(&a.weight), RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float> Kernel<LayerNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, LayerNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (weight, bias) = (Raw::any_if(&a.weight), Raw::any_if(&a.bias));
        layer_norm(Raw::of(&a.x), weight, bias, RawMut::of(&mut a.y), op.eps)
    }
}
impl<T: Float> Kernel<AddRmsNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, AddRmsNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, residual, weight) = (Raw::of(&a.x), Raw::of(&a.residual), Raw::any(&a.weight));
        add_rms_norm(x, residual, weight, RawMut::of(&mut a.y), RawMut::of(&mut a.sum), op.eps)
    }
}
impl<T: Float> Kernel<GroupNorm<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, GroupNorm<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (weight, bias) = (Raw::any_if(&a.weight), Raw::any_if(&a.bias));
        let x = Raw::of(&a.x);
        group_norm(&Groups::new(&x, weight, bias, (op.num_groups, op.eps)), x, RawMut::of(&mut a.y))
    }
}
