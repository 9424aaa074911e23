//! The eight scales and minima of a super-block, six bits each, that `q4_k` and `q5_k` share.

/// Eight six-bit scales and eight six-bit minima in twelve bytes.
///
/// Bytes 0 to 3 hold scales 0 to 3 in their low six bits, bytes 4 to 7 the first four minima. The other four
/// pairs have the low four bits of scale and minimum in bytes 8 to 11, and the rest in the two high bits of
/// bytes 0 to 7.
pub(super) type Scales = [u8; 12];

/// The scale and the minimum of group `j`.
#[inline(always)]
pub(super) fn get(packed: &Scales, j: usize) -> (u8, u8) {
    if j < 4 {
        return (packed[j] & 63, packed[j + 4] & 63);
    }
    let low = packed[j + 4];
    (low & 15 | packed[j - 4] >> 6 << 4, low >> 4 | packed[j] >> 6 << 4)
}

/// Packs scales and minima below 64.
pub(super) fn pack(scales: [u8; 8], minima: [u8; 8]) -> Scales {
    let mut packed = [0; 12];
    for j in 0..4 {
        packed[j] = scales[j] | scales[j + 4] >> 4 << 6;
        packed[j + 4] = minima[j] | minima[j + 4] >> 4 << 6;
        packed[j + 8] = scales[j + 4] & 15 | minima[j + 4] << 4;
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_found_again() {
        let (scales, minima) = ([63, 1, 32, 15, 16, 48, 7, 62], [0, 63, 17, 40, 5, 33, 60, 31]);
        let packed = pack(scales, minima);
        for j in 0..8 {
            assert_eq!(get(&packed, j), (scales[j], minima[j]), "{j}");
        }
    }
}
