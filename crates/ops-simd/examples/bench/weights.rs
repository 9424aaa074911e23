//! Products limited by reading weights, in percent of this thread's read bandwidth.

use std::hint::black_box;

use half::{bf16, f16};
use ops_simd::Element;
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm, gemm_packed};
use ops_simd::quant::{
    Activations, Format, LookupFormat, SuperFormat, TileFormat, Tiles, multiply_codes, multiply_lookup_rows,
    multiply_super_rows, multiply_tiles,
};

use crate::{Bench, ceilings};

const N: usize = 4096;
const K: usize = 4096;

pub(crate) fn run(bench: &Bench) {
    println!("\n{N} x {K} weights, 1 to 8 rows");
    for m in [1, 2, 4, 8] {
        floats::<f32>(bench, m, "f32");
        floats::<f16>(bench, m, "f16");
        floats::<bf16>(bench, m, "bf16");
    }
    let peak = ceilings::fma_peak(bench);
    for (format, name) in [(TileFormat::Q8_0, "q8_0"), (TileFormat::Q4_0, "q4_0")] {
        for m in [1, 2, 4, 8, 16, 512] {
            quantized(bench, format, m, name, peak);
        }
    }
    let super_blocks = [
        (SuperFormat::Q4K, "q4_k"),
        (SuperFormat::Q5K, "q5_k"),
        (SuperFormat::Q6K, "q6_k"),
        (SuperFormat::Iq4Xs, "iq4_xs"),
    ];
    for (format, name) in super_blocks {
        for m in [1, 2] {
            in_place(bench, (m, name), (256, format.block_bytes()), &|raw, x, y| {
                multiply_super_rows(bench.isa, format, raw, x, y).expect("fits");
            });
        }
    }
    for (format, name, bytes) in [(LookupFormat::Iq4Nl, "iq4_nl", 18), (LookupFormat::Mxfp4, "mxfp4", 17)] {
        for m in [1, 2] {
            in_place(bench, (m, name), (32, bytes), &|raw, x, y| {
                multiply_lookup_rows(bench.isa, format, raw, x, y).expect("fits");
            });
        }
    }
    for format in Format::ALL {
        codes(bench, format, peak);
    }
}

/// The product of rows in file order.
type Product<'a> = &'a dyn Fn(&[u8], &Activations, MatMut<'_, f32>);

/// Weights that come from the cache, and sixteen times as many, which come from memory. A block of `numbers`
/// weights takes `bytes` bytes.
fn in_place(bench: &Bench, (m, name): (usize, &str), (numbers, bytes): (usize, usize), product: Product<'_>) {
    for (n, from) in [(N, ""), (16 * N, " memory")] {
        let line = format!("weights/{name} {m}{from}");
        if !bench.wanted(&line) {
            continue;
        }
        let raw = vec![0x11u8; n * K / numbers * bytes];
        let x = vec![0.5f32; m * K];
        let mut y = vec![0f32; m * n];
        let mut activations = Activations::default();
        bench.bandwidth(&line, raw.len(), ceilings::read(bench, raw.len()), || {
            activations.quantize(bench.isa, black_box(&x), K).expect("whole blocks");
            let y = MatMut::new(black_box(&mut y), m, n, n).expect("in bounds");
            product(black_box(&raw), &activations, y);
        });
    }
}

/// Multiplies many rows by part of a weight, as codes.
fn codes(bench: &Bench, format: Format, peak: f64) {
    const N: usize = 192;
    for m in [8, 512] {
        let line = format!("weights/codes/{format:?} {m}");
        if !bench.wanted(&line) {
            continue;
        }
        let (values, bytes) = format.block();
        let raw = vec![0x11u8; N * K / values * bytes];
        let x = vec![0.5f32; m * K];
        let mut y = vec![0f32; m * N];
        let activations = Activations::new(bench.isa, &x, K).expect("whole blocks");
        bench.compute(&line, 2.0 * (m * N * K) as f64, peak, || {
            let y = MatMut::new(black_box(&mut y), m, N, N).expect("in bounds");
            multiply_codes(bench.isa, format, black_box(&raw), &activations, y).expect("fits");
        });
    }
}

fn floats<T: Input<Acc = f32> + Element>(bench: &Bench, m: usize, name: &str) {
    let line = format!("weights/{name} {m}");
    if !bench.wanted(&line) {
        return;
    }
    let w = vec![T::from_f32(1.0); N * K];
    let x = vec![0.5f32; m * K];
    let mut y = vec![0f32; m * N];
    let bytes = N * K * size_of::<T>();
    let read = ceilings::read(bench, bytes);
    let isa = bench.isa;
    let x = Mat::row_major(&x, m, K).expect("in bounds");
    for (order, w) in [("w", Mat::new(&w, K, N, 1, K)), ("transposed", Mat::row_major(&w, K, N))] {
        let w = w.expect("in bounds");
        bench.bandwidth(&format!("{line} {order}"), bytes, read, || {
            let y = MatMut::new(black_box(&mut y), m, N, N).expect("in bounds");
            gemm(isa, black_box(x), black_box(w), y, false).expect("fits");
        });
    }
    let packed = PackedB::new(isa, Mat::new(&w, K, N, 1, K).expect("in bounds"));
    bench.bandwidth(&format!("{line} packed"), bytes, read, || {
        let y = MatMut::new(black_box(&mut y), m, N, N).expect("in bounds");
        gemm_packed(black_box(x), black_box(&packed), 0..N, y, false).expect("fits");
    });
}

fn quantized(bench: &Bench, format: TileFormat, m: usize, name: &str, peak: f64) {
    let line = format!("weights/{name} {m}");
    if !bench.wanted(&line) {
        return;
    }
    let isa = bench.isa;
    let raw = vec![0x11u8; N * K / 32 * format.block_bytes()];
    let tiles = Tiles::new(format, &raw, N, K).expect("whole blocks");
    let x = vec![0.5f32; m * K];
    let mut y = vec![0f32; m * N];
    let mut activations = Activations::default();
    let mut call = || {
        activations.quantize(isa, black_box(&x), K).expect("whole blocks");
        let y = MatMut::new(black_box(&mut y), m, N, N).expect("in bounds");
        multiply_tiles(isa, black_box(&tiles), 0..tiles.count(), &activations, y).expect("fits");
    };
    if m <= 8 {
        bench.bandwidth(&line, tiles.bytes(), ceilings::read(bench, tiles.bytes()), &mut call);
    }
    if m >= 8 {
        bench.compute(&line, 2.0 * (m * N * K) as f64, peak, call);
    }
}
