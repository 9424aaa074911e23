//! The residual stream of a decoder: each layer reads it through a norm, and adds its result to it.
use super::{Linear, Norm};
use crate::Result;
use ops_core::model::{RowsProduct, Transformer};
use ops_core::ops::*;
use ops_core::{AsAny, Backend, Float, Ref, TensorOf};
use std::cell::OnceCell;

/// The result of a block.
pub(crate) enum Output<T: Float, B: Backend> {
    Alone(TensorOf<B, T>),
    /// Already added to the stream.
    Added(TensorOf<B, T>),
}

impl<T: Float, B: Backend> Output<T, B> {
    /// The result added to the stream `x`.
    pub(crate) fn with(self, b: &B, x: &TensorOf<B, T>) -> Result<TensorOf<B, T>>
    where
        B: Transformer<T>,
    {
        match self {
            Output::Alone(y) => Ok(b.add(&y, x)?),
            Output::Added(sum) => Ok(sum),
        }
    }

    /// The result of a block that was given nothing to add to.
    pub(crate) fn alone(self) -> TensorOf<B, T> {
        match self {
            Output::Alone(y) => y,
            Output::Added(_) => unreachable!("the block was given no stream"),
        }
    }
}

impl<B: Backend> Linear<B> {
    /// The product with `x`, added to `onto` if one kernel computes both.
    pub(crate) fn apply_onto<T: Float>(
        &self,
        b: &B,
        x: Ref<'_, B, T>,
        onto: Option<&TensorOf<B, T>>,
    ) -> Result<Output<T, B>>
    where
        B: Transformer<T>,
    {
        match (onto, &self.bias) {
            (Some(onto), None) if b.fuses_linear_add(x, &self.weight, onto) => {
                Ok(Output::Added(b.linear_add(x, &self.weight, onto)?))
            }
            _ => Ok(Output::Alone(self.apply(b, x)?)),
        }
    }
}

/// `N` projections of these widths, beside each other in one product or in several.
pub(crate) struct Projected<B: Backend, T: Float, const N: usize> {
    products: Vec<TensorOf<B, T>>,
    widths: [usize; N],
}

impl<B: Backend, T: Float, const N: usize> Projected<B, T, N> {
    /// Projection `which`, `[t, width]`.
    pub(crate) fn part(&self, which: usize) -> Result<Ref<'_, B, T>> {
        let (product, at) = self.place(which);
        Ok(product.as_ref().narrow(1, at, self.widths[which])?)
    }

    /// Projection `which`, `[t, heads, width / heads]`.
    pub(crate) fn heads(&self, which: usize, heads: usize) -> Result<Ref<'_, B, T>> {
        let part = self.part(which)?;
        Ok(part.reshape(&[part.dims()[0], heads, self.widths[which] / heads])?)
    }

    /// Projections `which` and `which + 1`, `[t, both widths]`, if they are in one product.
    pub(crate) fn neighbours(&self, which: usize) -> Result<Option<Ref<'_, B, T>>> {
        let ((product, at), (of_next, _)) = (self.place(which), self.place(which + 1));
        let width = self.widths[which] + self.widths[which + 1];
        let same = std::ptr::eq(product, of_next);
        Ok(same.then(|| product.as_ref().narrow(1, at, width)).transpose()?)
    }

    /// The product that has a projection, and its first column.
    fn place(&self, which: usize) -> (&TensorOf<B, T>, usize) {
        let mut at = self.widths[..which].iter().sum::<usize>();
        for product in &self.products {
            let columns = product.dims()[1];
            if at < columns {
                return (product, at);
            }
            at -= columns;
        }
        unreachable!("the products have all widths")
    }
}

/// The residual stream and its norm. The normed rows are computed on first use, because fused kernels do not need them: they apply the norm themselves.
pub(crate) struct Normed<'n, T: Float, B: Backend> {
    x: TensorOf<B, T>,
    norm: &'n Norm<B>,
    h: OnceCell<TensorOf<B, T>>,
}

