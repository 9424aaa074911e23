//! The 8-bit float E4M3 of the OCP specification, in its finite form with one NaN per sign ("fn").

/// A float with four exponent bits (bias 7), three mantissa bits and no infinities. Its largest value is 448, its smallest
/// positive value 2⁻⁹.
///
/// Open Compute Project, "OCP 8-bit Floating Point Specification (OFP8)", revision 1.0, 2023.
#[derive(Clone, Copy, Default, PartialEq, Eq, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct F8E4M3(u8);

impl F8E4M3 {
    /// The largest finite value.
    pub const MAX: f64 = 448.0;
    const NAN: u8 = 0x7f;

    /// From the stored byte.
    pub const fn from_bits(bits: u8) -> Self {
        F8E4M3(bits)
    }

    /// The stored byte.
    pub const fn to_bits(self) -> u8 {
        self.0
    }

    /// Rounds to nearest even. Values beyond ±448, infinities included, saturate to ±448.
    pub fn from_f64(v: f64) -> Self {
        let sign = u8::from(v.is_sign_negative()) << 7;
        let a = v.abs();
        if a.is_nan() {
            return F8E4M3(sign | Self::NAN);
        }
        if a >= Self::MAX {
            return F8E4M3(sign | 0x7e);
        }
        // The exponent of the leading bit, but at least that of the subnormals.
        let exponent = if a < (-6f64).exp2() { -6 } else { ((a.to_bits() >> 52) as i32) - 1023 };
        let units = (a * f64::from(3 - exponent).exp2()).round_ties_even() as u8;
        // `units` counts eighths. Values below 8 are subnormal, and a carry to 16 increments the exponent by itself.
        let biased = (exponent + 6) as u8;
        F8E4M3(sign | ((biased << 3) + units))
    }
}

impl From<F8E4M3> for f64 {
    fn from(v: F8E4M3) -> f64 {
        let (exponent, mantissa) = (i32::from(v.0 >> 3 & 15), f64::from(v.0 & 7));
        let magnitude = match (exponent, v.0 & 7) {
            (15, 7) => f64::NAN,
            (0, _) => mantissa * (-9f64).exp2(),
            _ => (8.0 + mantissa) * f64::from(exponent - 10).exp2(),
        };
        if v.0 >> 7 == 1 { -magnitude } else { magnitude }
    }
}

impl core::fmt::Debug for F8E4M3 {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f64::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives() {
        for bits in 0..=u8::MAX {
            let v = f64::from(F8E4M3(bits));
            if v.is_nan() {
                assert_eq!(F8E4M3::from_f64(v).0 & 0x7f, 0x7f);
            } else {
                assert_eq!(F8E4M3::from_f64(v).0, bits, "{v}");
            }
        }
    }

    #[test]
    fn halves_go_to_the_even_neighbour_and_the_top_saturates() {
        let (mut previous, mut bits) = (0.0, 0u8);
        for next_bits in 1..0x7fu8 {
            let next = f64::from(F8E4M3(next_bits));
            let even = if bits & 1 == 0 { bits } else { next_bits };
            assert_eq!(F8E4M3::from_f64((previous + next) / 2.0).0, even);
            assert_eq!(
                F8E4M3::from_f64(f64::from_bits(((previous + next) / 2.0).to_bits() + 1)).0,
                next_bits
            );
            (previous, bits) = (next, next_bits);
        }
        assert_eq!(previous, 448.0);
        assert_eq!(f64::from(F8E4M3::from_f64(1e9)), 448.0);
        assert_eq!(f64::from(F8E4M3::from_f64(f64::NEG_INFINITY)), -448.0);
    }
}
