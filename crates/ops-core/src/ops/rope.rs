//! Rotary position embedding.
use super::angles::Angles;
use super::declare::{family, methods, ops};
use crate::{AsAny, AsViewMut, Backend, Error, Execute, Float, Layout, Op, Operand, Result, Shape};
use core::hash::Hash;
use core::marker::PhantomData;

/// Which features form a pair, and which axis holds the tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeForm {
    /// `rope`: `x[b, h, t, d]`, pairs `(i, i + d/2)`, as in GPT-NeoX.
    Half,
    /// `rope_i`: `x[b, h, t, d]`, pairs `(2i, 2i + 1)`, as in the paper.
    Interleaved,
    /// `rope_thd`: `x[b, t, h, d]`, pairs `(i, i + d/2)`.
    HalfThd,
}

ops! {
    /// Rotates pairs of features by an angle that grows with the position:
    /// `(y₁, y₂) = (x₁ cos − x₂ sin, x₁ sin + x₂ cos)`.
    ///
    /// Operands:
    /// - `x[b, h, t, d]`, or `x[b, t, h, d]` for [`RopeForm::HalfThd`], with even `d`;
    /// - `cos` and `sin` of any float type: tables `[t', r/2]`, or `[b, t', r/2]` with one table per batch, where `t' ≥ start + t`.
    ///   The first `r ≤ d` features are rotated, the others copied;
    /// - `positions[b, t]` or `[1, t]` of an index type, optional: the table's row for each token, instead of the
    ///   rows from `start` on. Any position outside the table, including the index type's largest value, is
    ///   [`Error::Index`], which the backend reports no later than the next time the queue is waited for;
    /// - `y` like `x`.
    ///
    /// Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
    pub struct Rope<T: Float> {
        /// The row of the tables for the first token.
        pub start: usize = 0,
    }
    variant {
        /// How features pair up.
        pub form: RopeForm
    }
    /// Rotates in this form, starting at row 0 of the tables.
    fn new;
    operands rope { x: in T, cos: in any(floats), sin: in any, positions: opt any(indices), y: out T }

    /// [`Rope`] in place: reads and writes `x`.
    pub struct RopeInplace<T: Float> {
        /// The row of the tables for the first token.
        pub start: usize = 0,
    }
    variant {
        /// How features pair up.
        pub form: RopeForm
    }
    operands rope_inplace { x: inout T, cos: in any(floats), sin: in any, positions: opt any(indices) }
}

impl<T> Rope<T> {
    /// Starts at row `start` of the tables.
    pub fn start(self, start: usize) -> Self {
        Rope { start, ..self }
    }
    /// The same rotation, in place.
    pub fn inplace(self) -> RopeInplace<T> {
        RopeInplace { form: self.form, start: self.start, types: PhantomData }
    }
}

impl<T: Float> Op for Rope<T> {
    fn name(&self) -> &'static str {
        match self.form {
            RopeForm::Half => "rope",
            RopeForm::Interleaved => "rope_i",
            RopeForm::HalfThd => "rope_thd",
        }
    }
    fn infer(&self, on: &args::rope::Shapes<'_>) -> Result<[Shape; 1]> {
        self.tables(self.name(), on.x, (&on.cos, &on.sin), on.positions.as_ref())?;
        Ok([on.x.shape()])
    }
}
impl<T: Float> Op for RopeInplace<T> {
    fn name(&self) -> &'static str {
        match self.form {
            RopeForm::Half => "rope_inplace",
            RopeForm::Interleaved => "rope_i_inplace",
            RopeForm::HalfThd => "rope_thd_inplace",
        }
    }
    fn infer(&self, on: &args::rope_inplace::Shapes<'_>) -> Result<[Shape; 0]> {
        let rope = Rope::<T>::new(self.form).start(self.start);
        rope.tables(self.name(), on.x, (&on.cos, &on.sin), on.positions.as_ref())?;
        Ok([])
    }
}

