//! Wrong products, lookups and quantized ops.
use super::backend::Mutant;
use super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::*;
use rocm_ops::quant::{BlockQ4_0, BlockQ8_0, Encode};
use rocm_ops::{DType, Element, Host, Layout, Scalar, f16};

const F32: DType = DType::F32;
const F16: DType = DType::F16;

/// A matrix product of rounded operands, with each partial sum rounded.
fn matmul(
    o: &mut NamedTensors<Host>,
    operand: fn(f64) -> f64,
    sum: fn(f64) -> f64,
    k_used: fn(usize) -> usize,
) {
    let ([.., m, k], [.., n]) = (o["a"].dims(), o["b"].dims()) else { return };
    let (m, k, n) = (*m, *k, *n);
    let (a, b) = (values(&o["a"]), values(&o["b"]));
    let mut c = Vec::new();
    for at in 0..o["c"].layout().len() {
        let (batch, i, j) = (at / (m * n), at / n % m, at % n);
        let products =
            (0..k_used(k)).map(|e| operand(a[(batch * m + i) * k + e]) * operand(b[(batch * k + e) * n + j]));
        c.push(sum_rounded(products, sum));
    }
    set(&mut o["c"], c);
}

/// Rounds a significand to ten bits, as matrix units read f32.
fn ten_bits(v: f64) -> f64 {
    f64::from(f32::from_bits((v as f32).to_bits() & !0x1fff))
}

pub(super) fn mutants() -> Vec<Mutant> {
    [matrices(), lookups(), quantized()].concat()
}

fn matrices() -> Vec<Mutant> {
    let same: fn(f64) -> f64 = |v| v;
    let all: fn(usize) -> usize = |k| k;
    vec![
        Mutant::instead::<MatMul<f16>>("summed in f16", "matmul", F16, move |_, o| {
            matmul(o, same, half, all)
        }),
        Mutant::instead::<MatMul<f32>>("operands cut to ten bits", "matmul", F32, move |_, o| {
            matmul(o, ten_bits, same, all)
        }),
        Mutant::instead::<MatMul<f32>>("last of odd products missed", "matmul", F32, move |_, o| {
            matmul(o, same, same, |k| k & !1)
        }),
        Mutant::instead::<MatMul<f64>>("f64 summed in f32", "matmul", DType::F64, move |_, o| {
            matmul(o, same, single, all)
        }),
        Mutant::before::<MatMul<f32>>("first matrix of b for every batch", "matmul", F32, |_, o| {
            relayout(&mut o["b"], |l| {
                let mut strides = l.strides().to_vec();
                let batch = strides.len() - 2;
                strides[..batch].fill(0);
                Layout::strided(l.dims(), &strides, l.offset()).ok()
            });
        }),
        Mutant::before::<MatMul<f32>>("a transposed view read in memory order", "matmul", F32, |_, o| {
            relayout(&mut o["a"], forget_strides)
        }),
        Mutant::after::<MatMul<f32>>("last column of odd widths missed", "matmul", F32, |_, o| {
            let n = last(&o["c"]);
            edit::<f32>(&mut o["c"], |i, v| if n % 2 == 1 && i % n == n - 1 { 0.0 } else { v });
        }),
        Mutant::before::<Linear<f32>>("bias ignored", "linear", F32, |_, o| drop(o.remove("bias"))),
        Mutant::after::<Linear<f16>>("bias added after the rounding", "linear", F16, |op, o| {
            if let Some(bias) = optional(o.get("bias")) {
                let n = last(&o["y"]);
                o.remove("bias");
                let args = o.args(op).expect("the operands of a call without a bias");
                rocm_ops::Backend::run(&rocm_ops::Reference::new(), op, args)
                    .expect("the same call without a bias");
                edit::<f16>(&mut o["y"], |i, v| Scalar::from_f64(v.to_f64() + bias[i % n]));
            }
        }),
        Mutant::before::<Linear<f32>>("x rounded to the weight's type", "linear", F32, |_, o| {
            if o["weight"].dtype() == F16 {
                edit::<f32>(&mut o["x"], |_, v| f16::from_f32(v).to_f32());
            }
        }),
        Mutant::before::<Linear<f16>>("weight rounded to the type of x", "linear", F16, |_, o| {
            edit_floats(&mut o["weight"], half);
        }),
    ]
}

