//! Wrong kernels for attention over sequences of different lengths.
//!
//! They compute after the reference, which has then already reported indices out of range.
use super::super::backend::Mutant;
use super::super::tools::*;
use rocm_ops::backend::NamedTensors;
use rocm_ops::ops::{Attention, AttentionPaged, AttentionVarlen};
use rocm_ops::{DType, Float, Host, f16};

const F32: DType = DType::F32;

/// The steps that can go wrong.
#[derive(Clone, Copy)]
struct Knobs {
    /// The keys of a sequence, from its length and that of a block.
    keys: fn(usize, usize) -> usize,
    /// The entry of the table and the row of the block for key `j` in blocks of a length.
    place: fn(usize, usize) -> (usize, usize),
    /// Position of query `i` of `t` among `s` keys; the last number counts queries of all sequences.
    position: fn(usize, usize, usize, usize) -> isize,
    /// The first key of a sequence, from `cu_q` and `cu_k`.
    first: fn(usize, usize) -> usize,
    /// The key head for a query head, given the numbers of query and key heads.
    head: fn(usize, usize, usize) -> usize,
    /// How often a sink counts, given the number of keys.
    sinks: fn(usize) -> f64,
    /// The logarithm of a denominator, from the largest score, the sum of powers and the sink's part of it.
    lse: fn(f64, f64, f64) -> f64,
    probability: fn(f64) -> f64,
}

const RIGHT: Knobs = Knobs {
    keys: |keys, _| keys,
    place: |j, block| (j / block, j % block),
    position: |i, t, s, _| s as isize - t as isize + i as isize,
    first: |_, cu_k| cu_k,
    head: |head, heads, keys| head / (heads / keys),
    sinks: |_| 1.0,
    lse: |highest, total, _| highest + total.ln(),
    probability: |p| p,
};

/// A sequence: its first query, its queries and its keys.
type Sequence = (usize, usize, usize);

/// Attention of one sequence, whose keys are these rows of `k` and `v`. Of the rows beyond the sequence's
/// own, only `v` is read, with weight zero.
fn attend<T: Float>(
    op: &Attention<T>,
    o: &NamedTensors<Host>,
    (start, t, s): Sequence,
    rows: &[usize],
    k: Knobs,
    out: (&mut [f64], &mut [f64]),
) {
    let (&[_, h, d], &[.., kv, dv]) = (o["q"].dims(), o["v"].dims()) else { return };
    let [q, keys, v] = ["q", "k", "v"].map(|name| values(&o[name]));
    let (alibi, sinks) = (optional(o.get("alibi")), optional(o.get("sinks")));
    for (i, head) in (0..t).flat_map(|i| (0..h).map(move |head| (i, head))) {
        let (row, position) = ((start + i) * h + head, (k.position)(i, t, s, start));
        let at = |j: usize| rows[j] * kv + (k.head)(head, h, kv);
        let score = |j: usize| {
            let distance = j as isize - position;
            let hidden = op.causal && distance > 0
                || op.window.0.is_some_and(|w| -distance > w as isize)
                || op.window.1.is_some_and(|w| distance > w as isize);
            if hidden || j >= s {
                return f64::NEG_INFINITY;
            }
            let dot: f64 = (0..d).map(|e| q[row * d + e] * keys[at(j) * d + e]).sum();
            let score = op.softcap.map_or(dot * op.scale_for(d), |c| c * (dot * op.scale_for(d) / c).tanh());
            score + alibi.as_ref().map_or(0.0, |a| a[head] * distance as f64)
        };
        let scores: Vec<f64> = (0..rows.len()).map(score).collect();
        let sink = sinks.as_ref().map_or(f64::NEG_INFINITY, |sinks| sinks[head]);
        let highest = scores.iter().copied().fold(sink, f64::max);
        if highest == f64::NEG_INFINITY {
            continue;
        }
        let weight = (k.sinks)(s) * (sink - highest).exp();
        let total = scores.iter().map(|z| (z - highest).exp()).sum::<f64>() + weight;
        out.1[row] = (k.lse)(highest, total, weight);
        for e in 0..dv {
            let weighted = scores.iter().enumerate();
            let value =
                |(j, z): (usize, &f64)| (k.probability)((z - highest).exp() / total) * v[at(j) * dv + e];
            out.0[row * dv + e] = weighted.map(value).sum();
        }
    }
}

fn store(o: &mut NamedTensors<Host>, (sums, denominators): (Vec<f64>, Vec<f64>)) {
    set(&mut o["o"], sums);
    if let Some(lse) = o.get_mut("lse") {
        set(lse, denominators);
    }
}

