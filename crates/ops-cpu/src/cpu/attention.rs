//! Scaled dot-product attention with an online softmax: keys and values are read once, in place,
//! and no row of scores is stored. Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018.
use super::Cpu;
use super::matmul::dot;
use super::rows::{Rows, each};
use crate::{Host, Kernel};
use num_traits::Float as _;
use ops_core::ops::{Attention, AttentionArgs};
use ops_core::{Float, Mask, Result, Scalar, View};

/// What a task keeps between rows.
struct Scratch<T: Float> {
    gathered: Vec<T>,
    wide: Vec<T::Acc>,
    q: Vec<T::Acc>,
    o: Vec<T::Acc>,
}

impl<T: Float> Scratch<T> {
    fn new() -> Self {
        Scratch { gathered: Vec::new(), wide: Vec::new(), q: Vec::new(), o: Vec::new() }
    }
}

impl<T: Float, M: Mask> Kernel<Attention<T, M>> for Cpu {
    fn compute(&self, op: &Attention<T, M>, a: &mut AttentionArgs<'_, Host, T, M>) -> Result<()> {
        let &[_, heads, t, d] = a.q.dims() else { return Ok(()) };
        let (kv_heads, s) = (a.k.dims()[1], a.k.dims()[2]);
        let (q, k, v) = (Rows::of(&a.q), Rows::of(&a.k), Rows::of(&a.v));
        let (scale, group) = (T::Acc::from_f64(op.scale_for(d)), heads / kv_heads.max(1));
        let cap = op.softcap.map(T::Acc::from_f64);
        let (mask, alibi) = (&a.mask, &a.alibi);

        each(&mut a.o, 2 * s * d, Scratch::<T>::new, |scratch, row, o| {
            let (b, h, i) = (row / (heads * t), row / t % heads, row % t);
            let kv = |j: usize| (b * kv_heads + h / group) * s + j;
            let slope = alibi.as_ref().map(|x| x.data()[x.layout().position(&[h])].acc());
            let bias = |j| {
                mask.as_ref().map(|x| T::Acc::from_f64(x.data()[x.layout().position(&[b, h, i, j])].bias()))
            };
            let position = T::Acc::from_f64(s as f64 - t as f64 + i as f64);

            let Scratch { gathered, wide, q: q_row, o: sum } = scratch;
            q_row.clear();
            q_row.extend(q.get(row, gathered).iter().map(|v| v.acc() * scale));
            sum.clear();
            sum.resize(d, T::Acc::default());
            let (mut max, mut total) = (T::Acc::neg_infinity(), T::Acc::default());
            for j in op.visible(i, t, s) {
                wide.clear();
                wide.extend(k.get(kv(j), gathered).iter().map(|v| v.acc()));
                let mut score = dot(q_row, wide);
                if let Some(cap) = cap {
                    score = cap * (score / cap).tanh();
                }
                if let Some(slope) = slope {
                    score = score + slope * (T::Acc::from_f64(j as f64) - position);
                }
                if let Some(bias) = bias(j) {
                    score = score + bias;
                }
                if score == T::Acc::neg_infinity() {
                    continue;
                }
                // A new maximum rescales what has been summed so far.
                if score > max || score.is_nan() {
                    let shrink = (max - score).exp();
                    total = total * shrink;
                    sum.iter_mut().for_each(|o| *o = *o * shrink);
                    max = score;
                }
                let weight = (score - max).exp();
                total = total + weight;
                for (o, v) in sum.iter_mut().zip(v.get(kv(j), gathered)) {
                    *o = *o + weight * v.acc();
                }
            }
            let hidden = max == T::Acc::neg_infinity();
            for (o, sum) in o.iter_mut().zip(sum) {
                *o = T::from_acc(if hidden { T::Acc::default() } else { *sum / total });
            }
        });
        Ok(())
    }
}
