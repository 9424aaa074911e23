//! Convolutions.
//!
//! With many channels per group, a convolution is a product: the weight times shifted copies of the image,
//! which are gathered into the product's panels one block at a time (`ops_simd::gemm::gemm_gathered`). With
//! one channel per group, it is a stencil over each channel. Both read the image with padding around it, in
//! f32 or f64 ([`planes`]). A transposed convolution is a product whose columns are then added up
//! ([`transposed`]).
use super::product::{MAX_SERIAL_WORK, store_sums};
use super::rows::{for_each_row, packed, scratch, widened};
use super::vectors::{TaskResult, on_vector, only_f64, report, unsupported_dtype};
use super::{Cpu, threads};
use crate::host::raw::{Raw, RawMut, on_float};
use crate::{Host, Kernel};
use ops_core::ops::{Conv, ConvGeometry};
use ops_core::{Call, DType, Element, Float, Result, Scalar};
use ops_simd::gemm::{Gathered, Input, Mat, MatMut, PackedA, gemm_gathered};
use ops_simd::{Isa, Stencil, Store, stencil};
use planes::{Copier, Frame, Planes};
use std::borrow::Cow;

mod planes;
mod transposed;

/// Tasks get multiples of this many columns, so that they work on whole panels.
const COLUMN_ALIGNMENT: usize = 32;
/// Multiplications per task: enough to hide the cost of starting it, and few enough that all threads finish
/// together.
const PART_WORK: usize = 1 << 21;
/// A group with one input channel and at most this many output channels is computed as a stencil per output
/// channel.
const MAX_STENCILS: usize = 4;

/// The types that sums are accumulated in: f32, or f64 if the op's type is f64.
trait Sum: Input<Acc = Self> + ops_simd::gemm::Scalar + Element + core::ops::Add<Output = Self> {
    /// Converts elements of `dtype` to this type.
    fn convert(dtype: DType, from: &[u8], to: &mut [Self]) -> TaskResult;
    /// All elements in row-major order.
    fn all<'a>(x: &Raw<'a>) -> Result<Cow<'a, [Self]>>;
}
impl Sum for f32 {
    fn convert(dtype: DType, from: &[u8], to: &mut [f32]) -> TaskResult {
        on_vector!(dtype, T => Ok(ops_simd::cast(Isa::best(), bytemuck::cast_slice::<u8, T>(from), to, Store::Cached)?),
            else Err(unsupported_dtype(dtype)))
    }
    fn all<'a>(x: &Raw<'a>) -> Result<Cow<'a, [f32]>> {
        widened(x)
    }
}
impl Sum for f64 {
    fn convert(dtype: DType, from: &[u8], to: &mut [f64]) -> TaskResult {
        only_f64(dtype)?;
        to.copy_from_slice(bytemuck::cast_slice(from));
        Ok(())
    }
    fn all<'a>(x: &Raw<'a>) -> Result<Cow<'a, [f64]>> {
        if x.dtype == DType::F64 { packed(x) } else { Ok(Cow::Owned(x.values())) }
    }
}

/// The inputs of a convolution, with weight and bias in the type of the sums.
struct Problem<'a, A: Sum> {
    g: &'a ConvGeometry,
    x: Raw<'a>,
    weight: Cow<'a, [A]>,
    bias: Option<Cow<'a, [A]>>,
}

impl<A: Sum> Problem<'_, A> {
    /// The biases of a group.
    fn bias_of(&self, group: usize) -> Option<&[A]> {
        self.bias.as_ref().map(|bias| &bias[group * self.g.outputs..][..self.g.outputs])
    }
    /// Multiplications in the whole convolution.
    fn work(&self) -> usize {
        let g = self.g;
        let all = g.batch.saturating_mul(g.groups * g.outputs).saturating_mul(g.pixels());
        all.saturating_mul(g.terms())
    }
}

/// `y[b, o, ..]` in row-major order.
fn sums<A: Sum>(op: &'static str, p: &Problem<'_, A>, y: &mut [A]) -> Result<()> {
    if p.g.transposed {
        return match transposed::as_plain(p) {
            Some((g, weight)) => {
                sums(op, &Problem { g: &g, x: p.x, weight: weight?.into(), bias: p.bias.clone() }, y)
            }
            None => transposed::sums(op, p, y),
        };
    }
    if p.g.inputs == 1 && p.g.outputs <= MAX_STENCILS { stencils(op, p, y) } else { products(op, p, y) }
}

