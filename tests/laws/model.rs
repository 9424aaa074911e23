//! A decoder layer with a cache, written once for all backends.
use rocm_ops::backend::Space;
use rocm_ops::model::{KvCache, RopeScaling, RopeTables, Transformer};
use rocm_ops::ops::*;
use rocm_ops::{Backend, Float, Ref, Result, Scalar, Tensor, TensorOf};

pub(crate) const DIM: usize = 32;
const HEADS: usize = 4;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 8;
const FEED_FORWARD: usize = 48;

/// Numbers that depend only on the seed, not on the backend or type.
pub(crate) fn data<T: Float>(n: usize, seed: u64) -> Vec<T> {
    let mut s = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        (s >> 11) as f64 / (1u64 << 53) as f64 - 0.5
    };
    (0..n).map(|_| T::from_f64(next())).collect()
}

pub(crate) fn tensor<B: Backend, T: Float>(b: &B, dims: &[usize], seed: u64) -> TensorOf<B, T> {
    b.tensor(dims, &data::<T>(dims.iter().product(), seed)).unwrap()
}

pub(crate) fn values<B: Backend, T: Scalar>(b: &B, x: Ref<'_, B, T>) -> Vec<f64> {
    x.to_vec(b).unwrap().into_iter().map(Scalar::to_f64).collect()
}

/// Sum of squared errors over the sum of squares.
pub(crate) fn nmse(got: &[f64], want: &[f64]) -> f64 {
    assert_eq!(got.len(), want.len());
    let error: f64 = got.iter().zip(want).map(|(g, w)| (g - w).powi(2)).sum();
    error / want.iter().map(|w| w * w).sum::<f64>()
}

pub(crate) struct Layer<S: Space, T: Float> {
    norms: [Tensor<S, f32>; 2],
    attention: [Tensor<S, T>; 4],
    feed_forward: [Tensor<S, T>; 3],
    tables: (Tensor<S, f32>, Tensor<S, f32>),
}

impl<S: Space, T: Float> Layer<S, T> {
    pub(crate) fn new<B: Backend<Space = S>>(b: &B) -> Result<Self> {
        let (q, kv) = (HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM);
        Ok(Layer {
            norms: [tensor(b, &[DIM], 1), tensor(b, &[DIM], 2)],
            attention: [
                tensor(b, &[q, DIM], 3),
                tensor(b, &[kv, DIM], 4),
                tensor(b, &[kv, DIM], 5),
                tensor(b, &[DIM, q], 6),
            ],
            feed_forward: [
                tensor(b, &[FEED_FORWARD, DIM], 7),
                tensor(b, &[FEED_FORWARD, DIM], 8),
                tensor(b, &[DIM, FEED_FORWARD], 9),
            ],
            tables: RopeTables::new(16, HEAD_DIM, 10_000.0, &RopeScaling::None)?.upload(b)?,
        })
    }

    pub(crate) fn cache<B: Backend<Space = S>>(&self, b: &B) -> Result<KvCache<S, T>> {
        KvCache::new(b, [1, KV_HEADS, 16, HEAD_DIM])
    }

    /// The layer's output for `x[tokens, dim]`, the tokens that follow those in the cache.
    pub(crate) fn forward<B: Transformer<T> + Backend<Space = S>>(
        &self,
        b: &B,
        cache: &mut KvCache<S, T>,
        x: Ref<'_, B, T>,
    ) -> Result<TensorOf<B, T>> {
        let (tokens, start) = (x.dims()[0], cache.len());
        let [norm1, norm2] = &self.norms;
        let [wq, wk, wv, wo] = &self.attention;
        let [gate, up, down] = &self.feed_forward;

        let h = b.rms_norm(x, norm1.as_ref(), RmsNorm::eps(1e-5))?;
        let project = |weight: &Tensor<S, T>, heads: usize| -> Result<TensorOf<B, T>> {
            b.linear(h.as_ref(), weight.as_ref())?.reshape(&[1, tokens, heads, HEAD_DIM])
        };
        let rotate = |x: &TensorOf<B, T>| {
            let (cos, sin) = &self.tables;
            let op = Rope::new(RopeForm::Half).start(start);
            b.rope(x.as_ref().transpose(1, 2)?, cos.as_ref(), sin.as_ref(), op)
        };
        let (q, k, v) = (project(wq, HEADS)?, project(wk, KV_HEADS)?, project(wv, KV_HEADS)?);
        let (q, k) = (rotate(&q)?, rotate(&k)?);
        cache.append(b, k.as_ref(), v.as_ref().transpose(1, 2)?)?;
        let o = b.attention(q.as_ref(), cache.keys()?, cache.values()?, Attention::<T>::causal())?;
        let o = b.copy_of(o.as_ref().transpose(1, 2)?)?.reshape(&[tokens, HEADS * HEAD_DIM])?;
        let x = b.add(x, b.linear(o.as_ref(), wo.as_ref())?.as_ref())?;

        let h = b.rms_norm(x.as_ref(), norm2.as_ref(), RmsNorm::eps(1e-5))?;
        let h = b.swiglu(
            b.linear(h.as_ref(), gate.as_ref())?.as_ref(),
            b.linear(h.as_ref(), up.as_ref())?.as_ref(),
        )?;
        b.add(x.as_ref(), b.linear(h.as_ref(), down.as_ref())?.as_ref())
    }
}

/// Runs the layer over the same tokens, in passes of these lengths.
pub(crate) fn run<T: Float, B: Transformer<T>>(b: &B, passes: &[usize]) -> Result<Vec<f64>> {
    let layer = Layer::<B::Space, T>::new(b)?;
    let mut cache = layer.cache(b)?;
    let tokens: usize = passes.iter().sum();
    let x: TensorOf<B, T> = tensor(b, &[tokens, DIM], 10);
    let (mut out, mut start) = (Vec::new(), 0);
    for &n in passes {
        let y = layer.forward(b, &mut cache, x.as_ref().narrow(0, start, n)?)?;
        out.extend(values(b, y.as_ref()));
        start += n;
    }
    assert_eq!(cache.len(), tokens);
    b.synchronize()?;
    Ok(out)
}
