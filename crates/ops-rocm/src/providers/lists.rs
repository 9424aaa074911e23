//! For each op its providers, best first.
//!
//! This project's kernels come first where they are at least as good: norms, rope, softmax, activations, everything that
//! moves memory. rocBLAS comes first for products of matrices.
use super::hip::{Hip, HipAffine, HipAttention, HipFill};
use super::rocblas::RocBlas;
use crate::Rocm;
use crate::choice::{Provider, ProviderId, Providers};
use ops_core::ops::{
    AddRmsNorm, Affine, AffineInplace, Attention, Binary, BinaryFn, Cast, Copy, Dequantize, Fill, Glu,
    GroupNorm, IndexSelect, LayerNorm, Linear, MatMul, QEmbedding, QLinear, Quantize, RmsNorm, Rope,
    RopeInplace, Softmax, Unary, UnaryFn, Where,
};
use ops_core::quant::Block;
use ops_core::{Element, Float, Index, Mask, Num, Scalar};

/// The providers of this crate.
pub(crate) const KNOWN: &[ProviderId] = &[ProviderId::HIP, ProviderId::ROCBLAS, ProviderId::MIOPEN];

const HIP: &[ProviderId] = &[ProviderId::HIP];

/// The providers of an op that this crate computes, in their default order; `None` for any other name.
pub fn providers_of(op: &str) -> Option<&'static [ProviderId]> {
    let unary = || UnaryFn::ALL.iter().any(|f| f.name() == op);
    let binary = || BinaryFn::ALL.iter().any(|f| f.name() == op);
    Some(match op {
        "swiglu" | "geglu" | "affine" | "affine_inplace" => HIP,
        "rms_norm" | "layer_norm" | "add_rms_norm" | "group_norm" => HIP,
        "rope" | "rope_i" | "rope_thd" | "rope_inplace" | "rope_i_inplace" | "rope_thd_inplace" => HIP,
        "softmax" | "log_softmax" => HIP,
        "copy" | "fill" | "where" | "cast" | "index_select" => HIP,
        "matmul" | "linear" => &[ProviderId::ROCBLAS, ProviderId::HIP],
        "attention" | "quantize" | "dequantize" | "qlinear" | "qembedding" => HIP,
        _ if unary() || binary() => HIP,
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
    <T: Num> Unary<T>: Hip;
    <T: Num> Binary<T>: Hip;
    <T: Float> Glu<T>: Hip;
    <T: Num> Affine<T>: HipAffine;
    <T: Num> AffineInplace<T>: HipAffine;
    <T: Float, W: Float> RmsNorm<T, W>: Hip;
    <T: Float, W: Float> LayerNorm<T, W>: Hip;
    <T: Float, W: Float> AddRmsNorm<T, W>: Hip;
    <T: Float, W: Float> GroupNorm<T, W>: Hip;
    <T: Float, C: Float> Rope<T, C>: Hip;
    <T: Float, C: Float> RopeInplace<T, C>: Hip;
    <T: Float> Softmax<T>: Hip;
    <T: Element> Copy<T>: Hip;
    <T: Element> Fill<T>: HipFill;
    <T: Element, I: Index> Where<T, I>: Hip;
    <A: Scalar, B: Scalar> Cast<A, B>: Hip;
    <T: Element, I: Index> IndexSelect<T, I>: Hip;
    <T: Float> MatMul<T>: RocBlas, Hip;
    <T: Float, W: Float, A: Float> Linear<T, W, A>: RocBlas, Hip;
    <T: Float, M: Mask> Attention<T, M>: HipAttention;
    <Q: Block> Quantize<Q>: Hip;
    <Q: Block> Dequantize<Q>: Hip;
    <T: Float, Q: Block> QLinear<T, Q>: Hip;
    <T: Float, Q: Block, I: Index> QEmbedding<T, Q, I>: Hip;
}
