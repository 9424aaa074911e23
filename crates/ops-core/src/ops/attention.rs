//! Scaled dot-product attention.
use super::declare::{family, methods, ops};
use super::extents;
use crate::error::About;
use crate::{
    AsView, AsViewMut, Backend, DType, Error, Execute, Float, Op, Operand, Operands, Result, Shape, Space,
    TensorMut, TensorOf, TensorRef, Tolerance,
};

mod extras;
pub(super) mod paged;
mod ragged;
pub(super) mod varlen;

pub use extras::{AttentionExtras, Paging, Starts};
pub use paged::AttentionPaged;
pub use ragged::{RaggedAttentionMethods, RaggedAttentionOps};
pub use varlen::AttentionVarlen;

ops! {
    /// `o = softmax(scale · q kᵀ) · v` for each head, with optional softcap, bias and mask.
    ///
    /// Operands:
    /// - `q[b, h, t, d]`;
    /// - `k[b, h_kv, s, d]` and `v[b, h_kv, s, dv]`, where `h` is a multiple of `h_kv`: query head `i` reads key head
    ///   `i / (h / h_kv)`;
    /// - `mask[b, h, t, s]`, optional: of a float type, which is added to the scores, or of `u8`, where non-zero means visible;
    /// - `alibi[h]`, optional: slopes of a float type;
    /// - `sinks[h]` of `T`, optional: one more score in the denominator of every row of a head, without a value. It is neither
    ///   scaled nor capped;
    /// - `o[b, h, t, dv]`;
    /// - `lse[b, h, t]` of f32, optional: the logarithm of each row's denominator, −∞ where there is neither a visible key nor a
    ///   sink.
    ///
    /// Query `i` is at position `p = s − t + i`. The steps, in order:
    ///
    /// 1. score `= scale · q·k`, where scale defaults to `1/√d`
    /// 2. softcap: `c · tanh(score / c)`
    /// 3. alibi: `+ slope · (j − p)`
    /// 4. mask
    /// 5. visibility: causal `j ≤ p`; window `p − left ≤ j ≤ p + right`
    ///
    /// Then `o = Σ e^score · v / (Σ e^score + e^sink)`. A row in which no key is visible gives zeros. A key that a query does not
    /// see, by causality, a window or a flag of 0, adds nothing to its row, even if the key or its value is NaN or infinite. Extra
    /// memory is proportional to `t · d`.
    ///
    /// Vaswani et al., "Attention Is All You Need", 2017; Dao et al., "FlashAttention", 2022;
    /// Press et al., "Train Short, Test Long" (ALiBi), 2021; Xiao et al., "Efficient Streaming Language Models with Attention
    /// Sinks", 2023.
    pub struct Attention<T: Float> {
        /// Factor applied to the scores; `None` means `1/√d`.
        pub scale: Option<f64> = None,
        /// Whether a query sees only keys up to its own position.
        pub causal: bool = false,
        /// How many keys are visible before and after the query's position; `None` means no limit on that side.
        pub window: (Option<usize>, Option<usize>) = (None, None),
        /// Softcap: bound on the scores, applied before alibi and mask.
        pub softcap: Option<f64> = None,
    }
    /// Every query sees every key.
    fn full;
    operands attention {
        q: in T [b, h, t, d], k: in T [b, g, s, d], v: in T [b, g, s, dv], mask: opt any [b, h, t, s], alibi: opt any(floats) [h],
        sinks: opt any [h], o: out T [b, h, t, dv], lse: opt_out f32 [b, h, t]
    }
}
impl<T> Attention<T> {
    /// A query sees only keys up to its own position.
    pub fn causal() -> Self {
        Attention { causal: true, ..Self::full() }
    }
    /// Scales the scores by `scale`.
    pub fn scale(self, scale: f64) -> Self {
        Attention { scale: Some(scale), ..self }
    }
    /// Makes only the keys from `left` before to `right` after the query's position visible, inclusive.
    pub fn window(self, left: Option<usize>, right: Option<usize>) -> Self {
        Attention { window: (left, right), ..self }
    }
    /// Bounds the scores to ±`cap`.
    pub fn softcap(self, cap: f64) -> Self {
        Attention { softcap: Some(cap), ..self }
    }
    /// The scale for heads of `d` features.
    pub fn scale_for(&self, d: usize) -> f64 {
        self.scale.unwrap_or_else(|| (d as f64).sqrt().recip())
    }
    /// The keys among `s` that query `i` of `t` may see, by causality and window.
    pub fn visible(&self, i: usize, t: usize, s: usize) -> core::ops::Range<usize> {
        // A position can lie before the first key if there are more queries than keys.
        let p = s as i128 - t as i128 + i as i128;
        let right = if self.causal { Some(0) } else { self.window.1 };
        let right = self.window.1.map_or(right, |w| Some(right.map_or(w, |r: usize| r.min(w))));
        let start = self.window.0.map_or(0, |left| (p - left as i128).clamp(0, s as i128));
        let end = right.map_or(s as i128, |right| (p + right as i128 + 1).clamp(0, s as i128));
        start as usize..end.max(start) as usize
    }
}

