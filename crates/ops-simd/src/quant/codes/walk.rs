//! The order in which weights are unpacked into steps and multiplied by the activations.

use std::ops::Range;

use super::super::activations::{Activations, Panel, Unit};
use super::super::blocks::{BLOCK, TILE_ROWS};
use super::super::outliers::{ByRow, Columns};
use super::super::panels::panel_rows;
#[cfg(target_arch = "aarch64")]
use super::neon;
use super::words::Lanes;
use super::{Format, Kind, PAIR, Step, plain};
#[cfg(target_arch = "x86_64")]
use super::{amx, avx_vnni, avx2_dot, avx512};
use crate::gemm::MatMut;
use crate::isa::Isa;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use crate::isa::Level;
use crate::scratch::{Aligned, Scratch};
use crate::simd::{Simd, VectorFn};

/// Columns that are unpacked at a time.
const COLUMNS: usize = 2048;
/// Tiles unpacked, this many columns each, before the activations are multiplied by them, if there are more
/// than [`FEW_ROWS`] rows of activations: the tiles stay in the L2 cache, and the activations, which do not,
/// are read less often.
const MANY_TILES: usize = 8;
/// As [`MANY_TILES`], for few activations, which stay in the cache.
const FEW_TILES: usize = 2;
/// See [`MANY_TILES`].
const FEW_ROWS: usize = 64;
/// With few activations, the columns of this many tiles are kept before products are added: all columns of a wide weight would take
/// megabytes.
const OUTLIER_TILES: usize = 64;
/// With more columns than this, only those of the tiles that are multiplied together are kept.
const OUTLIER_COLUMNS: usize = 256;

/// y = x·Wᵀ, where W has this many tiles. `unpack` makes steps of these blocks of a tile.
pub(super) fn multiply(
    isa: Isa,
    format: Format,
    tiles: usize,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    unpack: impl FnMut(usize, Range<usize>, &mut [Step]),
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(unit) = amx::unit(isa, x.rows()) {
        return multiply_on(&unit, isa, format, tiles, x, y, unpack);
    }
    multiply_in_vectors(isa, format, tiles, x, y, unpack);
}

/// The product with vectors alone.
pub(super) fn multiply_in_vectors(
    isa: Isa,
    format: Format,
    tiles: usize,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    unpack: impl FnMut(usize, Range<usize>, &mut [Step]),
) {
    each_columns((isa, format), tiles, x, y, unpack, |tiles, first, y, j| {
        multiply_columns(isa, format, tiles, x, 0, first, y, j);
    });
}

/// The product with a matrix unit for the panels of eight rows, where `isa` has AVX-512 VNNI.
#[cfg(target_arch = "x86_64")]
pub(super) fn multiply_on<U: amx::Unit>(
    unit: &U,
    isa: Isa,
    format: Format,
    tiles: usize,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    unpack: impl FnMut(usize, Range<usize>, &mut [Step]),
) {
    assert_eq!(isa.level(), Level::Avx512Vnni);
    let (kind, mut ring) = (format.kind(true), amx::EMPTY);
    each_columns((isa, format), tiles, x, y, unpack, |tiles, first, y, j| {
        multiply_columns(isa, format, tiles, x, x.rows() / amx::ROWS * amx::ROWS, first, y, j);
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        unsafe {
            if matches!(kind, Kind::Offset(_)) {
                tiles.iter_mut().for_each(|steps| amx::sign(steps));
            }
            amx::multiply_columns((unit, &mut ring), kind, tiles, x, first, y, j);
        }
    });
}

