//! Which heads a rank loads.
use super::Loader;
use crate::Config;
use crate::config::gcd;
use crate::share::Cut;
use ops_core::Float;
use ops_core::model::Transformer;

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The query heads of this rank. As many stay together as the blocks of output matrices require.
    pub(crate) fn heads(&self) -> Cut<B::Space> {
        let Config { layers, further_layers, latent, .. } = *self.config;
        let units = (0..layers + further_layers).map(|i| {
            let width = latent.map_or(self.config.heads_of(i).head_dim, |latent| latent.value_dim);
            let block = self.block_of(&format!("blk.{i}.attn_output"));
            block / gcd(block, width)
        });
        self.share.cut(self.config.heads, together(units))
    }

    /// The key heads of this rank in recurrent layers, each of which comes with its value heads.
    pub(crate) fn recurrent_heads(&self) -> Cut<B::Space> {
        let Some(plan) = &self.config.recurrent else { return self.share.cut(0, 1) };
        let served = plan.value_heads / plan.key_heads;
        let blocks = (0..self.config.layers).map(|i| self.block_of(&format!("blk.{i}.ssm_out")));
        let units = blocks.map(|block| match (plan.tiled, gcd(block, plan.value_dim) == block) {
            (true, false) => plan.key_heads,
            _ => block / gcd(block, served * plan.value_dim),
        });
        self.share.cut(plan.key_heads, together(units))
    }
}

/// The least common multiple.
fn together(units: impl Iterator<Item = usize>) -> usize {
    units.fold(1, |all, unit| all / gcd(all, unit) * unit)
}