fn lookups() -> Vec<Mutant> {
    vec![
        Mutant::before::<IndexSelect>("\"no element\" is the last row", "index_select", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["x"].dims().len() as isize } else { op.axis };
            let n = o["x"].dims()[axis as usize] as u32;
            edit_if::<u32>(&mut o["ids"], |_, id| if id == u32::MAX && n > 0 { n - 1 } else { id });
        }),
        Mutant::before::<IndexSelect>("indices outside are clamped", "index_select", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["x"].dims().len() as isize } else { op.axis };
            let n = o["x"].dims()[axis as usize] as i64;
            edit_if::<i64>(
                &mut o["ids"],
                |_, id| if id != i64::MAX && n > 0 { id.clamp(0, n - 1) } else { id },
            );
        }),
        Mutant::before::<IndexSelect>("negative indices count from the end", "index_select", F32, |op, o| {
            let axis = if op.axis < 0 { op.axis + o["x"].dims().len() as isize } else { op.axis };
            let n = o["x"].dims()[axis as usize] as i32;
            edit_if::<i32>(&mut o["ids"], |_, id| if id < 0 { id + n } else { id });
        }),
        Mutant::swallows_errors("index_select", F32),
        Mutant::before::<Embedding<f32>>("\"no element\" is the last row", "qembedding", F32, |_, o| {
            let rows = o["table"].dims()[0] as u32;
            edit_if::<u32>(&mut o["ids"], |_, id| if id == u32::MAX && rows > 0 { rows - 1 } else { id });
        }),
    ]
}

fn nibbles_swapped(block: BlockQ4_0) -> BlockQ4_0 {
    BlockQ4_0 { q: block.q.map(|b| b.rotate_left(4)), ..block }
}

fn quantized() -> Vec<Mutant> {
    vec![
        Mutant::before::<Dequantize>(
            "halves of the bytes exchanged",
            "dequantize",
            BlockQ4_0::DTYPE,
            |_, o| {
                edit_if::<BlockQ4_0>(&mut o["x"], |_, b| nibbles_swapped(b));
            },
        ),
        Mutant::before::<Linear<f32>>("halves of the bytes exchanged", "qlinear", F32, |_, o| {
            edit_if::<BlockQ4_0>(&mut o["weight"], |_, b| nibbles_swapped(b));
        })
        .in_cases_of("q4_0"),
        Mutant::before::<Linear<f32>>("codes not centred", "qlinear", F32, |_, o| {
            edit_if::<BlockQ4_0>(&mut o["weight"], |_, b| BlockQ4_0 { q: b.q.map(|q| q ^ 0x88), ..b });
        })
        .in_cases_of("q4_0"),
        Mutant::before::<Linear<f32>>("one scale for a pair of blocks", "qlinear", F32, |_, o| {
            let n = o["weight"].layout().last().max(1);
            let Some(weight) = o["weight"].as_ref().typed::<BlockQ8_0>() else { return };
            let scales: Vec<f16> = o["weight"].layout().positions().map(|p| weight.data()[p].scale).collect();
            edit_if::<BlockQ8_0>(&mut o["weight"], |i, b| BlockQ8_0 {
                scale: scales[i / n * n + i % n / 2 * 2],
                ..b
            });
        })
        .in_cases_of("q8_0"),
        Mutant::before::<Linear<f32>>("last block of odd rows missed", "qlinear", F32, |_, o| {
            let n = o["weight"].layout().last().max(1);
            let drop = move |i: usize| n > 1 && n % 2 == 1 && i % n == n - 1;
            edit_if::<BlockQ8_0>(&mut o["weight"], |i, b| {
                if drop(i) { BlockQ8_0 { scale: f16::ZERO, ..b } } else { b }
            });
        })
        .in_cases_of("q8_0"),
        // One op quantizes to every format; the other formats keep the reference's results.
        Mutant::after::<Quantize>("codes round half to even", "quantize", F32, |_, o| {
            if o["y"].dtype() != BlockQ8_0::DTYPE {
                return;
            }
            let x = values(&o["x"]);
            let blocks: Vec<BlockQ8_0> = x
                .chunks(32)
                .map(|values| {
                    let amax = values.iter().fold(0f32, |m, v| m.max((*v as f32).abs()));
                    let (scale, inverse) = (amax / 127.0, if amax == 0.0 { 0.0 } else { 127.0 / amax });
                    let code = |i: usize| (values[i] as f32 * inverse).round_ties_even() as i8;
                    BlockQ8_0 { scale: f16::from_f32(scale), q: std::array::from_fn(code) }
                })
                .collect();
            edit::<BlockQ8_0>(&mut o["y"], |i, _| blocks[i]);
        }),
        Mutant::after::<Quantize>(
            "scale from the magnitude, not the signed extreme",
            "quantize",
            F32,
            |_, o| {
                if o["y"].dtype() != BlockQ4_0::DTYPE {
                    return;
                }
                let x = values(&o["x"]);
                let blocks: Vec<BlockQ4_0> = x
                    .chunks(32)
                    .map(|values| {
                        // As if the extreme were always negative: its sign is lost.
                        let amax = values.iter().fold(0.0f64, |m, v| m.max(v.abs())) as f32;
                        let mut block =
                            BlockQ4_0::quantize(&values.iter().map(|v| *v as f32).collect::<Vec<_>>());
                        block.scale = f16::from_f32(amax / 8.0);
                        block
                    })
                    .collect();
                edit::<BlockQ4_0>(&mut o["y"], |i, _| blocks[i]);
            },
        ),
    ]
}
