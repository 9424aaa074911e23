//! Families of kernels, each a source file.
use crate::{Dot4, Matrix};

/// Declares the families: each variant with the name of its source file.
macro_rules! families {
    ($($family:ident $name:literal,)+) => {
        /// A source file. Its kernels share code and are compiled together.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Family { $($family),+ }

        impl Family {
            /// All families.
            pub const ALL: &'static [Family] = &[$(Family::$family),+];

            /// The family's name; its source file is `hip/NAME.hip`.
            pub const fn name(self) -> &'static str {
                match self { $(Family::$family => $name),+ }
            }

            /// The text of the source file.
            pub(crate) const fn text(self) -> &'static str {
                match self { $(Family::$family => include_str!(concat!("../hip/", $name, ".hip"))),+ }
            }
        }
    };
}

families! {
    Unary "unary",
    Binary "binary",
    Bitwise "bitwise",
    Compare "compare",
    Parametric "parametric",
    Norm "norm",
    Softmax "softmax",
    Reduce "reduce",
    Scan "scan",
    Sort "sort",
    BatchNorm "batch_norm",
    Pool "pool",
    Upsample "upsample",
    Rope "rope",
    QkNormRope "qk_norm_rope",
    Cache "cache",
    LinearAttention "linear_attention",
    Copy "copy",
    Cast "cast",
    Index "index",
    Scatter "scatter",
    Matmul "matmul",
    Conv "conv",
    Attention "attention",
    AttentionDecode "attention_decode",
    Quant "quant",
    Gated "gated",
    Routing "routing",
    Sampling "sampling",
    Experts "experts",
    ExpertsSort "experts_sort",
    ExpertsTile "experts_tile",
    ExpertsDot "experts_dot",
    Qlinear "qlinear",
    QlinearDot "qlinear_dot",
    Group "group",
    MmaUnit "mma_unit",
    MatmulMma "matmul_mma",
    ConvMma "conv_mma",
    AttentionMma "attention_mma",
    QlinearMma "qlinear_mma",
    ExpertsMma "experts_mma",
}

impl Family {
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
}
