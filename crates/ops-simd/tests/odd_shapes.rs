//! Calls of the public safe functions with lengths, strides and numbers that do not fit each other. Each call returns an error or
//! computes. It must not touch memory outside its slices: an inaccessible page follows each, so that a read beyond its end ends the
//! test, with and without AddressSanitizer.

mod calls;
mod elementwise;
mod gemm;
mod guarded;
mod quant;
mod rows;
