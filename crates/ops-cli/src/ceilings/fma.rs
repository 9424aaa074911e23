//! Instructions that not every processor has: the unsafe part of the ceilings.
//!
//! Peak arithmetic is measured by independent chains of fused multiply-adds in registers, enough to hide
//! the latency. Streaming stores do not read a cache line before they write it, as plain stores do.

/// Accumulators in flight: at least latency times FMA units on current processors, and few enough for the registers.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

/// Runs `steps` rounds of fused multiply-adds. Returns the number of operations and a value that depends on all of them,
/// so that none can be optimised away.
pub(super) fn multiply_add_f32(steps: usize) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, as just detected.
            return unsafe { x86::f32_avx512(steps) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, as just detected.
            return unsafe { x86::f32_avx2(steps) };
        }
    }
    portable(steps, 1.0f32, 0.0f32)
}

/// [`multiply_add_f32`] in f64.
pub(super) fn multiply_add_f64(steps: usize) -> (f64, f64) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F, as just detected.
            return unsafe { x86::f64_avx512(steps) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and FMA, as just detected.
            return unsafe { x86::f64_avx2(steps) };
        }
    }
    portable(steps, 1.0f64, 0.0f64)
}

/// Copies with stores that bypass the caches. Returns false, and copies nothing, if the processor has no such stores.
pub(super) fn streaming_copy(src: &[u8], dst: &mut [u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && src.len() == dst.len() {
        // SAFETY: the processor has AVX-512F, as just detected.
        unsafe { x86::stream_avx512(src, dst) };
        return true;
    }
    let _ = (src, dst);
    false
}

/// Multiplications and additions that the compiler may vectorise for the build target.
fn portable<T>(steps: usize, one: T, zero: T) -> (f64, f64)
where
    T: Copy + core::ops::Mul<Output = T> + core::ops::Add<Output = T> + Into<f64>,
{
    const LANES: usize = 64;
    let mut acc = [zero; LANES];
    let (factor, term) = (std::hint::black_box(one), std::hint::black_box(one));
    for _ in 0..steps {
        for a in &mut acc {
            *a = *a * factor + term;
        }
    }
    (2.0 * (steps * LANES) as f64, acc.into_iter().map(Into::into).sum())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::CHAINS;
    use core::arch::x86_64::*;
    use std::hint::black_box;

    /// Defines a loop of fused multiply-adds from the intrinsics for broadcast and multiply-add, the scalar type, the number
    /// of lanes and the horizontal sum.
    macro_rules! chains {
        ($name:ident, $feature:literal, $set:ident, $fma:ident, $t:ty, $lanes:literal, |$v:ident| $sum:expr) => {
            #[target_feature(enable = $feature)]
            pub(super) fn $name(steps: usize) -> (f64, f64) {
                let (factor, term) = ($set(black_box(0.999)), $set(black_box(0.001)));
                let mut acc = [$set(black_box(1.0)); CHAINS];
                for _ in 0..steps {
                    for a in &mut acc {
                        *a = $fma(*a, factor, term);
                    }
                }
                let sum = acc.into_iter().map(|$v| $sum).sum();
                (2.0 * (steps * CHAINS * $lanes) as f64, sum)
            }
        };
    }
    chains!(f32_avx512, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, f32, 16, |v| f64::from(
        _mm512_reduce_add_ps(v)
    ));
    chains!(f64_avx512, "avx512f", _mm512_set1_pd, _mm512_fmadd_pd, f64, 8, |v| _mm512_reduce_add_pd(v));
    // All lanes are equal, so one is enough.
    chains!(f32_avx2, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, f32, 8, |v| f64::from(_mm256_cvtss_f32(
        v
    )));
    chains!(f64_avx2, "avx2,fma", _mm256_set1_pd, _mm256_fmadd_pd, f64, 4, |v| _mm256_cvtsd_f64(v));

    /// Orders earlier stores before later ones.
    #[allow(unused_unsafe, reason = "compilers before 1.94 take it for unsafe")]
    fn fence() {
        // SAFETY: every processor of this architecture has the instruction.
        unsafe { _mm_sfence() }
    }

    /// Copies one slice to another of the same length.
    #[target_feature(enable = "avx512f")]
    pub(super) fn stream_avx512(src: &[u8], dst: &mut [u8]) {
        let head = dst.as_ptr().align_offset(64).min(dst.len());
        let (src_head, src) = src.split_at(head);
        let (dst_head, dst) = dst.split_at_mut(head);
        dst_head.copy_from_slice(src_head);
        let (src_lines, src_tail) = src.as_chunks::<64>();
        let (dst_lines, dst_tail) = dst.as_chunks_mut::<64>();
        for (s, d) in src_lines.iter().zip(dst_lines) {
            // SAFETY: both are 64 bytes long, and `d` is aligned to 64 because of the split-off head.
            unsafe { _mm512_stream_si512(d.as_mut_ptr().cast(), _mm512_loadu_si512(s.as_ptr().cast())) };
        }
        dst_tail.copy_from_slice(src_tail);
        fence();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streaming_copies_all_bytes_at_any_alignment() {
        let src: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        for start in [0, 1, 63] {
            let mut dst = vec![0; 1000];
            if streaming_copy(&src[start..], &mut dst[start..]) {
                assert_eq!(dst[start..], src[start..]);
            }
        }
    }

    #[test]
    fn operations_are_counted() {
        let (ops, sum) = multiply_add_f32(1000);
        assert!(ops >= 2.0 * 1000.0 && sum.is_finite() && sum != 0.0);
        let (ops, sum) = multiply_add_f64(1000);
        assert!(ops >= 2.0 * 1000.0 && sum.is_finite() && sum != 0.0);
    }
}