impl<T: Float> Rope<T> {
    fn tables(
        &self,
        op: &'static str,
        x: &Layout,
        (cos, sin): (&Operand<'_>, &Operand<'_>),
        positions: Option<&Operand<'_>>,
    ) -> Result<()> {
        let dims = match (self.form, x.dims()) {
            (RopeForm::HalfThd, &[b, t, _, d]) if d % 2 == 0 => [b, t, d],
            (RopeForm::HalfThd, _) => return Err(Error::shape(op, "x", x, "[b, t, h, d] with d even")),
            (_, &[b, _, t, d]) if d % 2 == 0 => [b, t, d],
            _ => return Err(Error::shape(op, "x", x, "[b, h, t, d] with d even")),
        };
        Angles { op, cos, sin, positions, start: self.start }.check(dims)
    }
}

family! {
    /// Rotary position embedding of `T`, with tables of any float type.
    pub trait RopeOps<T: Float>: Execute<Rope<T>>, Execute<RopeInplace<T>>;
    methods RopeMethods;
}

/// The methods of [`RopeOps`].
pub trait RopeMethods: Backend {
    methods! {
        RopeOps<T: Float>;
        /// [`Rope`] on `x[b, h, t, d]`, or on `x[b, t, h, d]` for [`RopeForm::HalfThd`].
        example
        /// let x = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
        /// // A quarter turn: the cosine of its one angle is 0, the sine 1.
        /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
        /// let y = b.rope(&x, &cos, &sin, Rope::new(RopeForm::Half))?;
        /// assert_eq!(y.to_vec(&b)?, [-2.0, 1.0]);
        fn rope, rope_into(x: in T, cos: in any, sin: in any; y: T; op: impl Into<Rope<T>>) = rope(op.into(), positions: None);
    }
    /// [`rope`](Self::rope) in place: [`RopeInplace`].
    ///
    /// # Errors
    /// [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut x = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
    /// // A quarter turn: the cosine of its one angle is 0, the sine 1.
    /// let (cos, sin) = (b.tensor(&[1, 1], &[0.0f32])?, b.tensor(&[1, 1], &[1.0f32])?);
    /// b.rope_inplace(&mut x, &cos, &sin, Rope::new(RopeForm::Half))?;
    /// assert_eq!(x.to_vec(&b)?, [-2.0, 1.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn rope_inplace<T: Float>(
        &self,
        mut x: impl AsViewMut<Self::Space, T>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        op: impl Into<Rope<T>>,
    ) -> Result<()>
    where
        Self: RopeOps<T>,
    {
        let op = op.into();
        let (cos, sin) = (cos.any_view(), sin.any_view());
        self.run(&op.inplace(), args::rope_inplace::Args { x: x.view_mut(), cos, sin, positions: None })
    }
    methods! {
        RopeOps<T: Float>;
        /// [`Rope`] of tokens at these positions, which are rows of the tables.
        example
        /// let x = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
        /// // Row 1 is a quarter turn.
        /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
        /// let positions = b.tensor(&[1, 1], &[1u32])?;
        /// let y = b.rope_at(&x, &cos, &sin, &positions, Rope::new(RopeForm::Half))?;
        /// assert_eq!(y.to_vec(&b)?, [-2.0, 1.0]);
        fn rope_at, rope_at_into(
            x: in T, cos: in any, sin: in any, positions: some any; y: T; op: impl Into<Rope<T>>
        ) = rope(op.into());
    }
    /// [`Rope`] of tokens at these positions, which are rows of the tables, in place.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let mut x = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
    /// // Row 1 is a quarter turn.
    /// let (cos, sin) = (b.tensor(&[2, 1], &[1.0f32, 0.0])?, b.tensor(&[2, 1], &[0.0f32, 1.0])?);
    /// let positions = b.tensor(&[1, 1], &[1u32])?;
    /// b.rope_at_inplace(&mut x, &cos, &sin, &positions, Rope::new(RopeForm::Half))?;
    /// assert_eq!(x.to_vec(&b)?, [-2.0, 1.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn rope_at_inplace<T: Float>(
        &self,
        mut x: impl AsViewMut<Self::Space, T>,
        cos: impl AsAny<Self::Space>,
        sin: impl AsAny<Self::Space>,
        positions: impl AsAny<Self::Space>,
        op: impl Into<Rope<T>>,
    ) -> Result<()>
    where
        Self: RopeOps<T>,
    {
        let op = op.into();
        let (cos, sin, positions) = (cos.any_view(), sin.any_view(), Some(positions.any_view()));
        self.run(&op.inplace(), args::rope_inplace::Args { x: x.view_mut(), cos, sin, positions })
    }
}
