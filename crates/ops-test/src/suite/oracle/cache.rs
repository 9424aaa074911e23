//! Writing rows to key and value caches.
use super::double::Double;
use super::{Wants, convert, dot, exactly, integers, logical, norm, optional, values, want};
use crate::judge::Want;
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::{
    QkNormRopeCacheWrite, RmsNormLinearRopeCacheWrite, RopeCacheWrite, RopeOrder, RopeQkCacheWrite,
};
use ops_core::{DType, Layout, Op, Operand, Operands, Role, bf16, f16};

/// The ops computed here.
pub(super) const OPS: &[&str] = &[
    "cache_write",
    "rope_cache_write",
    "qk_norm_rope_cache_write",
    "rope_qk_cache_write",
    "rms_norm_linear_rope_cache_write",
];

pub(super) fn wants(case: &Case) -> Wants {
    let slots = slots(case)?;
    if case.op == "cache_write" {
        return Ok(vec![stored(case, &slots, "x", "cache")?]);
    }
    if case.op == "rms_norm_linear_rope_cache_write" {
        return projected(case, &slots);
    }
    let with_queries = case.op == "rope_qk_cache_write";
    let turned = |name: &str, weight: &str| -> Result<Vec<Double>, CallError> {
        let x = values(case, name)?;
        let normed = match optional(case, weight)? {
            Some(weight) => norm::rms_norm(&x.of, &weight.of, case.params.f64("eps")?),
            None => x.of.iter().map(|v| Double::of(*v)).collect(),
        };
        rotated(case, normed, (x.dims[1], x.dims[2]))
    };
    let k = values(case, "k")?;
    let d = k.dims[2];
    let rotated = turned("k", if with_queries { "k_norm" } else { "weight" })?;
    let mut keys: Vec<Double> = values(case, "k_cache")?.of.into_iter().map(Double::of).collect();
    let row = k.dims[1] * d;
    for (i, slot) in slots.iter().enumerate().filter_map(|(i, slot)| Some((i, (*slot)?))) {
        keys[slot * row..][..row].copy_from_slice(&rotated[i * row..][..row]);
    }
    let op = RopeQkCacheWrite::<f64>::eps(0.0);
    let mut wanted = match with_queries {
        true => vec![want(case, &op, "y", &turned("q", "q_norm")?)?],
        false => Vec::new(),
    };
    wanted.push(match case.op.as_str() {
        "rope_qk_cache_write" => want(case, &op, "k_cache", &keys)?,
        "rope_cache_write" => want(case, &RopeCacheWrite::<f64>::order(RopeOrder::Half), "k_cache", &keys)?,
        _ => want(case, &QkNormRopeCacheWrite::<f64>::eps(0.0), "k_cache", &keys)?,
    });
    wanted.push(stored(case, &slots, "v", "v_cache")?);
    Ok(wanted)
}

