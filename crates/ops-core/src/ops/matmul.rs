//! Matrix products.
use super::declare::{family, methods, ops};
use super::extents;
use crate::error::About;
use crate::{
    AnyOf, AsAny, AsView, AsViewMut, Backend, DType, Error, Execute, Float, Layout, Op, Operand, Operands,
    Result, Shape, Space, TensorOf, TensorRef, Tolerance,
};

pub(super) mod fused;

pub use fused::*;
pub(super) use fused::{of_gated, parts};

ops! {
    /// `c[.., i, j] = Σ_k a[.., i, k] · b[.., k, j]`.
    ///
    /// Operands: `a[.., m, k]` and `b[.., k, n]` with equal batch extents (the methods of [`MatMulOps`] broadcast);
    /// `c[.., m, n]`. Transposed views need no copy.
    pub struct MatMul<T: Float> {}
    const OP;
    operands matmul { a: in T [.., m, k], b: in T [.., k, n], c: out T [.., m, n] }

    /// `y[.., j] = Σ_k x[.., k] · weight[j, k] + bias[j]`.
    ///
    /// Operands: `x[.., k]`; `weight[n, k]` of any float type, or `weight[n, k / values]` of a block format with `values` values
    /// per block; optional `bias[n]` of any float type; `y[.., n]`.
    ///
    /// With a quantized weight, a backend may round the activations to 8 bits per block of 32; the tolerance allows for it. Files
    /// and policies call such a product `qlinear`.
    pub struct Linear<T: Float> {}
    const OP;
    operands linear { x: in T [.., k], weight: in any [n, k], bias: opt any(floats) [n], y: out T [.., n] }
}
impl<T: Float> Op for MatMul<T> {
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

impl<T: Float> Op for Linear<T> {
    const OTHER_NAMES: &'static [&'static str] = &["qlinear"];

    #[inline]
    fn infer(&self, on: &args::linear::Shapes<'_>) -> Result<[Shape; 1]> {
        let name = self.name();
        on.weight.require(name, DType::is_real, "f16, bf16, f32, f64 or a block format")?;
        let &[n, _] = on.weight.dims() else {
            let want = match on.weight.dtype.values() {
                1 => "[n, k]".to_owned(),
                values => format!("[n, k / {values}]"),
            };
            return Err(Error::shape(name, "weight", on.weight.layout, want));
        };
        if let Some(bias) = on.bias {
            bias.require(name, DType::is_computed, "f16, bf16, f32 or f64")?;
            extents(name, "bias", bias.layout, &[n])?;
        }
        Ok([rows_times(name, on.x, n, on.weight)?])
    }
    fn name_on(&self, on: &dyn Operands) -> &'static str {
        on.get("weight").map_or(self.name(), |weight| name_by(weight.dtype))
    }
    fn tolerance(&self, _: &'static str, dtype: DType, on: &dyn Operands) -> Tolerance {
        summed_with(on.get("weight"), dtype)
    }
}

/// The tolerance of sums of products with this weight.
pub(super) fn summed_with(weight: Option<Operand<'_>>, dtype: DType) -> Tolerance {
    let format = weight.and_then(|weight| match weight.dtype {
        DType::Block(format) => Some(format),
        _ => None,
    });
    match (Tolerance::summed(dtype), format) {
        // 8-bit activations: steps of 1/127 of the largest value of a block of 32 or 256, with uniformly
        // distributed rounding errors. For gated activations with a q6_k weight, the measured mean square was
        // a twentieth of the largest square.
        (Tolerance::Nmse { rounding, .. }, Some(format)) => {
            Tolerance::Nmse { base: format.error_budget().any, rounding }
        }
        (summed, _) => summed,
    }
}

/// The name that files and policies use for a product with a weight of this type.
const fn name_by(weight: DType) -> &'static str {
    if weight.is_block() { "qlinear" } else { "linear" }
}

/// The shape of `x[.., k]` times an `[n, k]` weight.
pub(super) fn rows_times(op: &'static str, x: &Layout, n: usize, weight: Operand<'_>) -> Result<Shape> {
    let k = weight.last_values()?;
    match (x.dims(), weight.dtype) {
        ([.., last], _) if *last == k => x.shape().with_last(n),
        ([.., last], DType::Block(format)) if last % format.values() != 0 => {
            let (name, values) = (format.name(), format.values());
            let want = format!(
                "[.., {k}]: k must be a multiple of {values}, the number of values in a {name} block"
            );
            Err(Error::shape(op, "x", x, want))
        }
        _ => Err(Error::shape(op, "x", x, format!("[.., {k}]"))),
    }
}

family! {
    /// Matrix products in `T`.
    pub trait MatMulOps<T: Float>: Execute<MatMul<T>>, LinearOps<T>;
    methods MatMulMethods;
}

