//! Ops on blocks.
use super::{HipOp, Problem};
use ops_core::ops::{Dequantize, QEmbedding, Quantize};
use ops_core::quant::Block;
use ops_core::{Float, Index};
use ops_kernels::{Launch, Refused, quant};

impl<Q: Block> HipOp for Quantize<Q> {
    type Kernel = quant::QuantizeArgs;

    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        quant::quantize(y.dims(), x.view(), y.view(), p.device())
    }
}

impl<Q: Block> HipOp for Dequantize<Q> {
    type Kernel = quant::DequantizeArgs;

    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        quant::dequantize(x.dims(), x.view(), y.view(), p.device())
    }
}

impl<T: Float, Q: Block, I: Index> HipOp for QEmbedding<T, Q, I> {
    type Kernel = quant::QEmbeddingArgs;
    const INDICES: Option<&'static str> = Some("ids");

    fn plan(&self, p: &Problem) -> Result<(Launch, Self::Kernel), Refused> {
        let (table, ids, y) = (p.at(0), p.at(1), p.at(2));
        let (&[bound, blocks], &[count]) = (table.dims(), ids.dims()) else {
            return Err(Refused::Rank(table.layout.rank()));
        };
        quant::embedding([count, blocks, bound], [table.view(), ids.view(), y.view()], p.report(), p.device())
    }
}
