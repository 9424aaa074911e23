//! Every kernel, compiled for the host with either wave size, against plain f64 loops: odd sizes,
//! strides, misaligned addresses, guards round outputs, and the contract's rules for NaN and integers.
mod attention;
mod cast;
mod compare;
mod conv;
mod data;
mod data_movement;
mod elementwise;
mod host;
mod math;
mod matmul;
mod matrix;
mod mirror;
mod norm;
mod parametric;
mod qlinear;
mod quant;
mod ragged;
mod reductions;
mod rope;
mod scatter;
mod softmax;
