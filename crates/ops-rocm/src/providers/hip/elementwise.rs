//! Elementwise ops.
use super::{HipOp, Problem};
use ops_core::ops::{Binary, Compare, Glu, Parametric, ParametricFn, Unary};
use ops_core::{Float, Num, Op, Scalar, Wide};
use ops_kernels::{Launch, Refused, binary, compare, parametric, unary};

impl<T: Num> HipOp for Unary<T> {
    type Kernel = unary::UnaryArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        unary::prepare(self.name(), x.dims(), x.view(), y.view(), p.device())
    }
}

impl<T: Num> HipOp for Binary<T> {
    type Kernel = binary::BinaryArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        plan_binary(self.name(), p)
    }
}

impl<T: Scalar> HipOp for Compare<T> {
    type Kernel = compare::CompareArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let y = p.at(2);
        compare::prepare(self.name(), y.dims(), [p.at(0).view(), p.at(1).view(), y.view()], p.device())
    }
}

impl<T: Num> HipOp for Parametric<T> {
    type Kernel = parametric::ParametricArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
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
        parametric::prepare(self.name(), x.dims(), [x.view(), y.view()], parameters, p.device())
    }
}

impl<T: Float> HipOp for Glu<T> {
    type Kernel = binary::BinaryArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        plan_binary(self.name(), p)
    }
}

fn plan_binary(op: &str, p: &Problem<'_>) -> Result<(Launch, binary::BinaryArgs), Refused> {
    let y = p.at(2);
    binary::prepare(op, y.dims(), [p.at(0).view(), p.at(1).view(), y.view()], p.device())
}
