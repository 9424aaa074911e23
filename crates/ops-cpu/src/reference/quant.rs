//! Quantized tensors.
use super::Reference;
use super::matmul::dot_rows;
use crate::host::raw::{Format, Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{
    Dequantize, DequantizeArgs, QEmbedding, QEmbeddingArgs, QLinear, QLinearArgs, Quantize, QuantizeArgs,
};
use ops_core::quant::Block;
use ops_core::{Float, Index, Layout, Result};

/// The values of the blocks of a view, in order.
fn values(format: Format, x: Raw<'_>, layout: &Layout) -> Vec<f64> {
    let mut block = vec![0.0; format.len];
    let blocks = layout.positions().flat_map(|p| {
        (format.dequantize)(x.element(p), &mut block);
        block.iter().copied().map(f64::from).collect::<Vec<_>>()
    });
    blocks.collect()
}

fn quantize(format: Format, x: Raw<'_>, mut y: RawMut<'_>) {
    let mut positions = x.layout.positions();
    for q in y.layout.positions() {
        let block: Vec<f32> = positions.by_ref().take(format.len).map(|p| x.f64(p) as f32).collect();
        (format.quantize)(&block, y.element(q));
    }
}

fn qlinear(format: Format, x: Raw<'_>, weight: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    dot_rows(x, y, |j| Ok(values(format, weight, &weight.layout.narrow(0, j, 1)?)), None)
}

fn qembedding(format: Format, table: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    for (i, row) in resolve("qembedding", ids, table.dims()[0])?.into_iter().enumerate() {
        let row = match row {
            Some(row) => values(format, table, &table.layout.narrow(0, row, 1)?),
            None => vec![0.0; y.layout.last()],
        };
        y.scatter(y.layout.narrow(0, i, 1)?.positions(), row);
    }
    Ok(())
}

impl<Q: Block> Kernel<Quantize<Q>> for Reference {
    fn compute(&self, _: &Quantize<Q>, a: &mut QuantizeArgs<'_, Host, Q>) -> Result<()> {
        quantize(Format::of::<Q>(), Raw::of(&a.x), RawMut::of(&mut a.y));
        Ok(())
    }
}
impl<Q: Block> Kernel<Dequantize<Q>> for Reference {
    fn compute(&self, _: &Dequantize<Q>, a: &mut DequantizeArgs<'_, Host, Q>) -> Result<()> {
        let (x, mut y) = (Raw::of(&a.x), RawMut::of(&mut a.y));
        y.scatter(y.layout.positions(), values(Format::of::<Q>(), x, &x.layout));
        Ok(())
    }
}
impl<T: Float, Q: Block> Kernel<QLinear<T, Q>> for Reference {
    fn compute(&self, _: &QLinear<T, Q>, a: &mut QLinearArgs<'_, Host, T, Q>) -> Result<()> {
        qlinear(Format::of::<Q>(), Raw::of(&a.x), Raw::of(&a.weight), RawMut::of(&mut a.y))
    }
}
impl<T: Float, Q: Block, I: Index> Kernel<QEmbedding<T, Q, I>> for Reference {
    fn compute(&self, _: &QEmbedding<T, Q, I>, a: &mut QEmbeddingArgs<'_, Host, T, Q, I>) -> Result<()> {
        qembedding(Format::of::<Q>(), Raw::of(&a.table), Raw::of(&a.ids), RawMut::of(&mut a.y))
    }
}
