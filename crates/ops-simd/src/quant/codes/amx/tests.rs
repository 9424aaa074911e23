//! Bits of the vector kernel, compared with those of the matrix unit, if there is one, and of a plain Rust
//! replacement.

use std::ops::Range;

use super::super::super::{TileFormat, Tiles, multiply_tiles};
use super::super::{Format, multiply_tiles_on, walk};
use super::*;
use crate::isa::{Isa, Level};

/// Computes in plain Rust what the instructions compute.
struct Plain;

impl Unit for Plain {
    fn multiply<const SIGNED: bool, const ODD: bool>(
        &self,
        quants: &[[i32; WORDS]; ROWS],
        codes: [&[Words; 8]; PAIR],
        sums: &mut Sums,
    ) {
        let code = |code: u8| if SIGNED { i32::from(code as i8) } else { i32::from(code) };
        for (sums, codes) in sums.0.iter_mut().zip(codes) {
            for (sums, quants) in sums.iter_mut().zip(quants) {
                for (n, sum) in sums.iter_mut().enumerate() {
                    let columns = quants.iter().zip(codes).flat_map(|(quants, codes)| {
                        quants.to_le_bytes().into_iter().zip(codes.0[n].to_le_bytes())
                    });
                    *sum = columns.map(|(q, c)| i32::from(q as i8) * code(c)).sum();
                }
            }
        }
    }
}

/// The next pseudo-random number.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
    *state >> 33
}

/// Blocks of random codes. Every f16 in them is below 2 in magnitude, wherever a format has its scales.
fn weights(format: Format, blocks: usize, state: &mut u64) -> Vec<u8> {
    let mut raw: Vec<u8> = (0..blocks * format.block().1).map(|_| next(state) as u8).collect();
    for block in raw.chunks_exact_mut(format.block().1) {
        match format {
            Format::Mxfp4 => block[0] = 120 + block[0] % 8,
            Format::Q8K => block[..4].copy_from_slice(&0.37f32.to_le_bytes()),
            _ => block.chunks_exact_mut(2).for_each(|half| half[1] &= 0xbf),
        }
    }
    raw
}

type Bits = Vec<u32>;

/// The bits of products of `m` rows of activations with `n` rows of weights, in every way they can be
/// computed.
fn products(isa: Isa, format: Format, [m, n, blocks]: [usize; 3]) -> (Bits, Vec<Bits>) {
    let (k, mut state) = (blocks * format.block().0, (m * n * blocks) as u64);
    let raw = weights(format, n * blocks, &mut state);
    let x: Vec<f32> = (0..m * k).map(|_| next(&mut state) as f32 / 1e9 - 1.0).collect();
    let x = Activations::new(isa, &x, k).unwrap();
    let product = |f: &dyn Fn(&mut MatMut<'_, f32>)| {
        // Columns outside the product must not be written.
        let mut y = vec![7f32; m * (n + 3)];
        f(&mut MatMut::new(&mut y, m, n, n + 3).unwrap());
        y.iter().map(|y| y.to_bits()).collect::<Bits>()
    };
    let tiles = n.div_ceil(TILE_ROWS);
    let unpack = || unpacking(isa, format, &raw, k);
    let vectors = product(&|y| walk::multiply_in_vectors(isa, format, tiles, &x, y, unpack()));
    let plain = product(&|y| walk::multiply_on(&Plain, isa, format, tiles, &x, y, unpack()));
    let unit = BytesTiles::configure(isa)
        .map(|unit| product(&|y| walk::multiply_on(&unit, isa, format, tiles, &x, y, unpack())));
    (vectors, std::iter::once(plain).chain(unit).collect())
}

fn unpacking(isa: Isa, format: Format, raw: &[u8], k: usize) -> impl FnMut(usize, Range<usize>, &mut [Step]) {
    super::super::unpacking(isa, format, raw, k / format.block().0 * format.block().1)
}

#[test]
fn bits_are_those_of_vectors() {
    let Some(isa) = Isa::available().into_iter().find(|isa| isa.level() == Level::Avx512Vnni) else { return };
    for format in Format::ALL {
        let per = 256 / format.block().0;
        // An odd number of tiles, a partial tile, more columns than are multiplied at a time, panels of every
        // size, and more tiles and columns than are unpacked at a time.
        for shape in [[8, 1, 1], [16, 16, 3], [21, 33, 2 * per + 1], [9, 47, 9 * per], [79, 150, 8 * per + 1]]
        {
            let (vectors, others) = products(isa, format, shape);
            for (way, other) in others.iter().enumerate() {
                assert!(*other == vectors, "{format:?} {shape:?}, way {way}");
            }
            assert!(vectors.iter().all(|y| f32::from_bits(*y).is_finite()), "{format:?} {shape:?}");
        }
    }
}

#[test]
fn bits_of_packed_weights_are_those_of_vectors() {
    let Some(isa) = Isa::available().into_iter().find(|isa| isa.level() == Level::Avx512Vnni) else { return };
    for (format, codes) in [(TileFormat::Q8_0, Format::Q8_0), (TileFormat::Q4_0, Format::Q4_0)] {
        let ([m, n, blocks], mut state) = ([21, 70, 67], 5);
        let tiles = Tiles::new(format, &weights(codes, n * blocks, &mut state), n, blocks * 32).unwrap();
        let x: Vec<f32> = (0..m * blocks * 32).map(|_| next(&mut state) as f32 / 1e9 - 1.0).collect();
        let x = Activations::new(isa, &x, blocks * 32).unwrap();
        let product = |f: &dyn Fn(MatMut<'_, f32>)| {
            let mut y = vec![f32::NAN; m * 38];
            f(MatMut::new(&mut y, m, 38, 38).unwrap());
            y.iter().map(|y| y.to_bits()).collect::<Bits>()
        };
        // A product that is computed while the thread holds the tiles uses vectors.
        let unit = BytesTiles::configure(isa);
        let want = product(&|y| multiply_tiles(isa, &tiles, 2..5, &x, y).unwrap());
        drop(unit);
        let got = product(&|mut y| multiply_tiles_on(&Plain, isa, &tiles, 2..5, &x, &mut y));
        assert!(got == want, "{format:?}");
        assert!(product(&|y| multiply_tiles(isa, &tiles, 2..5, &x, y).unwrap()) == want, "{format:?}");
    }
}

/// A thread that holds the tiles gets no others, and a product that it makes uses vectors.
#[test]
fn a_thread_configures_its_tiles_once() {
    let isa = Isa::best();
    if let Some(unit) = BytesTiles::configure(isa) {
        assert!(BytesTiles::configure(isa).is_none());
        std::thread::spawn(move || assert!(BytesTiles::configure(isa).is_some())).join().unwrap();
        drop(unit);
        assert!(BytesTiles::configure(isa).is_some());
    }
}
