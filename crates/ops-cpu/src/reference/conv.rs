//! Convolutions.
use super::Reference;
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Conv, ConvGeometry};
use ops_core::{Call, Float, Layout, Result};

/// The position of an element of a layout with four axes.
fn at(layout: &Layout, index: [usize; 4]) -> usize {
    layout.position(&index)
}

/// One element of `y`: channel `o`, at `i` along the axes.
fn element(g: &ConvGeometry, x: &Raw<'_>, weight: &Raw<'_>, b: usize, o: usize, i: [usize; 2]) -> f64 {
    let (group, out) = (o / g.outputs, o % g.outputs);
    let mut sum = 0.0;
    for c in 0..g.inputs {
        let channel = group * g.inputs + c;
        for (t, u) in (0..g.kernel[0]).flat_map(|t| (0..g.kernel[1]).map(move |u| (t, u))) {
            let (Some(row), Some(column)) = (g.source(0, i[0], t), g.source(1, i[1], u)) else { continue };
            let w = if g.transposed { [channel, out, t, u] } else { [o, c, t, u] };
            sum += x.f64(at(&x.layout, [b, channel, row, column])) * weight.f64(at(&weight.layout, w));
        }
    }
    sum
}

fn conv(g: &ConvGeometry, x: Raw<'_>, weight: Raw<'_>, bias: Option<Raw<'_>>, mut y: RawMut<'_>) {
    let bias = bias.map(|bias| bias.values());
    let layout = y.layout;
    for b in 0..g.batch {
        for o in 0..g.groups * g.outputs {
            let bias = bias.as_ref().map_or(0.0, |bias| bias[o]);
            for (row, column) in (0..g.y[0]).flat_map(|row| (0..g.y[1]).map(move |column| (row, column))) {
                let sum = element(g, &x, &weight, b, o, [row, column]);
                y.set(at(&layout, [b, o, row, column]), sum + bias);
            }
        }
    }
}

impl<T: Float> Kernel<Conv<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Conv<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, weight, bias) = (Raw::of(&a.x), Raw::of(&a.weight), Raw::any_if(&a.bias));
        let y = RawMut::of(&mut a.y);
        let (g, [lx, lw, ly]) = op.geometry(&x.layout, &weight.layout, &y.layout)?;
        conv(&g, x.with_layout(lx), weight.with_layout(lw), bias, y.with_layout(ly));
        Ok(())
    }
}
