//! Scaled dot-product attention.
use super::{In, Reference, gather, line, scatter};
use crate::{Host, Kernel};
use ops_core::ops::{Attention, AttentionArgs};
use ops_core::{Float, Mask, Result, View};

/// The features of one head at one token.
fn features<T: Float>(x: &In<'_, T>, index: [usize; 3]) -> Vec<f64> {
    let layout = x.layout();
    gather(x, line(layout, 3, layout.position(&index)))
}

impl<T: Float, M: Mask> Kernel<Attention<T, M>> for Reference {
    fn compute(&self, op: &Attention<T, M>, a: &mut AttentionArgs<'_, Host, T, M>) -> Result<()> {
        let &[batch, heads, t, d] = a.q.dims() else { return Ok(()) };
        let (s, group) = (a.k.dims()[2], heads / a.k.dims()[1].max(1));
        let (scale, lo) = (op.scale_for(d), *a.o.layout());
        for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..t).map(move |i| (b, h, i))))
        {
            let q = features(&a.q, [b, h, i]);
            let kv = |x: &In<'_, T>, j| features(x, [b, h / group, j]);
            let visible = op.visible(i, t, s);
            let scores: Vec<f64> = visible
                .clone()
                .map(|j| {
                    let dot: f64 = q.iter().zip(kv(&a.k, j)).map(|(q, k)| q * k).sum();
                    let score = op.softcap.map_or(dot * scale, |c| c * (dot * scale / c).tanh());
                    let distance = j as f64 - (s as f64 - t as f64 + i as f64);
                    let slope =
                        a.alibi.as_ref().map_or(0.0, |x| x.data()[x.layout().position(&[h])].to_f64());
                    let mask =
                        a.mask.as_ref().map_or(0.0, |x| x.data()[x.layout().position(&[b, h, i, j])].bias());
                    score + slope * distance + mask
                })
                .collect();
            let max = scores.iter().fold(f64::NEG_INFINITY, |m, v| if m.is_nan() || m > *v { m } else { *v });
            let mut o = vec![0.0; d];
            if max != f64::NEG_INFINITY {
                let weights: Vec<f64> = scores.iter().map(|v| (v - max).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for (j, w) in visible.zip(weights) {
                    // A hidden key adds nothing, whatever its value is.
                    if w != 0.0 {
                        o.iter_mut().zip(kv(&a.v, j)).for_each(|(o, v)| *o += w / sum * v);
                    }
                }
            }
            scatter(&mut a.o, line(&lo, 3, lo.position(&[b, h, i])), o);
        }
        Ok(())
    }
}
