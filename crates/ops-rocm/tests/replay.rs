//! Recorded calls on the stand-in for ROCm: a replay equals the calls, and calls that cannot be recorded are
//! refused.

use ops_core::combine::{Recorder, Timed, Traced, TracedCall};
use ops_core::ops::*;
use ops_core::{Backend, Checked, Either, Error, Fallback, Operand, Replay, Result, TensorOf};
use ops_cpu::{Cpu, Reference};
use ops_rocm::hip::Graph;
use ops_rocm::{Policy, Rocm};
use standin_testing::with_standin;
use std::sync::Arc;

const WAVES_OF_64: &[(&str, &str)] = &[("HIP_STANDIN_WAVE", "64")];
/// Rows of the cache, and the maximum number of tokens in a text.
const CONTEXT: usize = 12;
const VOCABULARY: usize = 40;
const DIM: usize = 32;
const TEXTS: usize = 2;

fn ramp(n: usize, seed: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 31 + seed * 7) % 23) as f32 / 16.0 - 0.7).collect()
}

/// Backends that can make the steps of [`Texts`].
trait Steps:
    Replay
    + EmbeddingOps<f32>
    + NormOps<f32>
    + LinearOps<f32>
    + RopeOps<f32>
    + CacheOps<f32>
    + AttentionOps<f32>
    + SamplingOps<f32>
    + ElementwiseOps<f32>
    + ElementwiseOps<u32>
    + ElementwiseOps<i64>
    + CopyOps
{
}
impl<B> Steps for B where
    B: Replay
        + EmbeddingOps<f32>
        + NormOps<f32>
        + LinearOps<f32>
        + RopeOps<f32>
        + CacheOps<f32>
        + AttentionOps<f32>
        + SamplingOps<f32>
        + ElementwiseOps<f32>
        + ElementwiseOps<u32>
        + ElementwiseOps<i64>
        + CopyOps
{
}

/// A small decoder whose texts are read and continued on the device: a step reads ids, positions, slots and
/// counters there, and writes those of the next step.
struct Texts<B: Backend> {
    table: TensorOf<B, f32>,
    norm: TensorOf<B, f32>,
    weights: Vec<TensorOf<B, f32>>,
    angles: [TensorOf<B, f32>; 2],
    keys: TensorOf<B, f32>,
    one: TensorOf<B, u32>,
    one_more: TensorOf<B, i64>,
    ids: TensorOf<B, u32>,
    positions: TensorOf<B, u32>,
    slots: TensorOf<B, u32>,
    counters: TensorOf<B, i64>,
}

impl<B: Steps> Texts<B> {
    fn new(b: &B) -> Result<Self> {
        let matrix = |seed| b.tensor(&[DIM, DIM], &ramp(DIM * DIM, seed));
        Ok(Texts {
            table: b.tensor(&[VOCABULARY, DIM], &ramp(VOCABULARY * DIM, 1))?,
            norm: b.tensor(&[DIM], &ramp(DIM, 2))?,
            weights: vec![matrix(3)?, matrix(4)?],
            angles: [
                b.tensor(&[CONTEXT, DIM / 2], &ramp(CONTEXT * DIM / 2, 5))?,
                b.tensor(&[CONTEXT, DIM / 2], &ramp(CONTEXT * DIM / 2, 6))?,
            ],
            keys: b.zeros(&[TEXTS * CONTEXT, 1, DIM])?,
            one: b.tensor(&[TEXTS], &[1; TEXTS])?,
            one_more: b.tensor(&[TEXTS], &[1; TEXTS])?,
            ids: b.tensor(&[TEXTS], &[3, 17])?,
            positions: b.zeros(&[TEXTS])?,
            slots: b.tensor(&[TEXTS], &[0, CONTEXT as u32])?,
            counters: b.tensor(&[TEXTS], &[0, 100])?,
        })
    }

