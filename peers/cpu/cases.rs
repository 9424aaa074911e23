//! The cases by name: `OP DIMS DTYPE`.
use ops_core::combine::Checked;
use ops_core::model::Weight;
use ops_core::ops::*;
use ops_core::quant::FORMATS;
use ops_core::{Backend, DType, Element, Float, Result, TensorOf, bf16, f16};
use ops_cpu::{Cpu, Host, Reference};
use rayon::prelude::*;
use std::hint::black_box;
use std::sync::Mutex;

/// Runs a case once.
pub(crate) type Run = Box<dyn Fn() -> core::result::Result<(), String>>;
/// The CPU backend, with every op compared with the reference.
type Checker = Checked<Cpu, Reference>;
type Tensor<T> = TensorOf<Cpu, T>;

/// Rows of the first factor that are checked in a product, because the reference is slow. They take the same path as all.
const CHECKED_ROWS: usize = 32;

/// Creates the case of this name and checks its result.
pub(crate) fn case(name: &str) -> core::result::Result<Run, String> {
    let mut words = name.split(' ');
    let (op, dims, dtype) =
        (words.next().unwrap_or(""), words.next().unwrap_or(""), words.next().unwrap_or(""));
    let dims: Vec<usize> = dims.split('x').filter_map(|d| d.parse().ok()).collect();
    let run = match (op, dtype) {
        ("linear", name) if blocks_of(name).is_some() => qlinear(&dims, name),
        ("copy", _) => Ok(copy(dims[0])),
        ("cast", "f32>bf16") => cast::<f32, bf16>(&dims),
        ("cast", "f32>f16") => cast::<f32, f16>(&dims),
        ("cast", "bf16>f32") => cast::<bf16, f32>(&dims),
        ("cast", "u8>f16") => cast_bytes(&dims),
        ("cast", _) => cast::<f16, f32>(&dims),
        ("gather" | "scatter_add" | "index_add", _) => places(op, &dims),
        ("linear_packed", _) => packed_linear(&dims, dtype),
        (_, "bf16") => float::<bf16>(op, &dims),
        (_, "f16") => float::<f16>(op, &dims),
        _ => float::<f32>(op, &dims),
    };
    run.map_err(|e| e.to_string())
}

/// The block format of this name.
fn blocks_of(name: &str) -> Option<DType> {
    FORMATS.iter().find(|format| format.name() == name).map(|format| DType::Block(format))
}

/// Approximately normally distributed numbers, the same in every run.
fn random<T: Float>(seed: u64, dims: &[usize]) -> Result<Tensor<T>> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 24) as f64
    };
    let count = dims.iter().product();
    let data: Vec<T> =
        (0..count).map(|_| T::from_f64((uniform() + uniform() + uniform() - 1.5) * 2.0)).collect();
    Cpu::new().tensor(dims, &data)
}

fn checker() -> Checker {
    Checked::new(Cpu::new(), Reference::new())
}

fn boxed<T: Element>(run: impl Fn() -> Result<Tensor<T>> + 'static) -> Result<Run> {
    Ok(Box::new(move || run().map(|y| drop(black_box(y))).map_err(|e| e.to_string())))
}

/// Checks `$body` with the checked backend as `$b`, then returns a run of it with the plain one.
macro_rules! checked {
    ($b:ident => $body:expr) => {{
        {
            let $b = &checker();
            drop($body?);
        }
        boxed(move || {
            let $b = &Cpu::new();
            $body
        })
    }};
}

/// Memory bandwidth: copies that read and write `bytes` in total, split over all threads.
fn copy(bytes: usize) -> Run {
    let (x, y) = (vec![1u64; bytes / 16], vec![0u64; bytes / 16]);
    let (y, step) = (Mutex::new(y), (bytes / 16).div_ceil(rayon::current_num_threads()).max(1));
    Box::new(move || {
        let mut y = y.lock().map_err(|e| e.to_string())?;
        let parts = y.par_chunks_mut(step).zip(x.par_chunks(step));
        parts.for_each(|(y, x)| y.copy_from_slice(black_box(x)));
        Ok(())
    })
}

fn cast<A: Float, B: Float>(dims: &[usize]) -> Result<Run> {
    let x = random::<A>(1, dims)?;
    checked!(b => b.cast::<B>(&x))
}

fn cast_bytes(dims: &[usize]) -> Result<Run> {
    let bytes: Vec<u8> = (0..dims.iter().product()).map(|i: usize| (i * 31 % 251) as u8).collect();
    let x: Tensor<u8> = Cpu::new().tensor(dims, &bytes)?;
    checked!(b => b.cast::<f16>(&x))
}

