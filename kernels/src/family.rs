//! Families of kernels, each a source file.
use crate::{Dot4, Matrix};

/// A source file. Its kernels share code and are compiled together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Family {
    Unary,
    Binary,
    Compare,
    Parametric,
    Norm,
    Softmax,
    Reduce,
    Scan,
    Sort,
    BatchNorm,
    Pool,
    Upsample,
    Rope,
    QkNormRope,
    Cache,
    LinearAttention,
    Copy,
    Cast,
    Index,
    Scatter,
    Matmul,
    Conv,
    Attention,
    AttentionDecode,
    Quant,
    Gated,
    Routing,
    Sampling,
    Experts,
    ExpertsSort,
    ExpertsTile,
    ExpertsDot,
    Qlinear,
    QlinearDot,
    MmaUnit,
    MatmulMma,
    ConvMma,
    AttentionMma,
    QlinearMma,
    ExpertsMma,
}

impl Family {
    /// All families.
    pub const ALL: &'static [Family] = &[
        Family::Unary,
        Family::Binary,
        Family::Compare,
        Family::Parametric,
        Family::Norm,
        Family::Softmax,
        Family::Reduce,
        Family::Scan,
        Family::Sort,
        Family::BatchNorm,
        Family::Pool,
        Family::Upsample,
        Family::Rope,
        Family::QkNormRope,
        Family::Cache,
        Family::LinearAttention,
        Family::Copy,
        Family::Cast,
        Family::Index,
        Family::Scatter,
        Family::Matmul,
        Family::Conv,
        Family::Attention,
        Family::AttentionDecode,
        Family::Quant,
        Family::Gated,
        Family::Routing,
        Family::Sampling,
        Family::Experts,
        Family::ExpertsSort,
        Family::ExpertsTile,
        Family::ExpertsDot,
        Family::Qlinear,
        Family::QlinearDot,
        Family::MmaUnit,
        Family::MatmulMma,
        Family::ConvMma,
        Family::AttentionMma,
        Family::QlinearMma,
        Family::ExpertsMma,
    ];

    /// The family's name; its source file is `hip/NAME.hip`.
    pub const fn name(self) -> &'static str {
        match self {
            Family::Unary => "unary",
            Family::Binary => "binary",
            Family::Compare => "compare",
            Family::Parametric => "parametric",
            Family::Norm => "norm",
            Family::Softmax => "softmax",
            Family::Reduce => "reduce",
            Family::Scan => "scan",
            Family::Sort => "sort",
            Family::BatchNorm => "batch_norm",
            Family::Pool => "pool",
            Family::Upsample => "upsample",
            Family::Rope => "rope",
            Family::QkNormRope => "qk_norm_rope",
            Family::Cache => "cache",
            Family::LinearAttention => "linear_attention",
            Family::Copy => "copy",
            Family::Cast => "cast",
            Family::Index => "index",
            Family::Scatter => "scatter",
            Family::Matmul => "matmul",
            Family::Conv => "conv",
            Family::Attention => "attention",
            Family::AttentionDecode => "attention_decode",
            Family::Quant => "quant",
            Family::Gated => "gated",
            Family::Routing => "routing",
            Family::Sampling => "sampling",
            Family::Experts => "experts",
            Family::ExpertsSort => "experts_sort",
            Family::ExpertsTile => "experts_tile",
            Family::ExpertsDot => "experts_dot",
            Family::Qlinear => "qlinear",
            Family::QlinearDot => "qlinear_dot",
            Family::MmaUnit => "mma_unit",
            Family::MatmulMma => "matmul_mma",
            Family::ConvMma => "conv_mma",
            Family::AttentionMma => "attention_mma",
            Family::QlinearMma => "qlinear_mma",
            Family::ExpertsMma => "experts_mma",
        }
    }

    /// Whether the family's kernels require matrix units.
    pub const fn needs_matrix(self) -> bool {
        use Family::{AttentionMma, ConvMma, ExpertsMma, MatmulMma, MmaUnit, QlinearMma};
        matches!(self, MmaUnit | MatmulMma | ConvMma | AttentionMma | QlinearMma | ExpertsMma)
    }

    /// Whether the family has kernels for a target. Some families need instructions that not all targets have.
    pub fn runs_on(self, target: &str) -> bool {
        (!self.needs_matrix() || Matrix::of(target).is_some())
            && (!self.needs_dot4() || Dot4::of(target).is_some())
    }

    /// Whether the family's kernels require byte dot products.
    pub const fn needs_dot4(self) -> bool {
        matches!(self, Family::QlinearDot | Family::ExpertsDot)
    }

    /// The text of the source file.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Family::Unary => include_str!("../hip/unary.hip"),
            Family::Binary => include_str!("../hip/binary.hip"),
            Family::Compare => include_str!("../hip/compare.hip"),
            Family::Parametric => include_str!("../hip/parametric.hip"),
            Family::Norm => include_str!("../hip/norm.hip"),
            Family::Softmax => include_str!("../hip/softmax.hip"),
            Family::Reduce => include_str!("../hip/reduce.hip"),
            Family::Scan => include_str!("../hip/scan.hip"),
            Family::Sort => include_str!("../hip/sort.hip"),
            Family::BatchNorm => include_str!("../hip/batch_norm.hip"),
            Family::Pool => include_str!("../hip/pool.hip"),
            Family::Upsample => include_str!("../hip/upsample.hip"),
            Family::Rope => include_str!("../hip/rope.hip"),
            Family::QkNormRope => include_str!("../hip/qk_norm_rope.hip"),
            Family::Cache => include_str!("../hip/cache.hip"),
            Family::LinearAttention => include_str!("../hip/linear_attention.hip"),
            Family::Copy => include_str!("../hip/copy.hip"),
            Family::Cast => include_str!("../hip/cast.hip"),
            Family::Index => include_str!("../hip/index.hip"),
            Family::Scatter => include_str!("../hip/scatter.hip"),
            Family::Matmul => include_str!("../hip/matmul.hip"),
            Family::Conv => include_str!("../hip/conv.hip"),
            Family::Attention => include_str!("../hip/attention.hip"),
            Family::AttentionDecode => include_str!("../hip/attention_decode.hip"),
            Family::Quant => include_str!("../hip/quant.hip"),
            Family::Gated => include_str!("../hip/gated.hip"),
            Family::Routing => include_str!("../hip/routing.hip"),
            Family::Sampling => include_str!("../hip/sampling.hip"),
            Family::Experts => include_str!("../hip/experts.hip"),
            Family::ExpertsSort => include_str!("../hip/experts_sort.hip"),
            Family::ExpertsTile => include_str!("../hip/experts_tile.hip"),
            Family::ExpertsDot => include_str!("../hip/experts_dot.hip"),
            Family::Qlinear => include_str!("../hip/qlinear.hip"),
            Family::QlinearDot => include_str!("../hip/qlinear_dot.hip"),
            Family::MmaUnit => include_str!("../hip/mma_unit.hip"),
            Family::MatmulMma => include_str!("../hip/matmul_mma.hip"),
            Family::ConvMma => include_str!("../hip/conv_mma.hip"),
            Family::AttentionMma => include_str!("../hip/attention_mma.hip"),
            Family::QlinearMma => include_str!("../hip/qlinear_mma.hip"),
            Family::ExpertsMma => include_str!("../hip/experts_mma.hip"),
        }
    }
}
