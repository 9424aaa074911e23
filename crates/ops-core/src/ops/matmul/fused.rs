//! Products fused with the step that follows them.
use super::{rows_times, summed_with};
use crate::ops::declare::{family, methods, ops};
use crate::ops::{
    ActivationMethods, ActivationOps, CastMethods, CastOps, Glu, GluFn, Linear, LinearMethods, LinearOps,
};
use crate::parts::PartOperands;
use crate::{
    AsAny, AsView, Backend, DType, Error, Execute, Float, Layout, Op, Operands, Packing, Parts, Reason,
    Result, Role, Shape, Tolerance,
};

ops! {
    /// The gated half of a feed-forward block: `y = silu(x · gateᵀ) · (x · upᵀ)`. The products are not rounded to `T`.
    ///
    /// Operands: `x[.., k]`; `gate[n, k]` and `up[n, k]`, each of any float type or block format, as the weight of
    /// [`Linear`]; `y[.., n]`.
    ///
    /// As parts: two [`Linear`] and a [`Glu`] in `T::Acc`, then a cast. Shazeer, "GLU Variants Improve
    /// Transformer", 2020.
    pub struct LinearSwiglu<T: Float> {}
    const OP;
    operands linear_swiglu { x: in T [.., k], gate: in any [n, k], up: in any [n, k], y: out T [.., n] }
}
impl<T: Float> Op for LinearSwiglu<T> {
    fn infer(&self, on: &args::linear_swiglu::Shapes<'_>) -> Result<[Shape; 1]> {
        let op = self.name();
        for weight in [on.gate, on.up] {
            weight.require(op, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        }
        let &[n, _] = on.gate.dims() else {
            return Err(Error::shape(op, "gate", on.gate.layout, "[n, k], or [n, k / values] in blocks"));
        };
        let (gate_values, up_values) = (on.gate.last_values()?, on.up.last_values()?);
        match *on.up.dims() {
            [rows, _] if rows == n && up_values == gate_values => {}
            _ => {
                let want = format!("[{n}, k] with k = {gate_values} values, as in `gate`");
                return Err(Error::shape(op, "up", on.up.layout, want));
            }
        }
        Ok([rows_times(op, on.x, n, on.gate)?])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        let blocks = ["gate", "up"].into_iter().find(|name| on.get(name).is_some_and(|w| w.dtype.is_block()));
        summed_with(on.get(blocks.unwrap_or("gate")), dtype)
    }
}

impl<T: Float, B> Parts<B> for LinearSwiglu<T>
where
    B: LinearOps<T::Acc> + ActivationOps<T::Acc> + CastOps<T> + CastOps<T::Acc>,
{
    fn parts_support(&self, backend: &B, on: &dyn Operands) -> Result<(), Reason> {
        let given = |name| on.get(name).ok_or(Reason::Missing);
        let (x, y) = (given("x")?, given("y")?);
        let (of_x, of_y) = (Layout::of(x.layout.shape()), Layout::of(y.layout.shape()));
        let made = |name, role, layout| PartOperands::<4>::made(name, role, DType::of::<T::Acc>(), layout);
        for weight in [given("gate")?, given("up")?] {
            let weight = crate::Operand { name: "weight", ..weight };
            let product = PartOperands([made("x", Role::In, &of_x), weight, made("y", Role::Out, &of_y)]);
            Execute::<Linear<T::Acc>>::support(backend, &Linear::OP, &Declared(&product))?;
        }
        let [gate, up] = ["gate", "up"].map(|name| made(name, Role::In, &of_y));
        let gated = PartOperands([gate, up, made("y", Role::Out, &of_y)]);
        Execute::<Glu<T::Acc>>::support(backend, &Glu::of(GluFn::Swiglu), &gated)?;
        if T::DTYPE == DType::of::<T::Acc>() {
            return Ok(());
        }
        let widened = PartOperands([x, made("y", Role::Out, &of_x)]);
        Execute::<crate::ops::Cast<T::Acc>>::support(backend, &crate::ops::Cast::OP, &widened)?;
        let rounded = PartOperands([made("x", Role::In, &of_y), y]);
        Execute::<crate::ops::Cast<T>>::support(backend, &crate::ops::Cast::OP, &rounded)
    }

    fn run_parts(&self, backend: &B, args: &mut args::linear_swiglu::Args<'_, B::Space, T>) -> Result<()> {
        let args::linear_swiglu::Args { x, gate, up, y } = args;
        let products = |x: crate::Ref<'_, B, T::Acc>| -> Result<_> {
            let gate = backend.linear(x, *gate)?;
            Ok((gate, backend.linear(x, *up)?))
        };
        if let Some(x) = x.any().typed::<T::Acc>() {
            let (gate, up) = products(x)?;
            if let Some(y) = y.reborrow().any().typed::<T::Acc>() {
                return backend.swiglu_into(&gate, &up, y);
            }
        }
        let wide = backend.cast::<T::Acc>(*x)?;
        let (gate, up) = products(wide.as_ref())?;
        let sums = backend.swiglu(&gate, &up)?;
        backend.cast_into(&sums, y.reborrow())
    }

