//! Writing rows to key and value caches.
use super::double::Double;
use super::{Values, Wants, convert, exactly, integers, logical, norm, optional, values, want};
use crate::{Array, CallError, Case};
use ops_core::Wide;
use ops_core::ops::{QkNormRopeCacheWrite, RopeCacheWrite, RopeOrder, RopeQkCacheWrite};

/// The ops computed here.
pub(super) const OPS: &[&str] =
    &["cache_write", "rope_cache_write", "qk_norm_rope_cache_write", "rope_qk_cache_write"];

pub(super) fn wants(case: &Case) -> Wants {
    let slots = slots(case)?;
    if case.op == "cache_write" {
        return Ok(vec![stored(case, &slots, "x", "cache")?]);
    }
    let with_queries = case.op == "rope_qk_cache_write";
    let turned = |name: &str, weight: &str| -> Result<Vec<Double>, CallError> {
        let x = values(case, name)?;
        let normed = match optional(case, weight)? {
            Some(weight) => norm::rms_norm(&x.of, &weight.of, case.params.f64("eps")?),
            None => x.of.iter().map(|v| Double::of(*v)).collect(),
        };
        rotated(case, normed, &x)
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
fn stored(
    case: &Case,
    slots: &[Option<usize>],
    x: &str,
    cache: &str,
) -> Result<crate::judge::Want, CallError> {
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

fn rotated(case: &Case, mut y: Vec<Double>, k: &Values) -> Result<Vec<Double>, CallError> {
    let (cos, sin) = (values(case, "cos")?, values(case, "sin")?);
    let (positions, half) = (values(case, "positions")?.of, cos.dims[1]);
    let (h, d) = (k.dims[1], k.dims[2]);
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
