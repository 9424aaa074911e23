//! Bitwise functions of integers.
use super::Reference;
use crate::{Host, Kernel};
use ops_core::ops::{Bitwise, BitwiseNot};
use ops_core::{Call, Integer, Result};

impl<T: Integer> Kernel<Bitwise<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Bitwise<T>, Host>) -> Result<()> {
        let (op, on) = call.into_parts();
        let positions = on.a.layout().positions().zip(on.b.layout().positions());
        for ((p, q), r) in positions.zip(on.y.layout().positions().collect::<Vec<_>>()) {
            on.y.data_mut()[r] = op.function().at(on.a.data()[p], on.b.data()[q]);
        }
        Ok(())
    }
}
impl<T: Integer> Kernel<BitwiseNot<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, BitwiseNot<T>, Host>) -> Result<()> {
        let (_, on) = call.into_parts();
        for (p, q) in on.x.layout().positions().zip(on.y.layout().positions().collect::<Vec<_>>()) {
            on.y.data_mut()[q] = !on.x.data()[p];
        }
        Ok(())
    }
}
