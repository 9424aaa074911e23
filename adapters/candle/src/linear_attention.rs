//! Linear attention.
use crate::call::on_float;
use crate::convert::typed;
use crate::ops::{Computes, Ops};
use crate::result;
use candle_core::{Result, Tensor};
use rocm_ops::ops::{GatedDeltaRule, LinearAttentionMethods};

impl<B: Computes> Ops<B> {
    /// The gated delta rule over the tokens of `q` and `k[b, t, h, d]` and `v[b, t, h, dv]`, which changes `state[b, h, d, dv]` of f32 in
    /// place. For each token, `S ← e^decay · S`; `r = beta · (v − kᵀ S)`; `S ← S + k rᵀ`; `o = scale · qᵀ S`. `gates` are `decay` and
    /// `beta[b, t, h]`, of f32; `scale` is `1/√d` unless it is given. Returns `o[b, t, h, dv]`.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let (q, k) = (Tensor::new(&[[[[0f32, 1.0]]]], &cpu)?, Tensor::new(&[[[[0f32, 1.0]]]], &cpu)?);
    /// let v = Tensor::new(&[[[[6f32]]]], &cpu)?;
    /// let (decay, beta) = (Tensor::new(&[[[0f32]]], &cpu)?, Tensor::new(&[[[0.5f32]]], &cpu)?);
    /// // The state gives 2 for this key; half of the difference to 6 is added.
    /// let state = Tensor::new(&[[[[1f32], [2.0]]]], &cpu)?;
    /// let o = ops.gated_delta_rule(&q, &k, &v, (&decay, &beta), &state, Some(1.0))?;
    /// assert_eq!(o.flatten_all()?.to_vec1::<f32>()?, [4.0]);
    /// assert_eq!(state.flatten_all()?.to_vec1::<f32>()?, [1.0, 4.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; a state that shares memory with another operand; a tensor that candle tracks for gradients.
    pub fn gated_delta_rule(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        gates: (&Tensor, &Tensor),
        state: &Tensor,
        scale: Option<f64>,
    ) -> Result<Tensor> {
        const OP: &str = "gated_delta_rule";
        let operands = [("q", q), ("k", k), ("v", v), ("decay", gates.0), ("beta", gates.1)];
        on_float!(OP, "q", q, T => {
            let mut o = Vec::<T>::new();
            self.write::<f32, 5, 0>(OP, ("state", state), operands, [], |[q, k, v, decay, beta], [], state| {
                let (q, k, v) = (typed::<T, _>(OP, "q", q)?, typed::<T, _>(OP, "k", k)?, typed::<T, _>(OP, "v", v)?);
                let gates = (typed::<f32, _>(OP, "decay", decay)?, typed::<f32, _>(OP, "beta", beta)?);
                let mut op = GatedDeltaRule::new();
                op.scale = scale;
                o = self.output::<T>(v.dims(), |o| {
                    self.backend.gated_delta_rule_into(q, k, v, gates, state, o, op)
                })?;
                Ok(())
            })?;
            result::tensor(OP, &operands, o, v.dims())
        })
    }
}
