//! The fast backend.
use crate::host::host_backend;

/// Threaded and vectorised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;
impl Cpu {
    /// The CPU backend.
    pub fn new() -> Self {
        Cpu
    }
}
host_backend!(Cpu, "cpu");