/// Room for the outputs of a call.
fn blank(o: &NamedTensors<Host>) -> (Vec<f64>, Vec<f64>) {
    let rows: usize = o["q"].dims()[..2].iter().product();
    (vec![0.0; rows * o["v"].dims().last().copied().unwrap_or(0)], vec![f64::NEG_INFINITY; rows])
}

fn indices(o: &NamedTensors<Host>, name: &str) -> Vec<usize> {
    values(&o[name]).into_iter().map(|index| index as usize).collect()
}

fn varlen<T: Float>(op: &AttentionVarlen<T>, o: &mut NamedTensors<Host>, k: Knobs) {
    let (queries, keys, mut out) = (indices(o, "cu_q"), indices(o, "cu_k"), blank(o));
    let m = o["k"].dims()[0];
    for (q, own) in queries.windows(2).zip(keys.windows(2)) {
        // A wrong kernel may read keys of other sequences, but only existing ones.
        let s = (k.keys)(own[1] - own[0], 1).min(m);
        let rows: Vec<usize> = (0..s).map(|j| (m - 1).min((k.first)(q[0], own[0]) + j)).collect();
        attend(&op.attention, o, (q[0], q[1] - q[0], s), &rows, k, (&mut out.0, &mut out.1));
    }
    store(o, out);
}

/// `read` is the number of keys that are read of a sequence, computed from its length and that of a block.
fn paged<T: Float>(
    op: &AttentionPaged<T>,
    o: &mut NamedTensors<Host>,
    read: fn(usize, usize) -> usize,
    k: Knobs,
) {
    let (table, lengths, queries) = (indices(o, "block_table"), indices(o, "lengths"), indices(o, "cu_q"));
    let (&[blocks, block, ..], &[_, width]) = (o["k"].dims(), o["block_table"].dims()) else { return };
    let mut out = blank(o);
    for (i, (q, length)) in queries.windows(2).zip(lengths).enumerate() {
        let s = (k.keys)(length, block);
        let row = |j: usize| {
            let (entry, row) = (k.place)(j, block);
            // A wrong kernel may read beyond a row of the table, but not beyond the cache.
            table.get(i * width + entry).map_or(0, |block| block % blocks) * block + row % block
        };
        let rows: Vec<usize> = (0..read(s, block).min(width * block).max(s)).map(row).collect();
        attend(&op.attention, o, (q[0], q[1] - q[0], s), &rows, k, (&mut out.0, &mut out.1));
    }
    store(o, out);
}

pub(in super::super) fn mutants() -> Vec<Mutant> {
    [varlens(), pages()].concat()
}

fn varlens() -> Vec<Mutant> {
    type F = AttentionVarlen<f32>;
    let op = "attention_varlen";
    let before = |name, f: fn(&mut F, &mut NamedTensors<Host>)| Mutant::before::<F>(name, op, F32, f);
    let knobs = |name, knobs: Knobs| Mutant::after::<F>(name, op, F32, move |op, o| varlen(op, o, knobs));
    vec![
        before("softcap ignored", |op, _| op.attention.softcap = None),
        before("scale given is ignored", |op, _| op.attention.scale = None),
        before("causal ignored beside a window", |op, _| {
            op.attention.causal &= op.attention.window == (None, None)
        }),
        before("window one key wider", |op, _| op.attention.window.0 = op.attention.window.0.map(|w| w + 1)),
        before("alibi ignored", |_, o| drop(o.remove("alibi"))),
        before("sinks ignored", |_, o| drop(o.remove("sinks"))),
        before("values read without their strides", |_, o| relayout(&mut o["v"], forget_strides)),
        knobs("keys from cu_q on", Knobs { first: |cu_q, _| cu_q, ..RIGHT }),
        knobs("the last key missed", Knobs { keys: |keys, _| keys.saturating_sub(1), ..RIGHT }),
        knobs("a key of the next sequence", Knobs { keys: |keys, _| keys + 1, ..RIGHT }),
        knobs("queries counted from the first key", Knobs { position: |i, _, _, _| i as isize, ..RIGHT }),
        knobs(
            "queries of all sequences counted",
            Knobs { position: |i, t, s, start| (s + start + i) as isize - t as isize, ..RIGHT },
        ),
        knobs("query head h reads key head h mod h_kv", Knobs { head: |head, _, keys| head % keys, ..RIGHT }),
        knobs(
            "a sink for each of two parts of the keys",
            Knobs { sinks: |s| if s > 32 { 2.0 } else { 1.0 }, ..RIGHT },
        ),
        knobs("lse without the sink", Knobs { lse: |m, total, sink| m + (total - sink).ln(), ..RIGHT }),
        knobs("lse of base 2", Knobs { lse: |m, total, _| m + total.log2(), ..RIGHT }),
        knobs("probabilities rounded to bf16 in f32", Knobs { probability: brain, ..RIGHT }),
        Mutant::after::<AttentionVarlen<f64>>("a key missed in f64", op, DType::F64, |op, o| {
            varlen(op, o, Knobs { keys: |keys, _| keys.saturating_sub(1), ..RIGHT });
        }),
        Mutant::overrun(op, F32),
        Mutant::declines(op, F32),
        Mutant::swallows_errors(op, F32),
    ]
}

