//! Models on a backend and in an element type that are chosen at run time.
//!
//! [`Model`] opens a file or folder and loads its decoder or its encoder when one is first needed. Only what implements [`Decodes`] and
//! [`Embeds`] here is compiled for each backend and type.
#![forbid(unsafe_code)]

mod decoder;
mod encoder;
mod model;

pub use decoder::Decodes;
pub use encoder::Embeds;
pub use model::{Backend, Model, Options};
