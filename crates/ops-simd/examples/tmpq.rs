use ops_simd::Isa;
use ops_simd::quant::*;
fn main() {
    let isa = Isa::best();
    let k = 4096;
    let x: Vec<f32> = (0..512 * k).map(|i| ((i * 7919) % 1000) as f32 * 0.01 - 5.0).collect();
    let mut a = Activations::default();
    for _ in 0..5 {
        let t = std::time::Instant::now();
        for _ in 0..10 {
            a.quantize(isa, &x, k).unwrap();
        }
        println!("f32 512x4096 {:.3} ms", t.elapsed().as_secs_f64() * 100.0);
    }
}
