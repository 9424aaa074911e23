//! Tensors, ops and the backends of the host: `use rocm_ops::prelude::*`. `Rocm`, `models` and `gguf` are imported by name.
//!
//! ```
//! use rocm_ops::prelude::*;
//!
//! fn normed<T: Float, B: NormOps<T> + FillOps<T>>(b: &B, x: &TensorOf<B, T>) -> Result<TensorOf<B, T>> {
//!     b.rms_norm(x, &b.ones::<T>(x.dims()[1])?, 1e-5)
//! }
//!
//! let cpu = Cpu::new();
//! let y = normed(&cpu, &cpu.tensor([1, 4], &[1.0f32, -1.0, 1.0, -1.0])?)?;
//! println!("{y}");
//! # Ok::<(), Error>(())
//! ```
pub use crate::ops::*;
pub use crate::{
    AnyMut, AnyRef, AnyTensor, AsAny, AsView, AsViewMut, Backend, Checked, Cpu, DType, Element, Error,
    Fallback, Float, Num, Reference, Result, Space, Tensor, TensorMut, TensorOf, TensorRef, bf16, f16,
};
