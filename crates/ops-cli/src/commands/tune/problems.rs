//! The problem that is timed for each op. At the largest scale its sizes are those of a decoder. A knob that is a threshold
//! between two kernels needs several sizes.
use ops_core::ops::{
    Attention, AttentionMethods, ElementwiseMethods, ExpertMethods, LinearMethods, MatMulMethods,
    NormMethods, RmsNorm,
};
use ops_core::quant::{Block, BlockQ8_0};
use ops_core::{Backend, Error, Reason, Result, TensorOf, f16};
use ops_rocm::Rocm;

/// Launches a problem and waits for it.
pub(super) type Call = Box<dyn FnMut() -> Result<()>>;

type Half = TensorOf<Rocm, f16>;

/// Sets up a problem of the given size.
type SetUp = fn(&Rocm, usize) -> Result<Call>;

/// A problem for every op that has knobs.
const PROBLEMS: [(&str, SetUp); 7] = [
    ("add", add),
    ("rms_norm", rms_norm),
    ("linear", linear),
    ("qlinear", qlinear),
    ("matmul", matmul),
    ("attention", attention),
    ("linear_experts", linear_experts),
];

/// Sets up the problem of an op.
pub(super) fn of(rocm: &Rocm, op: &'static str, scale: u32) -> Result<Call> {
    let missing = || Error::Unsupported {
        op,
        backend: "rocm",
        reason: Reason::Because("there is no problem to time it with".into()),
    };
    let (_, set_up) = PROBLEMS.iter().find(|(name, _)| *name == op).ok_or_else(missing)?;
    set_up(rocm, 64 << scale)
}

/// A call that runs `f` on each of `operands`, then waits.
fn call<T: 'static>(rocm: &Rocm, operands: Vec<T>, f: impl Fn(&Rocm, &T) -> Result<Half> + 'static) -> Call {
    let gpu = rocm.clone();
    Box::new(move || {
        operands.iter().try_for_each(|operand| f(&gpu, operand).map(drop))?;
        gpu.synchronize()
    })
}

/// One tensor of activations for each number of rows in `counts`.
fn activations(rocm: &Rocm, counts: &[usize], width: usize) -> Result<Vec<Half>> {
    counts.iter().map(|&rows| rocm.zeros(&[rows, width])).collect()
}

fn add(rocm: &Rocm, unit: usize) -> Result<Call> {
    let pair = (rocm.zeros(&[unit, unit])?, rocm.zeros(&[unit, unit])?);
    Ok(call(rocm, vec![pair], |gpu, (a, b): &(Half, Half)| gpu.add(a.as_ref(), b.as_ref())))
}

fn rms_norm(rocm: &Rocm, unit: usize) -> Result<Call> {
    let weight: Half = rocm.zeros(&[unit])?;
    let x = activations(rocm, &[unit], unit)?;
    Ok(call(rocm, x, move |gpu, x| gpu.rms_norm(x.as_ref(), weight.as_ref(), RmsNorm::eps(1e-5))))
}

fn linear(rocm: &Rocm, unit: usize) -> Result<Call> {
    let weight: Half = rocm.zeros(&[unit, unit])?;
    let x = activations(rocm, &[2, 4, 8, 16], unit)?;
    Ok(call(rocm, x, move |gpu, x| gpu.linear(x.as_ref(), weight.as_ref())))
}

fn qlinear(rocm: &Rocm, unit: usize) -> Result<Call> {
    let weight = rocm.zeros::<BlockQ8_0>(&[unit, unit / BlockQ8_0::LEN])?;
    let x = activations(rocm, &[1, 2, 4, 8, 16], unit)?;
    Ok(call(rocm, x, move |gpu, x| gpu.linear(x.as_ref(), &weight)))
}

fn matmul(rocm: &Rocm, unit: usize) -> Result<Call> {
    let pair = |n| Ok((rocm.zeros(&[n, n])?, rocm.zeros(&[n, n])?));
    let pairs = [unit / 2, unit / 4 * 3, unit].into_iter().map(pair).collect::<Result<Vec<_>>>()?;
    Ok(call(rocm, pairs, |gpu, (a, b): &(Half, Half)| gpu.matmul(a.as_ref(), b.as_ref())))
}

fn attention(rocm: &Rocm, unit: usize) -> Result<Call> {
    let q: Half = rocm.zeros(&[1, 8, 1, 128])?;
    let cache = |keys| rocm.zeros(&[1, 2, keys, 128]);
    let caches: Vec<Half> = [unit, unit * 4].into_iter().map(cache).collect::<Result<_>>()?;
    Ok(call(rocm, caches, move |gpu, kv| {
        gpu.attention(q.as_ref(), kv.as_ref(), kv.as_ref(), Attention::causal())
    }))
}

/// Two of eight experts per token; all experts get the same number of tokens.
fn linear_experts(rocm: &Rocm, unit: usize) -> Result<Call> {
    const EXPERTS: usize = 8;
    let weight: Half = rocm.zeros(&[EXPERTS, unit / 2, unit])?;
    let problem = |tokens: usize| {
        let ids: Vec<u32> = (0..2 * tokens as u32).map(|choice| choice % EXPERTS as u32).collect();
        Ok((rocm.zeros(&[tokens, 1, unit])?, rocm.tensor(&[tokens, 2], &ids)?))
    };
    let problems = [4, 8, 16, 32, 64].into_iter().map(problem).collect::<Result<Vec<_>>>()?;
    Ok(call(rocm, problems, move |gpu, (x, ids): &(Half, TensorOf<Rocm, u32>)| {
        gpu.linear_experts(x.as_ref(), &weight, ids, None)
    }))
}

#[cfg(test)]
mod tests {
    use super::PROBLEMS;
    use ops_rocm::KNOBS;

    #[test]
    fn every_knob_has_a_problem() {
        for knob in &KNOBS {
            assert!(PROBLEMS.iter().any(|(op, _)| *op == knob.op), "{} of {}", knob.name, knob.op);
        }
    }
}
