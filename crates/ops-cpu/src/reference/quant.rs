//! Quantized tensors.
use super::index::resolve;
use super::matmul::dot_rows;
use super::{Reference, scatter};
use crate::{Host, Kernel};
use ops_core::ops::{
    Dequantize, DequantizeArgs, QEmbedding, QEmbeddingArgs, QLinear, QLinearArgs, Quantize, QuantizeArgs,
};
use ops_core::quant::Block;
use ops_core::{Float, Index, Layout, Result, TensorRef, View};

/// The values of the blocks of a view, in order.
fn values<Q: Block>(x: &TensorRef<'_, Host, Q>, layout: &Layout) -> Vec<f32> {
    let data = x.data();
    let mut values = vec![0.0; layout.len() * Q::LEN];
    for (block, p) in values.chunks_exact_mut(Q::LEN).zip(layout.positions()) {
        data[p].dequantize(block);
    }
    values
}

impl<Q: Block> Kernel<Quantize<Q>> for Reference {
    fn compute(&self, _: &Quantize<Q>, a: &mut QuantizeArgs<'_, Host, Q>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        let mut positions = lx.positions();
        for q in ly.positions() {
            let block: Vec<f32> = positions.by_ref().take(Q::LEN).map(|p| x[p]).collect();
            y[q] = Q::quantize(&block);
        }
        Ok(())
    }
}

impl<Q: Block> Kernel<Dequantize<Q>> for Reference {
    fn compute(&self, _: &Dequantize<Q>, a: &mut DequantizeArgs<'_, Host, Q>) -> Result<()> {
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        let (mut to, mut block) = (ly.positions(), vec![0.0; Q::LEN]);
        for p in lx.positions() {
            x[p].dequantize(&mut block);
            block.iter().zip(to.by_ref()).for_each(|(v, q)| y[q] = *v);
        }
        Ok(())
    }
}

impl<T: Float, Q: Block> Kernel<QLinear<T, Q>> for Reference {
    fn compute(&self, _: &QLinear<T, Q>, a: &mut QLinearArgs<'_, Host, T, Q>) -> Result<()> {
        let (weight, lw) = (a.weight, *a.weight.layout());
        let row = |j| Ok(values(&weight, &lw.narrow(0, j, 1)?).into_iter().map(f64::from).collect());
        dot_rows(a.x, &mut a.y, row, None)
    }
}

impl<T: Float, Q: Block, I: Index> Kernel<QEmbedding<T, Q, I>> for Reference {
    fn compute(&self, _: &QEmbedding<T, Q, I>, a: &mut QEmbeddingArgs<'_, Host, T, Q, I>) -> Result<()> {
        let (lt, ly) = (*a.table.layout(), *a.y.layout());
        for (i, row) in resolve("qembedding", &a.ids, lt.dims()[0])?.into_iter().enumerate() {
            let row = match row {
                Some(row) => values(&a.table, &lt.narrow(0, row, 1)?),
                None => vec![0.0; ly.last()],
            };
            scatter(&mut a.y, ly.narrow(0, i, 1)?.positions(), row.into_iter().map(f64::from));
        }
        Ok(())
    }
}