/// Whether `heads` query heads can be divided evenly among `kv_heads` key heads.
#[inline]
fn is_grouped(heads: usize, kv_heads: usize) -> bool {
    kv_heads == heads || kv_heads > 0 && heads.is_multiple_of(kv_heads)
}

impl<T: Float> Attention<T> {
    /// Checks what all forms of attention have in common: slopes and sinks of `heads` query heads, and the
    /// options.
    #[inline]
    fn check_common(
        &self,
        op: &'static str,
        alibi: Option<&Operand<'_>>,
        sinks: Option<&Operand<'_>>,
        heads: usize,
    ) -> Result<()> {
        if let Some(alibi) = alibi {
            alibi.require(op, DType::is_computed, "f16, bf16, f32 or f64")?;
            extents(op, "alibi", alibi.layout, &[heads])?;
        }
        if let Some(sinks) = sinks {
            sinks.require(op, |dtype| dtype == T::DTYPE, "the type of `q`")?;
            extents(op, "sinks", sinks.layout, &[heads])?;
        }
        match self.softcap.filter(|cap| cap.is_nan() || *cap <= 0.0) {
            Some(cap) => Err(Error::param(op, "softcap", cap, "a positive number")),
            None => Ok(()),
        }
    }
}

impl<T: Float> Op for Attention<T> {
    #[inline]
    fn infer(&self, on: &args::attention::Shapes<'_>) -> Result<[Shape; 2]> {
        let op = self.name();
        let &[b, h, t, d] = on.q.dims() else {
            return Err(Error::shape(op, "q", on.q, "[b, h, t, d]"));
        };
        let (heads, s) = match *on.k.dims() {
            [kb, kh, s, kd] if kb == b && kd == d && is_grouped(h, kh) => (kh, s),
            _ => return Err(Error::shape(op, "k", on.k, format!("[{b}, a divisor of {h}, s, {d}]"))),
        };
        let dv = match *on.v.dims() {
            [vb, vh, vs, dv] if [vb, vh, vs] == [b, heads, s] => dv,
            _ => return Err(Error::shape(op, "v", on.v, format!("[{b}, {heads}, {s}, dv]"))),
        };
        if let Some(mask) = on.mask {
            let allowed = |dtype: DType| dtype.is_computed() || dtype == DType::U8;
            mask.require(op, allowed, "f16, bf16, f32, f64 or u8")?;
            extents(op, "mask", mask.layout, &[b, h, t, s])?;
        }
        self.check_common(op, on.alibi.as_ref(), on.sinks.as_ref(), h)?;
        Ok([on.q.shape().with_last(dv)?, Shape::new(&[b, h, t])?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::attention(dtype)
    }
}

family! {
    /// Attention in `T`.
    pub trait AttentionOps<T: Float>: Execute<Attention<T>>;
    methods AttentionMethods;
}

/// The methods of [`AttentionOps`].
pub trait AttentionMethods: Backend {
    methods! {
        AttentionOps<T: Float>;
        /// [`Attention`] without mask, alibi or sinks.
        example
        /// // One head, one query, two keys: both count the same.
        /// let q = b.tensor(&[1, 1, 1, 2], &[1.0f32, 0.0])?;
        /// let k = b.tensor(&[1, 1, 2, 2], &[0.0f32, 1.0, 0.0, 2.0])?;
        /// let v = b.tensor(&[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
        /// let o = b.attention(&q, &k, &v, Attention::full())?;
        /// assert_eq!(o.to_vec(&b)?, [2.0, 3.0]);
        fn attention, attention_into(
            q: in T, k: in T, v: in T; o: T; op: impl Into<Attention<T>>
        ) = attention(op.into(), mask: None, alibi: None, sinks: None, lse: None);
    }
    /// [`Attention`] with a mask, alibi slopes or sinks.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Broadcast`], [`Error::Param`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// // One head, one query, two keys: both count the same.
    /// let q = b.tensor(&[1, 1, 1, 2], &[1.0f32, 0.0])?;
    /// let k = b.tensor(&[1, 1, 2, 2], &[0.0f32, 1.0, 0.0, 2.0])?;
    /// let v = b.tensor(&[1, 1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// // A mask of 0 hides the first key.
    /// let mask = b.tensor(&[1, 2], &[0u8, 1])?;
    /// let o = b.attention_with(&q, &k, &v, AttentionExtras::new().mask(&mask), Attention::full())?;
    /// assert_eq!(o.to_vec(&b)?, [3.0, 4.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_with<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: AttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        self.attention_with_into(q, k, v, extras, &mut o, op)?;
        Ok(o)
    }
    /// [`attention_with`](Self::attention_with) into `o`.
    ///
    /// # Errors
    /// As [`attention_with`](Self::attention_with), and for an output of another shape.
    fn attention_with_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: AttentionOps<T>,
    {
        let op = op.into();
        let args = args((&q, &k, &v), &extras, o.view_mut(), None)?;
        self.run(&op, args)
    }
    /// [`Attention`] and the logarithm of each row's denominator, from which results over parts of the keys can be merged.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Broadcast`], [`Error::Param`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let q = b.tensor(&[1, 1, 1, 2], &[1.0f32, 0.0])?;
    /// let k = b.tensor(&[1, 1, 1, 2], &[0.0f32, 1.0])?;
    /// let v = b.tensor(&[1, 1, 1, 1], &[6.0f32])?;
    /// // The key's score and the sink are both 0: each takes half of the weight.
    /// let sinks = b.tensor(&[1], &[0.0f32])?;
    /// let (o, lse) = b.attention_lse(&q, &k, &v, AttentionExtras::new().sinks(&sinks), Attention::full())?;
    /// assert_eq!((o.dims(), o.to_vec(&b)?), (&[1, 1, 1, 1][..], vec![3.0]));
    /// assert!((lse.to_vec(&b)?[0] - 2.0f32.ln()).abs() < 1e-6);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn attention_lse<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        extras: AttentionExtras<'_, Self::Space>,
        op: impl Into<Attention<T>>,
    ) -> Result<(TensorOf<Self, T>, TensorOf<Self, f32>)>
    where
        Self: AttentionOps<T>,
    {
        let op = op.into();
        let mut o = self.empty(rows_of_values(&q.view(), &v.view())?)?;
        let mut lse = self.empty(denominators(&q.view())?)?;
        self.attention_lse_into(q, k, v, extras, &mut o, &mut lse, op)?;
        Ok((o, lse))
    }
    /// [`attention_lse`](Self::attention_lse) into `o` and `lse[b, h, t]`.
    ///
    /// # Errors
    /// As [`attention_lse`](Self::attention_lse), and for an output of another shape.
    #[allow(clippy::too_many_arguments)]
    fn attention_lse_into<T: Float>(
        &self,
        q: impl AsView<Self::Space, T>,
        k: impl AsView<Self::Space, T>,
        v: impl AsView<Self::Space, T>,
        extras: AttentionExtras<'_, Self::Space>,
        mut o: impl AsViewMut<Self::Space, T>,
        mut lse: impl AsViewMut<Self::Space, f32>,
        op: impl Into<Attention<T>>,
    ) -> Result<()>
    where
        Self: AttentionOps<T>,
    {
        let op = op.into();
        let args = args((&q, &k, &v), &extras, o.view_mut(), Some(lse.view_mut()))?;
        self.run(&op, args)
    }
}

