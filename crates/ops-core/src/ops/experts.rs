//! Products of rows with their experts' weight matrices.
use super::matmul::summed_with;
use super::routing::{own_or_f32, three};
use crate::{
    AnyRef, AsAny, AsView, AsViewMut, DType, Error, Execute, Float, Op, Operands, Result, Shape, TensorOf,
    Tolerance, Written, operands,
};
use core::hash::Hasher;
use core::marker::PhantomData;

/// `y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]`: a linear layer for each expert of each token.
///
/// Operands: `x[n, m, d]`, where `m` is 1 (all experts of a token get the same row) or `k`; `weight[e, o, d]`
/// of any float type, or `weight[e, o, d / values]` of a block format with `values` values per block; `ids[n,
/// k]` of an index type; optional `bias[e, o]` in `T` or f32; `y[n, k, o]`.
///
/// The largest value of the index type means "no expert" and gives zeros, without a bias. Any other id from `e` on is
/// [`Error::Index`], which the backend reports no later than the next time the queue is waited for. Quantized weights are treated
/// as in [`Linear`](super::Linear); files and policies then call the op `qlinear_experts`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearExperts<T>(PhantomData<T>);
impl<T> LinearExperts<T> {
    /// The op; it has no options.
    pub const OP: Self = LinearExperts(PhantomData);
}
pub(super) mod args {
    use super::*;
    operands!(pub mod linear_experts: LinearExperts<T: Float> { x: in T, weight: in any, ids: in any, bias: opt any, y: out T });
}
impl<T: Float> Op for LinearExperts<T> {
    const OTHER_NAMES: &'static [&'static str] = &["qlinear_experts"];

    fn name(&self) -> &'static str {
        "linear_experts"
    }
    fn hash_options<H: Hasher>(&self, _: &mut H) {}
    fn infer(&self, on: &args::linear_experts::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        on.weight.require(name, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        on.ids.require(name, DType::is_index, "u8, u32, i32 or i64")?;
        let want = match on.weight.dtype.values() {
            1 => "[e, o, d]".to_owned(),
            values => format!("[e, o, d / {values}]"),
        };
        let [e, o, _] = three(name, "weight", on.weight.layout, &want)?;
        let d = on.weight.last_values()?;
        let [n, m, columns] = three(name, "x", on.x, "[n, m, d]")?;
        let &[tokens, k] = on.ids.dims() else {
            return Err(Error::shape(name, "ids", on.ids.layout, "[n, k]"));
        };
        if tokens != n {
            return Err(Error::shape(name, "ids", on.ids.layout, format!("[{n}, k]")));
        }
        if columns != d || m != 1 && m != k {
            let rows = if k == 1 { "1".to_owned() } else { format!("1 or {k}") };
            return Err(Error::shape(name, "x", on.x, format!("[{n}, {rows}, {d}]")));
        }
        own_or_f32::<T>(name, on.bias, &[e, o])?;
        Ok([Shape::new(&[n, k, o])?])
    }
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        on.get("weight").map_or(self.name(), |weight| name_by(weight.dtype))
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}

/// The name that files and policies use for a weight of this type.
const fn name_by(weight: DType) -> &'static str {
    if weight.is_block() { "qlinear_experts" } else { "linear_experts" }
}

/// Products of rows of `T` with their experts' weight matrices, of any float type or block format.
pub trait ExpertOps<T: Float>: Execute<LinearExperts<T>> {
    /// [`LinearExperts`]: the product of each row with the matrices of its experts.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?;
    /// // Two experts with one output each.
    /// let weight = b.tensor(&[2, 1, 2], &[1.0f32, 1.0, 10.0, 10.0])?;
    /// let ids = b.tensor(&[1, 3], &[1u32, 0, u32::MAX])?;
    /// let y = b.linear_experts(&x, &weight, &ids, None)?;
    /// assert_eq!(y.dims(), [1, 3, 1]);
    /// assert_eq!(y.to_vec(&b)?, [30.0, 3.0, 0.0]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn linear_experts(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        ids: impl AsAny<Self::Space>,
        bias: Option<AnyRef<'_, Self::Space>>,
    ) -> Result<TensorOf<Self, T>> {
        let (x, weight, ids) = (x.view(), weight.any_view(), ids.any_view());
        let on = args::linear_experts::Shapes {
            x: x.layout(),
            weight: weight.operand("weight"),
            ids: ids.operand("ids"),
            bias: None,
            y: Written,
        };
        let [shape] = LinearExperts::<T>::OP.infer(&on)?;
        let mut y = self.empty(shape)?;
        self.linear_experts_into(x, weight, ids, bias, &mut y)?;
        Ok(y)
    }
    /// [`linear_experts`](Self::linear_experts) into `y`.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::DType`], [`Error::Index`] and any error that the backend reports.
    ///
    /// ```
    /// # use ops_core::{Backend, ops::*};
    /// # let b = ops_cpu::Cpu::new();
    /// let x = b.tensor(&[1, 2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let weight = b.tensor(&[2, 1, 2], &[1.0f32, 1.0, 10.0, 10.0])?;
    /// let bias = b.tensor(&[2, 1], &[0.5f32, 5.0])?;
    /// let ids = b.tensor(&[1, 2], &[1i64, 0])?;
    /// let mut y = b.zeros(&[1, 2, 1])?;
    /// b.linear_experts_into(&x, &weight, &ids, Some(bias.any()), &mut y)?;
    /// assert_eq!(y.to_vec(&b)?, [35.0, 7.5]);
    /// # Ok::<(), ops_core::Error>(())
    /// ```
    fn linear_experts_into(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
        ids: impl AsAny<Self::Space>,
        bias: Option<AnyRef<'_, Self::Space>>,
        mut y: impl AsViewMut<Self::Space, T>,
    ) -> Result<()> {
        let (x, weight, ids, bias) = (x.view(), weight.any_view(), ids.any_view(), bias.map(|b| b.shorten()));
        self.run(
            &LinearExperts::<T>::OP,
            args::linear_experts::Args { x, weight, ids, bias, y: y.view_mut() },
        )
    }
}
impl<T: Float, B: Execute<LinearExperts<T>>> ExpertOps<T> for B {}
