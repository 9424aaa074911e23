//! Bugs below the tolerances, which exact mode detects.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::ops::*;
use rocm_ops::{DType, bf16, f16};

const F32: DType = DType::F32;
const F64: DType = DType::F64;

/// A sum stored as two f32: 48 of the 53 bits.
fn two_singles(v: f64) -> f64 {
    let high = single(v);
    high + single(v - high)
}

pub(super) fn mutants() -> Vec<Mutant> {
    vec![
        Mutant::instead::<MatMul<f64>>("sums kept as two f32", "matmul", F64, |_, o| {
            let (&[.., m, k], &[.., n]) = (o["a"].dims(), o["b"].dims()) else { return };
            let (a, b) = (values(&o["a"]), values(&o["b"]));
            let mut c = Vec::new();
            for at in 0..o["c"].layout().len() {
                let (batch, i, j) = (at / (m * n), at / n % m, at % n);
                let terms = (0..k).map(|e| a[(batch * m + i) * k + e] * b[(batch * k + e) * n + j]);
                c.push(sum_rounded(terms, two_singles));
            }
            set(&mut o["c"], c);
        }),
        Mutant::after::<MatMul<bf16>>(
            "last element of large outputs lacks its last product",
            "matmul",
            DType::BF16,
            |_, o| {
                let len = o["c"].layout().len();
                if len <= 1 << 15 {
                    return;
                }
                let (a, b) = (values(&o["a"]), values(&o["b"]));
                let missed = a[a.len() - 1] * b[b.len() - 1];
                edit::<bf16>(&mut o["c"], |at, v| {
                    if at + 1 == len { bf16::from_f64(v.to_f64() - missed) } else { v }
                });
            },
        ),
        Mutant::after::<Linear<f32>>("a mean, times the count again", "linear", F32, |_, o| {
            let k = last(&o["x"]) as f32;
            edit::<f32>(&mut o["y"], |_, v| v * (1.0 / k) * k);
        }),
        Mutant::after::<Binary<f16>>("every 256th element goes through bf16", "add", DType::F16, |_, o| {
            edit::<f16>(
                &mut o["y"],
                |at, v| if at % 256 == 255 { f16::from_f64(brain(v.to_f64())) } else { v },
            );
        }),
        Mutant::instead::<Affine<f32>>("add divided by mul before the product", "affine", F32, |op, o| {
            let (mul, add, x) = (op.mul as f32, op.add as f32, values(&o["x"]));
            let y = x.into_iter().map(|x| match mul {
                0.0 => add,
                mul => (x as f32 + add / mul) * mul,
            });
            set(&mut o["y"], y.map(f64::from).collect::<Vec<_>>());
        }),
        Mutant::after::<Attention<f32>>("approximate reciprocal of the total", "attention", F32, |_, o| {
            edit::<f32>(&mut o["o"], |_, v| v * (1.0 - 2e-6));
        }),
        Mutant::after::<Linear<f32>>("sums rounded to bf16", "qlinear", F32, |_, o| {
            edit::<f32>(&mut o["y"], |_, v| brain(v.into()) as f32);
        }),
    ]
}