/// The shape of `o`: that of `q` with the width of `v`.
fn rows_of_values<S: Space, T: Float>(q: &TensorRef<'_, S, T>, v: &TensorRef<'_, S, T>) -> Result<Shape> {
    q.shape().with_last(v.shape().last()).about("attention", "q")
}

/// The shape of `lse`: one value for each row of `q`.
fn denominators<S: Space, T: Float>(q: &TensorRef<'_, S, T>) -> Result<Shape> {
    Shape::new(q.dims().split_last().map_or(&[], |(_, rows)| rows))
}

/// The operands of a call, with the mask broadcast.
fn args<'r, S: Space, T: Float>(
    (q, k, v): (&'r impl AsView<S, T>, &'r impl AsView<S, T>, &'r impl AsView<S, T>),
    extras: &'r AttentionExtras<'_, S>,
    o: TensorMut<'r, S, T>,
    lse: Option<TensorMut<'r, S, f32>>,
) -> Result<args::attention::Args<'r, S, T>> {
    let (q, k, v) = (q.view(), k.view(), v.view());
    let mask = match (extras.mask, q.dims(), k.dims()) {
        (Some(mask), &[b, h, t, _], &[_, _, s, _]) => {
            Some(mask.broadcast(&[b, h, t, s]).about("attention", "mask")?.shorten())
        }
        (mask, ..) => mask.map(|m| m.shorten()),
    };
    let (alibi, sinks) = (extras.alibi.map(|a| a.shorten()), extras.sinks.map(|s| s.shorten()));
    Ok(args::attention::Args { q, k, v, mask, alibi, sinks, o, lse })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visibility_is_causal_windowed_and_clipped() {
        let causal = Attention::<f32>::causal();
        assert_eq!(causal.visible(0, 3, 5), 0..3);
        assert_eq!(causal.visible(0, 6, 4), 0..0, "a query before the first key sees nothing");
        assert_eq!(causal.visible(2, 6, 4), 0..1);
        assert_eq!(causal.window(Some(1), Some(4)).visible(2, 3, 5), 3..5);
        assert_eq!(Attention::<f32>::full().visible(2, 3, 5), 0..5);
        assert_eq!(Attention::<f32>::full().window(None, Some(1)).visible(0, 3, 5), 0..4);
        assert_eq!(
            Attention::<f32>::full().window(Some(usize::MAX), Some(usize::MAX)).visible(1, 3, 5),
            0..5
        );
    }
}
