//! For each op its providers, best first.
//!
//! This project's kernels come first where they are at least as good: norms, rope, softmax, activations, everything that
//! moves memory. rocBLAS comes first for products of matrices.
use super::hip::{Hip, HipAffine, HipAttention, HipEmbedding, HipFill, HipGroupNorm, HipLinear};
use super::miopen::MiOpen;
use super::rocblas::RocBlas;
use crate::Rocm;
use crate::choice::{Provider, ProviderId, Providers};
use ops_core::ops::{
    AddRmsNorm, Affine, AffineInplace, Attention, Binary, BinaryFn, Cast, Copy, Dequantize, Embedding, Fill,
    Glu, GroupNorm, IndexSelect, LayerNorm, Linear, MatMul, Quantize, RmsNorm, Rope, RopeInplace, Softmax,
    Unary, UnaryFn, Where,
};
use ops_core::quant::Block;
use ops_core::{Element, Float, Num, Scalar};

/// The providers of this crate.
pub(crate) const KNOWN: &[ProviderId] = &[ProviderId::HIP, ProviderId::ROCBLAS, ProviderId::MIOPEN];

const HIP: &[ProviderId] = &[ProviderId::HIP];
const HIP_MIOPEN: &[ProviderId] = &[ProviderId::HIP, ProviderId::MIOPEN];
const ROCBLAS_HIP: &[ProviderId] = &[ProviderId::ROCBLAS, ProviderId::HIP];

/// The providers of an op that this crate computes, in their default order; `None` for any other name.
pub fn providers_of(op: &str) -> Option<&'static [ProviderId]> {
    let unary = || UnaryFn::ALL.iter().any(|f| f.name() == op);
    let binary = || BinaryFn::ALL.iter().any(|f| f.name() == op);
    Some(match op {
        "rms_norm" | "layer_norm" | "group_norm" | "rope" | "rope_i" | "rope_thd" => HIP_MIOPEN,
        "softmax" | "log_softmax" => HIP_MIOPEN,
        "matmul" | "linear" | "qlinear" => ROCBLAS_HIP,
        "swiglu" | "geglu" | "affine" | "affine_inplace" | "add_rms_norm" => HIP,
        "rope_inplace" | "rope_i_inplace" | "rope_thd_inplace" | "attention" => HIP,
        "copy" | "fill" | "where" | "cast" | "index_select" => HIP,
        "quantize" | "dequantize" | "qembedding" | "embedding" => HIP,
        _ if unary() => HIP_MIOPEN,
        _ if binary() => HIP,
        _ => return None,
    })
}

/// Writes `impl Providers` for ops: their generic parameters, the op, its providers.
macro_rules! lists {
    ($(<$($g:ident: $bound:ident),+> $op:ty: $($provider:expr),+;)+) => {$(
        impl<$($g: $bound),+> Providers<$op> for Rocm {
            const LIST: &'static [&'static dyn Provider<$op>] = &[$(&$provider),+];
        }
    )+};
}

lists! {
    <T: Num> Unary<T>: Hip, MiOpen;
    <T: Num> Binary<T>: Hip;
    <T: Float> Glu<T>: Hip;
    <T: Num> Affine<T>: HipAffine;
    <T: Num> AffineInplace<T>: HipAffine;
    <T: Float> RmsNorm<T>: Hip, MiOpen;
    <T: Float> LayerNorm<T>: Hip, MiOpen;
    <T: Float> AddRmsNorm<T>: Hip;
    <T: Float> GroupNorm<T>: HipGroupNorm, MiOpen;
    <T: Float> Rope<T>: Hip, MiOpen;
    <T: Float> RopeInplace<T>: Hip;
    <T: Float> Softmax<T>: Hip, MiOpen;
    <T: Element> Copy<T>: Hip;
    <T: Element> Fill<T>: HipFill;
    <T: Element> Where<T>: Hip;
    <T: Scalar> Cast<T>: Hip;
    <T: Element> IndexSelect<T>: Hip;
    <T: Float> MatMul<T>: RocBlas, Hip;
    <T: Float> Linear<T>: RocBlas, HipLinear;
    <T: Float> Attention<T>: HipAttention;
    <Q: Block> Quantize<Q>: Hip;
    <Q: Block> Dequantize<Q>: Hip;
    <T: Float> Embedding<T>: HipEmbedding;
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::Op;
    use ops_core::ops::{BinaryFn, GluFn, RopeForm};
    use ops_core::quant::BlockQ8_0;

    fn agree<O: Op>(op: O)
    where
        Rocm: Providers<O>,
    {
        let list: Vec<_> = <Rocm as Providers<O>>::LIST.iter().map(|provider| provider.id()).collect();
        assert_eq!(providers_of(op.name()), Some(&list[..]), "{}", op.name());
        assert!(list.iter().all(|id| KNOWN.contains(id)));
    }

    #[test]
    fn the_names_of_an_ops_providers_are_those_of_its_list() {
        UnaryFn::ALL.into_iter().for_each(|f| agree(Unary::<f32>::of(f)));
        BinaryFn::ALL.into_iter().for_each(|f| agree(Binary::<f32>::of(f)));
        [GluFn::Swiglu, GluFn::Geglu].into_iter().for_each(|f| agree(Glu::<f32>::of(f)));
        agree(Affine::<f32>::new(1.0, 0.0));
        agree(AffineInplace::<f32>::new(1.0, 0.0));
        agree(RmsNorm::<f32>::eps(0.0));
        agree(LayerNorm::<f32>::eps(0.0));
        agree(AddRmsNorm::<f32>::eps(0.0));
        agree(GroupNorm::<f32>::new(1, 0.0));
        for form in [RopeForm::Half, RopeForm::Interleaved, RopeForm::HalfThd] {
            agree(Rope::<f32>::new(form));
            agree(Rope::<f32>::new(form).inplace());
        }
        agree(Softmax::<f32>::axis(0));
        agree(Softmax::<f32>::axis(0).log());
        agree(Copy::<f32>::OP);
        agree(Fill::new(0.0f32));
        agree(Where::<f32>::OP);
        agree(Cast::<u8>::OP);
        agree(IndexSelect::<f32>::axis(0));
        agree(MatMul::<f32>::OP);
        agree(Linear::<f32>::OP);
        agree(Attention::<f32>::full());
        agree(Quantize::<BlockQ8_0>::OP);
        agree(Dequantize::<BlockQ8_0>::OP);
        agree(Embedding::<f32>::OP);
        assert_eq!(providers_of("conv2d"), None);
    }
}