/// What `add` adds to zeros.
fn to_zeros(dims: &[usize], add: &dyn Fn(&mut Tensor<f32>) -> Result<()>) -> Result<Tensor<f32>> {
    let mut sums = Cpu::new().zeros(dims)?;
    add(&mut sums)?;
    Ok(sums)
}

/// `[rows, columns]` from and to as many random rows.
fn places(op: &str, dims: &[usize]) -> Result<Run> {
    let x = random::<f32>(1, dims)?;
    let row = |i: usize| (i.wrapping_mul(0x9e37_79b9) >> 7) % dims[0];
    let at = |count: usize| (0..count).map(|i| row(i) as u32).collect::<Vec<u32>>();
    let (ids, all) =
        (Cpu::new().tensor(&dims[..1], &at(dims[0]))?, Cpu::new().tensor(dims, &at(dims.iter().product()))?);
    let dims = dims.to_vec();
    match op {
        "gather" => checked!(b => b.gather(&x, &all, Gather::axis(0))),
        "scatter_add" => checked!(b => to_zeros(&dims, &|y| b.scatter_add(y, &all, &x, ScatterAdd::axis(0)))),
        _ => checked!(b => to_zeros(&dims, &|y| b.index_add(y, &ids, &x, IndexAdd::axis(0)))),
    }
}

fn qlinear(dims: &[usize], format: &str) -> Result<Run> {
    let format = blocks_of(format).unwrap_or(DType::F32);
    let (x, w) = (random::<f32>(1, &[dims[0], dims[1]])?, random::<f32>(2, &[dims[2], dims[1]])?);
    let w = Cpu::new().quantize(w.as_ref(), format)?;
    drop(checker().linear(x.narrow(0, 0, dims[0].min(CHECKED_ROWS))?, w.as_ref())?);
    boxed(move || Cpu::new().linear(x.as_ref(), w.as_ref()))
}

/// A linear layer with a packed weight. `x` has the weight's type, or f32 if the weight is in blocks.
fn packed_linear(dims: &[usize], dtype: &str) -> Result<Run> {
    let blocks = |format| Cpu::new().quantize(random(2, &[dims[2], dims[1]])?.as_ref(), format);
    let (k, n) = (dims[1], dims[2]);
    if let Some(format) = blocks_of(dtype) {
        return packed_linear_of::<f32>(dims, &|| blocks(format));
    }
    match dtype {
        "f16" => packed_linear_of::<f16>(dims, &|| random::<f16>(2, &[n, k]).map(Weight::from)),
        "bf16" => packed_linear_of::<bf16>(dims, &|| random::<bf16>(2, &[n, k]).map(Weight::from)),
        _ => packed_linear_of::<f32>(dims, &|| random::<f32>(2, &[n, k]).map(Weight::from)),
    }
}

fn packed_linear_of<T: Float>(dims: &[usize], weight: &dyn Fn() -> Result<Weight<Host>>) -> Result<Run> {
    let x = random::<T>(1, &dims[..2])?;
    let some = x.narrow(0, 0, dims[0].min(CHECKED_ROWS))?;
    let packed = Cpu::new().pack_weight::<T>(weight()?)?;
    drop(checker().linear(some, &packed)?);
    boxed(move || Cpu::new().linear(x.as_ref(), &packed))
}

fn float<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    match op {
        "rms_norm" | "layer_norm" | "softmax" => rows::<T>(op, dims),
        "rope_neox" | "rope_interleaved" | "rope_thd" => rope::<T>(op, dims),
        "matmul" | "linear" => product::<T>(op, dims),
        "attention" => attention::<T>(dims),
        "conv2d" | "conv_transpose2d" => convolution::<T>(op, dims),
        "sum" | "sum_first" | "max" | "max_first" | "argmax" | "argmax_first" | "argsort" => {
            reduction::<T>(op, dims)
        }
        _ => elementwise::<T>(op, dims),
    }
}

fn rows<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let (x, w, bias) = (
        random::<T>(1, dims)?,
        random::<T>(2, &dims[dims.len() - 1..])?,
        random::<T>(3, &dims[dims.len() - 1..])?,
    );
    match op {
        "rms_norm" => checked!(b => b.rms_norm(x.as_ref(), w.as_ref(), RmsNorm::eps(1e-5))),
        "layer_norm" => {
            checked!(b => b.layer_norm(x.as_ref(), Some((&w).into()), Some((&bias).into()), LayerNorm::eps(1e-5)))
        }
        _ => checked!(b => b.softmax(x.as_ref(), Softmax::axis(-1))),
    }
}

/// Over the last axis or the first.
fn reduction<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let (x, axis) = (random::<T>(1, dims)?, if op.ends_with("_first") { 0 } else { -1 });
    match op.trim_end_matches("_first") {
        "sum" => checked!(b => b.sum(x.as_ref(), axis)),
        "argsort" => checked!(b => b.argsort(x.as_ref(), ArgSort::axis(axis))),
        "max" => checked!(b => b.max(x.as_ref(), axis)),
        _ => checked!(b => b.argmax(x.as_ref(), axis)),
    }
}

