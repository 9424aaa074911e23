//! Copies, fills and numbers in steps.
use super::{Bound, HipOp, Problem};
use ops_core::ops::{Arange, Fill, TensorCopy};
use ops_core::{Element, Layout, Num, Scalar, Shape, Wide};
use ops_kernels::copy::{self, CopyArgs};
use ops_kernels::{Plan, Refused};
use std::mem::offset_of;

impl HipOp for TensorCopy {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (x, y) = (p.at(0), p.at(1));
        plan.add(copy::copy(x.dims(), x.view(), y.view(), p.device())?)
    }
}

impl<T: Num> HipOp for Arange<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let bits = |v: Wide| if T::IS_FLOAT { v.to_f64().to_bits() } else { i64::from_wide(v) as u64 };
        let y = p.at(0);
        plan.add(copy::arange(y.dims(), y.view(), [self.start, self.step].map(bits), p.device())?)
    }
}

/// The value is an argument for elements of up to eight bytes. A block lies in the workspace and is copied to
/// all of `y`.
impl<T: Element> HipOp for Fill<T> {
    fn plan(&self, p: &Problem<'_>, plan: &mut Plan) -> Result<(), Refused> {
        let (y, value) = (p.at(0), bytemuck::bytes_of(&self.value));
        if y.dtype.bits().is_some() {
            let bits = u64::from_le_bytes(std::array::from_fn(|i| value.get(i).copied().unwrap_or(0)));
            return plan.add(copy::fill(y.dims(), y.view(), bits, p.device())?);
        }
        let everywhere = Layout::of(Shape::SCALAR).broadcast(y.layout.dims());
        let everywhere = everywhere.map_err(|_| Refused::Rank(y.layout.rank()))?;
        let one = Bound::new(0, y.dtype, &everywhere);
        let (launch, args) = copy::copy(y.dims(), one.view(), y.view(), p.device())?;
        plan.workspace = value.len() as u64;
        plan.add_with(launch, &args, &[offset_of!(CopyArgs, x.data)])
    }

    fn contents(&self) -> &[u8] {
        bytemuck::bytes_of(&self.value)
    }
}
