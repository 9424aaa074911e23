//! Quantized tensors.
use super::Reference;
use super::matmul::dot_rows;
use crate::host::raw::{Raw, RawMut, block_info, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{Dequantize, QEmbedding, QLinear, Quantize};
use ops_core::quant::Block;
use ops_core::{BlockInfo, Call, Float, Index, Layout, Result};

/// The values of the blocks of a view, in order.
fn values(format: &BlockInfo, x: Raw<'_>, layout: &Layout) -> Vec<f64> {
    let mut block = vec![0.0; format.values()];
    let blocks = layout.positions().flat_map(|p| {
        format.decode(x.element(p), &mut block);
        block.iter().copied().map(f64::from).collect::<Vec<_>>()
    });
    blocks.collect()
}

fn quantize(x: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let format = block_info("quantize", y.dtype)?;
    let mut positions = x.layout.positions();
    for q in y.layout.positions() {
        let block: Vec<f32> = positions.by_ref().take(format.values()).map(|p| x.f64(p) as f32).collect();
        format.encode(&block, y.element(q));
    }
    Ok(())
}

fn qlinear(x: Raw<'_>, weight: Raw<'_>, y: RawMut<'_>) -> Result<()> {
    let format = block_info("qlinear", weight.dtype)?;
    dot_rows(x, y, |j| Ok(values(format, weight, &weight.layout.narrow(0, j, 1)?)), None)
}

fn qembedding(table: Raw<'_>, ids: Raw<'_>, mut y: RawMut<'_>) -> Result<()> {
    let format = block_info("qembedding", table.dtype)?;
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
    fn compute(&self, call: Call<'_, '_, Quantize<Q>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        quantize(Raw::of(&a.x), RawMut::of(&mut a.y))
    }
}
impl<Q: Block> Kernel<Dequantize<Q>> for Reference {
    fn compute(&self, call: Call<'_, '_, Dequantize<Q>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let (x, mut y) = (Raw::of(&a.x), RawMut::of(&mut a.y));
        y.scatter(y.layout.positions(), values(block_info("dequantize", x.dtype)?, x, &x.layout));
        Ok(())
    }
}
impl<T: Float, Q: Block> Kernel<QLinear<T, Q>> for Reference {
    fn compute(&self, call: Call<'_, '_, QLinear<T, Q>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        qlinear(Raw::of(&a.x), Raw::of(&a.weight), RawMut::of(&mut a.y))
    }
}
impl<T: Float, Q: Block, I: Index> Kernel<QEmbedding<T, Q, I>> for Reference {
    fn compute(&self, call: Call<'_, '_, QEmbedding<T, Q, I>, Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        qembedding(Raw::of(&a.table), Raw::of(&a.ids), RawMut::of(&mut a.y))
    }
}