fn rope<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let form = match op {
        "rope_neox" => RopeForm::Half,
        "rope_thd" => RopeForm::HalfThd,
        _ => RopeForm::Interleaved,
    };
    let tables = [dims[if op == "rope_thd" { 1 } else { 2 }], dims[3] / 2];
    let (x, cos, sin) = (random::<T>(1, dims)?, random::<T>(2, &tables)?, random::<T>(3, &tables)?);
    checked!(b => b.rope(x.as_ref(), cos.as_ref(), sin.as_ref(), Rope::new(form)))
}

fn product<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let (m, k, n) = (dims[0], dims[1], dims[2]);
    let x = random::<T>(1, &[m, k])?;
    let w = random::<T>(2, &if op == "matmul" { [k, n] } else { [n, k] })?;
    let some = x.narrow(0, 0, m.min(CHECKED_ROWS))?;
    if op == "matmul" {
        drop(checker().matmul(some, w.as_ref())?);
        return boxed(move || Cpu::new().matmul(x.as_ref(), w.as_ref()));
    }
    drop(checker().linear(some, w.as_ref())?);
    boxed(move || Cpu::new().linear(x.as_ref(), w.as_ref()))
}

/// Batch, channels, height, width, output channels, kernel and groups; stride 1, and padding that keeps the extents.
fn convolution<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let &[b, c, h, w, o, k, groups] = dims else {
        return Err(ops_core::Error::param("conv2d", "dims", dims.len(), "7"));
    };
    let (x, padding) = (random::<T>(1, &[b, c, h, w])?, (k - 1) / 2);
    if op == "conv_transpose2d" {
        let weight = random::<T>(2, &[c, o / groups, k, k])?;
        let options = ConvTranspose2d::new().padding(padding).groups(groups);
        return checked!(b => b.conv_transpose2d(&x, &weight, None, options));
    }
    let weight = random::<T>(2, &[o, c / groups, k, k])?;
    checked!(b => b.conv2d(&x, &weight, None, Conv2d::new().padding(padding).groups(groups)))
}

/// `[1, heads, t, d]` against `[1, kv_heads, s, d]`, causal.
fn attention<T: Float>(dims: &[usize]) -> Result<Run> {
    let &[h, hk, t, s, d] = dims else {
        return Err(ops_core::Error::param("attention", "dims", dims.len(), "5"));
    };
    let (q, k, v) =
        (random::<T>(1, &[1, h, t, d])?, random::<T>(2, &[1, hk, s, d])?, random::<T>(3, &[1, hk, s, d])?);
    checked!(b => b.attention(q.as_ref(), k.as_ref(), v.as_ref(), Attention::<T>::causal()))
}

fn elementwise<T: Float>(op: &str, dims: &[usize]) -> Result<Run> {
    let (x, y) = (random::<T>(1, dims)?, random::<T>(2, dims)?);
    let unary = |f: UnaryFn| {
        let x = random::<T>(1, dims)?;
        checked!(b => b.unary(x.as_ref(), f))
    };
    match op {
        "silu" => unary(UnaryFn::Silu),
        "gelu" => unary(UnaryFn::Gelu),
        "gelu_erf" => unary(UnaryFn::GeluErf),
        "sigmoid" => unary(UnaryFn::Sigmoid),
        "affine" => checked!(b => b.affine(x.as_ref(), 2.0, 1.0)),
        "powf" => {
            let x = Cpu::new().abs(&x)?;
            checked!(b => b.powf(&x, 1.7))
        }
        "clamp" => checked!(b => b.clamp(x.as_ref(), T::from_f64(-0.5), T::from_f64(0.5))),
        "eq" => checked!(b => b.eq(x.as_ref(), y.as_ref())),
        "lt" => checked!(b => b.lt(x.as_ref(), y.as_ref())),
        "transpose" => checked!(b => b.copy_of(x.transpose(0, 1)?)),
        "add" => checked!(b => b.add(x.as_ref(), y.as_ref())),
        "swiglu" => checked!(b => b.swiglu(x.as_ref(), y.as_ref())),
        "where" => {
            let flags: Vec<u8> = x.buffer().iter().map(|v| u8::from(v.to_f64() >= 0.0)).collect();
            let cond: TensorOf<Cpu, u8> = Cpu::new().tensor(dims, &flags)?;
            checked!(b => b.where_(cond.as_ref(), x.as_ref(), y.as_ref()))
        }
        other => Err(ops_core::Error::param("peer", "op", 0, format!("a known op, not {other}"))),
    }
}