    fn parts_read(&self, backend: &B, operand: &'static str, packing: &'static Packing) -> bool {
        let is_weight = matches!(operand, "gate" | "up");
        is_weight && Execute::<Linear<T::Acc>>::reads(backend, &Linear::OP, "weight", packing)
    }
}

/// The operands of a product without a bias, which is declared before `y`.
struct Declared<'o>(&'o PartOperands<'o, 3>);
impl Operands for Declared<'_> {
    fn count(&self) -> usize {
        4
    }
    fn operand(&self, index: usize) -> Option<crate::Operand<'_>> {
        self.0.operand(match index {
            2 => return None,
            3 => 2,
            index => index,
        })
    }
}

family! {
    /// Products in `T` fused with the step that follows them.
    pub trait FusedOps<T: Float>: Execute<LinearSwiglu<T>>;
    methods FusedMethods;
}

/// The methods of [`FusedOps`].
pub trait FusedMethods: Backend {
    methods! {
        FusedOps<T: Float>;
        /// [`LinearSwiglu`]: `silu(x · gateᵀ) · (x · upᵀ)`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
        /// let (gate, up) = (b.tensor(&[1, 2], &[0.0f32, 50.0])?, b.tensor(&[1, 2], &[3.0f32, 4.0])?);
        /// // silu(100) is 100, and the other product 11.
        /// assert_eq!(b.linear_swiglu(&x, &gate, &up)?.to_vec(&b)?, [1100.0]);
        fn linear_swiglu, linear_swiglu_into(
            x: in T, gate: in any, up: in any; y: T
        ) = linear_swiglu(LinearSwiglu::OP);
    }
    /// Whether a single kernel computes [`LinearSwiglu`] of these operands. If not, a model may as well call
    /// the parts in `T`, which round in between: they are at least as fast.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let (x, weight) = (b.zeros::<f32>(&[1, 2])?, b.zeros::<f32>(&[1, 2])?);
    /// assert!(!b.fuses_linear_swiglu(&x, &weight, &weight));
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn fuses_linear_swiglu<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        gate: impl AsAny<Self::Space>,
        up: impl AsAny<Self::Space>,
    ) -> bool
    where
        Self: FusedOps<T>,
    {
        let (x, gate, up) = (x.view(), gate.any_view(), up.any_view());
        let n = gate.operand("gate").dims().first().copied().unwrap_or(0);
        let Ok(shape) = x.shape().with_last(n) else { return false };
        let (x, y) = (x.any(), Layout::of(shape));
        let y = PartOperands::<4>::made("y", Role::Out, T::DTYPE, &y);
        let on = PartOperands([x.operand("x"), gate.operand("gate"), up.operand("up"), y]);
        self.fuses(&LinearSwiglu::OP, &on)
    }
}
