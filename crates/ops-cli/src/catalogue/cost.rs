//! The minimal cost of a problem: bytes to move and operations to compute.
use super::{Entry, Flops, Operand};
use ops_core::Role;
use ops_core::ops::Attention;

/// Bytes and operations of a problem, whichever provider runs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Each input and each output once. Of a table, only the rows that are looked up; of a scatter's
    /// destination, at most as much as is scattered.
    pub(crate) bytes: usize,
    /// Arithmetic operations, see [`Flops`].
    pub(crate) flops: f64,
    /// Values written.
    pub(crate) values: usize,
}

impl Cost {
    /// The cost of an op on these operands. `scores` says which keys each query of attention sees.
    pub(crate) fn of(entry: &Entry, operands: &[Operand], scores: &Attention<f32>) -> Self {
        let written = operands.iter().filter(|o| o.role != Role::In);
        let values = written.map(values).fold(0, usize::saturating_add);
        let bytes = operands.iter().map(|o| bytes(entry, o, operands)).fold(0, usize::saturating_add);
        Cost { bytes, flops: flops(entry, operands, scores), values }
    }
}

/// The extents of an operand.
fn dims<'o>(operands: &'o [Operand], name: &str) -> Option<&'o [usize]> {
    operands.iter().find(|o| o.name == name).map(|o| &o.dims[..])
}

fn elements(operand: &Operand) -> usize {
    operand.dims.iter().product()
}

fn values(operand: &Operand) -> usize {
    elements(operand).saturating_mul(operand.dtype.values())
}

fn bytes(entry: &Entry, operand: &Operand, all: &[Operand]) -> usize {
    let size = |elements: usize| elements.saturating_mul(operand.dtype.size());
    let row = || operand.dims.iter().skip(1).product::<usize>();
    let first = operand.name == entry.first();
    let ids = all.iter().find(|o| o.name == "ids" && o.role == Role::In);
    if let (Some(ids), Some(experts)) = (ids, dims(all, "weight").and_then(<[usize]>::first)) {
        // Only the matrices of the chosen experts.
        let experts = if operand.name == "weight" { elements(ids).min(*experts) } else { 0 };
        return size(if experts > 0 { experts.saturating_mul(row()) } else { elements(operand) });
    }
    match (ids, operand.role) {
        (Some(ids), Role::In) if first && ids.dims.len() == 1 => size(elements(ids).saturating_mul(row())),
        (Some(ids), Role::In) if first => size(elements(ids)),
        // At most one element per source element, read and written.
        (Some(_), Role::InOut) => {
            let source = all.iter().find(|o| o.name == "src").map_or(0, elements);
            size(source.min(elements(operand))).saturating_mul(2)
        }
        // Read and written; `fill` only writes.
        (_, Role::InOut) if entry.name != "fill" => size(elements(operand)).saturating_mul(2),
        _ => size(elements(operand)),
    }
}

fn flops(entry: &Entry, operands: &[Operand], scores: &Attention<f32>) -> f64 {
    let first = operands.first().map_or(&[][..], |o| &o.dims);
    let written = operands.iter().filter(|o| o.role != Role::In).max_by_key(|o| values(o));
    let values = written.map_or(0, values) as f64;
    let blocks = entry.op.blocks.is_some() && written.map(|o| o.name) == entry.op.blocks;
    match entry.flops {
        Flops::Each(n) if blocks => n * first.iter().product::<usize>() as f64,
        Flops::Each(n) => n * values,
        Flops::EachRead(n) => n * first.iter().product::<usize>() as f64,
        Flops::Sums => 2.0 * values * first.last().copied().unwrap_or(1) as f64,
        Flops::Convolution => {
            // Each value of `x` is multiplied by the whole kernel in a transposed convolution; otherwise each value of `y` is.
            let transposed = entry.name.contains("transpose");
            let sums = if transposed { first.iter().product::<usize>() as f64 } else { values };
            2.0 * sums
                * dims(operands, "weight").map_or(0.0, |dims| dims[1..].iter().product::<usize>() as f64)
        }
        Flops::Attention => match (first, dims(operands, "k")) {
            (&[b, h, t, d], Some(&[_, _, s, _])) => attention([b, h, t, s, d], scores),
            // Sequences of equal lengths, as in a benchmark.
            (&[n, h, d], Some(&[m, ..])) => {
                let b = dims(operands, "cu_q").map_or(1, |cu_q| cu_q[0].saturating_sub(1)).max(1);
                let in_blocks = dims(operands, "block_table").zip(dims(operands, "k"));
                let s = in_blocks.map_or(m / b, |(table, k)| table[1].saturating_mul(k[1]));
                attention([b, h, n / b, s, d], scores)
            }
            _ => 0.0,
        },
    }
}

/// Operations of attention over `b` sequences of `t` queries and `s` keys.
fn attention([b, h, t, s, d]: [usize; 5], scores: &Attention<f32>) -> f64 {
    let pairs: usize = (0..t).map(|i| scores.visible(i, t, s).len()).sum();
    // `d` multiply-adds for the score, and `d` for the sum of values.
    4.0 * [b, h, pairs, d].iter().map(|n| *n as f64).product::<f64>()
}
