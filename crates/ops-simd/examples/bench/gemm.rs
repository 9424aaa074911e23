//! Matrix products.

use std::hint::black_box;

use half::f16;
use ops_simd::Element;
use ops_simd::gemm::{Input, Mat, MatMut, PackedB, gemm, gemm_packed};

use crate::{Bench, ceilings};

pub(crate) fn run(bench: &Bench) {
    println!("\nmatrix products, m k n");
    let peak = ceilings::fma_peak(bench);
    for shape in
        [[512, 4096, 4096], [1024, 1024, 1024], [128, 128, 128], [64, 64, 64], [32, 32, 32], [8, 4096, 4096]]
    {
        blocked::<f32>(bench, shape, peak, "f32");
        blocked::<f16>(bench, shape, peak, "f16");
        peer(bench, shape, peak);
    }
}

fn blocked<B: Input<Acc = f32> + Element>(bench: &Bench, shape: [usize; 3], peak: f64, name: &str) {
    let [m, k, n] = shape;
    let (a, b) = (vec![0.5f32; m * k], vec![B::from_f32(1.0); k * n]);
    let mut c = vec![0f32; m * n];
    let flops = 2.0 * (m * k * n) as f64;
    let isa = bench.isa;
    let a = Mat::row_major(&a, m, k).expect("in bounds");
    let b_nn = Mat::row_major(&b, k, n).expect("in bounds");
    let b_nt = Mat::new(&b, k, n, 1, k).expect("in bounds");
    for (order, b) in [("nn", b_nn), ("nt", b_nt)] {
        bench.compute(&format!("gemm/{name}/{order} {m} {k} {n}"), flops, peak, || {
            let c = MatMut::new(black_box(&mut c), m, n, n).expect("in bounds");
            gemm(isa, black_box(a), black_box(b), c, false).expect("fits");
        });
    }
    let packed = PackedB::new(isa, b_nt);
    bench.compute(&format!("gemm/{name}/packed {m} {k} {n}"), flops, peak, || {
        let c = MatMut::new(black_box(&mut c), m, n, n).expect("in bounds");
        gemm_packed(black_box(a), black_box(&packed), 0..n, c, false).expect("fits");
    });
}

fn peer(bench: &Bench, [m, k, n]: [usize; 3], peak: f64) {
    let (a, b) = (vec![0.5f32; m * k], vec![0.5f32; k * n]);
    let mut c = vec![0f32; m * n];
    bench.compute(&format!("gemm/matrixmultiply {m} {k} {n}"), 2.0 * (m * k * n) as f64, peak, || {
        let (ks, ns) = (k as isize, n as isize);
        // SAFETY: the pointers are of m by k, k by n and m by n elements, rows adjacent.
        unsafe {
            matrixmultiply::sgemm(
                m,
                k,
                n,
                1.0,
                a.as_ptr(),
                ks,
                1,
                b.as_ptr(),
                ns,
                1,
                0.0,
                c.as_mut_ptr(),
                ns,
                1,
            );
        }
        black_box(&mut c);
    });
}