impl<'n, T: Float, B: Transformer<T>> Normed<'n, T, B> {
    pub(crate) fn new(norm: &'n Norm<B>, x: TensorOf<B, T>) -> Self {
        Normed { x, norm, h: OnceCell::new() }
    }

    /// The stream `x` with `a` added.
    pub(crate) fn after(b: &B, norm: &'n Norm<B>, a: Output<T, B>, x: &TensorOf<B, T>) -> Result<Self> {
        match a {
            Output::Added(sum) => Ok(Normed::new(norm, sum)),
            Output::Alone(a) => {
                let (h, x) = norm.after_adding(b, &a, x)?;
                Ok(Normed { x, norm, h: OnceCell::from(h) })
            }
        }
    }

    /// The residual stream, before the norm.
    pub(crate) fn x(&self) -> &TensorOf<B, T> {
        &self.x
    }

    pub(crate) fn h(&self, b: &B) -> Result<Ref<'_, B, T>> {
        if let Some(h) = self.h.get() {
            return Ok(h.as_ref());
        }
        let h = self.norm.apply(b, self.x.as_ref())?;
        Ok(self.h.get_or_init(|| h).as_ref())
    }

    pub(crate) fn into_h(self, b: &B) -> Result<TensorOf<B, T>> {
        match self.h.into_inner() {
            Some(h) => Ok(h),
            None => self.norm.apply(b, self.x.as_ref()),
        }
    }

    /// The norm's weight and eps, if a fused kernel can still apply it.
    fn rms(&self) -> Option<(&'n TensorOf<B, f32>, f64)> {
        (self.norm.is_rms() && self.h.get().is_none()).then_some((&self.norm.weight, self.norm.eps))
    }

    /// The normed rows times a matrix.
    pub(crate) fn times(&self, b: &B, linear: &Linear<B>) -> Result<TensorOf<B, T>> {
        let (weight, bias) = (&linear.weight, linear.bias.as_ref().map(|bias| bias.any()));
        match self.rms() {
            Some((norm, eps)) if b.fuses_rms_norm_linear::<T>(&self.x, norm, weight, bias, eps) => {
                Ok(b.rms_norm_linear(&self.x, norm, weight, bias, eps)?)
            }
            _ => linear.apply(b, self.h(b)?),
        }
    }

    /// The product of the normed rows and a matrix, with the norm's eps, if a fused kernel can still apply the norm.
    pub(crate) fn product<'a>(
        &'a self,
        linear: &'a Linear<B>,
    ) -> Option<(RowsProduct<'a, B::Space, T>, f64)> {
        let (norm, eps) = self.rms()?;
        let (weight, bias) = (linear.weight.any_view(), linear.bias.as_ref().map(|bias| bias.any()));
        Some((NormedProduct { x: self.x.as_ref(), norm: norm.any(), weight, bias }, eps))
    }

    /// Multiplies the normed rows by each matrix. A matrix may have several consecutive projections.
    pub(crate) fn projected<const N: usize>(
        &self,
        b: &B,
        matrices: &[Linear<B>],
        widths: [usize; N],
    ) -> Result<Projected<B, T, N>> {
        let products = matrices.iter().map(|linear| self.times(b, linear)).collect::<Result<_>>()?;
        Ok(Projected { products, widths })
    }

    /// `silu(gate) · up` of the normed rows, if one kernel computes it.
    pub(crate) fn swiglu(&self, b: &B, gate: &Linear<B>, up: &Linear<B>) -> Result<Option<TensorOf<B, T>>> {
        let (Linear { weight: gate, bias: None }, Linear { weight: up, bias: None }) = (gate, up) else {
            return Ok(None);
        };
        match self.rms() {
            Some((norm, eps)) if b.fuses_rms_norm_linear_swiglu::<T>(&self.x, norm, gate, up, eps) => {
                Ok(Some(b.rms_norm_linear_swiglu(&self.x, norm, gate, up, eps)?))
            }
            _ => Ok(None),
        }
    }
}
