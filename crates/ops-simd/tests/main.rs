//! Tests of `ops-simd` through its public interface: one program, because each is optimized.

mod codes;
mod common;
mod conv;
mod conversions;
mod elementwise;
mod few;
mod gemm;
mod halves;
mod lookup;
mod maps;
mod math;
#[cfg(unix)]
mod odd_shapes;
mod outliers;
mod properties;
mod quant;
mod rows;
mod super_blocks;
