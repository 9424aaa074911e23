//! What some families do with the residual stream at the end of a layer.
use crate::pieces::{Linear, Loader, Norm};
use crate::{Config, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf, View};

/// The end of a layer.
pub(super) struct End<B: Backend> {
    inputs: Option<Inputs<B>>,
    /// The stream is multiplied by this.
    scale: f64,
}

/// How a token's embedding for the layer is added to the stream.
struct Inputs<B: Backend> {
    gate: Linear<B>,
    projection: Linear<B>,
    norm: Norm<B>,
    /// The unit of the stream.
    unit: f64,
}

/// The embeddings that a token has for each layer, and the projection of its usual one that is added to them. Gemma Team, 2025.
pub(super) struct PerLayer<B: Backend> {
    table: Weight<B::Space>,
    projection: Linear<B>,
    norm: TensorOf<B, f32>,
    /// In units of what the projection gives.
    norm_eps: f64,
    width: usize,
}

/// The embeddings of a step's tokens for each layer, `[t, layers · width]`.
pub(super) struct OfTokens<T: Float, B: Backend> {
    all: TensorOf<B, T>,
    width: usize,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The end of layer `i`, if it has a part.
    pub(super) fn end(&self, i: usize) -> Result<Option<End<B>>> {
        let Config { dim, per_layer, layer_scales, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        let inputs = |width| -> Result<Inputs<B>> {
            Ok(Inputs {
                gate: self.linear(&part("inp_gate"), [width, dim])?,
                projection: self.linear(&part("proj"), [dim, width])?,
                // What it norms is in units of the stream as well.
                norm: self.of_stream(self.stream_norm(&part("post_norm"))?)?,
                unit: self.config.stream_unit::<T>(),
            })
        };
        let scale = layer_scales.then(|| self.vector(&part("layer_output_scale.weight"), 1)).transpose()?;
        let scale = scale.map(|scale| scale.to_vec(self.backend)).transpose()?;
        let end = End {
            inputs: per_layer.map(inputs).transpose()?,
            scale: scale.and_then(|scale| scale.first().copied()).map_or(1.0, f64::from),
        };
        Ok((per_layer.is_some() || layer_scales).then_some(end))
    }

    /// The embeddings for each layer of a vocabulary of this size.
    pub(super) fn per_layer(&self, vocabulary: usize) -> Result<Option<PerLayer<B>>> {
        let Config { dim, layers, per_layer, norm_eps, .. } = *self.config;
        let Some(width) = per_layer else { return Ok(None) };
        let all = self.product("embedding_length_per_layer_input", layers, width)?;
        self.mark("per_layer_token_embd.weight");
        let unit = self.config.stream_unit::<T>();
        Ok(Some(PerLayer {
            table: self.weights.matrix("per_layer_token_embd.weight", [vocabulary, all])?,
            projection: self.linear("per_layer_model_proj", [all, dim])?,
            norm: self.vector("per_layer_proj_norm.weight", width)?,
            // The stream's unit and the root of its width divide what is normed.
            norm_eps: norm_eps * dim as f64 / (unit * unit),
            width,
        }))
    }
}

impl<B: Backend> PerLayer<B> {
    /// Those of tokens whose usual embeddings, scaled, are `x[t, dim]`.
    pub(super) fn of_tokens<T: Float>(
        &self,
        b: &B,
        ids: &TensorOf<B, u32>,
        x: Ref<'_, B, T>,
    ) -> Result<OfTokens<T, B>>
    where
        B: Transformer<T>,
    {
        let width = self.width;
        let projected = self.projection.apply(b, x)?;
        let (t, all) = (projected.dims()[0], projected.dims()[1]);
        let rows = projected.reshape(&[t * (all / width), width])?;
        let normed = b.rms_norm(&rows, &self.norm, RmsNorm::eps(self.norm_eps))?.reshape(&[t, all])?;
        let mut own: TensorOf<B, T> = b.embedding(&self.table, ids)?;
        b.affine_inplace(&mut own, (width as f64).sqrt(), 0.0)?;
        let mut all = b.add(&normed, &own)?;
        b.affine_inplace(&mut all, 0.5_f64.sqrt(), 0.0)?;
        Ok(OfTokens { all, width })
    }
}

impl<T: Float, B: Backend> OfTokens<T, B> {
    /// Those for layer `i`, `[t, width]`.
    pub(super) fn of_layer(&self, i: usize) -> Result<Ref<'_, B, T>> {
        Ok(self.all.as_ref().narrow(1, i * self.width, self.width)?)
    }
}

impl<B: Backend> End<B> {
    /// The stream `x[t, dim]` after the layer. `own` is the embedding for the layer.
    pub(super) fn apply<T: Float>(
        &self,
        b: &B,
        mut x: TensorOf<B, T>,
        own: Option<Ref<'_, B, T>>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        if let (Some(Inputs { gate, projection, norm, unit }), Some(own)) = (&self.inputs, own) {
            let gate = gate.apply(b, x.as_ref())?;
            let gated = if *unit == 1.0 {
                b.mul(&b.gelu(&gate)?, own)?
            } else {
                // Without its unit, the gate of a large stream leaves the range of 16 bits.
                let mut gate = CastOps::<f32>::cast(b, &gate)?;
                ElementwiseOps::<f32>::affine_inplace(b, &mut gate, *unit, 0.0)?;
                let mut gated =
                    b.mul(&ActivationOps::<f32>::gelu(b, &gate)?, &CastOps::<f32>::cast(b, own)?)?;
                ElementwiseOps::<f32>::affine_inplace(b, &mut gated, unit.recip(), 0.0)?;
                CastOps::<T>::cast(b, &gated)?
            };
            let y = norm.apply(b, projection.apply(b, gated.as_ref())?.as_ref())?;
            x = b.add(&x, &y)?;
        }
        if self.scale != 1.0 {
            b.affine_inplace(&mut x, self.scale, 0.0)?;
        }
        Ok(x)
    }
}
