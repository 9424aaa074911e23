//! What this backend has for each block format: a decoder compiled for this processor's vectors, and integer kernels.
use core::marker::PhantomData;
use ops_core::quant::{self as q, Block};
use ops_core::{BlockInfo, DType};
use ops_simd::quant::Format;
use ops_simd::{Isa, Simd, VectorFn};

/// Decodes a row of blocks.
type RowFn = fn(&[u8], &mut [f32]);

/// What this backend has for a format beside the format's row in `ops-core`.
#[derive(Clone, Copy)]
struct Known {
    row: RowFn,
    simd: Format,
}

type Table = [Option<Known>; q::FORMATS.len()];

/// The formats whose decoder is compiled for each instruction set and which have integer kernels, by the format's index. Those of iq2
/// and iq3 look up grids, where vectors gain nothing.
static KNOWN: Table = {
    let table = [None; q::FORMATS.len()];
    let table = with::<q::BlockQ8_0>(table, Format::Q8_0);
    let table = with::<q::BlockQ4_0>(table, Format::Q4_0);
    let table = with::<q::BlockQ4K>(table, Format::Q4K);
    let table = with::<q::BlockQ5K>(table, Format::Q5K);
    let table = with::<q::BlockQ6K>(table, Format::Q6K);
    let table = with::<q::BlockQ4_1>(table, Format::Q4_1);
    let table = with::<q::BlockQ5_0>(table, Format::Q5_0);
    let table = with::<q::BlockQ5_1>(table, Format::Q5_1);
    let table = with::<q::BlockQ8_1>(table, Format::Q8_1);
    let table = with::<q::BlockQ2K>(table, Format::Q2K);
    let table = with::<q::BlockQ3K>(table, Format::Q3K);
    let table = with::<q::BlockQ8K>(table, Format::Q8K);
    let table = with::<q::BlockIq4Nl>(table, Format::Iq4Nl);
    let table = with::<q::BlockIq4Xs>(table, Format::Iq4Xs);
    with::<q::BlockMxfp4>(table, Format::Mxfp4)
};

/// The table with a format in its place.
const fn with<Q: Block>(mut table: Table, simd: Format) -> Table {
    let DType::Block(info) = Q::DTYPE else { panic!("a block whose type is not one of blocks") };
    let Some(index) = info.index() else { panic!("a format of another crate") };
    let (values, bytes) = simd.block();
    assert!(values == Q::LEN && bytes == size_of::<Q>(), "blocks of ops-simd have other sizes");
    assert!(table[index].is_none(), "a format that is listed twice");
    table[index] = Some(Known { row: vectorized::<Q>, simd });
    table
}

/// The integer kernels' format for `dtype`, if they have it.
pub(in crate::cpu) fn simd_format(dtype: DType) -> Option<Format> {
    let DType::Block(format) = dtype else { return None };
    Decoder::of(format).simd()
}

/// Decodes rows of one format.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Decoder<'f> {
    format: &'f BlockInfo,
    known: Option<Known>,
}

impl<'f> Decoder<'f> {
    pub(in crate::cpu) fn of(format: &'f BlockInfo) -> Self {
        Decoder { format, known: format.index().and_then(|index| KNOWN[index]) }
    }

    /// The format of the integer kernels.
    pub(super) fn simd(self) -> Option<Format> {
        Some(self.known?.simd)
    }

    /// Decodes a row of blocks.
    pub(super) fn row(self, blocks: &[u8], y: &mut [f32]) {
        if let Some(known) = self.known {
            return (known.row)(blocks, y);
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
    use ops_simd::quant::{Sums, rounds_activations};

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

    #[test]
    fn every_format_with_integer_kernels_is_found() {
        for simd in Format::ALL {
            let found = q::FORMATS.iter().filter(|format| Decoder::of(format).simd() == Some(simd));
            assert_eq!(found.count(), 1, "{simd:?}");
        }
    }

    #[test]
    fn the_page_says_which_formats_are_read_in_place() {
        let page = include_str!("../../../../../docs/formats.md");
        for &format in q::FORMATS {
            let simd = Decoder::of(format).simd();
            let first = (1..1000).find(|rows| rounds_activations(simd, *rows, 1000, Sums::Any));
            let want = match (simd, first) {
                (Some(simd), Some(1)) if simd.in_place().is_some() => "codes, in place".to_owned(),
                (Some(_), Some(1)) => "codes".to_owned(),
                (None, Some(rows)) => format!("rounded, from {rows} rows"),
                other => panic!("{}: {other:?}", format.name()),
            };
            let row = page.lines().find(|line| line.starts_with(&format!("| {} |", format.name())));
            let last = row.and_then(|row| row.trim_end_matches(" |").rsplit(" | ").next());
            assert_eq!(last, Some(&*want), "docs/formats.md: the last column of {}", format.name());
        }
    }
}
