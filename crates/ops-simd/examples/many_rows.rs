//! Times products of many rows with weights, for several thread counts, in milliseconds and in 10⁹ operations
//! (multiplications and additions) per second.
//!
//! `cargo run --release -p ops-simd --example many_rows [-- THREADS..]`. Set `OPS_SIMD` to time an older
//! instruction set; `OPS_SIMD=avx512vnni` leaves the matrix units out. The last number of a line is a
//! checksum of the result's bits.

use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use half::bf16;
use ops_simd::Isa;
use ops_simd::gemm::{Mat, MatMut, PackedB, gemm, gemm_packed};
use ops_simd::quant::{Activations, Format, TILE_ROWS, TileFormat, Tiles, multiply_codes, multiply_tiles};

const M: usize = 512;
const K: usize = 4096;
const N: usize = 4096;

fn main() {
    let mut threads: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    if threads.is_empty() {
        threads.push(1);
    }
    let isa = Isa::best();
    println!("# {isa}, matrix units of the machine: {:?}; {M} x {K} x {N}", Isa::matrix_units());
    println!("# {:<14} {:>7} {:>9} {:>9} {:>16}", "weight", "threads", "ms", "GMAC/s", "checksum");
    for format in [Format::Q8_0, Format::Q4_0, Format::Q4K, Format::Q6K, Format::Mxfp4] {
        codes(isa, format, &threads);
    }
    tiles(isa, TileFormat::Q8_0, &threads);
    tiles(isa, TileFormat::Q4_0, &threads);
    floats(isa, &threads);
}

/// Pseudo-random numbers.
fn random(n: usize) -> Vec<u32> {
    let mut state = 1u32;
    let step = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state
    };
    (0..n).map(step).collect()
}

fn number(bits: &u32) -> f32 {
    *bits as f32 / (1u32 << 31) as f32 - 1.0
}

fn codes(isa: Isa, format: Format, threads: &[usize]) {
    let (values, bytes) = format.block();
    let row_bytes = K / values * bytes;
    // No f16 scale has the largest exponent, so none is infinite or NaN.
    let mut raw: Vec<u8> = random(N * row_bytes).iter().map(|bits| *bits as u8 & 0x3b).collect();
    if format == Format::Mxfp4 {
        raw.chunks_exact_mut(bytes).for_each(|block| block[0] = 120);
    }
    let x: Vec<f32> = random(M * K).iter().map(number).collect();
    let x = Activations::new(isa, &x, K).expect("whole blocks");
    time(&format!("{format:?}"), threads, &|columns, y| {
        let rows = &raw[columns.start * row_bytes..columns.end * row_bytes];
        multiply_codes(isa, format, black_box(rows), &x, y).expect("fits");
    });
}

fn tiles(isa: Isa, format: TileFormat, threads: &[usize]) {
    let raw: Vec<u8> =
        random(N * K / 32 * format.block_bytes()).iter().map(|bits| *bits as u8 & 0x3b).collect();
    let tiles = Tiles::new(format, &raw, N, K).expect("whole blocks");
    let x: Vec<f32> = random(M * K).iter().map(number).collect();
    let x = Activations::new(isa, &x, K).expect("whole blocks");
    time(&format!("{format:?} packed"), threads, &|columns, y| {
        let part = columns.start / TILE_ROWS..columns.end.div_ceil(TILE_ROWS);
        multiply_tiles(isa, black_box(&tiles), part, &x, y).expect("fits");
    });
}

fn floats(isa: Isa, threads: &[usize]) {
    let numbers = |n| random(n).iter().map(|bits| bf16::from_f32(number(bits))).collect::<Vec<_>>();
    let (x, w) = (numbers(M * K), numbers(N * K));
    let x = Mat::row_major(&x, M, K).expect("in bounds");
    let w = Mat::row_major(&w, N, K).expect("in bounds").transposed();
    time("bf16", threads, &|columns, y| {
        let w = w.col_range(columns.start, columns.end).expect("in bounds");
        gemm(isa, black_box(x), w, y, false).expect("fits");
    });
    let packed = PackedB::new(isa, w);
    time("bf16 packed", threads, &|columns, y| {
        gemm_packed(black_box(x), &packed, columns, y, false).expect("fits");
    });
}

/// Times a product; `part` computes some of its columns.
fn time(name: &str, threads: &[usize], part: &(dyn Fn(Range<usize>, MatMut<'_, f32>) + Sync)) {
    for &threads in threads {
        let mut y = vec![0f32; M * N];
        let mut run = || {
            let start = Instant::now();
            split(&mut y, threads, part);
            start.elapsed()
        };
        run();
        let (begin, mut best) = (Instant::now(), Duration::MAX);
        while begin.elapsed() < Duration::from_millis(600) {
            best = best.min(run());
        }
        let sum = y.iter().fold(0u64, |sum, y| sum.rotate_left(7) ^ u64::from(y.to_bits()));
        let (ms, rate) = (best.as_secs_f64() * 1e3, (M * K * N) as f64 / best.as_secs_f64() * 1e-9);
        println!("{:<16} {threads:>7} {ms:>9.2} {rate:>9.1} {sum:016x}", name.replace(' ', "_"));
    }
}

/// Gives each thread a part of the columns.
fn split(y: &mut [f32], threads: usize, part: &(dyn Fn(Range<usize>, MatMut<'_, f32>) + Sync)) {
    let each = N.div_ceil(threads).next_multiple_of(64);
    let mut rest = MatMut::new(y, M, N, N).expect("in bounds");
    std::thread::scope(|scope| {
        for start in (0..N).step_by(each) {
            let (now, others) = rest.split_at_col(each.min(N - start));
            rest = others;
            scope.spawn(move || part(start..start + now.cols(), now));
        }
    });
}
