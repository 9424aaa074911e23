//! Ops on blocks.
use super::{HipOp, Problem};
use ops_core::ops::{Dequantize, Quantize};
use ops_kernels::{Plan, Refused, quant};

impl HipOp for Quantize {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(quant::quantize(y.dims(), x.view(), y.view(), p.device())?)
    }
}

impl HipOp for Dequantize {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(quant::dequantize(x.dims(), x.view(), y.view(), p.device())?)
    }
}