/// Calls `multiply` with some columns of some tiles, the first of their blocks, y, and the first of their columns of y. Adds the products
/// of outliers last.
fn each_columns(
    (isa, format): (Isa, Format),
    tiles: usize,
    x: &Activations,
    y: &mut MatMut<'_, f32>,
    mut unpack: impl FnMut(usize, Range<usize>, &mut [Step]),
    mut multiply: impl FnMut(&mut [&mut [Step]], usize, &mut MatMut<'_, f32>, usize),
) {
    let blocks = x.k() / BLOCK;
    let each = blocks.clamp(1, COLUMNS / BLOCK);
    let together = if x.rows() > FEW_ROWS { MANY_TILES } else { FEW_TILES };
    let mut steps = Scratch::<Step>::new(together * each);
    // The products of outliers are added to as many tiles at a time. For few rows, many at a time cost least.
    let outliers = x.outliers();
    let few = x.rows() <= FEW_ROWS && outliers.columns() <= OUTLIER_COLUMNS;
    let group = if few { OUTLIER_TILES } else { together };
    let mut columns = Columns::new(outliers, group.min(tiles.next_multiple_of(together)) * TILE_ROWS);
    for tile in (0..tiles).step_by(together) {
        let count = together.min(tiles - tile);
        for first in (0..blocks).step_by(each) {
            let part = first..blocks.min(first + each);
            let mut ready: [&mut [Step]; MANY_TILES] = Default::default();
            for (t, (ready, steps)) in
                ready.iter_mut().zip(steps.chunks_exact_mut(each)).take(count).enumerate()
            {
                *ready = &mut steps[..part.len()];
                unpack(tile + t, part.clone(), ready);
            }
            read_columns(isa, format, (&mut ready[..count], tile % group), part, outliers, &mut columns);
            multiply(&mut ready[..count], first, y, tile * TILE_ROWS);
        }
        let end = tile + count;
        if end == tiles || end.is_multiple_of(group) {
            outliers.add(isa, &columns, y, tile / group * group * TILE_ROWS);
        }
    }
}

/// Copies the columns that have outliers out of these blocks of `tiles`; `first` is the first tile's index in `columns`.
fn read_columns(
    isa: Isa,
    format: Format,
    (tiles, first): (&mut [&mut [Step]], usize),
    blocks: Range<usize>,
    outliers: &ByRow,
    columns: &mut Columns,
) {
    if outliers.is_empty() {
        return;
    }
    if let Some(kind) = format.plain_codes(isa) {
        return isa.run(Read { kind, tiles, first, blocks, outliers, columns });
    }
    // Products with a row of zeros with a single 1.
    for (at, column) in outliers.within(blocks.start * BLOCK..blocks.end * BLOCK) {
        let (unit, b) = (Unit::new(column % BLOCK), column / BLOCK - blocks.start);
        let pairs = columns.column(at)[first * TILE_ROWS..].chunks_mut(PAIR * TILE_ROWS);
        for (tiles, weights) in tiles.chunks_mut(PAIR).zip(pairs) {
            let (mut pair, count) = (<[&mut [Step]; PAIR]>::default(), tiles.len());
            pair.iter_mut().zip(tiles).for_each(|(step, tile)| *step = &mut tile[b..=b]);
            add(isa, format, &pair[..count], unit.panel(), true, &mut MatMut::of_row(weights), (0, 0));
        }
    }
}

/// Reads columns by decoding their codes, for formats whose codes all decode by one formula.
struct Read<'a, 't> {
    kind: Kind,
    tiles: &'a [&'t mut [Step]],
    first: usize,
    blocks: Range<usize>,
    outliers: &'a ByRow,
    columns: &'a mut Columns,
}

impl VectorFn for Read<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Read { kind, tiles, first, blocks, outliers, columns } = self;
        for (at, column) in outliers.within(blocks.start * BLOCK..blocks.end * BLOCK) {
            let (b, c) = (column / BLOCK - blocks.start, column % BLOCK);
            let weights = &mut columns.column(at)[first * TILE_ROWS..];
            for (weights, steps) in weights.as_chunks_mut::<TILE_ROWS>().0.iter_mut().zip(tiles) {
                let step = &steps[b];
                let (offset, minima) = match kind {
                    Kind::Offset(offset) => (f32::from(offset), &[0.0; TILE_ROWS]),
                    Kind::Minimum => (0.0, &step.minima[0]),
                    Kind::TwoMinima => (0.0, &step.minima[c / (BLOCK / 2)]),
                };
                let codes: &Lanes = bytemuck::cast_ref(&step.codes[c / 4].0);
                for r in (0..TILE_ROWS).step_by(S::LANES) {
                    let codes = s.from_i32(byte(s, s.to_bits(s.load(&codes[r..])), c % 4));
                    let scaled = s.mul(s.sub(codes, s.splat(offset)), s.load(&step.scale[r..]));
                    s.store(&mut weights[r..], s.sub(scaled, s.load(&minima[r..])));
                }
            }
        }
    }
}

/// Byte `j` of each word.
#[inline(always)]
fn byte<S: Simd>(s: S, words: S::I, j: usize) -> S::I {
    let shifted = match j {
        0 => words,
        1 => s.shr_arith::<8>(words),
        2 => s.shr_arith::<16>(words),
        _ => s.shr_arith::<24>(words),
    };
    s.and_i(shifted, s.splat_i(255))
}

