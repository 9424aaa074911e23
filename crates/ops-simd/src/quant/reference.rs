//! The same products in plain loops over the blocks, with exact integers and scales in f64.

use half::f16;

use super::activations::Activations;
use super::blocks::{BLOCK, check, scale_bits};
use super::formats::TileFormat;
use crate::error::{Error, same_len};

/// The quantized weights of a block, without the zero point, and its scale.
pub fn unpack(format: TileFormat, block: &[u8]) -> ([i8; BLOCK], f32) {
    let mut quants = [0; BLOCK];
    match format {
        TileFormat::Q8_0 => {
            for (quant, byte) in quants.iter_mut().zip(&block[2..]) {
                *quant = *byte as i8;
            }
        }
        TileFormat::Q4_0 => {
            for (i, byte) in block[2..].iter().enumerate() {
                quants[i] = (byte & 15) as i8 - 8;
                quants[16 + i] = (byte >> 4) as i8 - 8;
            }
        }
    }
    (quants, f16::from_bits(scale_bits(block)).to_f32())
}

/// y = x·Wᵀ for W of `n` rows in blocks; y is `[rows of x, n]`.
///
/// # Errors
/// [`Error::Length`] or [`Error::Multiple`] if the lengths do not match.
pub fn multiply(format: TileFormat, raw: &[u8], n: usize, x: &Activations) -> Result<Vec<f64>, Error> {
    let blocks = check(format.block_bytes(), raw.len(), n, x.k())?;
    let row_bytes = blocks.saturating_mul(format.block_bytes());
    let mut y = Vec::with_capacity(n.saturating_mul(x.rows()));
    for i in 0..x.rows() {
        for j in 0..n {
            y.push(dot(format, &raw[j * row_bytes..][..row_bytes], x, i)?);
        }
    }
    Ok(y)
}

/// The dot product of a row of blocks and row `i` of the activations, which must exist.
///
/// # Errors
/// [`Error::Length`] if the rows differ in length.
pub fn dot(format: TileFormat, row: &[u8], x: &Activations, i: usize) -> Result<f64, Error> {
    same_len("row", row.len(), (x.k() / BLOCK).saturating_mul(format.block_bytes()))?;
    let mut total = 0.0;
    for (b, block) in row.chunks_exact(format.block_bytes()).enumerate() {
        let (quants, scale) = unpack(format, block);
        let (x_quants, x_scale) = x.block(i, b);
        let sum: i32 = quants.iter().zip(x_quants).map(|(w, x)| i32::from(*w) * i32::from(*x)).sum();
        total += f64::from(sum) * f64::from(scale) * f64::from(x_scale);
    }
    for (column, value) in x.outliers().of_row(i) {
        let (quants, scale) = unpack(format, &row[column / BLOCK * format.block_bytes()..]);
        total += f64::from(quants[column % BLOCK]) * f64::from(scale) * f64::from(value);
    }
    Ok(total)
}
