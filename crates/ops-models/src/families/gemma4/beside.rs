//! A dense block and experts side by side.
use crate::pieces::{Dense, Loader, Matrices, Mixture, Norm};
use crate::{Activation, Config, Experts, NormKind, Result};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf};

/// A dense block and experts side by side, each with its norms: the experts and their router read the residual stream.
pub(crate) struct Beside<B: Backend> {
    dense: Dense<B>,
    dense_norm: Norm<B>,
    router_norm: Norm<B>,
    pre_norm: Norm<B>,
    mixture: Mixture<B>,
    /// Factors on the weights of the experts.
    expert_scales: TensorOf<B, f32>,
    mixture_norm: Norm<B>,
}

impl<B: Backend> Beside<B> {
    pub(crate) fn apply<T: Float>(
        &self,
        b: &B,
        activation: Activation,
        h: Ref<'_, B, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let dense = self.dense_norm.apply(b, self.dense.apply(b, activation, h)?.as_ref())?;
        let (weights, ids) = self.mixture.choose(b, self.router_norm.apply(b, x)?.as_ref())?;
        let scales = b.index_select(
            &self.expert_scales,
            ids.as_ref().reshape(&[weights.layout().len()])?,
            IndexSelect::axis(0),
        )?;
        let weights = b.mul(&weights, &scales.reshape(weights.dims())?)?;
        let own = self.pre_norm.apply(b, x)?;
        let experts = self.mixture.combined(b, activation, own.as_ref(), &(weights, ids))?;
        Ok(b.add(&dense, &self.mixture_norm.apply(b, experts.as_ref())?)?)
    }
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// A dense block and experts side by side.
    pub(crate) fn beside(&self, i: usize, experts: Experts) -> Result<Beside<B>> {
        let Config { dim, norm_eps, .. } = *self.config;
        let Experts { count, ffn, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        let unit = self.config.stream_unit::<T>();
        // The router reads the stream itself, normed and scaled.
        let mut weight = self.vector(&part("ffn_gate_inp.scale"), dim)?;
        self.backend.affine_inplace(&mut weight, (dim as f64).sqrt().recip(), 0.0)?;
        let router_norm = Norm { kind: NormKind::Rms, eps: norm_eps / (unit * unit), weight, bias: None };
        let both = part("ffn_gate_up_exps");
        let rows = self.product("expert_feed_forward_length", 2, ffn)?;
        let own = self.share.cut(count, 1).own;
        let half = |first: usize| -> Result<Matrices<B>> {
            let groups: Vec<_> =
                own.clone().map(|e| (2 * e + first) * ffn..(2 * e + first + 1) * ffn).collect();
            let name = format!("{both}.weight");
            self.mark(&name);
            let weight = self.weights.row_groups(&name, &[count, rows, dim], &groups)?;
            Ok(Matrices { weight: self.stack(weight, own.len(), ffn)?, bias: None })
        };
        Ok(Beside {
            dense: self.dense(i, "", self.config.ffn_of(i))?,
            dense_norm: self.norm(&part("post_ffw_norm_1"), dim)?,
            router_norm,
            pre_norm: self.stream_norm(&part("pre_ffw_norm_2"))?,
            mixture: Mixture {
                router: self.linear(&part("ffn_gate_inp"), [count, dim])?,
                gate: half(0)?,
                up: half(1)?,
                down: self.matrices(&part("ffn_down_exps"), [count, dim, ffn], own.clone())?,
                choice_bias: None,
                shared: None,
                plan: experts,
                numbers: self.numbers(count)?,
                share: self.share.clone(),
            },
            expert_scales: self.vector(&part("ffn_down_exps.scale"), count)?,
            mixture_norm: self.norm(&part("post_ffw_norm_2"), dim)?,
        })
    }
}
