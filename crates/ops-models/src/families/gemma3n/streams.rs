//! Several residual streams, of which a layer computes one and predicts and corrects the others. Baykal et al., "Alternating
//! Updates for Efficient Transformers", 2023. And a layer's second way past its attention, of low rank. Menghani, Kumar and
//! Kumar, "LAuReL: Learned Augmented Residual Layer", 2024.
use crate::pieces::{Linear, Loader, Norm};
use crate::{Config, Result};
use ops_core::model::Transformer;
use ops_core::ops::*;
use ops_core::{Backend, Float, Ref, Shape, TensorOf};

/// The least mean square by which a stream is divided.
const FLOOR: f32 = 1e-5;

/// The first and the last change of the streams, `[t, count, dim]`. The first stream is the one that layers compute.
pub(super) struct Streams<B: Backend> {
    /// From the embedding to all streams but the first.
    spread: Linear<B>,
    /// From each stream but the first to what is added to it in the end.
    merge: Vec<Linear<B>>,
    /// `[1]`, in units of the stream.
    floor: TensorOf<B, f32>,
}

/// How a layer changes the streams.
pub(super) struct AltUp<B: Backend> {
    router_norm: Norm<B>,
    router: Linear<B>,
    predict: Linear<B>,
    correct: Linear<B>,
    /// `[dim]` as `[1, dim]`: the factors on the first stream where it gates the layer's embeddings.
    scale: TensorOf<B, f32>,
}

/// What is added to the sum of a layer's input and its attention.
pub(crate) struct Laurel<B: Backend> {
    left: Linear<B>,
    right: Linear<B>,
    norm: Norm<B>,
    /// The unit of the stream.
    unit: f64,
}

impl<T: Float, B: Transformer<T>> Loader<'_, B, T> {
    pub(super) fn streams(&self, count: usize) -> Result<Streams<B>> {
        let (dim, unit) = (self.config.dim, self.config.stream_unit::<T>() as f32);
        let rows = self.product("altup.num_inputs", count - 1, dim)?;
        let dims = [count - 1, dim, dim];
        let merge = (0..count - 1).map(|i| self.rows("altup_unembd_proj", &dims, i * dim..(i + 1) * dim));
        Ok(Streams {
            spread: self.rows("altup_proj", &dims, 0..rows)?,
            merge: merge.collect::<Result<_>>()?,
            floor: self.backend.tensor(&[1], &[FLOOR / (unit * unit)])?,
        })
    }

    pub(super) fn altup(&self, i: usize, count: usize) -> Result<AltUp<B>> {
        let dim = self.config.dim;
        let part = |name: &str| format!("blk.{i}.{name}");
        let pairs = self.product("altup.num_inputs", count, count)?;
        Ok(AltUp {
            router_norm: self.stream_norm(&part("altup_router_norm"))?,
            router: self.linear(&part("altup_router"), [count, dim])?,
            predict: self.linear(&part("altup_predict_coef"), [pairs, count])?,
            correct: self.linear(&part("altup_correct_coef"), [count, count])?,
            scale: self.vector(&part("altup_correct_scale.weight"), dim)?.reshape(&[1, dim])?,
        })
    }

    /// Layer `i`'s second way past its attention.
    pub(crate) fn laurel(&self, i: usize) -> Result<Option<Laurel<B>>> {
        let Config { dim, streams, .. } = *self.config;
        let part = |name: &str| format!("blk.{i}.{name}");
        if streams.is_none() {
            return Ok(None);
        }
        let left = part("laurel_l");
        let rank = self.gguf.tensor(&format!("{left}.weight"))?.dims().first().copied().unwrap_or(0);
        Ok(Some(Laurel {
            left: self.linear(&left, [rank, dim])?,
            right: self.linear(&part("laurel_r"), [dim, rank])?,
            norm: self.of_stream(self.norm(&part("laurel_post_norm"), dim)?)?,
            unit: self.config.stream_unit::<T>(),
        }))
    }
}

/// The root of the mean square of each row, at least that of `floor`: the last extent becomes 1.
fn magnitude<B: Backend + ElementwiseOps<f32> + ReduceOps<f32> + ActivationOps<f32>>(
    b: &B,
    x: &TensorOf<B, f32>,
    floor: Option<&TensorOf<B, f32>>,
) -> Result<TensorOf<B, f32>> {
    let mean = b.mean(&b.sqr(x)?, Axes::from(-1).keep_dims())?;
    Ok(match floor {
        Some(floor) => b.sqrt(&b.maximum(&mean, floor)?)?,
        None => b.sqrt(&mean)?,
    })
}

impl<B: Backend> Streams<B> {
    /// Rows scaled to this magnitude.
    fn scaled(&self, b: &B, x: &TensorOf<B, f32>, to: &TensorOf<B, f32>) -> Result<TensorOf<B, f32>>
    where
        B: ElementwiseOps<f32> + ReduceOps<f32> + ActivationOps<f32>,
    {
        Ok(b.mul(x, &b.div(to, &magnitude(b, x, Some(&self.floor))?)?)?)
    }

