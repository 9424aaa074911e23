//! Products, convolutions and attention, compiled for the host with either wave size, against plain f64 loops: odd sizes, strides,
//! misaligned addresses, and guards round outputs. Other kernels are tested by the conformance suite on the stand-in
//! (`crates/ops-rocm/tests/suite_on_standin`), which finds every fault that tests here found: `docs/lab/kernel-faults.md`.
mod attention;
mod conv;
mod data;
mod host;
mod math;
mod matmul;
mod matrix;
mod mirror;
mod qlinear;
mod quant;
mod ragged;
mod standin;
