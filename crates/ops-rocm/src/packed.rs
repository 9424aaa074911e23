//! Weights as the kernels read them: as they are.
use crate::Rocm;
use ops_core::model::KeepsWeights;

impl KeepsWeights for Rocm {}
