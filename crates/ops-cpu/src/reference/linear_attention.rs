//! Linear attention.
use super::{Reference, line};
use crate::host::raw::{Raw, RawMut};
use crate::{Host, Kernel};
use ops_core::ops::{Conv1dUpdate, ConvActivation, GatedDeltaRule};
use ops_core::{Call, Float, Result};

impl<T: Float> Kernel<Conv1dUpdate<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Conv1dUpdate<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (x, weight, bias) = (Raw::of(&a.x), Raw::of(&a.weight), Raw::any_if(&a.bias));
        let (mut state, mut y) = (RawMut::of(&mut a.state), RawMut::of(&mut a.y));
        let (batch, channels, ls, ly) = (x.dims()[0], x.dims()[2], state.layout, y.layout);
        for (b, c) in (0..batch).flat_map(|b| (0..channels).map(move |c| (b, c))) {
            let of_state = || line(&ls, 2, ls.position(&[b, c, 0]));
            let mut inputs = state.as_raw().gather(of_state());
            inputs.extend(x.gather(line(&x.layout, 1, x.layout.position(&[b, 0, c]))));
            let weight = weight.gather(line(&weight.layout, 1, weight.layout.position(&[c, 0])));
            let bias = bias.map_or(0.0, |bias| bias.f64(bias.layout.position(&[c])));
            let sums = inputs.windows(weight.len()).map(|inputs| {
                let sum = inputs.iter().zip(&weight).map(|(x, w)| x * w).sum::<f64>() + bias;
                match op.activation {
                    ConvActivation::None => sum,
                    ConvActivation::Silu => sum / (1.0 + (-sum).exp()),
                }
            });
            y.scatter(line(&ly, 1, ly.position(&[b, 0, c])), sums.collect::<Vec<_>>());
            state.scatter(of_state(), inputs[inputs.len() + 1 - weight.len()..].iter().copied());
        }
        Ok(())
    }
}

impl<T: Float> Kernel<GatedDeltaRule<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, GatedDeltaRule<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (decay, beta) = (Raw::of(&a.decay), Raw::of(&a.beta));
        let (mut state, mut o) = (RawMut::of(&mut a.state), RawMut::of(&mut a.o));
        let (ls, lo, scale) = (state.layout, o.layout, op.scale_for(q.layout.last()));
        let &[batch, heads, d, _] = ls.dims() else { unreachable!("the rule gives the state four axes") };
        for (b, h) in (0..batch).flat_map(|b| (0..heads).map(move |h| (b, h))) {
            let row_of = |i: usize| line(&ls, 3, ls.position(&[b, h, i, 0]));
            let mut rows: Vec<Vec<f64>> = (0..d).map(|i| state.as_raw().gather(row_of(i))).collect();
            for t in 0..q.dims()[1] {
                let features = |x: Raw<'_>| x.gather(line(&x.layout, 3, x.layout.position(&[b, t, h, 0])));
                let gate = |x: Raw<'_>| x.f64(x.layout.position(&[b, t, h]));
                let (q, k, v, kept) = (features(q), features(k), features(v), gate(decay).exp());
                rows.iter_mut().flatten().for_each(|s| *s *= kept);
                let weighed = |weights: &[f64], rows: &[Vec<f64>], j: usize| {
                    weights.iter().zip(rows).map(|(w, row)| w * row[j]).sum::<f64>()
                };
                let missing: Vec<f64> =
                    v.iter().enumerate().map(|(j, v)| gate(beta) * (v - weighed(&k, &rows, j))).collect();
                for (k, row) in k.iter().zip(&mut rows) {
                    row.iter_mut().zip(&missing).for_each(|(s, r)| *s += k * r);
                }
                let out: Vec<f64> = (0..v.len()).map(|j| scale * weighed(&q, &rows, j)).collect();
                o.scatter(line(&lo, 3, lo.position(&[b, t, h, 0])), out);
            }
            for (i, row) in rows.into_iter().enumerate() {
                state.scatter(row_of(i), row);
            }
        }
        Ok(())
    }
}
