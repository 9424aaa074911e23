//! GPU kernels for transformer operations: their sources, the table of their instances, and everything that a launch needs to
//! know about them.
//!
//! The sources (`hip/*.hip`, `include/*.h`) compile unchanged with clang or hipRTC for AMD, with NVRTC for CUDA, and with a C++
//! compiler for the host. This crate embeds the sources and contains no device code, so it builds anywhere.
//!
//! A kernel takes one plain struct by value. Each family's module contains only the Rust mirrors of its structs and functions
//! that choose an instance and its grid:
//!
//! 1. The caller describes its operands as [`OperandView`]s: device address, strides, element type.
//! 2. The family's `prepare` returns a [`Launch`] ([`Instance`], grid, block) and the arguments, or the reason why there is none. If a
//!    problem takes several launches, or memory besides its operands, it adds them to a [`Plan`].
//! 3. [`Unit::text`] returns the text to compile; functions such as [`source::hiprtc_options`] return the compiler flags.
//!
//! # Design
//!
//! - **Kernels are data to everything but the compiler.** Launches, the compile check, tests and documents read one table of instances.
//! - **One source for three compilers.** `include/ops_platform.h` maps what differs between AMD, CUDA and the host.
//! - **Kernels are compiled a unit at a time** ([`Unit`]): one part of a family for one set of types. hipRTC takes 0.15 s per unit before
//!   its first kernel and 0.03 to 1 s per kernel, so a unit holds what a model uses together and no more: one kind of norm, attention
//!   for one head size.
//! - **Matrix units are one tile type.** `Mma` (`include/ops_mma.h`) puts WMMA of gfx11 and gfx12 and MFMA of gfx908, gfx90a and gfx94x
//!   behind one interface; kernels above it do not know which they use. An instance states which unit it needs and a device which it
//!   has, so the table, launches and the compile check agree on what exists where. On the host each layout is emulated lane by lane.
//! - **A block format is one struct** with one unpacking piece, `Eight`: it loads eight values and returns their codes as bytes and
//!   their scale. Each algorithm (decoding, products by lanes, of bytes, of tiles, on matrix units) is written once over it.
//! - **A gfx target is one row** of [`target::TARGETS`]: wave size, matrix units, byte dot products, LDS, generic target, and whether its
//!   registers are recorded. A device that is not in the table uses only what every target has.
//! - **Launch parameters are data** ([`Tuning`]): a table by architecture, replaced by what `ops tune` measured on the device.
//! - **A convolution is one kernel in both directions:** a tile of the windows is gathered into LDS. Forward convolutions of 16-bit types
//!   gather such tiles for matrix units.
//!
//! `docs/kernels.md` has the bytes that each family moves and the least time this can take, `docs/kernel-design.md` how each is built.
#![forbid(unsafe_code)]

mod dot4;
mod element_type;
mod family;
mod instances;
mod launch;
mod plan;
mod refused;
mod shape;
pub mod source;
pub mod target;
mod unit;

pub mod attention;
pub mod batch_norm;
pub mod binary;
pub mod bitwise;
pub mod cache;
pub mod cast;
pub mod compare;
pub mod conv;
pub mod copy;
pub mod experts;
pub mod gated;
pub mod group;
pub mod index;
pub mod linear_attention;
pub mod matmul;
pub mod matrix;
pub mod mma_unit;
pub mod norm;
pub mod parametric;
pub mod pool;
pub mod pool_upsample;
pub mod qk_norm_rope;
pub mod qlinear;
pub mod quant;
pub mod reduce;
pub mod rope;
pub mod routing;
pub mod sampling;
pub mod scan;
pub mod scatter;
pub mod softmax;
pub mod sort;
mod tuning;
pub mod unary;
pub mod upsample;

pub use dot4::Dot4;
pub use element_type::{BlockFormat, ElementType};
pub use family::Family;
pub use instances::{Arguments, Instance, MaxVgprs, by_symbol, find, instances};
pub use launch::{Device, Launch};
pub use matrix::Matrix;
pub use plan::{Plan, Step};
pub use refused::Refused;
pub use shape::{Divider, MAX_RANK, OperandView, Shape, StridedPointer, elementwise, rows};
pub use target::GfxTarget;
pub use tuning::{KNOBS, Knob, Tuning};
pub use unit::Unit;

fn declare_all(table: &mut instances::Table) {
    unary::declare(table);
    binary::declare(table);
    bitwise::declare(table);
    compare::declare(table);
    parametric::declare(table);
    norm::declare(table);
    softmax::declare(table);
    reduce::declare(table);
    scan::declare(table);
    sort::declare(table);
    batch_norm::declare(table);
    pool::declare(table);
    upsample::declare(table);
    rope::declare(table);
    qk_norm_rope::declare(table);
    cache::declare(table);
    linear_attention::declare(table);
    copy::declare(table);
    cast::declare(table);
    index::declare(table);
    scatter::declare(table);
    matmul::declare(table);
    conv::declare(table);
    attention::declare(table);
    attention::ragged::declare(table);
    quant::declare(table);
    qlinear::declare(table);
    gated::declare(table);
    routing::declare(table);
    sampling::declare(table);
    experts::declare(table);
    group::declare(table);
    mma_unit::declare(table);
}

/// What tests of the choice of kernels share.
#[cfg(test)]
mod tests {
    use crate::{Device, ElementType, OperandView, Tuning};

    /// A device of one compute unit, which few blocks fill.
    pub(crate) fn device() -> Device {
        Device { compute_units: 1, wave: 32, matrix: None, dot4: None, tuning: Tuning::default() }
    }

    /// An aligned view.
    pub(crate) fn view(strides: &[i64], dtype: ElementType) -> OperandView<'_> {
        OperandView { data: 4096, strides, dtype }
    }
}