/// The methods of [`MatMulOps`].
pub trait MatMulMethods: Backend {
    /// [`MatMul`] on two stacks of matrices whose batch extents broadcast together.
    ///
    /// # Errors
    /// [`Error::Broadcast`], [`Error::Shape`] and any error that the backend reports.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let a = b.tensor(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let one = b.tensor(&[2, 2], &[1.0f32, 0.0, 0.0, 1.0])?;
    /// assert_eq!(b.matmul(&a, &one)?.to_vec(&b)?, [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn matmul<T: Float>(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: MatMulOps<T>,
    {
        let mut c = self.empty(product_shape(a.view().layout(), b.view().layout())?)?;
        self.matmul_into(a, b, &mut c)?;
        Ok(c)
    }
    /// [`matmul`](Self::matmul) into `c`. `a` and `b` are broadcast to the batch extents of `c`.
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul), and for an output of another shape.
    fn matmul_into<T: Float>(
        &self,
        a: impl AsView<Self::Space, T>,
        b: impl AsView<Self::Space, T>,
        mut c: impl AsViewMut<Self::Space, T>,
    ) -> Result<()>
    where
        Self: MatMulOps<T>,
    {
        let mut c = c.view_mut();
        let (a, b) = (with_batch("a", a.view(), c.dims())?, with_batch("b", b.view(), c.dims())?);
        self.run(&MatMul::OP, args::matmul::Args { a: a.shorten(), b: b.shorten(), c: c.reborrow() })
    }
}

family! {
    /// Products of rows of `T` with weights of any float type or block format.
    pub trait LinearOps<T: Float>: Execute<Linear<T>>;
    methods LinearMethods;
}

/// The methods of [`LinearOps`].
pub trait LinearMethods: Backend {
    /// [`Linear`] without a bias: `x · weightᵀ`. The weight may be of any float type or block format.
    ///
    /// # Errors
    /// As [`linear_bias`](Self::linear_bias).
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
    /// let weight = b.tensor(&[3, 2], &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
    /// assert_eq!(b.linear(&x, &weight)?.to_vec(&b)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn linear<T: Float>(
        &self,
        x: impl AsView<Self::Space, T>,
        weight: impl AsAny<Self::Space>,
    ) -> Result<TensorOf<Self, T>>
    where
        Self: LinearOps<T>,
    {
        self.linear_bias(x, weight, None)
    }
    methods! {
        LinearOps<T: Float>;
        /// [`Linear`]: `x · weightᵀ + bias`.
        example
        /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
        /// let weight = b.tensor(&[3, 2], &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
        /// let bias = b.tensor(&[3], &[10.0f32, 20.0, 30.0])?;
        /// let y = b.linear_bias(&x, &weight, &bias)?;
        /// assert_eq!(y.to_vec(&b)?, [11.0, 22.0, 33.0]);
        fn linear_bias, linear_into(x: in T, weight: in any, bias: opt any; y: T) = linear(Linear::<T>::OP);
    }
    /// Repacks the weight into the layout that this backend's kernels read fastest in products. Returns it
    /// unchanged if the backend has no such layout or it would not be faster. Pass the result to
    /// [`linear`](Self::linear) like any other weight. Pack once, when a model is loaded.
    ///
    /// # Errors
    /// A failed transfer.
    ///
    /// ```
    /// use rocm_ops::prelude::*;
    /// let b = Cpu::new();
    /// let x = b.tensor(&[1, 2], &[1.0f32, 2.0])?;
    /// let weight = b.tensor(&[3, 2], &[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0])?;
    /// let packed = b.pack_weight::<f32>(weight)?;
    /// assert_eq!(b.linear(&x, &packed)?.to_vec(&b)?, [1.0, 2.0, 3.0]);
    /// # Ok::<(), rocm_ops::Error>(())
    /// ```
    fn pack_weight<T: Float>(&self, weight: impl Into<AnyOf<Self>>) -> Result<AnyOf<Self>>
    where
        Self: LinearOps<T>,
    {
        self.pack(&Linear::<T>::OP, "weight", weight.into())
    }
}

/// Broadcasts the batch extents of `x` to those of `c`.
fn with_batch<'a, S: Space, T: Float>(
    operand: &'static str,
    x: TensorRef<'a, S, T>,
    c: &[usize],
) -> Result<TensorRef<'a, S, T>> {
    let (Some((_, matrix)), Some(batch)) =
        (x.dims().split_at_checked(x.dims().len().wrapping_sub(2)), c.len().checked_sub(2))
    else {
        let (wrong, layout) =
            if c.len() < 2 { ("c", Layout::contiguous(c)?) } else { (operand, *x.layout()) };
        return Err(Error::shape(
            "matmul",
            wrong,
            &layout,
            "a matrix: [.., m, k] times [.., k, n] is [.., m, n]",
        ));
    };
    let dims = [&c[..batch], matrix].concat();
    x.broadcast(&dims).about("matmul", operand)
}

fn product_shape(a: &Layout, b: &Layout) -> Result<Shape> {
    let matrix = |operand, x: &Layout, want| match x.dims() {
        [batch @ .., m, n] => Ok((Shape::new(batch)?, *m, *n)),
        _ => Err(Error::shape("matmul", operand, x, want)),
    };
    let (batch_a, m, k) = matrix("a", a, "[.., m, k]")?;
    let (batch_b, rows, n) = matrix("b", b, "[.., k, n]")?;
    if rows != k {
        return Err(Error::shape("matmul", "b", b, format!("[.., {k}, n]")));
    }
    let batch = batch_a.broadcast_with(&batch_b).about("matmul", "a and b")?;
    Shape::new(&[batch.dims(), &[m, n]].concat())
}