/// Multiplies these columns of some tiles, from block `first` on, by the activations from row `i` on. Adds to the columns of y from
/// `j` on, or sets them if the columns are the first.
#[expect(clippy::too_many_arguments, reason = "two operands, the result, and where they are")]
fn multiply_columns(
    isa: Isa,
    format: Format,
    tiles: &[&mut [Step]],
    x: &Activations,
    mut i: usize,
    first: usize,
    y: &mut MatMut<'_, f32>,
    j: usize,
) {
    while i < x.rows() {
        match panel_rows(i, x.rows()) {
            8 => panel::<8>(isa, format, tiles, x.panel(i), first, y, (i, j)),
            4 => panel::<4>(isa, format, tiles, x.panel(i), first, y, (i, j)),
            2 => panel::<2>(isa, format, tiles, x.panel(i), first, y, (i, j)),
            _ => panel::<1>(isa, format, tiles, x.panel(i), first, y, (i, j)),
        }
        i += panel_rows(i, x.rows());
    }
}

fn panel<const M: usize>(
    isa: Isa,
    format: Format,
    tiles: &[&mut [Step]],
    x: Panel<'_, M>,
    first: usize,
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
) {
    let x = x.from(first);
    for (pair, tiles) in tiles.chunks(PAIR).enumerate() {
        add(isa, format, tiles, x, first == 0, y, (i, j + pair * PAIR * TILE_ROWS));
    }
}

/// Adds the products to y, or sets y if `fresh`.
fn add<const M: usize>(
    isa: Isa,
    format: Format,
    tiles: &[&mut [Step]],
    x: Panel<'_, M>,
    fresh: bool,
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
) {
    #[cfg(target_arch = "x86_64")]
    if isa.level() == Level::Avx512Vnni {
        let kind = format.kind(true);
        // SAFETY: this level exists only after AVX-512 F, BW, DQ, VL and VNNI were detected.
        return unsafe {
            match tiles {
                [a, b] => avx512::add(kind, [a, b], x, fresh, y, (i, j)),
                [a] => avx512::add(kind, [a], x, fresh, y, (i, j)),
                _ => {}
            }
        };
    }
    #[cfg(target_arch = "aarch64")]
    if isa.level() != Level::Portable {
        for (t, steps) in tiles.iter().enumerate() {
            neon::add(isa.level(), format, steps, x, fresh, y, (i, j + t * TILE_ROWS));
        }
        return;
    }
    for (t, steps) in tiles.iter().enumerate() {
        let mut sums = Aligned([[0.0; TILE_ROWS]; M]);
        let j = j + t * TILE_ROWS;
        if !fresh {
            each(y, (i, j), &mut sums.0, |y, sums| sums.copy_from_slice(y));
        }
        add_dot(isa, format, steps, x, &mut sums.0);
        each(y, (i, j), &mut sums.0, |y, sums| y.copy_from_slice(sums));
    }
}

/// Calls `f` with the numbers of each row that y has from this row and column on, and with their sums.
fn each<const M: usize>(
    y: &mut MatMut<'_, f32>,
    (i, j): (usize, usize),
    sums: &mut [Lanes; M],
    f: impl Fn(&mut [f32], &mut [f32]),
) {
    for (r, sums) in sums.iter_mut().enumerate() {
        let y = &mut y.row_mut(i + r)[j..];
        let count = y.len().min(TILE_ROWS);
        f(&mut y[..count], &mut sums[..count]);
    }
}

/// Adds the products with a tile's columns.
fn add_dot<const M: usize>(isa: Isa, format: Format, steps: &[Step], x: Panel<'_, M>, out: &mut [Lanes; M]) {
    match isa.level() {
        // SAFETY: AVX-VNNI was detected, and this level exists only after AVX2, FMA and F16C were.
        #[cfg(target_arch = "x86_64")]
        _ if isa.avx_vnni() => unsafe { avx_vnni::dot(format.kind(false), steps, x, out) },
        // SAFETY: these levels exist only after AVX2, FMA and F16C were detected.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 | Level::Avx512Vnni => unsafe {
            match format.group_bits() {
                Some(bits) => avx2_dot::dot_groups(bits, steps, x, out),
                None => avx2_dot::dot(format, steps, x, out),
            }
        },
        _ => plain::dot(format.kind(false), steps, x, out),
    }
}