/// One product per image and group, in ranges of columns.
fn products<A: Sum>(op: &'static str, p: &Problem<'_, A>, y: &mut [A]) -> Result<()> {
    let (g, planes) = (p.g, Planes::padded(op, p)?);
    let (terms, pixels, step) = (g.terms(), g.pixels(), planes.frame.step(g));
    let taps = planes.frame.taps(g, g.inputs, planes.channel)?;
    let pack = |group: usize| {
        let weight = &p.weight[group * g.outputs * terms..][..g.outputs * terms];
        Ok(PackedA::new(Isa::best(), Mat::row_major(weight, g.outputs, terms)?))
    };
    let weights = (0..g.groups).map(pack).collect::<core::result::Result<Vec<_>, ops_simd::Error>>();
    let weights = report(op, weights)?;
    let parts = report(op, split(p, y.chunks_exact_mut(g.outputs * pixels)))?;
    let one = |(image, first, c): (usize, usize, MatMut<'_, A>)| -> TaskResult {
        let (b, group) = (image / g.groups, image % g.groups);
        let data = planes.from(b, group * g.inputs);
        let b = Gathered::new(data, &taps, g.y[0], g.y[1], step)?;
        let columns = first..first + c.cols();
        Ok(gemm_gathered(&weights[group], b, columns, p.bias_of(group), c)?)
    };
    match p.work() <= MAX_SERIAL_WORK {
        true => report(op, parts.into_iter().try_for_each(one)),
        false => report(op, threads::for_each_part(parts, &one)),
    }
}

/// The parts of all images of all groups: the image's index, the first column, and the columns.
fn split<'y, A: Sum>(
    p: &Problem<'_, A>,
    images: impl ExactSizeIterator<Item = &'y mut [A]>,
) -> core::result::Result<Vec<(usize, usize, MatMut<'y, A>)>, ops_simd::Error> {
    let (pixels, count) = (p.g.pixels(), images.len());
    let pieces = (p.work() / PART_WORK).div_ceil(count.max(1)).max(1);
    let step = if threads::count() <= 1 { pixels } else { pixels.div_ceil(pieces) }
        .next_multiple_of(COLUMN_ALIGNMENT);
    let mut parts = Vec::new();
    for (image, y) in images.enumerate() {
        let (mut rest, mut first) = (MatMut::new(y, p.g.outputs, pixels, pixels)?, 0);
        while rest.cols() > 0 {
            let (part, after) = rest.split_at_col(step);
            parts.push((image, first, part));
            (rest, first) = (after, first + step);
        }
    }
    Ok(parts)
}

/// One stencil per output channel and image. A channel is padded just before it is read, so it is still in
/// the L1 or L2 cache.
fn stencils<A: Sum>(op: &'static str, p: &Problem<'_, A>, y: &mut [A]) -> Result<()> {
    let g = p.g;
    let in_place = Planes::in_place(p);
    let frame = in_place.as_ref().map_or_else(|| Frame::padded(g), |planes| planes.frame);
    let (terms, pixels, taps, step) = (g.terms(), g.pixels(), frame.taps(g, 1, 0)?, frame.step(g));
    let group = |copier: &mut Copier<'_, '_, A>, index: usize, y: &mut [A]| -> TaskResult {
        let x = match &in_place {
            Some(planes) => planes.from(index / g.groups, index % g.groups),
            None => copier.alone(index)?,
        };
        for (at, y) in y.chunks_exact_mut(pixels).enumerate() {
            let o = index % g.groups * g.outputs + at;
            let start = p.bias.as_ref().map_or(A::default(), |bias| bias[o]);
            let of = Stencil { offsets: &taps, weights: &p.weight[o * terms..][..terms], step, start };
            stencil(Isa::best(), x, of, g.y[1], y)?;
        }
        Ok(())
    };
    let some = (g.batch * g.groups).div_ceil(threads::tasks()).max(1);
    let size = g.outputs * pixels;
    let tasks = y.chunks_mut(some * size).enumerate();
    let run = |(task, y): (usize, &mut [A])| {
        let mut copier = Copier::new(&p.x, frame);
        let mut groups = y.chunks_exact_mut(size).enumerate();
        groups.try_for_each(|(i, y)| group(&mut copier, task * some + i, y))
    };
    match p.work() <= MAX_SERIAL_WORK / 4 {
        true => report(op, tasks.into_iter().try_for_each(run)),
        false => report(op, threads::for_each_part(tasks.collect(), &run)),
    }
}

