//! Reads the tensors of feed-forward blocks.
use super::super::feed_forward::{Beside, Dense, Matrices, Mixture};
use super::super::{Linear, Norm};
use super::Loader;
use crate::{Activation, Config, Experts, NormKind, Result};
use ops_core::Float;
use ops_core::model::{Transformer, Weight};
use ops_core::ops::{CastOps, ElementwiseOps, LinearOps};

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// A dense block and experts side by side.
    pub(super) fn beside(&self, i: usize, experts: Experts) -> Result<Beside<B>> {
        let Config { dim, norm_eps, .. } = *self.config;
        let Experts { count, ffn, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        let unit = self.config.stream_unit::<T>();
        // The router reads the stream itself, normed and scaled.
        let mut weight = self.vector(&part("ffn_gate_inp.scale"), dim)?;
        ElementwiseOps::<f32>::affine_inplace(self.backend, &mut weight, (dim as f64).sqrt().recip(), 0.0)?;
        let router_norm = Norm { kind: NormKind::Rms, eps: norm_eps / (unit * unit), weight, bias: None };
        let both = part("ffn_gate_up_exps");
        let rows = self.product("expert_feed_forward_length", 2, ffn)?;
        let half = |first: usize| -> Result<Matrices<B>> {
            let groups: Vec<_> =
                (0..count).map(|e| (2 * e + first) * ffn..(2 * e + first + 1) * ffn).collect();
            let name = format!("{both}.weight");
            self.mark(&name);
            let weight = self.weights.row_groups(&name, &[count, rows, dim], &groups)?;
            Ok(Matrices { weight: self.stack(weight, count, ffn)?, bias: None })
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
                down: self.matrices(&part("ffn_down_exps"), [count, dim, ffn])?,
                choice_bias: None,
                shared: None,
                plan: experts,
            },
            expert_scales: self.vector(&part("ffn_down_exps.scale"), count)?,
            mixture_norm: self.norm(&part("post_ffw_norm_2"), dim)?,
        })
    }

    /// The dense block of this width, whose tensors' names end in `suffix`.
    pub(super) fn dense(&self, i: usize, suffix: &str, ffn: usize) -> Result<Dense<B>> {
        let Config { dim, activation, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}{suffix}");
        let down = self.linear(&part("ffn_down"), [dim, ffn])?;
        let up = part("ffn_up");
        if activation == Activation::Gelu {
            return Ok(Dense { gate: None, up: self.linear(&up, [ffn, dim])?, down });
        }
        if self.has(&format!("{}.weight", part("ffn_gate"))) {
            let gate = Some(self.linear(&part("ffn_gate"), [ffn, dim])?);
            return Ok(Dense { gate, up: self.linear(&up, [ffn, dim])?, down });
        }
        // Gate and up are in one matrix, in this order.
        let dims = [2 * ffn, dim];
        let gate = Some(self.rows(&up, &dims, 0..ffn)?);
        Ok(Dense { gate, up: self.rows(&up, &dims, ffn..2 * ffn)?, down })
    }

    pub(super) fn mixture(&self, i: usize, experts: Experts) -> Result<Mixture<B>> {
        let Config { dim, .. } = *self.config;
        let Experts { count, ffn, shared, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        Ok(Mixture {
            router: self.linear(&part("ffn_gate_inp"), [count, dim])?,
            gate: self.matrices(&part("ffn_gate_exps"), [count, ffn, dim])?,
            up: self.matrices(&part("ffn_up_exps"), [count, ffn, dim])?,
            down: self.matrices(&part("ffn_down_exps"), [count, dim, ffn])?,
            choice_bias: self.optional(&part("exp_probs_b.bias"), count)?,
            shared: (shared > 0).then(|| self.shared(i, shared)).transpose()?,
            plan: experts,
        })
    }
    /// The shared block of this width, and its gate, a row that files store as a vector or as a matrix.
    fn shared(&self, i: usize, width: usize) -> Result<(Dense<B>, Option<Linear<B>>)> {
        let (block, dim) = (self.dense(i, "_shexp", width)?, self.config.dim);
        let part = format!("blk.{i}.ffn_gate_inp_shexp");
        let name = format!("{part}.weight");
        let gate = match self.gguf.find(&name).map(|tensor| tensor.dims().len()) {
            None => None,
            Some(1) => {
                let row: Weight<B::Space> = self.vector(&name, dim)?.reshape(&[1, dim])?.into();
                Some(Linear { weight: LinearOps::<T>::pack_weight(self.backend, row)?, bias: None })
            }
            Some(_) => Some(self.linear(&part, [1, dim])?),
        };
        Ok((block, gate))
    }
    /// Several matrices in one tensor, `[count, n, k]`, with their biases if the file has them.
    pub(in crate::decoder) fn matrices(&self, part: &str, [count, n, k]: [usize; 3]) -> Result<Matrices<B>> {
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        let weight = self.weights.rows(&name, &[count, n, k], 0..self.product(part, count, n)?)?;
        let weight = self.stack(weight, count, n)?;
        let bias = match self.has(&bias) {
            true => {
                self.mark(&bias);
                Some(CastOps::<f32>::cast(self.backend, &self.weights.matrix(&bias, [count, n])?)?)
            }
            false => None,
        };
        Ok(Matrices { weight, bias })
    }

    /// Rows of `count` matrices as one tensor of three axes.
    fn stack(&self, rows: Weight<B::Space>, count: usize, n: usize) -> Result<Weight<B::Space>> {
        let (dtype, layout) = (rows.dtype(), *rows.layout());
        let layout = layout.reshape(&[count, n, layout.last()])?;
        Ok(Weight::new(rows.into_buffer(), dtype, layout)?)
    }
}