/// The product in exact arithmetic, then the rotation of its queries and keys.
fn projected(case: &Case, slots: &[Option<usize>]) -> Wants {
    let (x, y, values_of) = (values(case, "x")?, case.expect("y")?.layout, case.expect("v_cache")?.layout);
    let (&[n, m], &[_, g, d], &[_, h, dv]) = (&x.dims[..], y.dims(), values_of.dims()) else {
        return Err(CallError::Malformed("the operands have other ranks".into()));
    };
    let normed = norm::rms_norm(&x.of, &values(case, "norm")?.of, case.params.f64("eps")?);
    let normed: Vec<f64> = normed.into_iter().map(Double::nearest).collect();
    let of_weight = logical(case, "weight")?;
    let weight = match of_weight.dtype() {
        DType::Block(_) => of_weight.dequantized()?.into_iter().map(f64::from).collect(),
        _ => of_weight.to_f64()?,
    };
    let bias = optional(case, "bias")?.map(|bias| bias.of);
    // Heads of a kind, `heads` of `width` features each from column `first` on.
    let part = |first: usize, heads: usize, width: usize| -> Vec<Double> {
        let columns = first..first + heads * width;
        let places = (0..n).flat_map(|row| columns.clone().map(move |column| (row, column)));
        let sum = |(row, column): (usize, usize)| {
            let row = normed[row * m..][..m].to_vec();
            let product = dot(case.dtype, core::iter::zip(row, weight[column * m..][..m].to_vec()));
            product + Double::of(bias.as_ref().map_or(0.0, |bias| bias[column]))
        };
        places.map(sum).collect()
    };
    let keys = rotated(case, part(g * d, h, d), (h, d))?;
    let parts = [(h * d, "k_cache", keys), (h * dv, "v_cache", part((g + h) * d, h, dv))];
    let weight = Weight(of_weight.dtype(), case.expect("weight")?.layout);
    let wanted = |name: &'static str, of: Vec<Double>| -> Result<Want, CallError> {
        let dtype = case.dtype_of(name)?;
        let tolerance = match case.dtype {
            DType::F16 => RmsNormLinearRopeCacheWrite::<f16>::eps(0.0).tolerance(name, dtype, &weight),
            DType::BF16 => RmsNormLinearRopeCacheWrite::<bf16>::eps(0.0).tolerance(name, dtype, &weight),
            _ => RmsNormLinearRopeCacheWrite::<f64>::eps(0.0).tolerance(name, dtype, &weight),
        };
        let of: Vec<f64> = of.into_iter().map(Double::nearest).collect();
        Ok(Want { name: name.into(), values: Array::from_slice(&of)?, tolerance })
    };
    let mut wants = vec![wanted("y", rotated(case, part(0, g, d), (g, d))?)?];
    for (row, name, new) in parts {
        let mut cache: Vec<Double> = values(case, name)?.of.into_iter().map(Double::of).collect();
        for (i, slot) in slots.iter().enumerate().filter_map(|(i, slot)| Some((i, (*slot)?))) {
            cache[slot * row..][..row].copy_from_slice(&new[i * row..][..row]);
        }
        wants.push(wanted(name, cache)?);
    }
    Ok(wants)
}

/// The weight, because the tolerance depends on it.
struct Weight(DType, Layout);
impl Operands for Weight {
    fn count(&self) -> usize {
        1
    }
    fn operand(&self, _: usize) -> Option<Operand<'_>> {
        Some(Operand { name: "weight", role: Role::In, dtype: self.0, layout: &self.1, packing: None })
    }
}

/// The slot of each row; none for the largest value of the index type.
fn slots(case: &Case) -> Result<Vec<Option<usize>>, CallError> {
    let slots = logical(case, "slots")?;
    let (bits, signed) = integers::width(slots.dtype())
        .ok_or_else(|| CallError::Malformed("slots does not hold integers".into()))?;
    let none = ((1i128 << (bits - u32::from(signed))) - 1) as i64;
    let slot = |slot: &Wide| match slot {
        Wide::Int(slot) if *slot != none => Some(*slot as usize),
        _ => None,
    };
    Ok(slots.to_wide()?.iter().map(slot).collect())
}

/// The cache with the rows of `x` at their slots, converted by the cast rules.
fn stored(case: &Case, slots: &[Option<usize>], x: &str, cache: &str) -> Result<Want, CallError> {
    let (rows, mut after) = (logical(case, x)?.to_wide()?, logical(case, cache)?.to_wide()?);
    let (to, row) = (case.dtype_of(cache)?, rows.len() / slots.len().max(1));
    for (i, slot) in slots.iter().enumerate() {
        let Some(slot) = slot else { continue };
        for j in 0..row {
            after[slot * row + j] = convert(rows[i * row + j], to);
        }
    }
    Ok(exactly(cache, Array::from_wide(to, after.into_iter())?))
}

/// Heads, `h` of each token, of `d` features.
fn rotated(case: &Case, mut y: Vec<Double>, (h, d): (usize, usize)) -> Result<Vec<Double>, CallError> {
    let (cos, sin) = (values(case, "cos")?, values(case, "sin")?);
    let (positions, half) = (values(case, "positions")?.of, cos.dims[1]);
    let adjacent = case.params.word("order", |word| Some(word == "interleaved"))? == Some(true);
    for head in 0..y.len() / d.max(1) {
        let angle = positions[head / h] as usize;
        for j in 0..half {
            let [c, s] = [&cos, &sin].map(|table| Double::of(table.of[angle * half + j]));
            let (one, other) = if adjacent { (2 * j, 2 * j + 1) } else { (j, j + half) };
            let (one, other) = (head * d + one, head * d + other);
            let (a, b) = (y[one], y[other]);
            y[one] = a * c - b * s;
            y[other] = a * s + b * c;
        }
    }
    Ok(y)
}