    /// Adds one token to each text. Intermediate results are dropped.
    fn step(&mut self, b: &B) -> Result<()> {
        let x = b.embedding::<f32>(&self.table, &self.ids)?;
        let h = b.rms_norm(&x, &self.norm, RmsNorm::eps(1e-5))?;
        let k = b.linear(&h, &self.weights[0])?;
        let by_head = k.as_ref().reshape(&[1, 1, TEXTS, DIM])?;
        let positions = self.positions.as_ref().reshape(&[1, TEXTS])?;
        let rotated =
            b.rope_at(by_head, &self.angles[0], &self.angles[1], positions, Rope::new(RopeForm::Half))?;
        b.cache_write(rotated.as_ref().reshape(&[TEXTS, 1, DIM])?, &self.slots, &mut self.keys)?;
        let q = h.as_ref().reshape(&[TEXTS, 1, 1, DIM])?;
        let keys = self.keys.as_ref().reshape(&[TEXTS, CONTEXT, 1, DIM])?.transpose(1, 2)?;
        let o = b.attention(q, keys, keys, Attention::full())?;
        let o = b.linear(o.as_ref().reshape(&[TEXTS, DIM])?, &self.weights[1])?;
        let x = b.add(&x, &o)?;
        let logits = b.linear(&x, &self.table)?;
        b.sample_into(&logits, &self.counters, &mut self.ids, Sample::temperature(0.9).top_k(9).seed(5))?;
        for at in [&mut self.positions, &mut self.slots] {
            let next = b.add(&*at, &self.one)?;
            b.copy_into(&next, at)?;
        }
        let next = b.add(&self.counters, &self.one_more)?;
        b.copy_into(&next, &mut self.counters)
    }

    /// Everything that a step changes, bit for bit.
    fn state(&self, b: &B) -> Result<(Vec<u32>, Vec<u32>, Vec<u32>)> {
        let keys = self.keys.to_vec(b)?.into_iter().map(f32::to_bits).collect();
        Ok((self.ids.to_vec(b)?, self.positions.to_vec(b)?, keys))
    }
}

/// A backend whose products can be recorded.
fn open() -> Rocm {
    Rocm::builder().policy(Policy::parse("linear=hip;matmul=hip").unwrap()).build().unwrap()
}

fn capture(b: &Rocm, texts: &mut Texts<Rocm>) -> Result<Graph> {
    b.capture(|| texts.step(b)).map(|(graph, ())| graph)
}

