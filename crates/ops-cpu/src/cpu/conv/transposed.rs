//! Transposed convolutions: multiplies every element of `x` by the whole kernel, then adds up the products
//! that belong to each element of `y`. Each sum is computed by a single thread, in the order of the kernel's
//! elements, so results do not depend on threads.
use super::super::product::{MAX_SERIAL_WORK, product};
use super::super::rows::{reserve, scratch};
use super::super::threads;
use super::super::vectors::report;
use super::planes::{Frame, Planes};
use super::{Problem, Sum};
use core::ops::Range;
use ops_core::Result;
use ops_core::ops::ConvGeometry;
use ops_simd::gemm::{Mat, MatMut};

/// Maximum number of products in memory at once, unless a single channel has more.
const MAX_PRODUCTS: usize = 1 << 19;

/// The same sums as a plain convolution, with the kernel flipped and input and output channels exchanged, if
/// the stride is 1. It needs no memory for products.
pub(super) fn as_plain<A: Sum>(p: &Problem<'_, A>) -> Option<(ConvGeometry, Result<Vec<A>>)> {
    let mut g = ConvGeometry { transposed: false, ..*p.g };
    for (axis, kernel) in g.axes.iter_mut().zip(g.kernel) {
        if axis.stride != 1 || axis.output_padding != 0 {
            return None;
        }
        axis.padding = (axis.dilation * (kernel - 1)).checked_sub(axis.padding)?;
    }
    if p.x.layout.is_empty() || Frame::padded(&g).is_far_larger(&g, &p.x) {
        return None;
    }
    Some((g, flipped(p)))
}

/// `weight[c, o, t, u]` of each group as `[o, c, −t, −u]`.
fn flipped<A: Sum>(p: &Problem<'_, A>) -> Result<Vec<A>> {
    let taps = p.g.kernel[0] * p.g.kernel[1];
    let mut weight = reserve(p.weight.len())?;
    for group in 0..p.g.groups {
        for o in 0..p.g.outputs {
            for c in 0..p.g.inputs {
                let at = ((group * p.g.inputs + c) * p.g.outputs + o) * taps;
                weight.extend(p.weight[at..at + taps].iter().rev());
            }
        }
    }
    Ok(weight)
}

pub(super) fn sums<A: Sum>(op: &'static str, p: &Problem<'_, A>, y: &mut [A]) -> Result<()> {
    let g = p.g;
    let (taps, pixels) = (g.kernel[0] * g.kernel[1], g.pixels());
    let per_channel = taps.saturating_mul(g.x[0] * g.x[1]);
    if per_channel == 0 || g.inputs == 0 {
        for (channel, y) in y.chunks_exact_mut(pixels).enumerate() {
            y.fill(p.bias.as_ref().map_or(A::default(), |bias| bias[channel % (g.groups * g.outputs)]));
        }
        return Ok(());
    }
    let planes = Planes::dense(op, p)?;
    let some = (MAX_PRODUCTS / per_channel).clamp(1, g.outputs.max(1));
    let mut products = scratch::<A>(some.saturating_mul(per_channel))?;
    for (image, y) in y.chunks_exact_mut(g.outputs * pixels).enumerate() {
        let (b, group) = (image / g.groups, image % g.groups);
        let x = Mat::new(planes.from(b, group * g.inputs), g.inputs, g.x[0] * g.x[1], planes.channel, 1);
        let x = report(op, x)?;
        for (first, y) in (0..g.outputs).step_by(some).zip(y.chunks_mut(some * pixels)) {
            let channels = first..g.outputs.min(first + some);
            let products = &mut products.as_mut_slice()[..channels.len() * per_channel];
            report(op, multiply(p, group, channels.clone(), x, products))?;
            add_up(op, p, group * g.outputs + first, products, y)?;
        }
    }
    Ok(())
}

/// The products of all elements of a group's input channels, summed over these channels, for some output
/// channels: `products[o, t, u, i, j] = Σ_c weight[c, o, t, u] · x[c, i, j]`.
fn multiply<A: Sum>(
    p: &Problem<'_, A>,
    group: usize,
    channels: Range<usize>,
    x: Mat<'_, A>,
    products: &mut [A],
) -> core::result::Result<(), ops_simd::Error> {
    let g = p.g;
    let taps = g.kernel[0] * g.kernel[1];
    let row = g.outputs * taps;
    let weight = Mat::row_major(&p.weight[group * g.inputs * row..][..g.inputs * row], g.inputs, row)?;
    let weight = weight.col_range(channels.start * taps, channels.end * taps)?;
    let (m, n) = (channels.len() * taps, x.cols());
    product(weight.transposed(), x, MatMut::new(products, m, n, n)?)
}

/// Adds up the products that belong to each element of these channels of `y`, the first of which is `first`.
fn add_up<A: Sum>(
    op: &'static str,
    p: &Problem<'_, A>,
    first: usize,
    products: &[A],
    y: &mut [A],
) -> Result<()> {
    let g = p.g;
    let (rows, width) = (y.len() / g.y[1], g.y[1]);
    let per_channel = products.len() / (rows / g.y[0]);
    let row = |(at, y): (usize, &mut [A])| {
        let (channel, i) = (at / g.y[0], at % g.y[0]);
        y.fill(p.bias.as_ref().map_or(A::default(), |bias| bias[first + channel]));
        add_row(g, i, &products[channel * per_channel..][..per_channel], y);
        Ok::<(), ops_simd::Error>(())
    };
    let some = rows.div_ceil(threads::tasks()).max(1);
    let tasks = y.chunks_mut(some * width).enumerate();
    let run = |(task, y): (usize, &mut [A])| {
        y.chunks_exact_mut(width).enumerate().try_for_each(|(i, y)| row((task * some + i, y)))
    };
    match products.len() <= MAX_SERIAL_WORK / 16 {
        true => report(op, tasks.into_iter().try_for_each(run)),
        false => report(op, threads::for_each_part(tasks.collect(), &run)),
    }
}

/// Adds to row `i` of a channel of `y` all products that belong to it.
fn add_row<A: Sum>(g: &ConvGeometry, i: usize, products: &[A], y: &mut [A]) {
    let (axis, [height, width]) = (g.axes[1], g.x);
    for t in 0..g.kernel[0] {
        let Some(row) = g.source(0, i, t) else { continue };
        for u in 0..g.kernel[1] {
            let from = &products[((t * g.kernel[1] + u) * height + row) * width..][..width];
            // Element j of `x` belongs to element j · stride + shift − padding of `y`.
            let shift = u * axis.dilation;
            let skip = axis.padding.saturating_sub(shift).div_ceil(axis.stride);
            if skip >= width {
                continue;
            }
            let start = skip * axis.stride + shift - axis.padding;
            let Some(y) = y.get_mut(start..) else { continue };
            for (y, product) in y.iter_mut().step_by(axis.stride).zip(&from[skip..]) {
                *y = *y + *product;
            }
        }
    }
}
