//! What is added to the residual stream at the end of a layer: embeddings that a token has for each layer. Gemma Team, "Gemma 3n", 2025.
use super::streams::{AltUp, Streams};
use crate::pieces::{Linear, Loader, Norm};
use crate::{Config, Result};
use ops_core::model::{Transformer, Weight};
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, TensorOf};

/// The end of a layer.
pub(crate) struct End<B: Backend> {
    inputs: Option<Inputs<B>>,
    /// How the streams change, if there are several.
    pub(super) altup: Option<AltUp<B>>,
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

/// The embeddings that a token has for each layer, and the projection of its usual one that is added to them.
pub(crate) struct PerLayer<B: Backend> {
    table: Weight<B::Space>,
    projection: Linear<B>,
    norm: TensorOf<B, f32>,
    /// In units of what the projection gives.
    norm_eps: f64,
    width: usize,
    streams: Option<Streams<B>>,
}

/// What a step carries beside the residual stream.
pub(crate) struct Aside<T: Float, B: Backend> {
    /// The embeddings of its tokens for each layer, `[t, layers · width]`.
    own: TensorOf<B, T>,
    width: usize,
    /// All streams, `[t, streams, dim]`, if there are several.
    streams: Option<TensorOf<B, T>>,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    /// The end of layer `i`, if it has a part.
    pub(crate) fn end(&self, i: usize) -> Result<Option<End<B>>> {
        let Config { dim, per_layer, layer_scales, streams, .. } = *self.config;
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
            altup: streams.map(|count| self.altup(i, count)).transpose()?,
            scale: scale.and_then(|scale| scale.first().copied()).map_or(1.0, f64::from),
        };
        Ok((per_layer.is_some() || layer_scales).then_some(end))
    }

    /// The embeddings for each layer of a vocabulary of this size.
    pub(crate) fn per_layer(&self, vocabulary: usize) -> Result<Option<PerLayer<B>>> {
        let Config { dim, layers, per_layer, norm_eps, streams, .. } = *self.config;
        let Some(width) = per_layer else { return Ok(None) };
        let all = self.product("embedding_length_per_layer_input", layers, width)?;
        let table = "per_layer_token_embd.weight";
        self.mark(table);
        // Tokens that stand for images and sounds, the last ones of the vocabulary, may have no row.
        let rows = self.gguf.tensor(table)?.dims().first().map_or(vocabulary, |rows| vocabulary.min(*rows));
        let unit = self.config.stream_unit::<T>();
        Ok(Some(PerLayer {
            table: self.weights.matrix(table, [rows, all])?,
            projection: self.linear("per_layer_model_proj", [all, dim])?,
            norm: self.vector("per_layer_proj_norm.weight", width)?,
            // The stream's unit and the root of its width divide what is normed.
            norm_eps: norm_eps * dim as f64 / (unit * unit),
            width,
            streams: streams.map(|count| self.streams(count)).transpose()?,
        }))
    }
}

impl<B: Backend> PerLayer<B> {
    /// What the tokens carry whose usual embeddings, scaled, are `x[t, dim]`.
    pub(crate) fn begin<T: Float>(
        &self,
        b: &B,
        ids: &TensorOf<B, u32>,
        x: Ref<'_, B, T>,
    ) -> Result<Aside<T, B>>
    where
        B: Transformer<T>,
    {
        let width = self.width;
        let projected = self.projection.apply(b, x)?;
        let (t, all) = (projected.dims()[0], projected.dims()[1]);
        let rows = projected.reshape(&[t * (all / width), width])?;
        let normed = b.rms_norm(&rows, &self.norm, self.norm_eps)?.reshape(&[t, all])?;
        let mut own: TensorOf<B, T> = b.embedding(&self.table, ids)?;
        b.affine_inplace(&mut own, (width as f64).sqrt(), 0.0)?;
        let mut own = b.add(&normed, &own)?;
        b.affine_inplace(&mut own, 0.5_f64.sqrt(), 0.0)?;
        let streams = self.streams.as_ref().map(|streams| streams.spread(b, x)).transpose()?;
        Ok(Aside { own, width, streams })
    }

    /// What the layer with this end reads, or the last norm if there is none, after the stream `x`.
    pub(crate) fn enter<T: Float>(
        &self,
        b: &B,
        end: Option<&End<B>>,
        x: TensorOf<B, T>,
        aside: &mut Aside<T, B>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (Some(plan), Some(streams)) = (&self.streams, &mut aside.streams) else { return Ok(x) };
        match end.and_then(|end| end.altup.as_ref()) {
            Some(altup) => {
                *streams = altup.predicted(b, streams)?;
                altup.active(b, streams)
            }
            None => plan.merged(b, streams),
        }
    }
}

impl<B: Backend> End<B> {
    /// The stream `x[t, dim]` after layer `i`.
    pub(crate) fn apply<T: Float>(
        &self,
        b: &B,
        i: usize,
        mut x: TensorOf<B, T>,
        aside: Option<&mut Aside<T, B>>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        if let (Some(inputs), Some(Aside { own, width, streams })) = (&self.inputs, aside) {
            let own = own.as_ref().narrow(1, i * *width, *width)?;
            if let (Some(altup), Some(streams)) = (&self.altup, streams) {
                let corrected = altup.corrected(b, streams, &x)?;
                let input = inputs.apply(b, altup.output(b, &corrected)?.as_ref(), own)?;
                *streams = altup.with_input(b, &corrected, &input)?;
                return Ok(x);
            }
            x = b.add(&x, &inputs.apply(b, x.as_ref(), own)?)?;
        }
        if self.scale != 1.0 {
            b.affine_inplace(&mut x, self.scale, 0.0)?;
        }
        Ok(x)
    }
}

impl<B: Backend> Inputs<B> {
    /// What is added to the stream for the embedding `own`, gated by `x[t, dim]`.
    fn apply<T: Float>(&self, b: &B, x: Ref<'_, B, T>, own: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let gate = self.gate.apply(b, x)?;
        let gated = if self.unit == 1.0 {
            b.mul(&b.gelu(&gate)?, own)?
        } else {
            // Without its unit, the gate of a large stream leaves the range of 16 bits.
            let mut gate = b.cast::<f32>(&gate)?;
            b.affine_inplace(&mut gate, self.unit, 0.0)?;
            let mut gated = b.mul(&b.gelu(&gate)?, &b.cast::<f32>(own)?)?;
            b.affine_inplace(&mut gated, self.unit.recip(), 0.0)?;
            b.cast::<T>(&gated)?
        };
        self.norm.apply(b, self.projection.apply(b, gated.as_ref())?.as_ref())
    }
}