/// Straight from the definition, in f64. Used if the padding is so large that a padded copy of `x` would be
/// far larger than `x`.
fn direct(
    op: &'static str,
    g: &ConvGeometry,
    x: Raw<'_>,
    weight: Raw<'_>,
    bias: Option<Raw<'_>>,
    y: RawMut<'_>,
) -> Result<()> {
    let (bias, dtype, layout) = (bias.map(|bias| bias.values()), y.dtype, y.layout);
    let (channels, cost) = (g.groups * g.outputs, g.terms().saturating_mul(g.y[1]));
    let element = |b: usize, o: usize, at: [usize; 2]| {
        let mut sum = bias.as_ref().map_or(0.0, |bias| bias[o]);
        for t in 0..g.kernel[0] {
            let Some(row) = g.source(0, at[0], t) else { continue };
            for u in 0..g.kernel[1] {
                let Some(column) = g.source(1, at[1], u) else { continue };
                for c in 0..g.inputs {
                    let channel = o / g.outputs * g.inputs + c;
                    let w = weight.f64(weight.layout.position(&[o, c, t, u]));
                    sum += x.f64(x.layout.position(&[b, channel, row, column])) * w;
                }
            }
        }
        sum
    };
    debug_assert_eq!(layout.dims()[3], g.y[1]);
    for_each_row(op, y, cost, &|_, i, row| {
        let (image, line) = (i / g.y[0], i % g.y[0]);
        let (b, o) = (image / channels, image % channels);
        on_float!(dtype, T => {
            for (j, y) in bytemuck::cast_slice_mut::<u8, T>(row).iter_mut().enumerate() {
                *y = <T as Scalar>::from_f64(element(b, o, [line, j]));
            }
            Ok(())
        }, else Err(unsupported_dtype(dtype)))
    })
}

fn conv_in<A: Sum>(
    op: &'static str,
    g: &ConvGeometry,
    x: Raw<'_>,
    weight: Raw<'_>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let problem =
        Problem { g, x, weight: A::all(&weight)?, bias: bias.map(|bias| A::all(&bias)).transpose()? };
    if y.dtype == A::DTYPE && y.layout.is_contiguous() {
        let extent = y.layout.extent();
        return sums(op, &problem, &mut y.slice::<A>()[extent]);
    }
    let mut out = scratch::<A>(y.layout.len())?;
    sums(op, &problem, out.as_mut_slice())?;
    store_sums(&out, None, y)
}

pub(super) fn conv(
    op: &'static str,
    g: &ConvGeometry,
    x: Raw<'_>,
    weight: Raw<'_>,
    bias: Option<Raw<'_>>,
    y: RawMut<'_>,
) -> Result<()> {
    if y.layout.is_empty() {
        return Ok(());
    }
    if !g.transposed && Frame::padded(g).is_far_larger(g, &x) {
        return direct(op, g, x, weight, bias, y);
    }
    match y.dtype {
        DType::F64 => conv_in::<f64>(op, g, x, weight, bias, y),
        DType::F32 | DType::F16 | DType::BF16 => conv_in::<f32>(op, g, x, weight, bias, y),
        other => report(op, Err(unsupported_dtype(other))),
    }
}

impl<T: Float> Kernel<Conv<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, Conv<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, weight, bias) = (Raw::of(&a.x), Raw::of(&a.weight), Raw::any_if(&a.bias));
        let y = RawMut::of(&mut a.y);
        let (g, [lx, lw, ly]) = op.geometry(&x.layout, &weight.layout, &y.layout)?;
        conv(op.form.name(), &g, x.with_layout(lx), weight.with_layout(lw), bias, y.with_layout(ly))
    }
}
