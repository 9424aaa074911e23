//! Products of tokens with the weights of their experts.
use super::Reference;
use super::quant::values;
use crate::host::raw::{Raw, RawMut, resolve};
use crate::{Host, Kernel};
use ops_core::ops::{LinearExperts, LinearExpertsCombine, LinearExpertsSwiglu};
use ops_core::{Call, DType, Float, Op, Result};

/// The products of each choice, `[n, k, o]` in row-major order. Choices of no expert have `None`.
fn products(
    name: &'static str,
    x: Raw<'_>,
    weight: Raw<'_>,
    ids: Raw<'_>,
    bias: Option<Raw<'_>>,
) -> Result<Vec<Option<Vec<f64>>>> {
    let [k, m] = [ids.dims()[1], x.dims()[1]];
    let mut all = Vec::new();
    for (at, expert) in resolve(name, ids, weight.dims()[0])?.into_iter().enumerate() {
        let (i, j) = (at / k, at % k);
        let Some(expert) = expert else {
            all.push(None);
            continue;
        };
        let row = x.gather(x.layout.narrow(0, i, 1)?.narrow(1, j.min(m - 1), 1)?.positions());
        let matrix = weight.layout.narrow(0, expert, 1)?;
        let bias = match bias {
            Some(bias) => bias.gather(bias.layout.narrow(0, expert, 1)?.positions()),
            None => vec![0.0; weight.dims()[1]],
        };
        let mut of_choice = Vec::new();
        for (o, bias) in bias.into_iter().enumerate() {
            let output = matrix.narrow(1, o, 1)?;
            let w = match weight.dtype {
                DType::Block(format) => values(format, weight, &output),
                _ => weight.gather(output.positions()),
            };
            let dot: f64 = row.iter().zip(&w).map(|(x, w)| x * w).sum();
            of_choice.push(dot + bias);
        }
        all.push(Some(of_choice));
    }
    Ok(all)
}

/// Each choice's products, or zeros without an expert.
fn linear_experts(
    name: &'static str,
    x: Raw<'_>,
    weight: Raw<'_>,
    ids: Raw<'_>,
    bias: Option<Raw<'_>>,
    mut y: RawMut<'_>,
) -> Result<()> {
    let all = products(name, x, weight, ids, bias)?;
    let zeros = vec![0.0; y.layout.last()];
    let values = all.into_iter().flat_map(|of| of.unwrap_or_else(|| zeros.clone()));
    y.scatter(y.layout.positions(), values);
    Ok(())
}

/// `g · sigmoid(g) · u`, or with a limit the clamped unit.
fn gated(gate: f64, up: f64, alpha: f64, limit: Option<f64>) -> f64 {
    match limit {
        None => gate / (1.0 + (-gate).exp()) * up,
        Some(limit) => {
            let (gate, up) = (clamped(gate, f64::NEG_INFINITY, limit), clamped(up, -limit, limit));
            gate / (1.0 + (-alpha * gate).exp()) * (up + 1.0)
        }
    }
}

/// NaN stays NaN.
fn clamped(v: f64, least: f64, most: f64) -> f64 {
    if v > most {
        most
    } else if v < least {
        least
    } else {
        v
    }
}

impl<T: Float> Kernel<LinearExperts<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearExperts<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        let (x, weight, ids) = (Raw::of(&a.x), Raw::any(&a.weight), Raw::any(&a.ids));
        linear_experts(name, x, weight, ids, Raw::any_if(&a.bias), RawMut::of(&mut a.y))
    }
}
impl<T: Float> Kernel<LinearExpertsSwiglu<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearExpertsSwiglu<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (op, a) = call.into_parts();
        let (x, ids, mut y) = (Raw::of(&a.x), Raw::any(&a.ids), RawMut::of(&mut a.y));
        let gates = products(name, x, Raw::any(&a.gate), ids, Raw::any_if(&a.gate_bias))?;
        let ups = products(name, x, Raw::any(&a.up), ids, Raw::any_if(&a.up_bias))?;
        let o = y.layout.last();
        let pairs = gates.into_iter().zip(ups);
        let values = pairs.flat_map(|pair| match pair {
            (Some(gate), Some(up)) => {
                gate.into_iter().zip(up).map(|(g, u)| gated(g, u, op.alpha, op.limit)).collect()
            }
            _ => vec![0.0; o],
        });
        y.scatter(y.layout.positions(), values);
        Ok(())
    }
}

impl<T: Float> Kernel<LinearExpertsCombine<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, LinearExpertsCombine<T>, Host>) -> Result<()> {
        let name = call.op().name();
        let (_, a) = call.into_parts();
        let (x, weight, ids) = (Raw::of(&a.x), Raw::any(&a.weight), Raw::any(&a.ids));
        let mut y = RawMut::of(&mut a.y);
        let all = products(name, x, weight, ids, Raw::any_if(&a.bias))?;
        let (o, k, weights) = (y.layout.last(), ids.dims()[1], Raw::of(&a.weights).values());
        let mut sums = vec![0.0; y.layout.len()];
        for (at, of_choice) in all.iter().enumerate() {
            for (sum, product) in sums[at / k * o..][..o].iter_mut().zip(of_choice.iter().flatten()) {
                *sum += weights[at] * product;
            }
        }
        y.scatter(y.layout.positions(), sums);
        Ok(())
    }
}
