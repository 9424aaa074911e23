//! Elementwise and row operations.

use std::hint::black_box;

use half::{bf16, f16};
use ops_simd::rows::{self, Pairs};
use ops_simd::{Element, Store, Unary, unary};

use crate::{Bench, ceilings};

pub(crate) fn run(bench: &Bench) {
    println!("\n[512, 4096], cached stores");
    for_type::<f32>(bench, 512, Store::Cached);
    for_type::<bf16>(bench, 512, Store::Cached);
    for_type::<f16>(bench, 512, Store::Cached);
    println!("\n[8192, 4096], streamed stores");
    for_type::<f32>(bench, 8192, Store::Stream);
}

fn for_type<T: Element>(bench: &Bench, rows: usize, store: Store) {
    const N: usize = 4096;
    let n = rows * N;
    let bytes = 2 * n * size_of::<T>();
    let copy = ceilings::copy(bench, bytes);
    let x: Vec<T> = (0..n).map(|i| T::from_f32((i % 4093) as f32 * 0.004 - 8.0)).collect();
    let mut y = vec![T::default(); n];
    let isa = bench.isa;
    println!("{} copy {copy:.1} GB/s", T::NAME);
    for op in Unary::ALL {
        bench.bandwidth(&format!("map/{}/{}", op, T::NAME), bytes, copy, || {
            unary(isa, op, black_box(&x), black_box(&mut y), store).expect("equal lengths");
        });
    }
    let (weight, wide) = (vec![T::from_f32(1.0); N], vec![1f32; N]);
    bench.bandwidth(&format!("map/rms_norm/{}", T::NAME), bytes, copy, || {
        rows::rms_norm(isa, black_box(&x), &weight, 1e-5, black_box(&mut y), store).expect("whole rows");
    });
    bench.bandwidth(&format!("map/layer_norm/{}", T::NAME), bytes, copy, || {
        rows::layer_norm(isa, black_box(&x), &weight, Some(&weight), 1e-5, black_box(&mut y), store)
            .expect("whole rows");
    });
    bench.bandwidth(&format!("map/layer_norm/{} by f32", T::NAME), bytes, copy, || {
        rows::layer_norm(isa, black_box(&x), &wide, Some(&wide), 1e-5, black_box(&mut y), store)
            .expect("whole rows");
    });
    bench.bandwidth(&format!("map/softmax/{}", T::NAME), bytes, copy, || {
        rows::softmax(isa, black_box(&x), N, black_box(&mut y), store).expect("whole rows");
    });
    bench.bandwidth(&format!("map/log_softmax/{}", T::NAME), bytes, copy, || {
        rows::log_softmax(isa, black_box(&x), N, black_box(&mut y), store).expect("whole rows");
    });
    let table = vec![0.5f32; n / 2 / 32];
    for pairs in [Pairs::Halves, Pairs::Adjacent] {
        bench.bandwidth(&format!("map/rope_{pairs:?}/{}", T::NAME), bytes, copy, || {
            // 32 heads share a table row per token.
            rows::rope(isa, pairs, black_box(&x), 128, &table, &table, 32, black_box(&mut y))
                .expect("whole rows");
        });
    }
    let mut sums = vec![0f32; rows];
    bench.bandwidth(&format!("map/sum/{}", T::NAME), bytes / 2, copy, || {
        rows::sum(isa, black_box(&x), N, black_box(&mut sums)).expect("whole rows");
    });
    bench.bandwidth(&format!("map/max/{}", T::NAME), bytes / 2, copy, || {
        rows::max(isa, black_box(&x), N, black_box(&mut sums)).expect("whole rows");
    });
}
