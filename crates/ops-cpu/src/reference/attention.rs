//! Scaled dot-product attention.
use super::{Reference, line, max};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use core::ops::Range;
use ops_core::ops::Attention;
use ops_core::{Call, DType, Error, Float, Result};

/// The operands that attention reads.
struct Operands<'a> {
    q: Raw<'a>,
    k: Raw<'a>,
    v: Raw<'a>,
    mask: Option<Raw<'a>>,
    alibi: Option<Raw<'a>>,
    sinks: Option<Raw<'a>>,
    scale: f64,
    softcap: Option<f64>,
}

/// The features of one head at one token.
fn features(x: Raw<'_>, index: [usize; 3]) -> Vec<f64> {
    x.gather(line(&x.layout, 3, x.layout.position(&index)))
}

/// The value that a mask adds to a score.
fn bias(mask: Raw<'_>, index: [usize; 4]) -> f64 {
    let value = mask.f64(mask.layout.position(&index));
    match (mask.dtype, value) {
        (DType::U8, 0.0) => f64::NEG_INFINITY,
        (DType::U8, _) => 0.0,
        _ => value,
    }
}

fn attention(
    a: &Operands<'_>,
    visible: impl Fn(usize) -> Range<usize>,
    mut o: RawMut<'_>,
    mut lse: Option<RawMut<'_>>,
) -> Result<()> {
    let &[batch, heads, t, _] = a.q.dims() else {
        return Err(Error::shape("attention", "q", &a.q.layout, "[b, h, t, d]"));
    };
    let (s, group, lo) = (a.k.dims()[2], heads / a.k.dims()[1].max(1), o.layout);
    for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..t).map(move |i| (b, h, i)))) {
        let q = features(a.q, [b, h, i]);
        let slope = a.alibi.map_or(0.0, |x| x.f64(x.layout.position(&[h])));
        let score = |j: usize| {
            let dot: f64 = q.iter().zip(features(a.k, [b, h / group, j])).map(|(q, k)| q * k).sum();
            let score = a.softcap.map_or(dot * a.scale, |c| c * (dot * a.scale / c).tanh());
            let distance = j as f64 - (s as f64 - t as f64 + i as f64);
            score + slope * distance + a.mask.map_or(0.0, |mask| bias(mask, [b, h, i, j]))
        };
        let scores: Vec<f64> = visible(i).map(score).collect();
        let sink = a.sinks.map_or(f64::NEG_INFINITY, |x| x.f64(x.layout.position(&[h])));
        let max = max(&[&scores[..], &[sink]].concat());
        let (mut sum, mut denominator) = (vec![0.0; a.v.layout.last()], f64::NEG_INFINITY);
        if max != f64::NEG_INFINITY {
            let weights: Vec<f64> = scores.iter().map(|v| (v - max).exp()).collect();
            let total = weights.iter().sum::<f64>() + (sink - max).exp();
            denominator = max + total.ln();
            // A hidden key adds nothing, even if its value is NaN.
            for (j, w) in visible(i).zip(weights).filter(|(_, w)| *w != 0.0) {
                let v = features(a.v, [b, h / group, j]);
                sum.iter_mut().zip(v).for_each(|(o, v)| *o += w / total * v);
            }
        }
        if let Some(lse) = &mut lse {
            lse.set(lse.layout.position(&[b, h, i]), denominator);
        }
        o.scatter(line(&lo, 3, lo.position(&[b, h, i])), sum);
    }
    Ok(())
}

impl<T: Float> Kernel<Attention<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Attention<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (mask, alibi, sinks) = (Raw::any_if(&a.mask), Raw::any_if(&a.alibi), Raw::any_if(&a.sinks));
        let (scale, softcap) = (op.scale_for(q.layout.last()), op.softcap);
        let operands = Operands { q, k, v, mask, alibi, sinks, scale, softcap };
        let (t, s) = (q.dims()[2], k.dims()[2]);
        let lse = a.lse.as_mut().map(RawMut::of);
        attention(&operands, |i| op.visible(i, t, s), RawMut::of(&mut a.o), lse)
    }
}
