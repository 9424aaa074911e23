//! Conversions between all scalar types, from the formats' definitions, without code from `ops-core`.
use ops_core::{DType, Wide};

/// A binary float format: significant bits, smallest normal exponent, largest value.
struct Format {
    precision: i32,
    lowest: i32,
    largest: f64,
    /// Whether values beyond the largest become the largest instead of infinity.
    saturates: bool,
}

impl Format {
    fn of(dtype: DType) -> Self {
        let (precision, lowest, largest, saturates) = match dtype {
            DType::F16 => (11, -14, 65504.0, false),
            DType::BF16 => (8, -126, (2.0 - 2f64.powi(-7)) * 2f64.powi(127), false),
            DType::F32 => (24, -126, (2.0 - 2f64.powi(-23)) * 2f64.powi(127), false),
            DType::F8E4M3 => (4, -6, 448.0, true),
            _ => (53, -1022, f64::MAX, false),
        };
        Format { precision, lowest, largest, saturates }
    }

    /// Rounds `mantissa · 2^exponent` to nearest, ties to even.
    fn round(&self, mantissa: u64, exponent: i32) -> f64 {
        if mantissa == 0 {
            return 0.0;
        }
        let top = exponent + 63 - mantissa.leading_zeros() as i32;
        let quantum = (top - (self.precision - 1)).max(self.lowest - (self.precision - 1));
        let cut = quantum - exponent;
        let units = if cut <= 0 {
            u128::from(mantissa) << -cut
        } else if cut > 64 {
            0
        } else {
            let (whole, rest) = (u128::from(mantissa) >> cut, u128::from(mantissa) & ((1 << cut) - 1));
            let half = 1u128 << (cut - 1);
            whole + u128::from(rest > half || rest == half && whole & 1 == 1)
        };
        // In two steps: neither factor leaves the range of f64, and the product is exact.
        let value = units as f64 * 2f64.powi(quantum / 2) * 2f64.powi(quantum - quantum / 2);
        match (value > self.largest, self.saturates) {
            (false, _) => value,
            (true, true) => self.largest,
            (true, false) => f64::INFINITY,
        }
    }

    fn of_value(&self, v: f64) -> f64 {
        if v.is_nan() || v == 0.0 {
            return v;
        }
        if v.is_infinite() {
            return if self.saturates { self.largest.copysign(v) } else { v };
        }
        let (exponent, fraction) = ((v.to_bits() >> 52 & 0x7ff) as i32, v.to_bits() & ((1 << 52) - 1));
        let (mantissa, exponent) =
            if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) };
        self.round(mantissa, exponent).copysign(v)
    }
}

/// Bits of an integer type, and whether it is signed.
pub(super) fn width(dtype: DType) -> Option<(u32, bool)> {
    Some(match dtype {
        DType::U8 => (8, false),
        DType::U32 => (32, false),
        DType::I8 => (8, true),
        DType::I16 => (16, true),
        DType::I32 => (32, true),
        DType::I64 => (64, true),
        _ => return None,
    })
}

/// The value modulo the type's range.
pub(super) fn wrap(v: i128, (bits, signed): (u32, bool)) -> i64 {
    let low = v.rem_euclid(1 << bits);
    let over = signed && low >= 1 << (bits - 1);
    (if over { low - (1 << bits) } else { low }) as i64
}

/// Truncates and saturates; NaN gives 0.
pub(super) fn to_integer(v: f64, (bits, signed): (u32, bool)) -> i64 {
    let (low, high) =
        if signed { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) };
    // Through i128, which represents the truncation of anything that does not saturate.
    let whole = if v.is_nan() { 0 } else { v.trunc().clamp(-1e30, 1e30) as i128 };
    whole.clamp(low, high) as i64
}

/// Converts a value to another type, by the contract's rules.
pub(in crate::suite) fn convert(v: Wide, to: DType) -> Wide {
    match (v, width(to)) {
        (Wide::Int(v), Some(range)) => Wide::Int(wrap(v.into(), range)),
        (Wide::Float(v), Some(range)) => Wide::Int(to_integer(v, range)),
        (Wide::Int(v), None) => {
            let magnitude = Format::of(to).round(v.unsigned_abs(), 0);
            Wide::Float(if v < 0 { -magnitude } else { magnitude })
        }
        (Wide::Float(v), None) => Wide::Float(Format::of(to).of_value(v)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_roundings() {
        let float = |v, to| match convert(Wide::Float(v), to) {
            Wide::Float(v) => v,
            Wide::Int(v) => v as f64,
        };
        assert_eq!(float(0.1, DType::F32), f64::from(0.1f32));
        assert_eq!(float(1e-40, DType::F32), f64::from(1e-40f32));
        assert_eq!(float(65519.0, DType::F16), 65504.0);
        assert_eq!(float(65520.0, DType::F16), f64::INFINITY);
        assert_eq!(float(-1e9, DType::F8E4M3), -448.0);
        assert_eq!(float(300.7, DType::U8), 255.0);
        assert_eq!(float(-1.9, DType::I8), -1.0);
        assert_eq!(float(f64::NAN, DType::I64), 0.0);
        assert_eq!(float(f64::MIN_POSITIVE / 2.0, DType::F64), f64::MIN_POSITIVE / 2.0);
        assert_eq!(convert(Wide::Int(300), DType::U8), Wide::Int(44));
        assert_eq!(convert(Wide::Int(-1), DType::U32), Wide::Int(i64::from(u32::MAX)));
        assert_eq!(convert(Wide::Int(i64::MAX), DType::F32), Wide::Float(2f64.powi(63)));
    }

    #[test]
    fn every_neighbourhood_of_f32_agrees_with_the_hardware() {
        let mut bits = 0u64;
        for _ in 0..100_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let v = f64::from_bits(bits);
            let Wide::Float(got) = convert(Wide::Float(v), DType::F32) else { unreachable!() };
            assert!(got == f64::from(v as f32) || v.is_nan(), "{v:e}");
            let Wide::Float(got) = convert(Wide::Int(bits as i64), DType::F32) else { unreachable!() };
            assert_eq!(got, f64::from(bits as i64 as f32));
        }
    }
}
