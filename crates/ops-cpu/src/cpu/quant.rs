//! Quantized tensors.
use super::Cpu;
use super::matmul::{products, widened};
use super::rows::{Rows, each, with_packed};
use crate::reference::resolve;
use crate::{Host, Kernel};
use ops_core::ops::{
    Dequantize, DequantizeArgs, QEmbedding, QEmbeddingArgs, QLinear, QLinearArgs, Quantize, QuantizeArgs,
};
use ops_core::quant::Block;
use ops_core::{Float, Index, Result, View};

impl<Q: Block> Kernel<Quantize<Q>> for Cpu {
    fn compute(&self, _: &Quantize<Q>, a: &mut QuantizeArgs<'_, Host, Q>) -> Result<()> {
        let x = Rows::of(&a.x);
        each(&mut a.y, 4 * a.x.layout().last(), Vec::new, |scratch, i, y| {
            for (y, x) in y.iter_mut().zip(x.get(i, scratch).chunks_exact(Q::LEN)) {
                *y = Q::quantize(x);
            }
        });
        Ok(())
    }
}

impl<Q: Block> Kernel<Dequantize<Q>> for Cpu {
    fn compute(&self, _: &Dequantize<Q>, a: &mut DequantizeArgs<'_, Host, Q>) -> Result<()> {
        let (x, n) = (Rows::of(&a.x), a.y.layout().last());
        each(&mut a.y, n, Vec::new, |scratch, i, y| {
            for (y, x) in y.chunks_exact_mut(Q::LEN).zip(x.get(i, scratch)) {
                x.dequantize(y);
            }
        });
        Ok(())
    }
}

/// The values of a row of blocks, widened.
fn values<A: Float, Q: Block>(blocks: &[Q], wide: &mut Vec<A>, block: &mut Vec<f32>) {
    block.resize(Q::LEN, 0.0);
    for b in blocks {
        b.dequantize(block);
        wide.extend(block.iter().map(|v| A::from_f64(f64::from(*v))));
    }
}

impl<T: Float, Q: Block> Kernel<QLinear<T, Q>> for Cpu {
    fn compute(&self, _: &QLinear<T, Q>, a: &mut QLinearArgs<'_, Host, T, Q>) -> Result<()> {
        let (x, k, n) = (widened::<T::Acc, T>(&a.x)?, a.x.layout().last(), a.y.layout().last());
        let weight = Rows::of(&a.weight);
        with_packed(&mut a.y, |y| {
            products(&x, k, y, n, None, <(Vec<Q>, Vec<f32>)>::default, |(scratch, block), j, w| {
                values(weight.get(j, scratch), w, block);
            })
        })
    }
}

impl<T: Float, Q: Block, I: Index> Kernel<QEmbedding<T, Q, I>> for Cpu {
    fn compute(&self, _: &QEmbedding<T, Q, I>, a: &mut QEmbeddingArgs<'_, Host, T, Q, I>) -> Result<()> {
        let rows = resolve("qembedding", &a.ids, a.table.dims()[0])?;
        let (table, n) = (Rows::of(&a.table), a.y.layout().last());
        let state = <(Vec<Q>, Vec<T::Acc>, Vec<f32>)>::default;
        each(&mut a.y, n, state, |(scratch, wide, block), i, y| {
            wide.clear();
            if let Some(row) = rows[i] {
                values(table.get(row, scratch), wide, block);
            }
            wide.resize(n, T::Acc::default());
            y.iter_mut().zip(&*wide).for_each(|(y, v)| *y = T::from_acc(*v));
        });
        Ok(())
    }
}
