//! The matrix units of Intel's processors (AMX): eight tile registers of up to sixteen rows of 64 bytes, and instructions that
//! multiply them.
//!
//! A process asks the system once whether it may use the tiles, and a thread configures their shapes before it uses them.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::isa::{Isa, Level};
use crate::matrix_units::Units;

/// What an instruction set may use. The names in `OPS_SIMD` stand for sets without matrix units, so a named set has none.
fn units(isa: Isa) -> Units {
    if isa.level() == Level::Avx512Vnni && !Isa::limited() { Units::here() } else { Units::default() }
}

/// Rows and bytes per row of a tile.
type Shape = (u8, u16);

/// The operand of LDTILECFG and STTILECFG.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
struct Config {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Config {
    fn new(shapes: [Shape; 8]) -> Self {
        let mut config =
            Config { palette: 1, start_row: 0, reserved: [0; 14], row_bytes: [0; 16], rows: [0; 16] };
        for (i, (rows, row_bytes)) in shapes.into_iter().enumerate() {
            (config.rows[i], config.row_bytes[i]) = (rows, row_bytes);
        }
        config
    }

    /// The configuration of this thread; all zeros if it has none.
    ///
    /// # Safety
    /// The process may use tiles.
    unsafe fn current() -> Self {
        let mut config = Self::default();
        // SAFETY: the processor has the instruction and the system permits it; it writes the 64 bytes of the operand.
        unsafe {
            core::arch::asm!("sttilecfg [{}]", in(reg) &raw mut config, options(nostack, preserves_flags))
        };
        config
    }

    /// Makes this the configuration of the thread, and clears its tiles.
    ///
    /// # Safety
    /// The process may use tiles, and the shapes are of at most 16 rows of at most 64 bytes, or `self` is of [`current`](Self::current).
    unsafe fn load(&self) {
        // SAFETY: the processor has the instruction and the system permits it; the operand has 64 bytes and is valid. All zeros mean no
        // configuration.
        unsafe {
            core::arch::asm!("ldtilecfg [{}]", in(reg) self, options(nostack, preserves_flags, readonly))
        };
    }
}

thread_local! {
    static CONFIGURED: Cell<bool> = const { Cell::new(false) };
}

/// Proof that the tiles of this thread have some shapes. The previous configuration returns when it is dropped: another library in the
/// process, such as candle, may configure a thread once and rely on that later.
///
/// Compiled code never touches a configuration, and the system saves it with a thread's registers.
struct Configured {
    before: Config,
    /// It belongs to a thread.
    here: PhantomData<*const ()>,
}

impl Configured {
    /// Loads the shapes, unless the thread has a configuration of this crate.
    ///
    /// # Safety
    /// The process may use tiles, and these shapes are of at most 16 rows of at most 64 bytes.
    unsafe fn new(shapes: [Shape; 8]) -> Option<Self> {
        if CONFIGURED.try_with(|configured| configured.replace(true)) != Ok(false) {
            return None;
        }
        // SAFETY: as this function's.
        let before = unsafe { Config::current() };
        // SAFETY: as this function's.
        unsafe { Config::new(shapes).load() };
        Some(Self { before, here: PhantomData })
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        // SAFETY: tiles were permitted when this was made, and the configuration is one that the processor has stored. Nothing uses the tiles
        // any more.
        unsafe { self.before.load() };
        let _ = CONFIGURED.try_with(|configured| configured.set(false));
    }
}

/// Proof that the tiles of this thread are configured for sums of bytes. The eight registers are two sets of
/// four: two of 8 rows of 64 bytes for sums, one of 8 rows of 32 bytes for activations, and one of 8 rows of
/// 64 bytes for weights.
pub(crate) struct BytesTiles {
    /// Restores the thread's configuration when dropped.
    _configured: Configured,
}

impl BytesTiles {
    /// Configures the tiles, if `isa` may use them for bytes.
    pub(crate) fn configure(isa: Isa) -> Option<Self> {
        const SET: [Shape; 4] = [(8, 64), (8, 64), (8, 32), (8, 64)];
        let [a, b, c, d] = SET;
        if !units(isa).int8 {
            return None;
        }
        // SAFETY: tiles are detected and permitted, and the shapes fit them.
        let configured = unsafe { Configured::new([a, b, c, d, a, b, c, d]) };
        Some(Self { _configured: configured? })
    }
}

/// Proof that the tiles of this thread are configured for sums of bf16 pairs: each of the eight registers has 16 rows of 64 bytes.
pub(crate) struct Bf16Tiles {
    /// Restores the thread's configuration when dropped.
    _configured: Configured,
}

impl Bf16Tiles {
    /// Configures the tiles, if `isa` may use them for bf16 and has AVX-512 BF16.
    pub(crate) fn configure(isa: Isa) -> Option<Self> {
        if !units(isa).bf16 || !is_x86_feature_detected!("avx512bf16") {
            return None;
        }
        // SAFETY: tiles are detected and permitted, and the shapes fit them.
        let configured = unsafe { Configured::new([(16, 64); 8]) };
        Some(Self { _configured: configured? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_of_another_library_returns() {
        let isa = Isa::best();
        if !units(isa).int8 {
            return;
        }
        let theirs = Config::new([(16, 64), (16, 64), (1, 4), (2, 8), (16, 64), (3, 64), (4, 64), (16, 32)]);
        for before in [theirs, Config::default()] {
            // SAFETY: tiles are permitted, and the shapes fit.
            let current = unsafe {
                before.load();
                || Config::current()
            };
            let tiles =
                BytesTiles::configure(isa).expect("nothing of this crate uses the tiles of this thread");
            assert!(BytesTiles::configure(isa).is_none());
            assert_ne!(current(), before);
            drop(tiles);
            assert_eq!(current(), before);
        }
    }
}
