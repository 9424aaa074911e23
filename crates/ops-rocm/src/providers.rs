//! The providers, and for each op the list of its providers, best first.
//!
//! This project's kernels come first where they are at least as good: norms, rope, softmax, activations, and
//! everything that moves memory. For matrix products, hipBLASLt comes first on targets that it is tuned for,
//! and rocBLAS on others, unless the products have few rows.
pub(crate) mod hip;
mod hipblaslt;
mod miopen;
mod parts;
mod policy;
mod product;
mod rocblas;

use crate::ProviderId;
use crate::Rocm;
use crate::provider::{Provider, Providers};
use crate::vendor::VENDORS;
use hip::Hip;
use hipblaslt::HipBlasLt;
use miopen::MiOpen;
use ops_core::ops::{
    AddRmsNorm, Affine, AffineInplace, Attention, AttentionPaged, AttentionVarlen, Binary, BinaryFn, Cast,
    Compare, CompareFn, Dequantize, Embedding, Fill, Glu, GluFn, GroupNorm, IndexSelect, LayerNorm, Linear,
    MatMul, Parametric, Quantize, RmsNorm, Rope, RopeForm, RopeInplace, Softmax, TensorCopy, Unary, UnaryFn,
    Where,
};
use ops_core::ops::{Arange, Bitwise, BitwiseFn, BitwiseNot, LogicalNot};
use ops_core::ops::{ArgReduce, ArgSort, Reduce, ReduceFn, Scan, ScanFn, Sort, TopK};
use ops_core::ops::{BatchNorm, Pool2d, PoolFn, Upsample, Windows};
use ops_core::ops::{
    CacheWrite, QkNormRopeCacheWrite, RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder,
    RopeQkCacheWrite,
};
use ops_core::ops::{
    CombineExperts, LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu, Random, RouterTopK, Sample,
};
use ops_core::ops::{Conv, ConvAxis, ConvForm};
use ops_core::ops::{Conv1dUpdate, GatedDeltaRule, QkNormRope};
use ops_core::ops::{
    GatedRmsNorm, L2Norm, LinearAdd, LinearSwiglu, RmsNormLinear, RmsNormLinearSwiglu, SwigluClamped,
};
use ops_core::ops::{Gather, IndexAdd, Scatter, ScatterAdd};
use ops_core::{Element, Float, Integer, Num, Op, Scalar};
use parts::ByParts;
use rocblas::RocBlas;

/// The providers of this crate.
pub(crate) fn known() -> Vec<ProviderId> {
    let vendors = VENDORS.iter().map(|vendor| vendor.id);
    std::iter::once(ProviderId::HIP).chain(vendors).chain([ProviderId::PARTS]).collect()
}

/// The providers of an op that this crate computes, in default order; `None` for any other name.
pub fn providers_of(op: &str) -> Option<Vec<ProviderId>> {
    ROWS.iter().find_map(|row| row(op))
}

/// The providers of an op, if it has that name.
fn named<O: Op>(op: O, name: &str) -> Option<Vec<ProviderId>>
where
    Rocm: Providers<O>,
{
    let known = op.name() == name || O::OTHER_NAMES.contains(&name);
    known.then(|| <Rocm as Providers<O>>::LIST.iter().map(|provider| provider.id()).collect())
}

/// Writes `impl Providers` for ops, from their generic parameters, the op, its providers, best first, and,
/// for [`providers_of`], one op per name.
macro_rules! lists {
    ($([$($g:ident: $bound:ident)?] $op:ty: $($provider:expr),+; $ops:expr;)+) => {
        $(
            impl$(<$g: $bound>)? Providers<$op> for Rocm {
                const LIST: &'static [&'static dyn Provider<$op>] = &[$(&$provider),+];
            }
        )+
        const ROWS: &[fn(&str) -> Option<Vec<ProviderId>>] = &[
            $(|name| $ops.into_iter().find_map(|op| named(op, name))),+
        ];
    };
}

const FORMS: [RopeForm; 3] = [RopeForm::Half, RopeForm::Interleaved, RopeForm::HalfThd];

