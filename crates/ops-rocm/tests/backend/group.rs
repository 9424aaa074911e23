//! Groups of devices through RCCL: every collective, and faults of ranks, calls and links.
use ops_core::group::{Collective, Group, Reduction};
use ops_core::{Backend, DType, Determinism, Error, Replay, Result, bf16, f16};
use ops_cpu::{Cpu, HostGroup};
use ops_rocm::{Policy, Rocm, RocmBuilder, RocmGroup};
use ops_test::group::{every_type, run};
use standin_testing::{Standin, with_standin};
use std::time::{Duration, Instant};

pub(crate) const DEVICES: &str = "gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100,gfx1100";

/// Runs the body with eight devices.
fn with_devices(test: &str, body: impl FnOnce(&Standin)) {
    with_standin(&format!("group::{test}"), &[("HIP_STANDIN_DEVICES", DEVICES)], body);
}

pub(crate) fn queues(count: u32, options: fn(RocmBuilder) -> RocmBuilder) -> Vec<Rocm> {
    (0..count).map(|ordinal| options(Rocm::builder().ordinal(ordinal)).build().expect("a device")).collect()
}

pub(crate) fn plain(builder: RocmBuilder) -> RocmBuilder {
    builder
}

pub(crate) fn group(count: u32, limit: Duration) -> Vec<RocmGroup> {
    RocmGroup::with_limit(queues(count, plain), limit).expect("a group")
}

/// A group in which RCCL moves small messages, too.
fn by_rccl(count: u32, limit: Duration) -> Vec<RocmGroup> {
    let queues = queues(count, |builder| {
        builder.policy(Policy::new().order("all_reduce", ["rccl"]).order("all_gather", ["rccl"]))
    });
    RocmGroup::with_limit(queues, limit).expect("a group")
}

