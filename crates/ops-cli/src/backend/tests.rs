//! Problems on the backends in host memory.
use super::host;
use crate::args::Choice;
use crate::catalogue::{Cost, Fixed, Spec, Types, entries, find};
use crate::problem::{Candidate, Explain, Problem, bind, call_on};
use ops_core::combine::Wrapper;
use ops_core::ops::{Unary, UnaryFn, unary};
use ops_core::{Backend, Call, Execute, Operands, Reason, Result};
use ops_cpu::{Cpu, Host};
use ops_test::erased::erase;
use std::collections::BTreeMap;

fn problem(spec: Spec) -> Problem {
    let name = spec.entry.name;
    super::Engine::problem(&host(Choice::Cpu), spec).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn small(op: &str, types: Types) -> Spec {
    let entry = find(op).unwrap();
    let given = BTreeMap::from([(entry.first().to_owned(), entry.small(&types))]);
    Spec::new(entry, types, &given).unwrap()
}

fn cost(op: &str, dtype: &str, shapes: &[&str], causal: bool) -> Cost {
    let entry = find(op).unwrap();
    let texts: Vec<_> = shapes.iter().map(|s| s.to_string()).collect();
    let types = Types::parse(entry, &[dtype.to_owned()]).unwrap();
    problem(Spec { causal, ..Spec::parse(entry, types, &texts).unwrap() }).cost()
}

#[test]
fn every_op_has_valid_shapes_at_every_size() {
    for entry in entries() {
        for types in entry.timed_types() {
            let sizes = [64, 1 << 10, 1 << 16, 1 << 22];
            let all = [Fixed::Usual, Fixed::Small, Fixed::None].map(|f| entry.shapes(&types, &sizes, f));
            assert!(all[2].len() == sizes.len() && !all[0].is_empty() && !all[1].is_empty());
            for shapes in all.into_iter().flatten() {
                let spec = Spec::new(entry, types.clone(), &shapes.given);
                problem(spec.unwrap_or_else(|e| panic!("{}: {e}", entry.name)));
            }
        }
    }
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
    for entry in entries() {
        for dtype in entry.dtypes() {
            let problem = problem(small(entry.name, Types::of(entry, dtype).unwrap()));
            assert!(problem.cost().bytes > 0 && problem.cost().values > 0, "{}", entry.name);
            let operands = problem.explain().operands.into_iter();
            let axes = operands.filter(|o| entry.contract.axis(o.name, entry.cut, o.dims.len()).is_some());
            assert!(axes.count() > 0, "{} cannot be cut", entry.name);
        }
    }
}

#[test]
fn every_op_is_right_in_whole_and_in_part() {
    for entry in entries() {
        for types in entry.timed_types() {
            let problem = problem(small(entry.name, types));
            let check = |limit| problem.load().unwrap().check(limit).unwrap();
            let (whole, part) = (check(f64::INFINITY), check(1.0));
            assert_eq!((&whole.mismatch, &part.mismatch), (&None, &None), "{}", entry.name);
            assert!(part.values > 0 && part.values <= whole.values, "{}", entry.name);
            if problem.keep(1.0).is_some() {
                assert!(part.values < whole.values, "{} was not cut", entry.name);
            }
        }
    }
}

/// Negates, whichever function it is asked for.
#[derive(Clone)]
struct Wrong(Cpu);
impl Wrapper for Wrong {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Wrong(inner)
    }
}
impl Execute<Unary<f32>> for Wrong {
    fn support(&self, _: &Unary<f32>, _: &dyn Operands) -> Result<(), Reason> {
        Ok(())
    }
    fn execute(&self, call: Call<'_, '_, Unary<f32>, Host>) -> Result<()> {
        let (_, args) = call.into_parts();
        self.0.run(&Unary::of(UnaryFn::Neg), unary::Args { x: args.x.shorten(), y: args.y.reborrow() })
    }
}
impl Explain for Wrong {
    fn last_candidates(&self) -> Vec<Candidate> {
        Vec::new()
    }
}

#[test]
fn a_wrong_result_is_found() {
    let spec = small("exp", find("exp").unwrap().timed_types().remove(0));
    let wrong = bind(Wrong(Cpu::new()), erase(Unary::<f32>::of(UnaryFn::Exp)));
    let reference = call_on(&host(Choice::Reference), &spec).unwrap();
    let problem = Problem::new(wrong, reference, spec).unwrap();
    for limit in [f64::INFINITY, 1.0] {
        let found = problem.load().unwrap().check(limit).unwrap();
        let message = found.mismatch.expect("a mismatch");
        assert!(message.starts_with("y[") && message.contains("the reference has"), "{message}");
    }
}