/// Replays equal the calls, token for token and bit for bit.
fn check_replays() {
    let b = open();
    let (mut eager, mut texts) = (Texts::new(&b).unwrap(), Texts::new(&b).unwrap());
    let before = texts.state(&b).unwrap();
    let graph = capture(&b, &mut texts).unwrap();
    assert_eq!(texts.state(&b).unwrap(), before, "nothing runs while it is recorded");
    let mut tokens = Vec::new();
    for at in 0..CONTEXT {
        eager.step(&b).unwrap();
        b.replay(&graph).unwrap();
        // Other calls and allocations of the queue happen in between.
        let noise = b.tensor(&[DIM], &ramp(DIM, at)).unwrap();
        b.add(&noise, &noise).unwrap();
        let (want, got) = (eager.state(&b).unwrap(), texts.state(&b).unwrap());
        assert!(got == want, "step {at}: {:?} {:?}", got.0, want.0);
        tokens.extend(got.0);
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert!(tokens.len() > 3, "the texts say {tokens:?}");
}

#[test]
fn replays_equal_the_calls_on_waves_of_32() {
    with_standin("replays_equal_the_calls_on_waves_of_32", &[], |_| check_replays());
}

#[test]
fn replays_equal_the_calls_on_waves_of_64() {
    with_standin("replays_equal_the_calls_on_waves_of_64", WAVES_OF_64, |_| check_replays());
}

#[test]
fn a_replay_is_one_call_of_hip() {
    with_standin("a_replay_is_one_call_of_hip", &[], |standin| {
        let b = open();
        let mut texts = Texts::new(&b).unwrap();
        texts.step(&b).unwrap();
        b.synchronize().unwrap();
        let calls = || {
            ["hipModuleLaunchKernel", "hipMalloc", "hipMemcpyAsync", "hipGraphLaunch", "kernel"]
                .map(|f| standin.count(f))
        };
        let before = calls();
        let graph = capture(&b, &mut texts).unwrap();
        let recorded = calls();
        assert_eq!((recorded[3] - before[3], recorded[4] - before[4]), (0, 0), "nothing runs");
        for _ in 0..5 {
            b.replay(&graph).unwrap();
        }
        b.synchronize().unwrap();
        let after = calls();
        let made: Vec<u64> = after.iter().zip(recorded).map(|(after, before)| after - before).collect();
        assert_eq!(made, [0, 0, 0, 5, 5 * graph.launches() as u64]);
        assert!(graph.len() >= graph.launches() && graph.launches() > 10, "{graph:?}");
    });
}

#[test]
fn memory_of_a_graph_stays_with_it() {
    with_standin("memory_of_a_graph_stays_with_it", &[], |standin| {
        let b = open();
        let (graph, y) = {
            let x = b.tensor(&[4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
            // `x` and the sum are dropped before the first replay.
            b.capture(|| {
                let sum = b.add(&x, &x)?;
                b.mul(&sum, &sum)
            })
            .unwrap()
        };
        // Memory allocated now, and filled with other values, does not belong to the graph.
        let others: Vec<_> = (0..16).map(|i| b.tensor(&[4], &[i as f32; 4]).unwrap()).collect();
        b.replay(&graph).unwrap();
        assert_eq!(y.to_vec(&b).unwrap(), [4.0, 16.0, 36.0, 64.0]);
        for (i, other) in others.iter().enumerate() {
            assert_eq!(other.to_vec(&b).unwrap(), [i as f32; 4]);
        }
        drop(y);
        b.replay(&graph).unwrap();
        let in_use = b.memory_stats().in_use;
        drop(graph);
        assert!(b.memory_stats().in_use < in_use, "the graph frees its memory");
        assert_eq!(standin.live_of("graph instance"), 0);
    });
}

#[test]
fn intermediate_results_share_memory() {
    with_standin("intermediate_results_share_memory", &[], |_| {
        let b = open();
        let x = b.tensor(&[1 << 18], &vec![1.0f32; 1 << 18]).unwrap();
        let before = b.memory_stats().in_use;
        let (graph, y) = b
            .capture(|| {
                let mut y = b.add(&x, &x)?;
                for _ in 0..20 {
                    y = b.add(&y, &x)?;
                }
                Ok::<_, Error>(y)
            })
            .unwrap();
        // The result, and the previous one.
        assert!(b.memory_stats().in_use - before <= 2 * (4 << 18) + (1 << 16), "{:?}", b.memory_stats());
        b.replay(&graph).unwrap();
        assert!(y.to_vec(&b).unwrap().iter().all(|v| *v == 22.0));
    });
}

/// The error that refused a recording.
fn refusal<R>(done: Result<(Graph, R)>) -> String {
    match done.map(drop) {
        Err(error @ Error::Unsupported { .. }) => error.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn what_waits_for_the_host_is_refused_with_a_reason() {
    with_standin("what_waits_for_the_host_is_refused_with_a_reason", &[], |_| {
        let b = open();
        let mut x = b.tensor(&[2], &[1.0f32, 2.0]).unwrap();
        let event = b.mark().unwrap();
        let says = |text: String, want: &str| assert!(text.contains(want), "{text}");
        says(refusal(b.capture(|| x.to_vec(&b))), "read after a replay");
        says(refusal(b.capture(|| b.tensor(&[1], &[1.0f32]))), "write before a replay");
        says(refusal(b.capture(|| b.synchronize())), "wait after a replay");
        says(refusal(b.capture(|| b.fork())), "one queue");
        says(refusal(b.capture(|| b.mark())), "one queue");
        says(refusal(b.capture(|| b.wait(&event))), "one queue");
        says(refusal(b.capture(|| b.capture(|| Ok::<_, Error>(())))), "recording already");
        // An error that the calls ignore still counts.
        let passed_over = b.capture(|| {
            let _ = x.to_vec(&b);
            b.add(&x, &x)
        });
        says(refusal(passed_over), "read after a replay");
        let (graph, ()) = b.capture(|| b.affine_inplace(&mut x, 2.0, 0.0)).unwrap();
        says(refusal(b.capture(|| b.replay(&graph))), "part of a graph");
        let other = b.fork().unwrap();
        assert!(other.replay(&graph).unwrap_err().to_string().contains("another queue"));
        // A failure of the calls is passed on, and a panic ends the recording.
        let failed = b.capture(|| b.add(&x, &b.empty::<f32>(ops_core::Shape::new(&[3])?)?)).map(drop);
        assert!(matches!(failed, Err(Error::Shape { .. } | Error::Broadcast { .. })), "{failed:?}");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            b.capture(|| -> Result<()> { panic!("while it is recorded") }).map(drop)
        }));
        assert!(panicked.is_err() && !b.capturing());
        b.replay(&graph).unwrap();
        assert_eq!(x.to_vec(&b).unwrap(), [2.0, 4.0]);
    });
}

#[test]
fn a_library_is_refused_by_name() {
    with_standin("a_library_is_refused_by_name", &[], |_| {
        let b = Rocm::builder().policy(Policy::parse("linear=rocblas").unwrap()).build().unwrap();
        let w = b.tensor(&[8, 8], &ramp(64, 1)).unwrap();
        let refused = refusal(b.capture(|| b.linear(&w, &w)));
        assert!(
            refused.contains("linear") && refused.contains("rocblas") && refused.contains("policy"),
            "{refused}"
        );
        b.linear(&w, &w).unwrap().to_vec(&b).unwrap();
    });
}

#[derive(Debug)]
struct Nothing;
impl Recorder for Nothing {
    fn wants(&self, _: &Operand<'_>) -> bool {
        false
    }
    fn record(&self, _: TracedCall) -> Result<()> {
        Ok(())
    }
}

#[test]
fn combinators_do_what_they_say() {
    with_standin("combinators_do_what_they_say", &[], |_| {
        let b = open();
        let x = b.tensor(&[2], &[1.0f32, 2.0]).unwrap();

        let timed = Timed::new(b.clone());
        let (graph, y) = timed.capture(|| timed.add(&x, &x)).unwrap();
        assert!(timed.times().is_empty(), "{:?}", timed.times());
        timed.replay(&graph).unwrap();
        timed.replay(&graph).unwrap();
        assert_eq!(y.to_vec(&b).unwrap(), [2.0, 4.0]);
        assert_eq!(timed.times().iter().map(|t| (t.op, t.calls)).collect::<Vec<_>>(), [("replay", 2)]);

        let either: Either<Rocm, Cpu> = Either::Left(b.clone());
        let x = either.tensor(&[2], &[1.0f32, 2.0]).unwrap();
        let (graph, y) = either.capture(|| either.add(&x, &x)).unwrap();
        either.replay(&graph).unwrap();
        assert_eq!(y.to_vec(&either).unwrap(), [2.0, 4.0]);
        let right: Either<Rocm, Cpu> = Either::Right(Cpu::new());
        assert!(matches!(right.replay(&graph), Err(Error::WrongSide { .. })));

        let says = |done: Result<()>, want: &str| {
            let text = done.unwrap_err().to_string();
            assert!(text.contains(want), "{text}");
        };
        says(right.capture(|| Ok::<_, Error>(())).map(drop), "has no graphs");
        let checked = Checked::new(b.clone(), Reference::new());
        says(checked.capture(|| Ok::<_, Error>(())).map(drop), "compared with the reference");
        let recorded = Traced::new(b.clone(), Arc::new(Nothing));
        says(recorded.capture(|| Ok::<_, Error>(())).map(drop), "must see every call");
        let off = recorded.on(false);
        off.replay(&off.capture(|| Ok::<_, Error>(())).unwrap().0).unwrap();

        // A call that falls back is refused; others are recorded.
        let b = Rocm::builder().policy(Policy::parse("softmax=miopen").unwrap()).build().unwrap();
        let fallback = Fallback::new(b, Cpu::new());
        let x = fallback.tensor(&[1, 2], &[1.0f64, 2.0]).unwrap();
        let (graph, y) = fallback.capture(|| fallback.add(&x, &x)).unwrap();
        fallback.replay(&graph).unwrap();
        assert_eq!(y.to_vec(&fallback).unwrap(), [2.0, 4.0]);
        says(fallback.capture(|| fallback.softmax(&x, Softmax::axis(-1))).map(drop), "falls back to cpu");
        assert_eq!(fallback.events().len(), 0, "nothing has fallen back");
        fallback.softmax(&x, Softmax::axis(-1)).unwrap();
    });
}

#[test]
fn an_index_out_of_range_in_a_replay_is_told_by_the_next_wait() {
    with_standin("an_index_out_of_range_in_a_replay_is_told_by_the_next_wait", &[], |_| {
        let b = open();
        let table = b.tensor(&[3, 2], &[1.0f32; 6]).unwrap();
        let mut ids = b.tensor(&[1], &[1u32]).unwrap();
        let one = b.tensor(&[1], &[1u32]).unwrap();
        let (graph, _) = b
            .capture(|| {
                let rows = b.index_select(&table, &ids, IndexSelect::axis(0))?;
                let next = b.add(&ids, &one)?;
                b.copy_into(&next, &mut ids)?;
                Ok::<_, Error>(rows)
            })
            .unwrap();
        b.replay(&graph).unwrap();
        b.replay(&graph).unwrap();
        b.synchronize().unwrap();
        b.replay(&graph).unwrap();
        b.replay(&graph).unwrap();
        match b.synchronize() {
            Err(Error::Index { op: "index_select", operand: "ids", index: 3, bound: 3, .. }) => {}
            other => panic!("{other:?}"),
        }
        b.synchronize().unwrap();
        b.replay(&graph).unwrap();
        assert!(matches!(b.synchronize(), Err(Error::Index { index: 5, .. })));
    });
}

#[test]
fn queues_wait_for_replays_as_for_calls() {
    let slow = [("HIP_STANDIN_DELAY_US", "3000")];
    with_standin("queues_wait_for_replays_as_for_calls", &slow, |_| {
        let b = open();
        let other = b.fork().unwrap();
        let one = b.tensor(&[256], &[1.0f32; 256]).unwrap();
        let mut x = b.zeros::<f32>(&[256]).unwrap();
        let (graph, ()) = b.capture(|| b.affine_inplace(&mut x, 1.0, 1.0)).unwrap();
        for round in 1..6 {
            // The other queue reads what the replay wrote, and the next replay waits for its reads.
            b.replay(&graph).unwrap();
            let y = other.add(&x, &one).unwrap();
            b.replay(&graph).unwrap();
            let want = (2 * round) as f32;
            assert_eq!(y.to_vec(&other).unwrap(), [want; 256], "round {round}");
        }
        // And the next replay sees what it writes.
        other.affine_inplace(&mut x, 0.0, 100.0).unwrap();
        b.replay(&graph).unwrap();
        assert_eq!(x.to_vec(&b).unwrap(), [101.0; 256]);
    });
}

#[test]
fn two_threads_record_and_replay_on_queues_of_their_own() {
    with_standin("two_threads_record_and_replay_on_queues_of_their_own", &[], |_| {
        let b = open();
        let want = {
            let mut texts = Texts::new(&b).unwrap();
            (0..CONTEXT).try_for_each(|_| texts.step(&b)).unwrap();
            texts.state(&b).unwrap()
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (queue, want) = (b.fork().unwrap(), &want);
                scope.spawn(move || {
                    for round in 0..3 {
                        let mut texts = Texts::new(&queue).unwrap();
                        if thread < 2 {
                            let graph = capture(&queue, &mut texts).unwrap();
                            (0..CONTEXT).try_for_each(|_| queue.replay(&graph)).unwrap();
                            drop(graph);
                        } else {
                            // Neither calls nor waits for the device disturb the other.
                            (0..CONTEXT).try_for_each(|_| texts.step(&queue)).unwrap();
                            queue.trim().unwrap();
                        }
                        assert!(texts.state(&queue).unwrap() == *want, "{thread} {round}");
                    }
                });
            }
        });
        // A clone of the queue in another thread runs its calls immediately while this one records.
        let x = b.tensor(&[2], &[1.0f32, 2.0]).unwrap();
        let (_graph, at_once) = b
            .capture(|| {
                b.add(&x, &x)?;
                std::thread::scope(|scope| scope.spawn(|| b.add(&x, &x)?.to_vec(&b)).join().unwrap())
            })
            .unwrap();
        assert_eq!(at_once, [2.0, 4.0]);
    });
}

