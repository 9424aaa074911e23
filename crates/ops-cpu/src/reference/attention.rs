//! Scaled dot-product attention.
use super::{Reference, line, max};
use crate::host::raw::{Raw, RawMut};
use crate::host::sequences::{Sequence, Sequences};
use crate::{Host, Kernel};
use core::ops::Range;
use ops_core::ops::{Attention, AttentionPaged, AttentionVarlen};
use ops_core::{Call, DType, Error, Float, Result};

/// The options and operands that every row of a call uses.
struct Rules<'a> {
    alibi: Option<Raw<'a>>,
    sinks: Option<Raw<'a>>,
    scale: f64,
    softcap: Option<f64>,
}

/// One row of the scores: a query of one head.
struct Query {
    features: Vec<f64>,
    head: usize,
    /// Its position among the keys, which may lie before the first one.
    position: f64,
    /// The keys that it may see.
    visible: Range<usize>,
}

impl Rules<'_> {
    /// The output of one row and the logarithm of its denominator. `mask`, `key` and `value` return the
    /// summand for the score of a key (`None` hides it), its features and its values.
    fn attend(
        &self,
        query: &Query,
        mask: impl Fn(usize) -> Option<f64>,
        key: impl Fn(usize) -> Vec<f64>,
        value: impl Fn(usize) -> Vec<f64>,
        width: usize,
    ) -> (Vec<f64>, f64) {
        let of_head = |x: Option<Raw<'_>>| x.map(|x| x.f64(x.layout.position(&[query.head])));
        let slope = of_head(self.alibi).unwrap_or(0.0);
        let score = |j: usize| {
            let Some(added) = mask(j) else { return f64::NEG_INFINITY };
            let dot: f64 = query.features.iter().zip(key(j)).map(|(q, k)| q * k).sum();
            let score = self.softcap.map_or(dot * self.scale, |c| c * (dot * self.scale / c).tanh());
            score + slope * (j as f64 - query.position) + added
        };
        let scores: Vec<f64> = query.visible.clone().map(score).collect();
        let sink = of_head(self.sinks).unwrap_or(f64::NEG_INFINITY);
        let max = max(&[&scores[..], &[sink]].concat());
        let mut sum = vec![0.0; width];
        if max == f64::NEG_INFINITY {
            return (sum, max);
        }
        let weights: Vec<f64> = scores.iter().map(|v| (v - max).exp()).collect();
        let total = weights.iter().sum::<f64>() + (sink - max).exp();
        // A hidden key adds nothing, even if its value is NaN.
        for (j, w) in query.visible.clone().zip(weights).filter(|(_, w)| *w != 0.0) {
            sum.iter_mut().zip(value(j)).for_each(|(o, v)| *o += w / total * v);
        }
        (sum, max + total.ln())
    }
}

/// The features of one head at one token.
fn features(x: Raw<'_>, index: &[usize]) -> Vec<f64> {
    x.gather(line(&x.layout, index.len(), x.layout.position(index)))
}

/// The value that a mask adds to a score; `None` hides the key, whatever it holds.
fn bias(mask: Raw<'_>, index: [usize; 4]) -> Option<f64> {
    let value = mask.f64(mask.layout.position(&index));
    match (mask.dtype, value) {
        (DType::U8, 0.0) => None,
        (DType::U8, _) => Some(0.0),
        _ => Some(value),
    }
}

/// The outputs of a call.
struct Outputs<'a> {
    o: RawMut<'a>,
    lse: Option<RawMut<'a>>,
}

impl Outputs<'_> {
    fn store(&mut self, index: &[usize], (sum, denominator): (Vec<f64>, f64)) {
        let layout = self.o.layout;
        self.o.scatter(line(&layout, index.len(), layout.position(index)), sum);
        if let Some(lse) = &mut self.lse {
            lse.set(lse.layout.position(index), denominator);
        }
    }
}

/// The position of query `i` of `t` among `s` keys.
fn position(i: usize, t: usize, s: usize) -> f64 {
    s as f64 - t as f64 + i as f64
}

