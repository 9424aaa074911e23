//! Reads the tensors of feed-forward blocks.
use super::Loader;
use crate::pieces::{Dense, Linear, Matrices, Mixture};
use crate::{Activation, Config, Experts, Result};
use ops_core::Float;
use ops_core::model::{Transformer, Weight};
use ops_core::ops::{CastMethods, LinearMethods};

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The dense block of this width, whose tensors' names end in `suffix`.
    pub(crate) fn dense(&self, i: usize, suffix: &str, ffn: usize) -> Result<Dense<B>> {
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

    pub(crate) fn mixture(&self, i: usize, experts: Experts) -> Result<Mixture<B>> {
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
                Some(Linear { weight: self.backend.pack_weight::<T>(row)?, bias: None })
            }
            Some(_) => Some(self.linear(&part, [1, dim])?),
        };
        Ok((block, gate))
    }
    /// Several matrices in one tensor, `[count, n, k]`, with their biases if the file has them.
    pub(crate) fn matrices(&self, part: &str, [count, n, k]: [usize; 3]) -> Result<Matrices<B>> {
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        let weight = self.weights.rows(&name, &[count, n, k], 0..self.product(part, count, n)?)?;
        let weight = self.stack(weight, count, n)?;
        let bias = match self.has(&bias) {
            true => {
                self.mark(&bias);
                Some(self.backend.cast::<f32>(&self.weights.matrix(&bias, [count, n])?)?)
            }
            false => None,
        };
        Ok(Matrices { weight, bias })
    }

    /// Rows of `count` matrices as one tensor of three axes.
    pub(crate) fn stack(&self, rows: Weight<B::Space>, count: usize, n: usize) -> Result<Weight<B::Space>> {
        let (dtype, layout) = (rows.dtype(), *rows.layout());
        let layout = layout.reshape(&[count, n, layout.last()])?;
        Ok(Weight::new(rows.into_buffer(), dtype, layout)?)
    }
}
