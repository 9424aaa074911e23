//! AVX-VNNI, for processors that have it and not AVX-512: one instruction on 256 bits multiplies unsigned codes by signed quants and
//! adds four products. Codes are unpacked as for AVX2, and the sums are exact, so that the bits are the same.

use core::arch::x86_64::*;

use super::super::activations::Panel;
use super::avx2_dot::{Halves, lanes, store};
use super::words::{Lanes, Words};
use super::{Kind, Step};

/// Rows of activations whose sums stay in registers, with both halves of sixteen rows of weights.
pub(in crate::quant) const ROWS: usize = 4;

/// Adds to `out` Σ over steps of scale · scale · Σ code · quant, less the minima, for sixteen rows of weights and `M` rows of
/// activations.
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
pub(super) fn dot<const M: usize>(kind: Kind, steps: &[Step], x: Panel<'_, M>, out: &mut [Lanes; M]) {
    for (part, out) in out.chunks_mut(ROWS).enumerate() {
        let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
        for (sums, out) in sums.iter_mut().zip(&*out) {
            *sums = lanes(out);
        }
        let sums = match kind {
            Kind::Offset(offset) => some_rows::<M, 0>(steps, x, part * ROWS, offset.into(), sums),
            Kind::Minimum => some_rows::<M, 1>(steps, x, part * ROWS, 0, sums),
            Kind::TwoMinima => some_rows::<M, 2>(steps, x, part * ROWS, 0, sums),
        };
        store(out, sums);
    }
}

/// Adds the products of up to [`ROWS`] rows of activations, from row `first` of a panel on. Codes have this offset.
#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn some_rows<const M: usize, const MINIMA: usize>(
    steps: &[Step],
    x: Panel<'_, M>,
    first: usize,
    offset: i32,
    mut acc: [Halves<__m256>; ROWS],
) -> [Halves<__m256>; ROWS] {
    // The compiler knows how many rows there are, and omits the others.
    let rows = M.min(ROWS);
    for (step, x) in steps.iter().zip(x.blocks()) {
        let mut sums = [[_mm256_setzero_si256(); 2]; ROWS];
        if MINIMA == 0 {
            for (sums, x) in sums.iter_mut().zip(&x.sums[first..]).take(rows) {
                *sums = [_mm256_set1_epi32(-offset * x); 2];
            }
        }
        for (g, codes) in step.codes.iter().enumerate() {
            let codes = words(codes);
            for (sums, x) in sums.iter_mut().zip(&x.quants[first..]).take(rows) {
                let quants = _mm256_set1_epi32(x[g]);
                *sums = [0, 1].map(|h| _mm256_dpbusd_avx_epi32(sums[h], codes[h], quants));
            }
        }
        let scale = lanes(&step.scale);
        let minima = [lanes(&step.minima[0]), lanes(&step.minima[1])];
        for r in 0..rows {
            let (of_x, offsets) = (_mm256_set1_ps(x.scales[first + r]), x.offsets[first + r]);
            for h in 0..2 {
                let sum = _mm256_cvtepi32_ps(sums[r][h]);
                acc[r][h] = _mm256_fmadd_ps(sum, _mm256_mul_ps(scale[h], of_x), acc[r][h]);
                for (m, minima) in minima.iter().enumerate().take(MINIMA) {
                    let of_x = _mm256_set1_ps(if MINIMA == 1 { offsets.minus } else { offsets.halves[m] });
                    acc[r][h] = _mm256_fmadd_ps(minima[h], of_x, acc[r][h]);
                }
            }
        }
    }
    acc
}

#[inline]
#[target_feature(enable = "avx2")]
fn words(words: &Words) -> Halves<__m256i> {
    // SAFETY: eight of sixteen words.
    [0, 8].map(|at| unsafe { _mm256_loadu_si256(words.0[at..][..8].as_ptr().cast()) })
}

#[cfg(test)]
mod tests {
    use super::super::super::activations::Activations;
    use super::super::{Format, avx2_dot};
    use super::*;
    use crate::isa::{Isa, Level};

    /// Steps of random codes within the bits of a format.
    fn steps(format: Format, count: usize) -> Vec<Step> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        let byte = ((1u32 << format.bits()) - 1) * 0x0101_0101;
        let mut lanes = || std::array::from_fn(|_| next() as f32 / 1e7 - 0.7);
        let mut steps: Vec<Step> = (0..count)
            .map(|_| Step { codes: [Words([0; 16]); 8], scale: lanes(), minima: [lanes(), lanes()] })
            .collect();
        for word in steps.iter_mut().flat_map(|step| &mut step.codes).flat_map(|words| &mut words.0) {
            *word = (next() << 8 ^ next()) & byte;
        }
        steps
    }

    fn check<const M: usize>(format: Format) {
        let steps = steps(format, 9);
        let x: Vec<f32> = (0..M * 9 * 32).map(|i| ((i * i) % 101) as f32 - 49.0).collect();
        let x = Activations::new(Isa::best(), &x, 9 * 32).unwrap();
        let x = x.panel::<M>(0);
        let (mut old, mut new) = ([[1.0; 16]; M], [[1.0; 16]; M]);
        // SAFETY: the caller detected the features.
        unsafe {
            avx2_dot::dot(format, &steps, x, &mut old);
            dot(format.kind(false), &steps, x, &mut new);
        }
        assert_eq!(
            old.map(|row| row.map(f32::to_bits)),
            new.map(|row| row.map(f32::to_bits)),
            "{format:?} {M}"
        );
        assert!(old.iter().flatten().all(|y| y.is_finite() && *y != 0.0), "{format:?} {M}");
    }

    #[test]
    fn bits_are_those_of_avx2() {
        let Some(isa) = Isa::available().into_iter().find(|isa| isa.level() == Level::Avx2) else { return };
        if !isa.avx_vnni() {
            return;
        }
        for format in Format::ALL {
            check::<1>(format);
            check::<2>(format);
            check::<4>(format);
            check::<8>(format);
        }
    }
}
