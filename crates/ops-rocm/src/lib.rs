//! Transformer operations on AMD GPUs.
//!
//! [`hip`] is the bottom layer: devices, streams, events, memory, modules and launches over the HIP runtime, which is
//! opened at run time. The crate builds, documents and tests without ROCm; [`hip::Device::open_default`] then answers
//! with an error that says what was looked for and what to do.

pub mod hip;
