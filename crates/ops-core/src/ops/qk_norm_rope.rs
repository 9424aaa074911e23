//! Steps between a decoder's query and key projections and its attention, in one pass.
use super::angles::Angles;
use super::declare::{family, methods, ops};
use super::norm::{valid_eps, weights};
use super::options::words;
use crate::{Backend, Error, Execute, Float, Op, Result, Shape};
use core::hash::Hash;

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

words!(RopeOrder);

ops! {
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
    pub struct QkNormRope<T: Float> {
        /// Added to the mean square, inside the root.
        pub eps: f64,
        /// How features pair up.
        pub order: RopeOrder = RopeOrder::Half,
    }
    /// Norms with this `eps` and rotates pairs `(i, i + r/2)`.
    fn eps;
    operands qk_norm_rope {
        x: in T [b, t, h, d], weight: in any(floats) [d], cos: in any(floats) [t, d/2], sin: in any [t, d/2],
        positions: opt any(indices) [b, t], y: out T [b, t, h, d]
    }
}
impl<T> QkNormRope<T> {
    /// Rotates pairs of this order.
    pub fn order(self, order: RopeOrder) -> Self {
        QkNormRope { order, ..self }
    }
}
impl<T: Float> Op for QkNormRope<T> {
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

family! {
    /// The steps between projections and attention, in `T`.
    pub trait HeadOps<T: Float>: Execute<QkNormRope<T>>;
    methods HeadMethods;
}

/// The methods of [`HeadOps`].
pub trait HeadMethods: Backend {
    methods! {
        HeadOps<T: Float>;
        /// [`QkNormRope`] of tokens in the order of the tables' rows.
        example
        /// // A head of mean square 4, turned by a quarter.
        /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
        /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
        /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
        /// let y = b.qk_norm_rope(&x, &weight, &cos, &sin, 0.0)?;
        /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
        fn qk_norm_rope, qk_norm_rope_into(
            x: in T, weight: in any, cos: in any, sin: in any; y: T; op: impl Into<QkNormRope<T>>
        ) = qk_norm_rope(op.into(), positions: None);

        /// [`QkNormRope`] of tokens at these positions.
        example
        /// let x = b.tensor(&[1, 1, 1, 2], &[2.0f32, -2.0])?;
        /// let weight = b.tensor(&[2], &[1.0f32, 3.0])?;
        /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
        /// let positions = b.tensor(&[1, 1], &[1u32])?;
        /// let y = b.qk_norm_rope_at(&x, &weight, &cos, &sin, &positions, 0.0)?;
        /// assert_eq!(y.to_vec(&b)?, [3.0, 1.0]);
        fn qk_norm_rope_at, qk_norm_rope_at_into(
            x: in T, weight: in any, cos: in any, sin: in any, positions: some any; y: T; op: impl Into<QkNormRope<T>>
        ) = qk_norm_rope(op.into());
    }
}
