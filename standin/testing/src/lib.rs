//! What tests share that need ROCm's libraries: the stand-in for them, or stubs compiled with the C compiler. Each such test has a
//! process of its own, because an opened library stays open, and faults and counts are those of the whole process.

mod process;
mod standin;
mod stubs;

pub use process::{has_program, isolated, skip};
pub use standin::{Standin, cache, folder, needed_folder, with_standin};
pub use stubs::{Scratch, have_compiler};
