//! What authors of backends and of ops need beyond what their users do.
//!
//! ```
//! use rocm_ops::backend::{Call, Execute, Op, Operands, Packing, Space};
//! ```
//!
//! CONTRIBUTING.md says how to add a backend or an op. The examples `third_backend` and `custom_op` do it.
pub use ops_core::{
    Borrowed, Call, Contains, Execute, NamedTensors, Op, Operand, OperandInfo, OperandSlot, Operands,
    Packing, Parts, Role, Signature, Space, Tolerance, Tried, Verdict, Written, by_parts, operands, range,
    reads_all, unsupported, with_type,
};
pub use ops_cpu::Kernel;
#[cfg(feature = "rocm")]
pub use ops_rocm::{Provider, Providers};
