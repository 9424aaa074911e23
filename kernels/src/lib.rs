//! GPU kernels for transformer operations: sources, the table of their instances, and what a launch
//! needs to know about them.
//!
//! The sources (`hip/*.hip`, `include/*.h`) compile unchanged with clang or hipRTC for AMD, with NVRTC
//! for CUDA, and with a C++ compiler for the host. This crate embeds them and holds no device code of
//! its own, so it builds anywhere.
//!
//! A kernel takes one plain struct by value. Each family's module has the Rust mirror of its structs,
//! functions that choose an instance and its grid, and nothing else:
//!
//! 1. The caller describes its operands as [`OperandView`]s: device address, strides, element type.
//! 2. The family's `prepare` gives a [`Launch`] ([`Instance`], grid, block) and the arguments, or says
//!    why there is none.
//! 3. [`Unit::text`] gives the text to compile, [`source::hiprtc_options`] and its like the compiler's flags.
#![forbid(unsafe_code)]

mod dot4;
mod element_type;
mod instances;
mod launch;
mod shape;
pub mod source;
pub mod target;
mod unit;

pub mod attention;
pub mod binary;
pub mod cast;
pub mod copy;
pub mod index;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod qlinear;
pub mod quant;
pub mod rope;
pub mod softmax;
mod tuning;
pub mod unary;

pub use dot4::Dot4;
pub use element_type::ElementType;
pub use instances::{Arguments, Instance, by_symbol, find, instances};
pub use launch::{Device, Launch, Refused};
pub use matrix::Matrix;
pub use shape::{Divider, MAX_RANK, OperandView, Shape, StridedPointer, elementwise, rows};
pub use source::Family;
pub use target::GfxTarget;
pub use tuning::{KNOBS, Knob, Tuning};
pub use unit::Unit;

fn declare_all(table: &mut instances::Table) {
    unary::declare(table);
    binary::declare(table);
    norm::declare(table);
    softmax::declare(table);
    rope::declare(table);
    copy::declare(table);
    cast::declare(table);
    index::declare(table);
    matmul::declare(table);
    attention::declare(table);
    quant::declare(table);
    qlinear::declare(table);
    matrix::declare(table);
}
