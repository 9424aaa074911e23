//! Marks the kernels' argument structures as arguments of launches.
//!
//! `ops-kernels` mirrors each structure of its sources and tests that sizes and fields agree.
use crate::hip::KernelArgs;
use ops_kernels as k;

// SAFETY: for every line here, the type is `#[repr(C)]`, consists of numbers and addresses in whole words of
// eight bytes without a gap, and matches, field by field, the structure of the kernels that name it.
unsafe impl KernelArgs for k::unary::UnaryArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::unary::AffineArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::binary::BinaryArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::compare::CompareArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::parametric::ParametricArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::cast::CastArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::copy::CopyArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::copy::FillArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::copy::WhereArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::index::IndexSelectArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::scatter::GatherArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::scatter::ScatterArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::norm::NormArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::norm::GroupNormArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::rope::RopeArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::linear_attention::Conv1dUpdateArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::linear_attention::GatedDeltaArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::qk_norm_rope::QkNormRopeArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::cache::CacheWriteArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::cache::RopeCacheArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::rope::RopeAtArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::softmax::SoftmaxArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::conv::ConvArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::matmul::MatmulArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::mma_unit::MmaUnitArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::attention::AttentionArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::attention::ragged::RaggedArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::quant::QuantizeArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::quant::DequantizeArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::quant::QEmbeddingArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::qlinear::QLinearArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::gated::GatedArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::gated::ClampedArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::routing::RouterArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::sampling::SampleArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::routing::CombineArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::experts::ExpertsArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::reduce::ReduceArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::scan::ScanArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::sort::SortArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::batch_norm::BatchNormArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::pool::PoolArgs {}
// SAFETY: as above.
unsafe impl KernelArgs for k::upsample::UpsampleArgs {}
