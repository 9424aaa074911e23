//! Functions with parameters.
use super::{HipOp, Problem};
use ops_core::ops::{Parametric, ParametricFn};
use ops_core::{Num, Op, Wide};
use ops_kernels::{Plan, Refused, parametric};

impl<T: Num> HipOp for Parametric<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let bits = |v: Wide| match v {
            Wide::Int(v) => v as u64,
            Wide::Float(v) => v.to_bits(),
        };
        let parameters = match self.function() {
            ParametricFn::Powf { exponent } => [exponent.to_bits(), 0],
            ParametricFn::Elu { alpha } => [alpha.to_bits(), 0],
            ParametricFn::Clamp { min, max } => [bits(min), bits(max)],
            other => {
                return Err(Refused::NoKernel { op: other.name().to_owned(), types: vec![p.at(0).dtype] });
            }
        };
        let (x, y) = (p.at(0), p.at(1));
        plan.add(parametric::prepare(self.name(), x.dims(), [x.view(), y.view()], parameters, p.device())?)
    }
}
