//! Attention over sequences of different lengths.
use super::super::Cpu;
use crate::{Host, Kernel, Reference};
use ops_core::ops::{AttentionPaged, AttentionVarlen};
use ops_core::{Call, Float, Result};

impl<T: Float> Kernel<AttentionVarlen<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, AttentionVarlen<T>, Host>) -> Result<()> {
        Reference::new().compute(call)
    }
}

impl<T: Float> Kernel<AttentionPaged<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, AttentionPaged<T>, Host>) -> Result<()> {
        Reference::new().compute(call)
    }
}
