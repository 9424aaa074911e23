//! Weights in the order that a backend reads them in.
use super::{Transformer, Weight};
use crate::combine::{Checked, Either, Fallback};
use crate::mirror;
use crate::ops::Linear;
use crate::{
    Backend, DType, Error, Float, Layout, Op, Operand, Operands, Ref, Result, Role, Space, TensorOf,
    Tolerance,
};
use core::fmt::Debug;

/// Linear layers whose weights are packed once, when a model is loaded, and held.
///
/// Kernels read a weight fastest in an order of their own, which [`linear`](crate::ops::LinearOps::linear) has to make anew in
/// every call of more than a few rows. A weight packed once is not the tensor that it was any more: only the backend that
/// packed it reads it, and only [`linear_packed`](PackWeights::linear_packed) does. A backend without an order of its own
/// [keeps](KeepsWeights) the weight as it is.
///
/// ```
/// use ops_core::{Float, Ref, Result, TensorOf, model::{PackWeights, Weight}};
///
/// struct Output<T: Float, B: PackWeights<T>>(B::Packed);
///
/// impl<T: Float, B: PackWeights<T>> Output<T, B> {
///     fn load(b: &B, weight: Weight<B::Space>) -> Result<Self> {
///         Ok(Output(b.pack(weight)?))
///     }
///     fn logits(&self, b: &B, h: Ref<'_, B, T>) -> Result<TensorOf<B, T>> {
///         b.linear_packed(h, &self.0)
///     }
/// }
/// ```
pub trait PackWeights<T: Float>: Transformer<T> {
    /// A weight as this backend holds it.
    type Packed: Debug + Send + Sync + 'static;

    /// Takes `weight[n, k]` and holds it in the backend's order. Where there is no memory for that, or nothing to gain, it is
    /// held as it was.
    ///
    /// # Errors
    /// [`Error::Shape`] where the weight is no matrix, and a failed transfer.
    fn pack(&self, weight: Weight<Self::Space>) -> Result<Self::Packed>;

    /// Bytes that the weight takes as it is held.
    fn packed_bytes(&self, weight: &Self::Packed) -> usize;

    /// `y[.., j] = Σ_k x[.., k] · weight[j, k]`, as exact as [`Linear`].
    ///
    /// # Errors
    /// [`Error::Shape`] and what the backend reports.
    fn linear_packed(&self, x: Ref<'_, Self, T>, weight: &Self::Packed) -> Result<TensorOf<Self, T>>;
}

/// `weight`, if it is a matrix.
///
/// # Errors
/// [`Error::Shape`].
pub fn matrix<S: Space>(weight: Weight<S>) -> Result<Weight<S>> {
    match weight.dims() {
        [_, _] => Ok(weight),
        _ => Err(Error::shape("pack", "weight", weight.layout(), "[n, k]")),
    }
}

/// A weight as two backends hold it, one to check the other.
#[derive(Debug)]
pub struct CheckedWeight<P, R> {
    primary: P,
    reference: R,
    dtype: DType,
}

impl<T: Float, P: PackWeights<T>, R: PackWeights<T>> PackWeights<T> for Checked<P, R> {
    type Packed = CheckedWeight<P::Packed, R::Packed>;

    fn pack(&self, weight: Weight<Self::Space>) -> Result<Self::Packed> {
        let dtype = weight.dtype();
        let reference = self.reference().pack(weight.mirror(self.primary(), self.reference())?)?;
        Ok(CheckedWeight { primary: self.primary().pack(weight)?, reference, dtype })
    }
    fn packed_bytes(&self, weight: &Self::Packed) -> usize {
        self.primary().packed_bytes(&weight.primary)
    }
    fn linear_packed(&self, x: Ref<'_, Self, T>, weight: &Self::Packed) -> Result<TensorOf<Self, T>> {
        let (primary, reference) = (self.primary(), self.reference());
        let y = primary.linear_packed(x, &weight.primary)?;
        if self.next_is_checked() {
            let x = mirror::copy(x, primary, reference)?;
            let want = reference.linear_packed(x.as_ref(), &weight.reference)?;
            self.compare("linear_packed", "y", tolerance::<T>(weight.dtype), y.as_ref(), &want)?;
        }
        Ok(y)
    }
}

/// How far from each other products with a weight of `dtype` may lie.
fn tolerance<T: Float>(dtype: DType) -> Tolerance {
    /// What the tolerance of a product depends on.
    struct Weights(DType, Layout);
    impl Operands for Weights {
        fn count(&self) -> usize {
            1
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            let (dtype, layout) = (self.0, &self.1);
            (index == 0).then_some(Operand { name: "weight", role: Role::In, dtype, layout })
        }
    }
    Linear::<T>::OP.tolerance("y", T::DTYPE, &Weights(dtype, Layout::of(crate::Shape::SCALAR)))
}

/// A backend whose kernels read weights in the order that files have: it [packs](PackWeights) them by keeping them as they are.
pub trait KeepsWeights: Backend {}

impl<T: Float, B: KeepsWeights + Transformer<T>> PackWeights<T> for B {
    type Packed = Weight<B::Space>;

    fn pack(&self, weight: Weight<B::Space>) -> Result<Self::Packed> {
        matrix(weight)
    }
    fn packed_bytes(&self, weight: &Self::Packed) -> usize {
        weight.bytes()
    }
    fn linear_packed(&self, x: Ref<'_, B, T>, weight: &Self::Packed) -> Result<TensorOf<B, T>> {
        self.linear(x, weight)
    }
}

/// Either backend may have to read them.
impl<P: Backend, S: Backend> KeepsWeights for Fallback<P, S> {}

impl<L: Backend, R: Backend> KeepsWeights for Either<L, R> {}
