//! Steps between a decoder's query and key projections and its attention, in one pass.
use super::angles::Angles;
use super::norm::{valid_eps, weights};
use super::registry::OptionValue;
use crate::{AsAny, AsView, AsViewMut, Error, Execute, Float, Op, Result, Shape, TensorOf, operands};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

/// Which features of a head form a pair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RopeOrder {
    /// Pairs `(i, i + r/2)`.
    #[default]
    Half,
    /// Pairs `(2i, 2i + 1)`.
    Interleaved,
}
impl RopeOrder {
    /// Every order by the name that files use.
    pub const ALL: [(&'static str, Self); 2] = [("half", Self::Half), ("interleaved", Self::Interleaved)];
}

/// `y = rope_thd(rms_norm(x) · weight)`: norms each head, then rotates it. Nothing is rounded in between.
///
/// Operands:
/// - `x[b, t, h, d]` with even `d`;
/// - `weight[d]` of any float type;
/// - `cos` and `sin` of any float type: tables `[t', r/2]`, or `[b, t', r/2]` with one table per batch entry, where `r ≤ d`.
///   The first `r` features of a head are rotated, the others only normed;
/// - `positions[b, t]` or `[1, t]` of an index type, optional: the table's row for each token; without it,
///   row `t` for token `t`. Any position outside the table is [`Error::Index`], as for [`Rope`](super::Rope);
/// - `y` like `x`.
///
/// Henry et al., "Query-Key Normalization for Transformers", 2020.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct QkNormRope<T> {
    /// Added to the mean square, inside the root.
    pub eps: f64,
    /// How features pair up.
    pub order: RopeOrder,
    types: PhantomData<T>,
}
impl<T> QkNormRope<T> {
    /// Norms with this `eps` and rotates pairs `(i, i + r/2)`.
    pub fn eps(eps: f64) -> Self {
        QkNormRope { eps, order: RopeOrder::Half, types: PhantomData }
    }
    /// Rotates pairs of this order.
    pub fn order(self, order: RopeOrder) -> Self {
        QkNormRope { order, ..self }
    }
}
pub(super) mod args {
    use super::*;
    operands!(pub mod qk_norm_rope: QkNormRope<T: Float> {
        x: in T, weight: in any, cos: in any, sin: in any, positions: opt any, y: out T,
    });
}
impl<T: Float> Op for QkNormRope<T> {
    fn name(&self) -> &'static str {
        "qk_norm_rope"
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        vec![("eps", self.eps.into()), ("order", OptionValue::word(RopeOrder::ALL, self.order))]
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let QkNormRope { eps, order, types: _ } = self;
        (eps.to_bits(), order).hash(state);
    }
    fn infer(&self, on: &args::qk_norm_rope::Shapes<'_>) -> Result<[Shape; 1]> {
        valid_eps(self.name(), self.eps)?;
        let op = self.name();
        let &[b, t, _, d] = on.x.dims() else {
            return Err(Error::shape(op, "x", on.x, "[b, t, h, d] with d even"));
        };
        if d % 2 != 0 {
            return Err(Error::shape(op, "x", on.x, "[b, t, h, d] with d even"));
        }
        weights(op, Some(on.weight), d)?;
        let angles = Angles { op, cos: &on.cos, sin: &on.sin, positions: on.positions.as_ref(), start: 0 };
        angles.check([b, t, d])?;
        Ok([on.x.shape()])
    }
}

/// The steps between projections and attention, in `T`.
pub trait HeadOps<T: Float>: Execute<QkNormRope<T>> {
    /// [`QkNormRope`] of tokens in the order of the tables' rows.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// // A head of mean square 4, turned by a quarter.
    /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
    /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
    /// let y = b.qk_norm_rope(&x, &weight, &cos, &sin, QkNormRope::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn qk_norm_rope(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        op: QkNormRope<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.qk_norm_rope_into(x, weight, cos, sin, &mut y, op)?;
        Ok(y)
    }
    /// [`qk_norm_rope`](Self::qk_norm_rope) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
    /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
    /// let mut y = b.zeros(&[1, 1, 1, 2])?;
    /// b.qk_norm_rope_into(&x, &weight, &cos, &sin, &mut y, QkNormRope::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn qk_norm_rope_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: QkNormRope<T>,
    ) -> Result<()> {
        let (weight, cos, sin) = (weight.any_view(), cos.any_view(), sin.any_view());
        let args =
            args::qk_norm_rope::Args { x: x.view(), weight, cos, sin, positions: None, y: y.view_mut() };
        self.run(&op, args)
    }
    /// [`QkNormRope`] of tokens at these positions.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
    /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
    /// let positions = b.tensor(&[1, 1], &[1u32])?;
    /// let y = b.qk_norm_rope_at(&x, &weight, &cos, &sin, &positions, QkNormRope::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn qk_norm_rope_at(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        positions: impl AsAny<Self::Space>,
        op: QkNormRope<T>,
    ) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.view().shape())?;
        self.qk_norm_rope_at_into(x, weight, cos, sin, positions, &mut y, op)?;
        Ok(y)
    }
    /// [`qk_norm_rope_at`](Self::qk_norm_rope_at) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
    /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
    /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
    /// let positions = b.tensor(&[1, 1], &[1u32])?;
    /// let mut y = b.zeros(&[1, 1, 1, 2])?;
    /// b.qk_norm_rope_at_into(&x, &weight, &cos, &sin, &positions, &mut y, QkNormRope::eps(0.0))?;
    /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    #[allow(clippy::too_many_arguments)]
    fn qk_norm_rope_at_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        positions: impl AsAny<Self::Space>,
        mut y: impl AsViewMut<Self::Space, T>,
        op: QkNormRope<T>,
    ) -> Result<()> {
        let (weight, cos, sin) = (weight.any_view(), cos.any_view(), sin.any_view());
        let positions = Some(positions.any_view());
        self.run(&op, args::qk_norm_rope::Args { x: x.view(), weight, cos, sin, positions, y: y.view_mut() })
    }
}
impl<T: Float, B: Execute<QkNormRope<T>>> HeadOps<T> for B {}
