//! What tests share that need ROCm's libraries: the stand-in for them, or stubs compiled with the C compiler. Each such test runs
//! in a separate process, because an opened library stays open, and injected faults and counts apply to the whole process.

mod process;
mod standin;
mod stubs;

pub use process::{has_program, isolated, skip};
pub use standin::{Standin, cache, folder, needed_folder, with_standin};
pub use stubs::{Scratch, have_compiler};
