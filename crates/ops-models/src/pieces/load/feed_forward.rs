//! Reads the tensors of feed-forward blocks.
use super::Loader;
use crate::pieces::{Dense, Linear, Matrices, Mixture};
use crate::share::only;
use crate::{Activation, Config, Experts, Result, Share};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::{CastMethods, LinearMethods};
use ops_core::{Float, TensorOf};
use std::ops::Range;

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The dense block of this width, whose tensors' names end in `suffix`.
    pub(crate) fn dense(&self, i: usize, suffix: &str, ffn: usize) -> Result<Dense<B>> {
        let Config { dim, activation, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}{suffix}");
        // Such a gate depends on its whole row.
        let whole = matches!(self.config.activation_of(i), Activation::GegluSparse { .. });
        let share = if whole { Share::whole() } else { self.share.clone() };
        let (up, cut) = (part("ffn_up"), share.cut(ffn, self.block_of(&part("ffn_down"))));
        let down = self.summed(&part("ffn_down"), [dim, ffn], &cut, only)?;
        let own = cut.own;
        if activation == Activation::Gelu {
            return Ok(Dense { gate: None, up: self.rows(&up, &[ffn, dim], own)?, down });
        }
        if self.has(&format!("{}.weight", part("ffn_gate"))) {
            let gate = Some(self.rows(&part("ffn_gate"), &[ffn, dim], own.clone())?);
            return Ok(Dense { gate, up: self.rows(&up, &[ffn, dim], own)?, down });
        }
        // Gate and up are in one matrix, in this order.
        let dims = [2 * ffn, dim];
        let gate = Some(self.rows(&up, &dims, own.clone())?);
        Ok(Dense { gate, up: self.rows(&up, &dims, ffn + own.start..ffn + own.end)?, down })
    }

    pub(crate) fn mixture(&self, i: usize, experts: Experts) -> Result<Mixture<B>> {
        let Config { dim, .. } = *self.config;
        let Experts { count, ffn, shared, .. } = experts;
        let part = |name: &str| format!("blk.{i}.{name}");
        let own = self.share.cut(count, 1).own;
        let matrices = |name: &str, n, k| self.matrices(&part(name), [count, n, k], own.clone());
        Ok(Mixture {
            router: self.linear(&part("ffn_gate_inp"), [count, dim])?,
            gate: matrices("ffn_gate_exps", ffn, dim)?,
            up: matrices("ffn_up_exps", ffn, dim)?,
            down: matrices("ffn_down_exps", dim, ffn)?,
            choice_bias: self.optional(&part("exp_probs_b.bias"), count)?,
            shared: (shared > 0).then(|| self.shared(i, shared)).transpose()?,
            plan: experts,
            numbers: self.numbers(count)?,
            share: self.share.clone(),
        })
    }
    /// The number of each expert among those of this rank, if it does not have all.
    pub(crate) fn numbers(&self, count: usize) -> Result<Option<TensorOf<B, u32>>> {
        if self.share.ranks() == 1 {
            return Ok(None);
        }
        let cut = self.share.cut(count, 1);
        // A rank without experts has a copy of one, which it does not compute.
        let is_own = |expert: usize| cut.parts.iter().any(|part| part.contains(&expert));
        let number = |expert| if is_own(expert) { (expert - cut.own.start) as u32 } else { u32::MAX };
        let numbers: Vec<u32> = (0..count).map(number).collect();
        Ok(Some(self.backend.tensor(&[count], &numbers)?))
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
    /// Several matrices of a tensor `[count, n, k]`, with their biases if the file has them.
    pub(crate) fn matrices(
        &self,
        part: &str,
        [count, n, k]: [usize; 3],
        own: Range<usize>,
    ) -> Result<Matrices<B>> {
        let (name, bias) = (format!("{part}.weight"), format!("{part}.bias"));
        self.mark(&name);
        self.product(part, count, n)?;
        let weight = self.weights.rows(&name, &[count, n, k], own.start * n..own.end * n)?;
        let weight = self.stack(weight, own.len(), n)?;
        let bias = match self.has(&bias) {
            true => {
                self.mark(&bias);
                Some(self.backend.cast::<f32>(&self.weights.rows(&bias, &[count, n], own)?)?)
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
