//! Rotary position embedding.
use crate::call::on_float;
use crate::convert::typed;
use crate::ops::{Computes, Ops};
use candle_core::{Result, Tensor};
use rocm_ops::ops::{Rope, RopeForm, RopeMethods};

impl<B: Computes> Ops<B> {
    /// Rotates pairs of features of `x[b, h, t, d]`, or of `x[b, t, h, d]` for [`RopeForm::HalfThd`], by the angles whose cosines and sines
    /// are in the tables `[t', r/2]`, or `[b, t', r/2]`. The first token takes row 0, so pass tables narrowed to the tokens, as for
    /// candle's own ops: `Half` is its `rope`, `Interleaved` its `rope_i` and `HalfThd` its `rope_thd`. Unlike for these, `x` need not be
    /// contiguous, and features from `r` on are copied.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops::ops::RopeForm;
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let x = Tensor::new(&[[[[1f32, 2.0]]]], &cpu)?;
    /// // A quarter turn.
    /// let (cos, sin) = (Tensor::new(&[[0f32]], &cpu)?, Tensor::new(&[[1f32]], &cpu)?);
    /// let y = ops.rope(&x, &cos, &sin, RopeForm::Half)?;
    /// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`].
    pub fn rope(&self, x: &Tensor, cos: &Tensor, sin: &Tensor, form: RopeForm) -> Result<Tensor> {
        on_float!("rope", "x", x, T => self.compute::<T, 3, 0>(
            "rope", x.dims(), [("x", x), ("cos", cos), ("sin", sin)], [],
            |[x, cos, sin], [], y| self.backend.rope_into(typed::<T, _>("rope", "x", x)?, cos, sin, y, Rope::new(form)),
        ))
    }

    /// [`rope`](Self::rope) of tokens at `positions[b, t]` or `[1, t]`, of u8, u32, i32 or i64: rows of the tables.
    ///
    /// ```
    /// # use candle_core::{Device, Tensor};
    /// # use rocm_ops::ops::RopeForm;
    /// # use rocm_ops_candle::Ops;
    /// # let (ops, cpu) = (Ops::new(rocm_ops::Cpu::new()), Device::Cpu);
    /// let x = Tensor::new(&[[[[1f32, 2.0]]]], &cpu)?;
    /// // Row 1 is a quarter turn.
    /// let (cos, sin) = (Tensor::new(&[[1f32], [0.0]], &cpu)?, Tensor::new(&[[0f32], [1.0]], &cpu)?);
    /// let y = ops.rope_at(&x, &cos, &sin, &Tensor::new(&[[1u32]], &cpu)?, RopeForm::Half)?;
    /// assert_eq!(y.flatten_all()?.to_vec1::<f32>()?, [-2.0, 1.0]);
    /// # Ok::<(), candle_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As described at [`Ops`]; a position that the tables do not have.
    pub fn rope_at(
        &self,
        x: &Tensor,
        cos: &Tensor,
        sin: &Tensor,
        positions: &Tensor,
        form: RopeForm,
    ) -> Result<Tensor> {
        on_float!("rope", "x", x, T => self.compute::<T, 4, 0>(
            "rope", x.dims(), [("x", x), ("cos", cos), ("sin", sin), ("positions", positions)], [],
            |[x, cos, sin, positions], [], y| {
                self.backend.rope_at_into(typed::<T, _>("rope", "x", x)?, cos, sin, positions, y, Rope::new(form))
            },
        ))
    }
}