    /// The streams of tokens whose embeddings are `x[t, dim]`.
    pub(super) fn spread<T: Float>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, dim, others) = (x.dims()[0], x.dims()[1], self.merge.len());
        let x = x.reshape(&[t, 1, dim])?;
        let made = self.spread.apply(b, x)?.reshape(&[t, others, dim])?;
        let to = magnitude(b, &b.cast::<f32>(x)?, None)?;
        let made = self.scaled(b, &b.cast::<f32>(&made)?, &to)?;
        let mut all = b.empty(Shape::new(&[t, 1 + others, dim])?)?;
        b.copy_into(x, all.as_mut().narrow(1, 0, 1)?)?;
        b.cast_into(&made, all.as_mut().narrow(1, 1, others)?)?;
        Ok(all)
    }

    /// The mean of the streams, each as large as the first, `[t, dim]`.
    pub(super) fn merged<T: Float>(&self, b: &B, all: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let row = |i| stream::<B, T>(all, i);
        let mut sum = b.cast::<f32>(row(0)?)?;
        let to = magnitude(b, &sum, None)?;
        for (i, merge) in self.merge.iter().enumerate() {
            let own = b.cast::<f32>(&merge.apply(b, row(i + 1)?)?)?;
            sum = b.add(&sum, &self.scaled(b, &own, &to)?)?;
        }
        let share = 1.0 / (1 + self.merge.len()) as f64;
        Ok(b.cast::<T>(&b.affine(&sum, share, 0.0)?)?)
    }
}

/// One of the streams, `[t, dim]`.
fn stream<B: Backend, T: Float>(all: &TensorOf<B, T>, i: usize) -> Result<Ref<'_, B, T>> {
    let (t, dim) = (all.dims()[0], all.dims()[2]);
    Ok(all.narrow(1, i, 1)?.reshape(&[t, dim])?)
}

impl<B: Backend> AltUp<B> {
    /// How the layer's streams mix, by what its router sees in `x[t, dim]`: `[t, count]`.
    fn modes<T: Float>(&self, b: &B, x: Ref<'_, B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let width = x.dims()[1] as f64;
        let mut modes = self.router.apply(b, self.router_norm.apply(b, x)?.as_ref())?;
        b.affine_inplace(&mut modes, width.recip(), 0.0)?;
        Ok(b.tanh(&modes)?)
    }

    /// What the streams will be after the layer if it computes nothing.
    pub(super) fn predicted<T: Float>(&self, b: &B, all: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, count) = (all.dims()[0], all.dims()[1]);
        let modes = self.modes(b, stream::<B, T>(all, 0)?)?;
        let mix = self.predict.apply(b, modes.as_ref())?.reshape(&[t, count, count])?;
        Ok(b.add(all, &b.matmul(&mix, all)?)?)
    }

    /// The stream that the layer computes.
    pub(super) fn active<T: Float>(&self, b: &B, all: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        Ok(b.copy_of(stream::<B, T>(all, 0)?)?)
    }

    /// The predicted streams after the layer has made `y[t, dim]` of the first.
    pub(super) fn corrected<T: Float>(
        &self,
        b: &B,
        all: &TensorOf<B, T>,
        y: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, count, dim) = (all.dims()[0], all.dims()[1], all.dims()[2]);
        let news = b.sub(y, stream::<B, T>(all, 0)?)?.reshape(&[t, 1, dim])?;
        let mut shares = self.correct.apply(b, self.modes(b, y.as_ref())?.as_ref())?;
        b.affine_inplace(&mut shares, 1.0, 1.0)?;
        Ok(b.add(all, &b.mul(&shares.reshape(&[t, count, 1])?, &news)?)?)
    }

    /// What gates the layer's embeddings, `[t, dim]`.
    pub(super) fn output<T: Float>(&self, b: &B, all: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let first = b.cast::<f32>(stream::<B, T>(all, 0)?)?;
        Ok(b.cast::<T>(&b.mul(&first, &self.scale)?)?)
    }

    /// The streams with `input[t, dim]` added to all but the first.
    pub(super) fn with_input<T: Float>(
        &self,
        b: &B,
        all: &TensorOf<B, T>,
        input: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let (t, others, dim) = (all.dims()[0], all.dims()[1] - 1, all.dims()[2]);
        let mut sum = b.empty(all.shape())?;
        b.copy_into(all.as_ref().narrow(1, 0, 1)?, sum.as_mut().narrow(1, 0, 1)?)?;
        let (rest, input) = (all.as_ref().narrow(1, 1, others)?, input.as_ref().reshape(&[t, 1, dim])?);
        b.add_into(rest, input, sum.as_mut().narrow(1, 1, others)?)?;
        Ok(sum)
    }
}

impl<B: Backend> Laurel<B> {
    /// The stream `x[t, dim]` after attention, whose input was `h`, which is normed.
    pub(crate) fn apply<T: Float>(
        &self,
        b: &B,
        h: Ref<'_, B, T>,
        x: &TensorOf<B, T>,
    ) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        let low = self.right.apply(b, self.left.apply(b, h)?.as_ref())?;
        let low = self.norm.apply(b, low.as_ref())?;
        let (h, x, low) = (b.cast::<f32>(h), b.cast::<f32>(x), b.cast::<f32>(&low));
        let h = b.affine(&h?, self.unit.recip(), 0.0)?;
        let sum = b.add(&b.add(&x?, &h)?, &low?)?;
        Ok(b.cast::<T>(&b.affine(&sum, 0.5_f64.sqrt(), 0.0)?)?)
    }
}
