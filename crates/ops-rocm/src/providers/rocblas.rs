//! rocBLAS: products of matrices.
mod plan;
mod product;

pub(crate) use product::RocBlas;
