//! Products of rows with their experts' weight matrices.
use super::declare::{family, methods, ops};
use super::matmul::summed_with;
use super::routing::{own_or_f32, three};
use crate::{Backend, DType, Error, Execute, Float, Op, Operands, Result, Shape, Tolerance};

ops! {
    /// `y[i, j] = weight[ids[i, j]] · x[i, min(j, m − 1)] + bias[ids[i, j]]`: a linear layer for each expert of each token.
    ///
    /// Operands: `x[n, m, d]`, where `m` is 1 (all experts of a token get the same row) or `k`; `weight[e, o, d]`
    /// of any float type, or `weight[e, o, d / values]` of a block format with `values` values per block; `ids[n,
    /// k]` of an index type; optional `bias[e, o]` in `T` or f32; `y[n, k, o]`.
    ///
    /// The largest value of the index type means "no expert" and gives zeros, without a bias. Any other id from `e` on is
    /// [`Error::Index`], which the backend reports no later than the next time the queue is waited for. Quantized weights are treated
    /// as in [`Linear`](super::Linear); files and policies then call the op `qlinear_experts`.
    pub struct LinearExperts<T: Float> {}
    const OP;
    operands linear_experts {
        x: in T [n, m, d], weight: in any [e, o, d], ids: in any(indices) [n, k], bias: opt any [e, o], y: out T [n, k, o]
    }
}
impl<T: Float> Op for LinearExperts<T> {
    const OTHER_NAMES: &'static [&'static str] = &["qlinear_experts"];

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

family! {
    /// Products of rows of `T` with their experts' weight matrices, of any float type or block format.
    pub trait ExpertOps<T: Float>: Execute<LinearExperts<T>>;
    methods ExpertMethods;
}

/// The methods of [`ExpertOps`].
pub trait ExpertMethods: Backend {
    methods! {
        ExpertOps<T: Float>;
        /// [`LinearExperts`]: the product of each row with the matrices of its experts.
        example
        /// let x = b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?;
        /// // Two experts with one output each.
        /// let weight = b.tensor(&[2, 1, 2], &[1.0f32, 1.0, 10.0, 10.0])?;
        /// let ids = b.tensor(&[1, 3], &[1u32, 0, u32::MAX])?;
        /// let y = b.linear_experts(&x, &weight, &ids, None)?;
        /// assert_eq!(y.dims(), [1, 3, 1]);
        /// assert_eq!(y.to_vec(&b)?, [30.0, 3.0, 0.0]);
        fn linear_experts, linear_experts_into(
            x: in T, weight: in any, ids: in any, bias: opt any; y: T
        ) = linear_experts(LinearExperts::<T>::OP);
    }
}
