//! What authors of backends and of ops need beyond what their users do.
//!
//! # An op of your own
//!
//! An op is a struct of its options, a line that declares its operands, a shape rule, and a kernel for each backend. `Checked`, `Fallback` and `Either`
//! then work with it. This one has no options:
//!
//! ```
//! use rocm_ops::backend::{Call, Execute, Kernel, Op, operands};
//! use rocm_ops::prelude::*;
//! use rocm_ops::{Host, Shape};
//! use std::marker::PhantomData;
//!
//! /// `y = x · |x|`, element by element.
//! #[derive(Clone, Copy, Debug)]
//! struct SignedSquare<T>(PhantomData<T>);
//! operands!(mod signed_square: SignedSquare<T: Float> { x: in T, y: out T });
//!
//! impl<T: Float> Op for SignedSquare<T> {
//!     fn name(&self) -> &'static str {
//!         "signed_square"
//!     }
//!     fn infer(&self, on: &signed_square::Shapes<'_>) -> Result<[Shape; 1]> {
//!         Ok([on.x.shape()]) // the shape of `y`
//!     }
//! }
//!
//! /// The kernel, here the same for both CPU backends. Operands may have any strides.
//! fn compute<T: Float>(call: Call<'_, '_, SignedSquare<T>, Host>) -> Result<()> {
//!     let (_, args) = call.into_parts();
//!     let (from, to) = (*args.x.layout(), *args.y.layout());
//!     let (x, y) = (args.x.data(), args.y.data_mut());
//!     for (p, q) in from.positions().zip(to.positions()) {
//!         let v = x[p].to_f64();
//!         y[q] = T::from_f64(v * v.abs());
//!     }
//!     Ok(())
//! }
//! impl<T: Float> Kernel<SignedSquare<T>> for Reference {
//!     fn compute(&self, call: Call<'_, '_, SignedSquare<T>, Host>) -> Result<()> {
//!         compute(call)
//!     }
//! }
//! impl<T: Float> Kernel<SignedSquare<T>> for Cpu {
//!     fn compute(&self, call: Call<'_, '_, SignedSquare<T>, Host>) -> Result<()> {
//!         compute(call)
//!     }
//! }
//!
//! /// The method: every backend has it that has the kernel.
//! trait SignedSquareMethods: Backend {
//!     fn signed_square<T: Float>(&self, x: impl AsView<Self::Space, T>) -> Result<TensorOf<Self, T>>
//!     where
//!         Self: Execute<SignedSquare<T>>,
//!     {
//!         let mut y = self.empty(x.view().shape())?;
//!         // `shorten` gives the view the lifetime of `y`.
//!         let args = signed_square::Args { x: x.view().shorten(), y: y.as_mut() };
//!         self.run(&SignedSquare(PhantomData), args)?;
//!         Ok(y)
//!     }
//! }
//! impl<B: Backend> SignedSquareMethods for B {}
//!
//! fn main() -> Result<()> {
//!     let b = Checked::new(Cpu::new(), Reference::new());
//!     let x = b.tensor(2, &[3.0f32, -2.0])?;
//!     assert_eq!(b.signed_square(&x)?.to_vec(&b)?, [9.0, -4.0]);
//!     Ok(())
//! }
//! ```
//!
//! The repository's `examples/custom_op.rs` has an op with an option, `examples/custom_kernel` one with a GPU kernel, and
//! `examples/third_backend.rs` a backend with memory of its own; CONTRIBUTING.md lists the steps.
pub use ops_core::{
    Borrowed, Call, Contains, Execute, NamedTensors, Op, Operand, OperandInfo, OperandSlot, Operands,
    Packing, Parts, Role, Signature, Space, Tolerance, Tried, Verdict, Written, by_parts, operands, range,
    reads_all, unsupported, with_type,
};
pub use ops_cpu::Kernel;
#[cfg(feature = "rocm")]
pub use ops_rocm::{Provider, Providers};
