//! Whether the processor has matrix units (AMX) and the system permits them.

use std::sync::OnceLock;

use crate::x86::cpuid;

/// The matrix units that this process may use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Units {
    pub(crate) int8: bool,
    pub(crate) bf16: bool,
}

/// Bits of EDX of CPUID leaf 7.
const BF16: u32 = 1 << 22;
const TILE: u32 = 1 << 24;
const INT8: u32 = 1 << 25;

impl Units {
    /// What the processor has and the system permits, detected once per process.
    pub(crate) fn here() -> Self {
        static HERE: OnceLock<Units> = OnceLock::new();
        *HERE.get_or_init(|| {
            // A processor that has AVX2 has leaf 7.
            let edx = if is_x86_feature_detected!("avx2") { cpuid(7, 0).edx } else { 0 };
            let usable = edx & TILE != 0 && os::saves_tiles() && os::permits_tiles();
            Units { int8: usable && edx & INT8 != 0, bf16: usable && edx & BF16 != 0 }
        })
    }
}

/// The names of the features of matrix units that the processor has and the system permits.
pub(crate) fn features() -> Vec<&'static str> {
    let Units { int8, bf16 } = Units::here();
    let all = [(int8 || bf16, "amx-tile"), (int8, "amx-int8"), (bf16, "amx-bf16")];
    all.into_iter().filter_map(|(has, name)| has.then_some(name)).collect()
}

#[cfg(target_os = "linux")]
mod os {
    use core::arch::asm;

    /// Whether the system saves the tiles of a thread that it interrupts.
    pub(super) fn saves_tiles() -> bool {
        /// The tiles' configuration and data.
        const BOTH: u64 = 3 << 17;
        // SAFETY: the processor has the instruction.
        is_x86_feature_detected!("xsave") && unsafe { saved() } & BOTH == BOTH
    }

    /// The register states that the system saves.
    #[target_feature(enable = "xsave")]
    fn saved() -> u64 {
        // SAFETY: register 0 always exists.
        unsafe { core::arch::x86_64::_xgetbv(0) }
    }

    /// Asks for permission to use the tiles' data, for all threads of this process.
    pub(super) fn permits_tiles() -> bool {
        const ARCH_PRCTL: usize = 158;
        const ARCH_REQ_XCOMP_PERM: usize = 0x1023;
        const XFEATURE_XTILEDATA: usize = 18;
        let status: isize;
        // SAFETY: the call takes two numbers and reads no memory; a kernel that does not know it returns an error. The instruction
        // overwrites two registers.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") ARCH_PRCTL => status,
                in("rdi") ARCH_REQ_XCOMP_PERM,
                in("rsi") XFEATURE_XTILEDATA,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        status == 0
    }
}

#[cfg(not(target_os = "linux"))]
mod os {
    pub(super) fn saves_tiles() -> bool {
        false
    }
    pub(super) fn permits_tiles() -> bool {
        false
    }
}