fn pages() -> Vec<Mutant> {
    type F = AttentionPaged<f32>;
    let op = "attention_paged";
    let own = |s: usize, _: usize| s;
    let before = |name, f: fn(&mut F, &mut NamedTensors<Host>)| Mutant::before::<F>(name, op, F32, f);
    let knobs = |name, knobs: Knobs| Mutant::after::<F>(name, op, F32, move |op, o| paged(op, o, own, knobs));
    vec![
        before("softcap ignored", |op, _| op.attention.softcap = None),
        before("scale given is ignored", |op, _| op.attention.scale = None),
        before("causal ignored", |op, _| op.attention.causal = false),
        before("window one key wider", |op, _| op.attention.window.0 = op.attention.window.0.map(|w| w + 1)),
        before("alibi ignored", |_, o| drop(o.remove("alibi"))),
        before("sinks ignored", |_, o| drop(o.remove("sinks"))),
        before("keys read without their strides", |_, o| relayout(&mut o["k"], forget_strides)),
        before("table read without its strides", |_, o| relayout(&mut o["block_table"], forget_strides)),
        knobs("table shifted by one", Knobs { place: |j, block| (j / block + 1, j % block), ..RIGHT }),
        knobs("table not read", Knobs { place: |j, block| (0, j % block), ..RIGHT }),
        knobs(
            "rows of a block in reverse",
            Knobs { place: |j, block| (j / block, block - 1 - j % block), ..RIGHT },
        ),
        knobs("blocks of 16 keys assumed", Knobs { place: |j, _| (j / 16, j % 16), ..RIGHT }),
        knobs("the last key missed", Knobs { keys: |keys, _| keys.saturating_sub(1), ..RIGHT }),
        knobs("a key beyond the length", Knobs { keys: |keys, _| keys + usize::from(keys > 0), ..RIGHT }),
        knobs("whole blocks only", Knobs { keys: |keys, block| keys / block * block, ..RIGHT }),
        knobs(
            "causal off by one",
            Knobs { position: |i, t, s, _| (s + i + 1) as isize - t as isize, ..RIGHT },
        ),
        knobs("queries counted from the first key", Knobs { position: |i, _, _, _| i as isize, ..RIGHT }),
        knobs("query head h reads key head h mod h_kv", Knobs { head: |head, _, keys| head % keys, ..RIGHT }),
        knobs(
            "a sink for each of two parts of the keys",
            Knobs { sinks: |s| if s > 32 { 2.0 } else { 1.0 }, ..RIGHT },
        ),
        knobs("lse without the sink", Knobs { lse: |m, total, sink| m + (total - sink).ln(), ..RIGHT }),
        knobs("lse without the largest score", Knobs { lse: |_, total, _| total.ln(), ..RIGHT }),
        knobs("probabilities rounded to bf16 in f32", Knobs { probability: brain, ..RIGHT }),
        Mutant::after::<F>("rows after a length read, with a weight of zero", op, F32, |op, o| {
            paged(op, o, |s, block| s.next_multiple_of(block), RIGHT);
        }),
        Mutant::after::<AttentionPaged<f16>>(
            "probabilities rounded to bf16 in f16",
            op,
            DType::F16,
            |op, o| {
                paged(op, o, |s, _| s, Knobs { probability: brain, ..RIGHT });
            },
        ),
        Mutant::after::<AttentionPaged<f64>>("table shifted by one in f64", op, DType::F64, |op, o| {
            paged(op, o, |s, _| s, Knobs { place: |j, block| (j / block + 1, j % block), ..RIGHT });
        }),
        Mutant::overrun(op, F32),
        Mutant::declines_late(op, F32),
        Mutant::swallows_errors(op, F32),
    ]
}
