//! Instructions that every x86-64 processor has. Compilers before 1.94 treat their intrinsics as unsafe.

use core::arch::x86_64::{__cpuid_count, _mm_prefetch, CpuidResult};

/// Prefetches the cache line at `at`, which need not be readable.
#[inline(always)]
#[allow(unused_unsafe, reason = "safe from 1.94 on")]
pub(crate) fn prefetch<const HINT: i32, T>(at: *const T) {
    // SAFETY: the instruction reads nothing that the program could see, and it ignores addresses that are not mapped.
    unsafe { _mm_prefetch::<HINT>(at.cast()) }
}

/// What `cpuid` reports for this part of this leaf.
#[allow(unused_unsafe, reason = "safe from 1.94 on")]
pub(crate) fn cpuid(leaf: u32, part: u32) -> CpuidResult {
    // SAFETY: every processor of this architecture has the instruction.
    unsafe { __cpuid_count(leaf, part) }
}
