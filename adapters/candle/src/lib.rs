//! rocm-ops inside [candle](https://github.com/huggingface/candle) 0.11.1, without a fork of candle.
//!
//! - [`Ops`] computes on candle's CPU tensors: norms, rope, softmax, swiglu, attention, caches, experts and linear attention. `Ops` of
//!   `Cpu` reads candle's memory in place, with any strides, and writes results to the memory of the tensor that it returns.
//! - [`tensors`] and [`tensor`] read a GGUF file as `QTensor`s whose products run on our kernels. `QMatMul` and every model that takes
//!   `QTensor`s use them unchanged.
//! - [`llama`] makes the file content from which candle's own quantized llama loads its weights.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use rocm_ops::Cpu;
//! use rocm_ops_candle::Ops;
//!
//! let ops = Ops::new(Cpu::new());
//! let x = Tensor::new(&[[1f32, 7.0]], &Device::Cpu)?;
//! let weight = Tensor::new(&[1f32, 2.0], &Device::Cpu)?;
//! // The root of the mean square of 1 and 7 is 5.
//! assert_eq!(ops.rms_norm(&x, &weight, 0.0)?.to_vec2::<f32>()?, [[0.2, 2.8]]);
//! # Ok::<(), candle_core::Error>(())
//! ```
//!
//! # Gradients
//!
//! There are none. A result of tensors that candle tracks is computed, but `backward` through it returns an error that names the op. Ops
//! that write in place refuse tracked tensors at once.
//!
//! # Threads
//!
//! A call locks its operands for reading, and a tensor that it writes to for writing, as candle's own ops do. Threads may share [`Ops`],
//! tensors and weights. Do not hold a guard of `Tensor::storage_and_layout` across a call that writes to the same tensor.
//!
//! # On an AMD GPU
//!
//! With the feature `rocm`, `Ops::new(Rocm::new()?)` runs the same ops on the GPU. candle's tensors are in host memory, so operands are
//! copied to the GPU and results back in every call; a tensor that is written in place travels both ways. Weights are copied once: those
//! of [`tensors`], and those of [`Ops::upload`].
mod attention;
mod blocks;
mod cache;
mod call;
mod convert;
mod experts;
mod linear;
mod linear_attention;
mod llama;
mod memory;
mod norm;
mod ops;
mod quantized;
mod result;
mod rope;

pub use attention::Extras;
pub use llama::{Llama, llama};
pub use memory::Memory;
pub use ops::{Computes, Ops};
pub use quantized::{tensor, tensors};
