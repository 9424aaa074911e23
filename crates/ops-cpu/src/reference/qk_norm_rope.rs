//! Rotary position embedding after a norm of the heads.
use super::rope::{Angles, for_each_head};
use super::{Reference, line};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{QkNormRope, RopeOrder};
use ops_core::{Call, Float, Op, Result};

impl<T: Float> Kernel<QkNormRope<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, QkNormRope<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, weight, mut y) = (Raw::of(&a.x), Raw::any(&a.weight).values(), RawMut::of(&mut a.y));
        let (tables, positions) = ([Raw::any(&a.cos), Raw::any(&a.sin)], Raw::any_if(&a.positions));
        let (tokens, ly) = ([x.dims()[0], x.dims()[1]], y.layout);
        let adjacent = op.order == RopeOrder::Interleaved;
        let angles = Angles::new(op.name(), tables, (positions, 0), tokens, adjacent)?;
        for_each_head(x.dims(), |at| {
            let head = x.gather(line(&x.layout, 3, x.layout.position(&at)));
            let normed = super::norm::rms_norm_row(&head, &weight, op.eps);
            y.scatter(line(&ly, 3, ly.position(&at)), angles.rotated(normed, at[0], at[1]));
        });
        Ok(())
    }
}
