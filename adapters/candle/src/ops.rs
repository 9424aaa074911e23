//! The type whose methods are the ops, and what a backend must compute for it.
use crate::memory::Memory;
use rocm_ops::model::Transformer;
use rocm_ops::prelude::{Backend, bf16, f16};

/// A backend that computes the ops in every float type that candle has: `Cpu`, `Reference`, `Rocm`, and combinations of these.
pub trait Computes:
    Backend<Space: Memory> + Transformer<f16> + Transformer<bf16> + Transformer<f32> + Transformer<f64>
{
}
impl<B> Computes for B where
    B: Backend<Space: Memory> + Transformer<f16> + Transformer<bf16> + Transformer<f32> + Transformer<f64>
{
}

/// Ops on candle's CPU tensors, computed by the backend `B`. Each method computes the op of the same name in [`rocm_ops::ops`], where its
/// formula and its shapes are.
///
/// Operands may be strided or broadcast. Results are contiguous. Float operands of one call have one type, except weights, biases, tables
/// and masks, which may have any float type.
///
/// Every method returns an error for an operand on another device than the CPU, of a type that the op does not take, or of the wrong
/// shape. The message names the op and the operand.
#[derive(Clone, Debug)]
pub struct Ops<B> {
    pub(crate) backend: B,
}

impl<B: Computes> Ops<B> {
    /// Ops that `backend` computes.
    pub fn new(backend: B) -> Self {
        Ops { backend }
    }
    /// The backend.
    pub fn backend(&self) -> &B {
        &self.backend
    }
}
