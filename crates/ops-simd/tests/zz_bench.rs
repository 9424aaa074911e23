use ops_simd::{Isa, gemm::MatMut, quant::*};
use std::time::Instant;
fn best(n: usize, mut f: impl FnMut()) -> f64 {
    let mut b = f64::MAX;
    for _ in 0..n {
        let t = Instant::now();
        f();
        b = b.min(t.elapsed().as_secs_f64());
    }
    b
}
#[test]
fn bench() {
    let m: usize = std::env::var("M").unwrap().parse().unwrap();
    let (n, k, rounds) = (64usize.max(if m < 64 { 1024 } else { 64 }), 4096, if m > 64 { 60 } else { 200 });
    let isa = Isa::best();
    let x: Vec<f32> = (0..m * k).map(|i| ((i * 7919 % 1001) as f32 - 500.0) / 100.0).collect();
    let mut acts = Activations::default();
    let tq = best(5, || acts.quantize(isa, &x, k).unwrap());
    println!("{} m {m}: quantize {:.1} us", isa.name(), tq * 1e6);
    let flop = 2.0 * (m * n * k) as f64;
    let mut y = vec![0f32; m * n];
    for f in [Format::Q8_0, Format::Q4_0] {
        let raw = vec![1u8; n * k / 32 * f.block_bytes()];
        let mut tiles = Tiles::new(f, &raw, n, k).unwrap();
        let t = best(rounds, || {
            tiles.repack(f, &raw, n, k).unwrap();
            multiply(isa, &tiles, 0..tiles.count(), &acts, MatMut::new(&mut y, m, n, n).unwrap()).unwrap()
        });
        let r = best(rounds, || tiles.repack(f, &raw, n, k).unwrap());
        println!(
            "tiles {f:?} {:.1} GFLOP/s, {:.1} us, of which repacking {:.1}",
            flop / t / 1e9,
            t * 1e6,
            r * 1e6
        );
        if m <= 16 {
            let t = best(rounds, || {
                multiply_rows(isa, f, &raw, &acts, MatMut::new(&mut y, m, n, n).unwrap()).unwrap()
            });
            println!("  in place {:.1} us {:.1} GB/s", t * 1e6, raw.len() as f64 / t / 1e9);
        }
    }
    for f in CodeFormat::ALL {
        let (v, b) = f.block();
        let raw = vec![1u8; n * k / v * b];
        let t = best(rounds, || {
            multiply_codes(isa, f, &raw, &acts, MatMut::new(&mut y, m, n, n).unwrap()).unwrap()
        });
        print!(
            "codes {f:?} {:.1} GFLOP/s, {:.1} us, {:.1} GB/s",
            flop / t / 1e9,
            t * 1e6,
            raw.len() as f64 / t / 1e9
        );
        if m <= 16 {
            let s = match f {
                CodeFormat::Q4K => Some(SuperFormat::Q4K),
                CodeFormat::Q5K => Some(SuperFormat::Q5K),
                CodeFormat::Q6K => Some(SuperFormat::Q6K),
                _ => None,
            };
            let l = match f {
                CodeFormat::Iq4Nl => Some(LookupFormat::Iq4Nl),
                CodeFormat::Iq4Xs => Some(LookupFormat::Iq4Xs),
                CodeFormat::Mxfp4 => Some(LookupFormat::Mxfp4),
                _ => None,
            };
            let t = best(rounds, || {
                if let Some(s) = s {
                    multiply_super_rows(isa, s, &raw, &acts, MatMut::new(&mut y, m, n, n).unwrap()).unwrap()
                }
                if let Some(l) = l {
                    multiply_lookup_rows(isa, l, &raw, &acts, MatMut::new(&mut y, m, n, n).unwrap()).unwrap()
                }
            });
            if s.is_some() || l.is_some() {
                print!("   in place {:.1} us {:.1} GB/s", t * 1e6, raw.len() as f64 / t / 1e9);
            }
        }
        println!();
    }
}
