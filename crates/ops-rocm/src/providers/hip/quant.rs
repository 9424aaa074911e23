//! Ops on blocks.
use super::{HipOp, Problem};
use ops_core::ops::{Dequantize, Quantize};
use ops_kernels::{Launch, Refused, quant};

impl HipOp for Quantize {
    type Kernel = quant::QuantizeArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        quant::quantize(y.dims(), x.view(), y.view(), p.device())
    }
}

impl HipOp for Dequantize {
    type Kernel = quant::DequantizeArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        quant::dequantize(x.dims(), x.view(), y.view(), p.device())
    }
}
