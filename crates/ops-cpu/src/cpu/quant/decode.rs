//! Decoding rows of blocks, with the vectors of this processor for the usual formats.
use core::marker::PhantomData;
use ops_core::BlockInfo;
use ops_core::quant::{self as q, Block};
use ops_simd::{Isa, Simd, VectorFn};

/// Decodes a row of blocks.
type RowFn = fn(&[u8], &mut [f32]);

/// The formats whose decoder is compiled for each instruction set. Those of iq2 and iq3 look up grids, where vectors gain nothing.
static KNOWN: [(&BlockInfo, RowFn); 15] = [
    (&q::Q8_0, vectorized::<q::BlockQ8_0>),
    (&q::Q4_0, vectorized::<q::BlockQ4_0>),
    (&q::Q4_K, vectorized::<q::BlockQ4K>),
    (&q::Q5_K, vectorized::<q::BlockQ5K>),
    (&q::Q6_K, vectorized::<q::BlockQ6K>),
    (&q::Q4_1, vectorized::<q::BlockQ4_1>),
    (&q::Q5_0, vectorized::<q::BlockQ5_0>),
    (&q::Q5_1, vectorized::<q::BlockQ5_1>),
    (&q::Q8_1, vectorized::<q::BlockQ8_1>),
    (&q::Q2_K, vectorized::<q::BlockQ2K>),
    (&q::Q3_K, vectorized::<q::BlockQ3K>),
    (&q::Q8_K, vectorized::<q::BlockQ8K>),
    (&q::IQ4_NL, vectorized::<q::BlockIq4Nl>),
    (&q::IQ4_XS, vectorized::<q::BlockIq4Xs>),
    (&q::MXFP4, vectorized::<q::BlockMxfp4>),
];

/// Decodes rows of one format.
#[derive(Clone, Copy)]
pub(super) struct Decoder<'f> {
    format: &'f BlockInfo,
    known: Option<RowFn>,
}

impl<'f> Decoder<'f> {
    pub(super) fn of(format: &'f BlockInfo) -> Self {
        let known = KNOWN.iter().find(|(known, _)| **known == *format).map(|(_, row)| *row);
        Decoder { format, known }
    }

    /// Decodes a row of blocks.
    pub(super) fn row(self, blocks: &[u8], y: &mut [f32]) {
        if let Some(row) = self.known {
            return row(blocks, y);
        }
        let blocks = blocks.chunks_exact(self.format.bytes());
        let rows = y.chunks_exact_mut(self.format.values()).zip(blocks);
        rows.for_each(|(values, block)| self.format.decode(block, values));
    }
}

fn vectorized<Q: Block>(blocks: &[u8], y: &mut [f32]) {
    Isa::best().run(Row { blocks, y, format: PhantomData::<Q> });
}

struct Row<'a, Q> {
    blocks: &'a [u8],
    y: &'a mut [f32],
    format: PhantomData<Q>,
}

impl<Q: Block> VectorFn for Row<'_, Q> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        for (values, block) in self.y.chunks_exact_mut(Q::LEN).zip(self.blocks.chunks_exact(size_of::<Q>())) {
            bytemuck::pod_read_unaligned::<Q>(block).dequantize(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_decode_the_same_bits() {
        for format in q::FORMATS {
            let blocks: Vec<u8> =
                (0..9 * format.bytes()).map(|i| (i * i * 31 + i * 7) as u8 & 0xbb).collect();
            let mut rows = [vec![0.0f32; 9 * format.values()], vec![0.0f32; 9 * format.values()]];
            Decoder::of(format).row(&blocks, &mut rows[0]);
            Decoder { format, known: None }.row(&blocks, &mut rows[1]);
            let bits = rows.map(|row| row.into_iter().map(f32::to_bits).collect::<Vec<_>>());
            assert_eq!(bits[0], bits[1], "{}", format.name());
        }
    }
}
