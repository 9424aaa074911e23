//! Conversion from wide to narrow floats with a single rounding.
//!
//! Rounding twice (`f64` to `f32` to `f16`) gives wrong results near ties. Rounding *to odd* in the first step records in the
//! last bit whether anything was cut off, so the second step rounds as if it were the only one:
//! Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", IEEE Trans. Computers 2008.
use half::{bf16, f16};

/// `v` in `f32`, truncated toward zero, with the last bit set if anything was cut off.
fn odd_f32(v: f64) -> f32 {
    let near = v as f32;
    if f64::from(near) == v || v.is_nan() {
        return near;
    }
    if near.is_infinite() {
        // Too large for f32, and so for every narrower type. The largest finite f32 still overflows there.
        return if v.is_infinite() { near } else { f32::MAX.copysign(near) };
    }
    let cut = if f64::from(near).abs() > v.abs() { near.to_bits() - 1 } else { near.to_bits() };
    f32::from_bits(cut | 1)
}

/// `v` in `f16`, rounded to nearest even.
pub(super) fn f16_from_f64(v: f64) -> f16 {
    f16::from_f32(odd_f32(v))
}

/// `v` in `bf16`, rounded to nearest even.
pub(super) fn bf16_from_f64(v: f64) -> bf16 {
    bf16::from_f32(odd_f32(v))
}

/// `v` in `f64`, truncated toward zero, with the last bit set if anything was cut off.
pub(super) fn i64_to_odd_f64(v: i64) -> f64 {
    let magnitude = v.unsigned_abs();
    let excess = (64 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> excess;
    let sticky = u64::from(kept << excess != magnitude);
    let odd = (kept | sticky) as f64 * (1u64 << excess) as f64;
    if v < 0 { -odd } else { odd }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ties_round_by_the_full_value() {
        // 1 + 2^-11 is a tie of f16 between 1 and 1 + 2^-10; anything above it must round up.
        let tie = 1.0 + (-11f64).exp2();
        assert_eq!(f16_from_f64(tie), f16::ONE);
        assert_eq!(f16_from_f64(tie + (-40f64).exp2()).to_f64(), 1.0 + (-10f64).exp2());
        assert_eq!(bf16_from_f64(1.0 + (-8f64).exp2() + (-40f64).exp2()).to_f64(), 1.0 + (-7f64).exp2());
    }

    #[test]
    fn every_f16_survives_and_so_do_its_neighbourhoods() {
        for bits in 0..=u16::MAX {
            let h = f16::from_bits(bits);
            if h.is_nan() {
                assert!(f16_from_f64(h.to_f64()).is_nan());
                continue;
            }
            assert_eq!(f16_from_f64(h.to_f64()).to_bits(), bits);
            if h.is_finite() {
                let nudged = f64::from_bits(h.to_f64().to_bits() ^ 1);
                assert_eq!(f16_from_f64(nudged).to_f64(), h.to_f64());
            }
        }
    }

    #[test]
    fn overflow_is_infinite() {
        assert_eq!(f16_from_f64(65519.999), f16::MAX);
        assert_eq!(f16_from_f64(65520.0), f16::INFINITY);
        assert_eq!(f16_from_f64(1e300), f16::INFINITY);
        assert_eq!(bf16_from_f64(-1e300), bf16::NEG_INFINITY);
        assert_eq!(bf16_from_f64(f64::NEG_INFINITY), bf16::NEG_INFINITY);
    }

    #[test]
    fn integers_keep_a_sticky_bit() {
        assert_eq!(i64_to_odd_f64(-7), -7.0);
        assert_eq!(i64_to_odd_f64((1 << 60) + 1), (1i64 << 60) as f64 + 256.0);
        assert_eq!(i64_to_odd_f64(i64::MIN), i64::MIN as f64);
    }
}
