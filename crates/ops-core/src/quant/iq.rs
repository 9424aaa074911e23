//! What the iq2 and iq3 formats share: values are grid entries, each with a sign.

/// The signs of eight values from seven bits. The eighth sign makes the number of negative values even.
pub(super) fn even_signs(bits: u32) -> u8 {
    let bits = (bits & 127) as u8;
    bits | (bits.count_ones() as u8 & 1) << 7
}

/// The eight magnitudes of an iq2 grid entry.
pub(super) fn eight(entry: u16) -> [f32; 8] {
    core::array::from_fn(|i| [8.0, 25.0, 43.0, 0.0][usize::from(entry >> (2 * i) & 3)])
}

/// The four magnitudes of an iq3 grid entry; `level` maps a level to its magnitude.
pub(super) fn four(entry: u16, level: fn(u16) -> f32) -> [f32; 4] {
    core::array::from_fn(|i| level(entry >> (3 * i) & 7))
}

/// Writes `scale · magnitude` with signs; bit `i` is the sign of value `i`.
pub(super) fn write(values: &mut [f32], scale: f32, magnitudes: &[f32], signs: u8) {
    for (i, (v, m)) in values.iter_mut().zip(magnitudes).enumerate() {
        *v = scale * if signs >> i & 1 == 1 { -m } else { *m };
    }
}

/// A little-endian word.
pub(super) fn word(bytes: &[u8]) -> u32 {
    bytes.iter().take(4).rev().fold(0, |word, byte| word << 8 | u32::from(*byte))
}
