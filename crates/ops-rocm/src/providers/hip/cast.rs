//! Conversions between element types.
use super::{HipOp, Problem};
use ops_core::Scalar;
use ops_core::ops::Cast;
use ops_kernels::{Launch, Refused, cast};

impl<T: Scalar> HipOp for Cast<T> {
    type Kernel = cast::CastArgs;

    fn plan(&self, p: &Problem<'_>) -> Result<(Launch, Self::Kernel), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        cast::prepare(x.dims(), x.view(), y.view(), p.device())
    }
}