impl<T: Float> Kernel<Attention<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, Attention<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let &[batch, heads, t, d] = q.dims() else {
            return Err(Error::shape("attention", "q", &q.layout, "[b, h, t, d]"));
        };
        let (alibi, sinks, mask) = (Raw::any_if(&a.alibi), Raw::any_if(&a.sinks), Raw::any_if(&a.mask));
        let rules = Rules { alibi, sinks, scale: op.scale_for(d), softcap: op.softcap };
        let (s, group) = (k.dims()[2], heads / k.dims()[1].max(1));
        let mut outputs = Outputs { o: RawMut::of(&mut a.o), lse: a.lse.as_mut().map(RawMut::of) };
        for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..t).map(move |i| (b, h, i))))
        {
            let query = Query {
                features: features(q, &[b, h, i]),
                head: h,
                position: position(i, t, s),
                visible: op.visible(i, t, s),
            };
            let mask = |j| mask.map_or(Some(0.0), |mask| bias(mask, [b, h, i, j]));
            let (key, value) = (|j| features(k, &[b, h / group, j]), |j| features(v, &[b, h / group, j]));
            outputs.store(&[b, h, i], rules.attend(&query, mask, key, value, v.layout.last()));
        }
        Ok(())
    }
}

/// Attention within each sequence, whose keys and values are rows of the blocks `k` and `v[blocks, block, h_kv, ..]`.
fn ragged<T: Float>(
    op: &Attention<T>,
    sequences: &Sequences,
    q: Raw<'_>,
    [k, v]: [Raw<'_>; 2],
    [alibi, sinks]: [Option<Raw<'_>>; 2],
    mut outputs: Outputs<'_>,
) {
    let (heads, kv_heads) = (q.dims()[1], k.dims()[2]);
    let rules = Rules { alibi, sinks, scale: op.scale_for(q.layout.last()), softcap: op.softcap };
    let rows =
        |sequence: &Sequence| (0..sequence.queries.len()).flat_map(move |i| (0..heads).map(move |h| (i, h)));
    for (sequence, (i, h)) in sequences.list.iter().flat_map(|s| rows(s).map(move |row| (s, row))) {
        let (t, s, row) = (sequence.queries.len(), sequence.keys, sequence.queries.start + i);
        let query = Query {
            features: features(q, &[row, h]),
            head: h,
            position: position(i, t, s),
            visible: op.visible(i, t, s),
        };
        let of_key = |x, j| {
            let [block, row] = sequences.place(sequence, j);
            features(x, &[block, row, h / (heads / kv_heads)])
        };
        let result = rules.attend(&query, |_| Some(0.0), |j| of_key(k, j), |j| of_key(v, j), v.layout.last());
        outputs.store(&[row, h], result);
    }
}

impl<T: Float> Kernel<AttentionVarlen<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, AttentionVarlen<T>, Host>) -> Result<()> {
        let name = call.name();
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (rows, keys) = (q.dims()[0], k.dims()[0]);
        let sequences = Sequences::varlen(name, (Raw::of(&a.cu_q), rows), (Raw::of(&a.cu_k), keys))?;
        // All keys form one block.
        let block = |x: Raw<'_>| x.layout.unsqueeze(0);
        let (k, v) = (k.with_layout(block(k)?), v.with_layout(block(v)?));
        let outputs = Outputs { o: RawMut::of(&mut a.o), lse: a.lse.as_mut().map(RawMut::of) };
        let extras = [Raw::any_if(&a.alibi), Raw::any_if(&a.sinks)];
        ragged(&op.attention, &sequences, q, [k, v], extras, outputs);
        Ok(())
    }
}

impl<T: Float> Kernel<AttentionPaged<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, AttentionPaged<T>, Host>) -> Result<()> {
        let name = call.name();
        let (op, a) = call.into_parts();
        let (q, k, v) = (Raw::of(&a.q), Raw::of(&a.k), Raw::of(&a.v));
        let (table, lengths) = (Raw::any(&a.block_table), Raw::any(&a.lengths));
        let blocks = [k.dims()[0], k.dims()[1]];
        let sequences = Sequences::paged(name, blocks, table, lengths, (Raw::of(&a.cu_q), q.dims()[0]))?;
        let outputs = Outputs { o: RawMut::of(&mut a.o), lse: a.lse.as_mut().map(RawMut::of) };
        let extras = [Raw::any_if(&a.alibi), Raw::any_if(&a.sinks)];
        ragged(&op.attention, &sequences, q, [k, v], extras, outputs);
        Ok(())
    }
}
