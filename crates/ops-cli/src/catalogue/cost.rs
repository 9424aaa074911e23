//! What a problem costs at least: bytes to move, operations to do.
use super::{Flops, Operand, Spec};
use ops_core::Role;
use ops_core::ops::Attention;

/// Bytes and operations of a problem, whoever runs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Each input once, each output once; of a table, the rows that are looked up.
    pub(crate) bytes: usize,
    /// Arithmetic operations, see [`Flops`].
    pub(crate) flops: f64,
    /// Values written.
    pub(crate) values: usize,
}

impl Cost {
    pub(super) fn of(spec: &Spec, operands: &[Operand]) -> Self {
        let written = operands.iter().filter(|o| o.role != Role::In);
        let values = written.map(values).fold(0, usize::saturating_add);
        let bytes = operands.iter().map(|o| bytes(spec, o, operands)).fold(0, usize::saturating_add);
        Cost { bytes, flops: flops(spec, operands), values }
    }
}

fn elements(operand: &Operand) -> usize {
    operand.dims.iter().product()
}

fn values(operand: &Operand) -> usize {
    elements(operand).saturating_mul(operand.dtype.values())
}

fn bytes(spec: &Spec, operand: &Operand, all: &[Operand]) -> usize {
    let size = |elements: usize| elements.saturating_mul(operand.dtype.size());
    let row = || operand.dims.iter().skip(1).product::<usize>();
    let first = operand.name == spec.entry.first();
    match (all.iter().find(|o| o.name == "ids"), operand.role) {
        (Some(ids), Role::In) if first => size(elements(ids).saturating_mul(row())),
        // Its operand keeps its shape, but not its values.
        (_, Role::InOut) if spec.entry.name != "fill" => size(elements(operand)).saturating_mul(2),
        _ => size(elements(operand)),
    }
}

fn flops(spec: &Spec, operands: &[Operand]) -> f64 {
    let first = operands.first().map_or(&[][..], |o| &o.dims);
    let written = operands.iter().filter(|o| o.role != Role::In).max_by_key(|o| values(o));
    let values = written.map_or(0, values) as f64;
    let blocks = spec.entry.op.blocks.is_some() && written.map(|o| o.name) == spec.entry.op.blocks;
    match spec.entry.flops {
        Flops::Each(n) if blocks => n * first.iter().product::<usize>() as f64,
        Flops::Each(n) => n * values,
        Flops::Sums => 2.0 * values * first.last().copied().unwrap_or(1) as f64,
        Flops::Attention => match (first, spec.shape("k")) {
            (&[b, h, t, d], Some(&[_, _, s, _])) => {
                let op = if spec.causal { Attention::<f32>::causal() } else { Attention::full() };
                let pairs: usize = (0..t).map(|i| op.visible(i, t, s).len()).sum();
                // A product of length d for the score, and one for the sum of values.
                4.0 * (b * h * pairs * d) as f64
            }
            _ => 0.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::{Choice, open};
    use crate::catalogue::{Cost, Spec, Types, find};
    use std::collections::BTreeMap;

    fn cost(op: &str, dtype: &str, shapes: &[&str], causal: bool) -> Cost {
        let entry = find(op).unwrap();
        let texts: Vec<_> = shapes.iter().map(|s| s.to_string()).collect();
        let types = Types::parse(entry, &[dtype.to_owned()]).unwrap();
        let spec = Spec { causal, ..Spec::parse(entry, types, &texts).unwrap() };
        open(Choice::Cpu, crate::backend::Wanted::Results).unwrap().problem(spec).unwrap().cost()
    }

    #[test]
    fn bytes_are_each_operand_once() {
        assert_eq!(cost("add", "f16", &["10,10"], false).bytes, 3 * 100 * 2);
        assert_eq!(cost("affine_inplace", "f32", &["10"], false).bytes, 2 * 40);
        assert_eq!(cost("fill", "f32", &["10"], false).bytes, 40);
        assert_eq!(cost("dequantize", "q8_0", &["4,2"], false).bytes, 8 * 34 + 8 * 32 * 4);
        // Three rows of a table of a thousand.
        let three = cost("index_select", "f32", &["1000,8", "ids=3"], false);
        assert_eq!(three.bytes, 3 * 32 + 3 * 32 + 3 * 4);
    }

    #[test]
    fn sums_count_both_operations() {
        assert_eq!(cost("matmul", "f32", &["2,3,5", "b=2,5,7"], false).flops, 2.0 * 2.0 * 3.0 * 5.0 * 7.0);
        assert_eq!(cost("qlinear", "q4_0", &["3,64", "weight=10,2"], false).flops, 2.0 * 3.0 * 10.0 * 64.0);
        let full = cost("attention", "f32", &["1,2,4,8"], false).flops;
        assert_eq!(full, 4.0 * 2.0 * 16.0 * 8.0);
        assert_eq!(cost("attention", "f32", &["1,2,4,8"], true).flops, full * 10.0 / 16.0);
    }

    #[test]
    fn every_op_has_a_cost_in_every_type() {
        for entry in crate::catalogue::entries() {
            for dtype in entry.dtypes() {
                let types = Types::of(entry, dtype).unwrap();
                let given = BTreeMap::from([(entry.first().to_owned(), entry.small())]);
                let spec = Spec::new(entry, types, &given).unwrap();
                let engine = open(Choice::Cpu, crate::backend::Wanted::Results).unwrap();
                let problem = engine.problem(spec).unwrap_or_else(|e| panic!("{} {dtype}: {e}", entry.name));
                assert!(problem.cost().bytes > 0 && problem.cost().values > 0, "{}", entry.name);
                let axes = problem
                    .explain()
                    .unwrap()
                    .operands
                    .into_iter()
                    .filter(|o| entry.contract.axis(o.name, entry.cut, o.dims.len()).is_some());
                assert!(axes.count() > 0, "{} cannot be cut", entry.name);
            }
        }
    }
}
