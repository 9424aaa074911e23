//! Problems on the backends in host memory.
use super::observed::Observed;
use super::{Engine, HostBackend, reference};
use crate::catalogue::{Cost, Fixed, Spec, Types, entries, find};
use crate::problem::{Candidate, Explain, Problem, Recording, bind, call_on};
use ops_core::combine::{Intercept, Traced, Wrapper};
use ops_core::ops::args::unary;
use ops_core::ops::{ActivationMethods, Unary, UnaryFn};
use ops_core::{Backend, Call, Operands, Reason, Result};
use ops_cpu::{Cpu, EitherHost, Host};
use ops_test::erased::erase;
use ops_test::trace::{Trace, TraceRecorder};
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

fn cpu() -> HostBackend {
    Observed::new(EitherHost::Cpu(Cpu::new()))
}

fn problem(spec: Spec) -> Problem {
    let name = spec.entry.name;
    cpu().problem(spec).unwrap_or_else(|e| panic!("{name}: {e}"))
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
            assert_eq!(axes.count() > 0, !entry.cut.is_empty(), "the cut of {}", entry.name);
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

/// Negates, whatever function is requested.
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
impl Intercept<Unary<f32>> for Wrong {
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
    let reference = call_on(&reference(), &spec).unwrap();
    let problem = Problem::new(wrong, reference, spec).unwrap();
    for limit in [f64::INFINITY, 1.0] {
        let found = problem.load().unwrap().check(limit).unwrap();
        let message = found.mismatch.expect("a mismatch");
        assert!(message.starts_with("y[") && message.contains("the reference has"), "{message}");
    }
}

impl Explain for Traced<HostBackend> {
    fn last_candidates(&self) -> Vec<Candidate> {
        self.inside().last_candidates()
    }
}

/// The trace of these calls.
fn traced(inputs: bool, specs: impl IntoIterator<Item = Spec>) -> Trace<Cursor<Vec<u8>>> {
    let recorder = Arc::new(TraceRecorder::new(Vec::new(), Default::default(), inputs).unwrap());
    let recorded = Traced::new(cpu(), recorder.clone());
    let mut made = 0;
    for spec in specs {
        let calls = (call_on(&recorded, &spec).unwrap(), call_on(&reference(), &spec).unwrap());
        let problem = Problem::new(calls.0, calls.1, spec).unwrap();
        problem.load().unwrap().prepare(&mut |call| call.run()).unwrap();
        made += 1;
    }
    let (file, written) = recorder.finish().unwrap();
    assert_eq!((written.calls, written.not_recorded.len()), (made, 0));
    Trace::read(Cursor::new(file)).unwrap()
}

fn replays(inputs: bool, specs: impl IntoIterator<Item = Spec>) {
    let mut trace = traced(inputs, specs);
    for call in &trace.calls {
        let recording = Recording::new(call, usize::MAX, |number| trace.blocks.read(number)).unwrap();
        let problem = cpu().recorded(&recording).unwrap_or_else(|e| panic!("{}: {e}", call.op));
        for limit in [f64::INFINITY, 1.0] {
            let found = problem.load().unwrap().check(limit).unwrap_or_else(|e| panic!("{}: {e}", call.op));
            assert_eq!(found.mismatch, None, "{} {}", call.op, recording.label());
            assert!(found.values > 0, "{}", call.op);
        }
        assert!(problem.cost().bytes > 0, "{}", call.op);
    }
}

#[test]
fn every_op_is_recorded_and_replayed() {
    for inputs in [true, false] {
        let types = |entry: &'static crate::catalogue::Entry| entry.timed_types().into_iter();
        replays(
            inputs,
            entries().iter().flat_map(|entry| types(entry).map(|types| small(entry.name, types))),
        );
    }
}

#[test]
fn optional_operands_are_recorded_and_replayed() {
    let with = |(op, shapes): (&str, &[&str])| {
        let entry = find(op).unwrap();
        let shapes: Vec<_> = shapes.iter().map(|text| text.to_string()).collect();
        Spec::parse(entry, entry.timed_types().remove(0), &shapes).unwrap()
    };
    let cases: [(&str, &[&str]); 10] = [
        ("attention", &["1,2,4,64", "mask=1,2,4,4", "alibi=2"]),
        ("attention", &["1,2,4,64", "sinks=2"]),
        ("attention_varlen", &["4,2,64", "sinks=2", "alibi=2"]),
        ("attention_paged", &["4,2,64", "sinks=2", "alibi=2"]),
        ("linear", &["3,64", "bias=64"]),
        ("rope", &["1,2,4,64", "positions=1,4"]),
        ("conv1d_update", &["2,5,8", "bias=8"]),
        ("router_topk", &["4,16", "bias=16"]),
        ("linear_experts", &["4,1,64", "bias=8,64"]),
        ("conv2d", &["1,4,6,6", "bias=4"]),
    ];
    for inputs in [true, false] {
        replays(inputs, cases.map(with));
    }
}

#[test]
fn a_wrong_result_of_a_recorded_call_is_found() {
    let recorder = Arc::new(TraceRecorder::new(Vec::new(), Default::default(), true).unwrap());
    let recorded = Traced::new(Cpu::new(), recorder.clone());
    recorded.exp(recorded.tensor(&[3], &[0.5f32, 1.0, 2.0]).unwrap()).unwrap();
    let mut trace = Trace::read(Cursor::new(recorder.finish().unwrap().0)).unwrap();
    let recording = Recording::new(&trace.calls[0], 1024, |number| trace.blocks.read(number)).unwrap();
    let wrong = bind(Wrong(Cpu::new()), erase(Unary::<f32>::of(UnaryFn::Exp)));
    let reference = recording.on(&reference()).unwrap();
    let problem = Problem::recorded(wrong, reference, &recording).unwrap();
    let message = problem.load().unwrap().check(f64::INFINITY).unwrap().mismatch.expect("a mismatch");
    assert!(message.starts_with("y[0] is -0.5, the reference has 1.6487"), "{message}");
}