/// Calls `f` on each rank, on a thread of its own that owns the rank.
pub(crate) fn on_each<G: Group, R: Send>(ranks: Vec<G>, f: impl Fn(G) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = ranks.into_iter().map(|rank| scope.spawn(|| f(rank))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

pub(crate) const LONG: Duration = Duration::from_secs(60);
pub(crate) const SHORT: Duration = Duration::from_millis(300);

#[test]
fn every_collective_in_every_type() {
    with_devices("every_collective_in_every_type", |_| {
        run(&group(2, LONG), every_type(), &[0, 1, 5]).unwrap_or_else(|e| panic!("{e}"));
        for ranks in [1, 3, 4, 8] {
            let types = [DType::F32, DType::I16, DType::U8];
            run(&by_rccl(ranks, LONG), &types, &[0, 7]).unwrap_or_else(|e| panic!("{e}"));
        }
        run(&by_rccl(2, LONG), every_type(), &[0, 5]).unwrap_or_else(|e| panic!("{e}"));
        run(&group(2, LONG), &[DType::F16], &[(1 << 19) + 1]).unwrap_or_else(|e| panic!("{e}"));
    });
}

/// Those of RCCL; this project's kernels would make 1024 pieces of each.
#[test]
#[ignore = "takes gigabytes and minutes"]
fn collectives_of_256_mebibytes() {
    with_devices("collectives_of_256_mebibytes", |_| {
        run(&group(2, 5 * LONG), &[DType::F32], &[64 << 20]).unwrap_or_else(|e| panic!("{e}"));
    });
}

#[test]
fn gathered_sums_have_the_bits_of_the_cpu() {
    with_devices("gathered_sums_have_the_bits_of_the_cpu", |_| {
        let values = |rank: usize| -> Vec<f32> {
            (0..100)
                .map(|i| ((i * 37 + rank * 11) as f32 * 0.7).sin() * 10f32.powi((i % 7) as i32 - 3))
                .collect()
        };
        fn sums<G: Group>(g: &G, x: &[f32]) -> Result<(Vec<f32>, Vec<f16>, Vec<bf16>)>
        where
            G::Backend: Backend,
        {
            let b = g.backend();
            let half: Vec<f16> = x.iter().map(|v| f16::from_f32(*v)).collect();
            let brain: Vec<bf16> = x.iter().map(|v| bf16::from_f32(*v)).collect();
            let single = g.all_reduce(b.tensor([x.len()], x)?, Reduction::Sum)?.to_vec(b)?;
            let half = g.all_reduce(b.tensor([x.len()], &half)?, Reduction::Sum)?.to_vec(b)?;
            Ok((single, half, g.all_reduce(b.tensor([x.len()], &brain)?, Reduction::Sum)?.to_vec(b)?))
        }
        let on_cpu = HostGroup::of(vec![Cpu::new(); 3]).expect("a group");
        let want = on_each(on_cpu, |g| sums(&g, &values(g.rank())).expect("sums")).remove(0);
        let in_order = queues(3, |builder| builder.determinism(Determinism::Batch));
        let in_order = RocmGroup::of(in_order).expect("a group");
        let sum = Collective::AllReduce(Reduction::Sum);
        assert_eq!(in_order[0].determinism(sum, DType::F32), Determinism::Exact);
        for got in on_each(in_order, |g| sums(&g, &values(g.rank())).expect("sums")) {
            assert!(got == want, "the sums in rank order");
        }
        // RCCL adds in another order, and rounds 16-bit sums at every step.
        let by_rccl = by_rccl(3, LONG);
        assert_eq!(by_rccl[0].determinism(sum, DType::F32), Determinism::Run);
        assert_eq!(by_rccl[0].determinism(sum, DType::I32), Determinism::Exact);
        assert_eq!(by_rccl[0].determinism(Collective::AllGather, DType::F32), Determinism::Exact);
        for (single, _, brain) in on_each(by_rccl, |g| sums(&g, &values(g.rank())).expect("sums")) {
            let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * (1.0 + b.abs());
            assert!(single.iter().zip(&want.0).all(|(a, b)| close(*a, *b)));
            assert!(brain != want.2, "the stand-in rounds as RCCL does");
        }
    });
}

#[test]
fn maxima_keep_nan() {
    with_devices("maxima_keep_nan", |_| {
        let results = on_each(group(2, LONG), |g| -> Result<_> {
            let (b, odd) = (g.backend(), g.rank() == 1);
            let mut y = b.tensor([2], &[if odd { f32::NAN } else { 1.0 }, 2.0])?;
            g.all_reduce_inplace(&mut y, Reduction::Max)?;
            y.to_vec(b)
        });
        for result in results {
            let y = result.expect("a maximum");
            assert!(y[0].is_nan() && y[1] == 2.0, "{y:?}");
        }
    });
}

/// The group's error, with the op and the rank that it names.
pub(crate) fn blamed<T: std::fmt::Debug>(result: &Result<T>) -> (&'static str, usize, String) {
    match result {
        Err(error @ Error::Group { op, rank, .. }) => (op, *rank, error.to_string()),
        other => panic!("no error of a group: {other:?}"),
    }
}

/// Enqueues a sum of f32, which RCCL makes, and reads it.
fn sum(g: &RocmGroup, len: usize) -> Result<Vec<f32>> {
    let b = g.backend();
    g.all_reduce(b.tensor([len], &vec![1.0f32; len])?, Reduction::Sum)?.to_vec(b)
}

#[test]
fn a_link_that_fails_ends_the_waits_of_all_ranks_within_the_limit() {
    with_devices("a_link_that_fails_ends_the_waits_of_all_ranks_within_the_limit", |standin| {
        let group = by_rccl(3, SHORT);
        standin.fail("rccl link:2");
        let start = Instant::now();
        let results = on_each(group, |g| {
            let first = sum(&g, 5);
            (first, sum(&g, 5), g.backend().synchronize())
        });
        assert!(start.elapsed() < 20 * SHORT, "{:?}", start.elapsed());
        for (first, second, waited) in &results {
            let (op, _, text) = blamed(first);
            assert_eq!(op, "all_reduce");
            assert!(
                text.contains("did not end all_reduce (sum) of 5 f32 on its device within 300ms"),
                "{text}"
            );
            assert!(text.contains("NCCL_P2P_DISABLE=1") && text.ends_with("make a new one"), "{text}");
            // Nothing that the queues hold can be trusted any more.
            assert_eq!((blamed(second), blamed(waited)), (blamed(first), blamed(first)));
        }
        standin.fail("");
    });
}

#[test]
fn an_error_of_rccl_on_one_rank_ends_the_group_at_once() {
    with_devices("an_error_of_rccl_on_one_rank_ends_the_group_at_once", |standin| {
        let group = by_rccl(2, LONG);
        standin.fail("rccl error:1");
        let start = Instant::now();
        for result in on_each(group, |g| sum(&g, 5)) {
            let (_, _, text) = blamed(&result);
            assert!(text.contains("got an error from RCCL: ncclSystemError (2)"), "{text}");
        }
        assert!(start.elapsed() < LONG / 2);
        standin.fail("");
    });
}

#[test]
fn a_call_of_rccl_that_fails_on_one_rank_ends_it_on_all() {
    with_devices("a_call_of_rccl_that_fails_on_one_rank_ends_it_on_all", |standin| {
        type Call = fn(&RocmGroup) -> Result<()>;
        let calls: [(&str, Call); 4] = [
            ("ncclAllReduce", |g| sum(g, 5).map(drop)),
            ("ncclAllGather", |g| g.all_gather(g.backend().zeros::<u8>([5])?)?.to_vec(g.backend()).map(drop)),
            ("ncclGroupStart", |g| {
                g.all_to_all(g.backend().zeros::<u8>([4])?)?.to_vec(g.backend()).map(drop)
            }),
            ("ncclBroadcast", |g| {
                let mut y = g.backend().zeros::<u8>([4])?;
                g.broadcast_inplace(&mut y, 0)?;
                y.to_vec(g.backend()).map(drop)
            }),
        ];
        for (function, call) in calls {
            let group = by_rccl(2, LONG);
            standin.fail(&format!("{function}:1"));
            for result in on_each(group, |g| call(&g)) {
                let (_, _, text) = blamed(&result);
                assert!(text.contains("ncclInternalError"), "{function}: {text}");
            }
            standin.fail("");
        }
    });
}

#[test]
fn ranks_that_disagree_or_leave_never_reach_rccl() {
    with_devices("ranks_that_disagree_or_leave_never_reach_rccl", |standin| {
        let launched = || standin.count("ncclAllReduce") + standin.count("ncclAllGather");
        let disagrees = group(2, LONG);
        let before = launched();
        for result in on_each(disagrees, |g| sum(&g, 5 + g.rank())) {
            let (_, _, text) = blamed(&result);
            assert!(
                text.contains("all_reduce (sum) of 6 f32") && text.contains("all_reduce (sum) of 5 f32"),
                "{text}"
            );
        }
        assert_eq!(launched(), before);
        let results = on_each(group(3, LONG), |g| if g.rank() == 1 { None } else { Some(sum(&g, 5)) });
        for result in results.iter().flatten() {
            assert_eq!(blamed(result).1, 1, "{result:?}");
        }
        // Late by the host's clock: the same error.
        let results = on_each(group(2, SHORT), |g| {
            std::thread::sleep(if g.rank() == 1 { 4 * SHORT } else { Duration::ZERO });
            sum(&g, 5)
        });
        for result in &results {
            assert_eq!(blamed(result).1, 1, "{result:?}");
        }
    });
}

#[test]
fn groups_that_cannot_be_made_say_why() {
    with_devices("groups_that_cannot_be_made_say_why", |standin| {
        let error = |made: Result<Vec<RocmGroup>>| made.expect_err("no group").to_string();
        let twice = vec![Rocm::new().expect("a device"); 2];
        assert!(error(RocmGroup::of(twice)).contains("group: device is 0 twice"));
        assert!(error(RocmGroup::of(Vec::new())).contains("ranks is 0"));
        standin.fail("ncclCommInitAll:1");
        assert!(
            error(RocmGroup::of(queues(2, plain)))
                .contains("ncclCommInitAll failed on rocm: ncclSystemError (2)")
        );
        // A link that fails is found when the group is made.
        standin.fail("rccl link:1");
        let text = error(RocmGroup::with_limit(queues(2, plain), SHORT));
        assert!(text.contains("did not end all_gather of 1024 u32 on its device within 300ms"), "{text}");
        standin.fail("");
    });
}

#[test]
fn without_rccl_ranks_on_devices_use_host_memory() {
    with_devices("without_rccl_ranks_on_devices_use_host_memory", |standin| {
        let calls = standin.count("ncclCommInitAll");
        let ranks = HostGroup::of(queues(2, plain)).expect("a group");
        run(&ranks, &[DType::F32, DType::F16], &[0, 5]).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(standin.count("ncclCommInitAll"), calls);
        // A transfer that fails on one rank ends the call on both.
        standin.fail("hipMemcpyAsync:2");
        let results = on_each(ranks, |g| -> Result<_> {
            let x = g.backend().zeros::<f32>([5])?;
            g.all_reduce(&x, Reduction::Sum)?.to_vec(g.backend())
        });
        standin.fail("");
        assert!(results.iter().all(Result::is_err), "{results:?}");
    });
}

#[test]
fn a_collective_of_rccl_is_not_recorded() {
    with_devices("a_collective_of_rccl_is_not_recorded", |_| {
        for result in on_each(group(2, LONG), |g| {
            let mut x = g.backend().zeros::<f32>([4])?;
            let captured = g.backend().capture(|| g.broadcast_inplace(&mut x, 0));
            let error = captured.expect_err("it cannot be recorded").to_string();
            assert!(
                error.contains("RCCL makes it, whose work cannot be recorded; all_reduce and all_gather"),
                "{error}"
            );
            sum(&g, 5)
        }) {
            assert_eq!(result.expect("a sum"), [2.0; 5]);
        }
    });
}