lists! {
    [T: Num] Unary<T>: Hip, MiOpen; UnaryFn::ALL.map(Unary::<f32>::of);
    [T: Num] Binary<T>: Hip; BinaryFn::ALL.map(Binary::<f32>::of);
    [T: Integer] Bitwise<T>: Hip; BitwiseFn::ALL.map(Bitwise::<i32>::of);
    [T: Integer] BitwiseNot<T>: Hip; [BitwiseNot::<i32>::OP];
    [T: Scalar] Compare<T>: Hip; CompareFn::ALL.map(Compare::<f32>::of);
    [T: Scalar] LogicalNot<T>: Hip; [LogicalNot::<f32>::OP];
    [T: Num] Parametric<T>: Hip; [Parametric::<f32>::powf(1.0), Parametric::clamp(0.0, 0.0), Parametric::elu(1.0)];
    [T: Float] Glu<T>: Hip; [GluFn::Swiglu, GluFn::Geglu].map(Glu::<f32>::of);
    [T: Num] Affine<T>: Hip; [Affine::<f32>::new(1.0, 0.0)];
    [T: Num] AffineInplace<T>: Hip; [AffineInplace::<f32>::new(1.0, 0.0)];
    [T: Float] RmsNorm<T>: Hip, MiOpen; [RmsNorm::<f32>::eps(0.0)];
    [T: Float] LayerNorm<T>: Hip, MiOpen; [LayerNorm::<f32>::eps(0.0)];
    [T: Float] AddRmsNorm<T>: Hip; [AddRmsNorm::<f32>::eps(0.0)];
    [T: Float] GroupNorm<T>: Hip, MiOpen; [GroupNorm::<f32>::new(1, 0.0)];
    [T: Float] Rope<T>: Hip, MiOpen; FORMS.map(Rope::<f32>::new);
    [T: Float] Conv1dUpdate<T>: Hip; [Conv1dUpdate::<f32>::plain()];
    [T: Float] GatedDeltaRule<T>: Hip; [GatedDeltaRule::<f32>::new()];
    [T: Float] QkNormRope<T>: Hip; [QkNormRope::<f32>::eps(0.0)];
    [T: Float] CacheWrite<T>: Hip; [CacheWrite::<f32>::OP];
    [T: Float] RopeCacheWrite<T>: Hip; [RopeCacheWrite::<f32>::order(RopeOrder::Half)];
    [T: Float] QkNormRopeCacheWrite<T>: Hip; [QkNormRopeCacheWrite::<f32>::eps(0.0)];
    [T: Float] RopeQkCacheWrite<T>: Hip; [RopeQkCacheWrite::<f32>::eps(0.0)];
    [T: Float] RmsNormLinearRopeCacheWrite<T>: Hip, ByParts; [RmsNormLinearRopeCacheWrite::<f32>::eps(0.0)];
    [T: Float] RopeInplace<T>: Hip; FORMS.map(|form| Rope::<f32>::new(form).inplace());
    [T: Float] Softmax<T>: Hip, MiOpen; [Softmax::<f32>::axis(0), Softmax::axis(0).log()];
    [] TensorCopy: Hip; [TensorCopy];
    [T: Element] Fill<T>: Hip; [Fill::new(0.0f32)];
    [T: Num] Arange<T>: Hip; [Arange::<f32>::new(0, 1)];
    [] Where: Hip; [Where];
    [T: Scalar] Cast<T>: Hip; [Cast::<f32>::OP];
    [] IndexSelect: Hip; [IndexSelect::axis(0)];
    [] Gather: Hip; [Gather::axis(0)];
    [] Scatter: Hip; [Scatter::axis(0)];
    [T: Num] ScatterAdd<T>: Hip; [ScatterAdd::<f32>::axis(0)];
    [T: Num] IndexAdd<T>: Hip; [IndexAdd::<f32>::axis(0)];
    [T: Float] MatMul<T>: HipBlasLt, RocBlas, Hip; [MatMul::<f32>::OP];
    [T: Float] Linear<T>: HipBlasLt, RocBlas, Hip; [Linear::<f32>::OP];
    [T: Float] LinearSwiglu<T>: Hip, ByParts; [LinearSwiglu::<f32>::OP];
    [T: Float] LinearAdd<T>: Hip, ByParts; [LinearAdd::<f32>::OP];
    [T: Float] RmsNormLinear<T>: Hip, ByParts; [RmsNormLinear::<f32>::eps(0.0)];
    [T: Float] RmsNormLinearSwiglu<T>: Hip, ByParts; [RmsNormLinearSwiglu::<f32>::eps(0.0)];
    [T: Float] Attention<T>: Hip; [Attention::<f32>::full()];
    [T: Float] AttentionVarlen<T>: Hip; [AttentionVarlen::<f32>::of(Attention::full())];
    [T: Float] AttentionPaged<T>: Hip; [AttentionPaged::<f32>::of(Attention::full())];
    [T: Float] Conv<T>: Hip, MiOpen; ConvForm::ALL.map(|form| Conv::<f32>::new(form, [ConvAxis::PLAIN; 2], 1));
    [T: Num] Reduce<T>: Hip; ReduceFn::ALL.map(|f| Reduce::<f32>::of(f, -1));
    [T: Num] ArgReduce<T>: Hip; [ArgReduce::<f32>::max(-1), ArgReduce::min(-1)];
    [T: Num] Scan<T>: Hip; ScanFn::ALL.map(|f| Scan::<f32>::of(f, -1));
    [T: Num] Sort<T>: Hip; [Sort::<f32>::axis(-1)];
    [T: Num] ArgSort<T>: Hip; [ArgSort::<f32>::axis(-1)];
    [T: Num] TopK<T>: Hip; [TopK::<f32>::of(1)];
    [T: Float] BatchNorm<T>: Hip, MiOpen; [BatchNorm::<f32>::eps(0.0)];
    [T: Float] Pool2d<T>: Hip, MiOpen; PoolFn::ALL.map(|f| Pool2d::<f32>::of(f, Windows::of([1, 1])));
    [T: Float] Upsample<T>: Hip;
        [Upsample::<f32>::nearest1d(1), Upsample::nearest2d([1, 1]), Upsample::bilinear2d([1, 1], false)];
    [T: Float] L2Norm<T>: Hip; [L2Norm::<f32>::eps(0.0)];
    [T: Float] GatedRmsNorm<T>: Hip; [GatedRmsNorm::<f32>::eps(0.0)];
    [T: Float] SwigluClamped<T>: Hip; [SwigluClamped::<f32>::new(1.0, 1.0)];
    [T: Float] RouterTopK<T>: Hip; [RouterTopK::<f32>::of(1)];
    [T: Float] Sample<T>: Hip; [Sample::<f32>::greedy()];
    [T: Float] Random<T>: Hip; [Random::<f32>::uniform(0), Random::normal(0)];
    [T: Float] LinearExperts<T>: Hip; [LinearExperts::<f32>::OP];
    [T: Float] LinearExpertsSwiglu<T>: Hip, ByParts; [LinearExpertsSwiglu::<f32>::plain()];
    [T: Float] LinearExpertsCombine<T>: Hip, ByParts; [LinearExpertsCombine::<f32>::OP];
    [T: Float] CombineExperts<T>: Hip; [CombineExperts::<f32>::OP];
    [] Quantize: Hip; [Quantize];
    [] Dequantize: Hip; [Dequantize];
    [T: Float] Embedding<T>: Hip; [Embedding::<f32>::OP];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_policies() {
        let of =
            |name| providers_of(name).map(|ids| ids.iter().map(|id| id.name()).collect::<Vec<_>>().join(","));
        for (name, want) in [
            ("rms_norm", "hip,miopen"),
            ("rope_i", "hip,miopen"),
            ("rope_thd_inplace", "hip"),
            ("qk_norm_rope", "hip"),
            ("log_softmax", "hip,miopen"),
            ("qlinear", "hipblaslt,rocblas,hip"),
            ("linear", "hipblaslt,rocblas,hip"),
            ("linear_swiglu", "hip,parts"),
            ("linear_add", "hip,parts"),
            ("rms_norm_linear", "hip,parts"),
            ("rms_norm_linear_swiglu", "hip,parts"),
            ("rope_cache_write", "hip"),
            ("rope_qk_cache_write", "hip"),
            ("rms_norm_linear_rope_cache_write", "hip,parts"),
            ("qembedding", "hip"),
            ("gelu_erf", "hip,miopen"),
            ("maximum", "hip"),
            ("geglu", "hip"),
            ("ne", "hip"),
            ("logical_not", "hip"),
            ("shift_right", "hip"),
            ("dequantize", "hip"),
            ("mean", "hip"),
            ("argmin", "hip"),
            ("cumsum", "hip"),
            ("cumprod", "hip"),
            ("topk", "hip"),
            ("batch_norm", "hip,miopen"),
            ("avg_pool2d", "hip,miopen"),
            ("upsample_nearest1d", "hip"),
            ("conv2d", "hip,miopen"),
            ("conv_transpose1d", "hip,miopen"),
            ("scatter_add", "hip"),
            ("gated_rms_norm", "hip"),
            ("qlinear_experts", "hip"),
            ("linear_experts_swiglu", "hip,parts"),
            ("linear_experts_combine", "hip,parts"),
            ("router_topk", "hip"),
            ("sample", "hip"),
            ("attention_varlen", "hip"),
            ("attention_paged", "hip"),
        ] {
            assert_eq!(of(name).as_deref(), Some(want), "{name}");
        }
        assert_eq!(of("an_op_that_no_build_has"), None);
    }

    #[test]
    fn every_provider_is_known() {
        let all = UnaryFn::ALL.map(UnaryFn::name).into_iter().chain(["linear", "attention", "softmax"]);
        assert!(all.filter_map(providers_of).flatten().all(|id| known().contains(&id)));
    }
}