#[test]
fn every_call_of_a_capture_and_a_replay_may_fail() {
    with_standin("every_call_of_a_capture_and_a_replay_may_fail", &[], |standin| {
        let b = open();
        let mut eager = Texts::new(&b).unwrap();
        eager.step(&b).unwrap();
        let want = eager.state(&b).unwrap();
        let begun = ["hipStreamCreateWithFlags:1+", "hipStreamBeginCapture:1", "hipModuleLaunchKernel:1"];
        let ended = ["hipModuleLaunchKernel:7", "hipStreamEndCapture:1", "hipGraphInstantiate:1+"];
        // If memory may be exhausted, a call is retried.
        for fault in begun.iter().chain(&ended) {
            let mut texts = Texts::new(&b).unwrap();
            standin.fail(fault);
            let failed = capture(&b, &mut texts).map(drop);
            standin.fail("");
            let text = failed.expect_err(fault).to_string();
            assert!(text.contains(fault.split(':').next().unwrap()), "{fault}: {text}");
            // The queue still works, and the same calls can be recorded.
            let graph = capture(&b, &mut texts).unwrap();
            b.replay(&graph).unwrap();
            assert!(texts.state(&b).unwrap() == want, "{fault}");
            assert_eq!(standin.live_of("graph"), 0);
        }
        let mut texts = Texts::new(&b).unwrap();
        let graph = capture(&b, &mut texts).unwrap();
        standin.fail("hipGraphLaunch:1");
        assert!(b.replay(&graph).unwrap_err().to_string().contains("hipGraphLaunch"));
        b.replay(&graph).unwrap();
        assert!(texts.state(&b).unwrap() == want);
        // The next wait reports a kernel that failed.
        standin.fail("kernel:3");
        b.replay(&graph).unwrap();
        let failed = b.synchronize();
        assert!(matches!(failed, Err(Error::Device { .. })), "{failed:?}");
        drop(graph);
        b.synchronize().unwrap();
    });
}
