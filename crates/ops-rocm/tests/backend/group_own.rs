//! Collectives by this project's kernels: sizes, bits, recordings, and faults while a recording is replayed.
use crate::group::{DEVICES, LONG, SHORT, blamed, group, on_each, plain, queues};
use ops_core::group::{Collective, Group, Reduction};
use ops_core::ops::ElementwiseMethods;
use ops_core::{Backend, DType, Determinism, Num, Replay, Result, Scalar, bf16, f16};
use ops_cpu::{Cpu, HostGroup};
use ops_rocm::{Policy, Rocm, RocmGroup, Transport, known_peer_access, test_peer_access};
use ops_test::group::{every_type, run};
use standin_testing::{Standin, with_standin};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Runs the body with eight devices.
fn with_devices(test: &str, body: impl FnOnce(&Standin)) {
    with_standin(&format!("group_own::{test}"), &[("HIP_STANDIN_DEVICES", DEVICES)], body);
}

/// A group whose kernels make all_reduce and all_gather of any size.
fn own(count: u32) -> Vec<RocmGroup> {
    let queues = queues(count, |builder| {
        builder.policy(Policy::new().order("all_reduce", ["hip"]).order("all_gather", ["hip"]))
    });
    RocmGroup::of(queues).expect("a group")
}

/// Calls of RCCL that reduce or gather.
fn by_rccl(standin: &Standin) -> u64 {
    standin.count("ncclAllReduce") + standin.count("ncclAllGather")
}

/// Values of many magnitudes, so that another order of a sum gives other bits.
fn values<T: Scalar>(rank: usize, len: usize) -> Vec<T> {
    let value = |i: usize| ((i * 37 + rank * 11) as f64 * 0.7).sin() * 10f64.powi((i % 7) as i32 - 3);
    (0..len).map(|i| T::from_f64(value(i))).collect()
}

fn sum_of<T: Num + Scalar, G: Group>(g: &G, len: usize) -> Result<Vec<T>> {
    let x = g.backend().tensor([len], &values::<T>(g.rank(), len))?;
    g.all_reduce(&x, Reduction::Sum)?.to_vec(g.backend())
}

fn bits_agree<T: Num + Scalar>(ranks: u32, lens: &[usize]) {
    for &len in lens {
        let on_cpu = HostGroup::of(vec![Cpu::new(); ranks as usize]).expect("a group");
        let want = on_each(on_cpu, |g| sum_of::<T, _>(&g, len).expect("a sum")).remove(0);
        for got in on_each(group(ranks, LONG), |g| sum_of::<T, _>(&g, len).expect("a sum")) {
            let [got, want] = [&got, &want].map(|v| bytemuck::cast_slice::<T, u8>(v).to_vec());
            assert!(got == want, "{len} of {} on {ranks} ranks", T::DTYPE);
        }
    }
}

#[test]
fn small_sums_have_the_bits_of_the_cpu() {
    with_devices("small_sums_have_the_bits_of_the_cpu", |standin| {
        let before = standin.count("ncclAllReduce");
        bits_agree::<f32>(2, &[1, 1001, 65_536]);
        bits_agree::<f32>(3, &[4099]);
        bits_agree::<f32>(8, &[515]);
        bits_agree::<f16>(3, &[7, 2049]);
        bits_agree::<bf16>(4, &[9, 1023]);
        bits_agree::<f64>(4, &[333]);
        assert_eq!(standin.count("ncclAllReduce"), before, "RCCL has no part in it");
    });
}

#[test]
fn every_type_and_size() {
    with_devices("every_type_and_size", |_| sizes(2));
}

#[test]
fn every_type_and_size_on_waves_of_64() {
    let devices = [("HIP_STANDIN_DEVICES", "gfx90a,gfx90a,gfx90a"), ("HIP_STANDIN_ORDER", "shuffled")];
    with_standin("group_own::every_type_and_size_on_waves_of_64", &devices, |_| {
        sizes(3);
        bits_agree::<f32>(3, &[1001]);
    });
}

/// In place and not, between guards, at addresses that are aligned to elements only.
fn sizes(ranks: u32) {
    let group = own(ranks);
    run(&group, every_type(), &[0, 1, 17]).unwrap_or_else(|e| panic!("{e}"));
    // 4 KiB, beyond which there is more than one block, and 256 KiB, beyond which there is more than one launch.
    for (dtype, counts) in [
        (DType::F32, [1024, 65_537]),
        (DType::F16, [2049, 131_072]),
        (DType::BF16, [2047, 33_333]),
        (DType::I8, [4097, 262_145]),
        (DType::I64, [511, 32_769]),
    ] {
        run(&group, &[dtype], &counts).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn any_number_of_ranks_up_to_eight() {
    with_devices("any_number_of_ranks_up_to_eight", |standin| {
        for ranks in [1, 3, 4, 8] {
            let before = by_rccl(standin) + u64::from(ranks);
            let group = own(ranks);
            run(&group, &[DType::F32, DType::BF16, DType::U8], &[0, 1, 1030])
                .unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(
                group[0].determinism(Collective::AllReduce(Reduction::Sum), DType::F32),
                Determinism::Exact
            );
            assert_eq!(by_rccl(standin), before, "only the check of RCCL's links, on each rank");
        }
    });
}

#[test]
fn without_access_to_the_memory_of_peers_pinned_memory_of_the_host_is_used() {
    let variables = [("HIP_STANDIN_DEVICES", "gfx1100,gfx1100,gfx1100"), ("HIP_STANDIN_PEERS", "none")];
    with_standin(
        "group_own::without_access_to_the_memory_of_peers_pinned_memory_of_the_host_is_used",
        &variables,
        |_| {
            let group = own(3);
            let Some(Transport::Host(why)) = group[0].transport() else {
                panic!("{:?}", group[0].transport())
            };
            assert!(why.contains("the driver offers device 0 no access to device 1"), "{why}");
            run(&group, &[DType::F32, DType::I16], &[1, 1030]).unwrap_or_else(|e| panic!("{e}"));
        },
    );
}

/// What a driver promises and does not keep is found by a process of its own, whose findings later processes use.
#[test]
fn access_that_loses_data_is_found_before_it_is_used() {
    broken(
        "access_that_loses_data_is_found_before_it_is_used",
        "lost",
        "did not join all_reduce (sum) of 65536 u32 within 2s",
    );
}

#[test]
fn access_that_hangs_is_found_before_it_is_used() {
    broken("access_that_hangs_is_found_before_it_is_used", "hang", "the test did not end within 5s");
}

fn broken(test: &str, how: &str, problem: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a name");
    let variables =
        [("HIP_STANDIN_DEVICES", "gfx1100,gfx1100"), ("HIP_STANDIN_PEERS", how), ("OPS_ROCM_CACHE", folder)];
    with_standin(&format!("group_own::{test}"), &variables, |_| {
        assert_eq!(known_peer_access(), []);
        let start = Instant::now();
        for made in 0..2 {
            let group = RocmGroup::with_limit(queues(2, plain), 4 * SHORT).expect("a group");
            let Some(Transport::Host(why)) = group[0].transport() else {
                panic!("{:?}", group[0].transport())
            };
            assert!(
                why.contains("devices 0 and 1 do not reach each other's memory") && why.contains(problem),
                "{why}"
            );
            run(&group, &[DType::F32], &[1030]).unwrap_or_else(|e| panic!("{made}: {e}"));
        }
        assert!(start.elapsed() < Duration::from_secs(60), "tested once: {:?}", start.elapsed());
        let [found] = &known_peer_access()[..] else { panic!("one pair") };
        assert!(found.problem.as_ref().is_some_and(|why| why.contains(problem)), "{found}");
    });
}

#[test]
fn access_that_works_is_tested_and_used() {
    with_devices("access_that_works_is_tested_and_used", |_| {
        let found = test_peer_access().expect("a test");
        assert_eq!(found.len(), 28, "every two of eight devices");
        assert!(found.iter().all(|pair| pair.problem.is_none()), "{found:?}");
        assert_eq!(known_peer_access(), found);
        assert_eq!(group(2, LONG)[0].transport(), Some(&Transport::Direct));
    });
}

/// A step of a model in small: what a rank has is changed, and the sum over the ranks replaces it.
fn step(g: &RocmGroup, x: &mut ops_core::TensorOf<Rocm, f32>) -> Result<()> {
    g.backend().affine_inplace(&mut *x, 0.5, 1.0)?;
    g.all_reduce_inplace(&mut *x, Reduction::Sum)
}

#[test]
fn a_recorded_step_is_replayed_many_times() {
    with_devices("a_recorded_step_is_replayed_many_times", |standin| {
        const REPLAYS: usize = 50;
        let group = group(3, LONG);
        let before = by_rccl(standin);
        let results = on_each(group, |g| -> Result<_> {
            let b = g.backend();
            let mut x = b.tensor([1001], &values::<f32>(g.rank(), 1001))?;
            let mut all = b.zeros::<f32>([3003])?;
            let (graph, ()) = b.capture(|| -> Result<()> {
                step(&g, &mut x)?;
                g.all_gather_into(&x, &mut all)
            })?;
            for replay in 0..REPLAYS {
                b.replay(&graph)?;
                // Calls that are not recorded may come between.
                if replay % 7 == 0 {
                    step(&g, &mut x)?;
                }
            }
            let all = all.to_vec(b)?;
            Ok((x.to_vec(b)?, all))
        });
        assert_eq!(by_rccl(standin), before);
        let steps = REPLAYS + REPLAYS.div_ceil(7);
        let mut want: Vec<Vec<f32>> = (0..3).map(|rank| values(rank, 1001)).collect();
        for _ in 0..steps {
            let each = want
                .iter()
                .map(|x| x.iter().map(|v| v * 0.5 + 1.0).collect::<Vec<f32>>())
                .collect::<Vec<_>>();
            let sum: Vec<f32> = (0..1001).map(|i| each[0][i] + each[1][i] + each[2][i]).collect();
            want = vec![sum; 3];
        }
        for result in results {
            let (x, all) = result.expect("replays");
            assert!(x == want[0]);
            // Gathered at the last replay; calls that are not recorded may have changed x since.
            assert!(all[..1001] == all[1001..2002] && all[..1001] == all[2002..]);
        }
    });
}

#[test]
fn any_size_can_be_recorded() {
    with_devices("any_size_can_be_recorded", |_| {
        let results = on_each(group(2, LONG), |g| -> Result<_> {
            let b = g.backend();
            let x = b.tensor([150_001], &vec![1.0f32; 150_001])?;
            let mut y = b.zeros::<f32>([150_001])?;
            let mut all = b.zeros::<f32>([300_002])?;
            let (graph, ()) = b.capture(|| -> Result<()> {
                g.all_reduce_into(&x, &mut y, Reduction::Sum)?;
                g.all_gather_into(&y, &mut all)
            })?;
            b.replay(&graph)?;
            all.to_vec(b)
        });
        results.into_iter().for_each(|all| assert_eq!(all.expect("a replay"), vec![2.0; 300_002]));
    });
}

#[test]
fn a_rank_that_stalls_in_a_replay_is_named_on_all_ranks() {
    with_devices("a_rank_that_stalls_in_a_replay_is_named_on_all_ranks", |_| {
        let start = Instant::now();
        let results = on_each(group(3, SHORT), |g| -> Result<()> {
            let b = g.backend();
            let mut x = b.zeros::<f32>([100])?;
            let (graph, ()) = b.capture(|| step(&g, &mut x))?;
            b.replay(&graph)?;
            b.synchronize()?;
            if g.rank() == 1 {
                std::thread::sleep(4 * SHORT);
            }
            // The second of them cannot wait for the limit again.
            b.replay(&graph)?;
            b.replay(&graph)?;
            b.synchronize()
        });
        assert!(start.elapsed() < 20 * SHORT, "{:?}", start.elapsed());
        for result in &results {
            let (op, rank, text) = blamed(result);
            assert_eq!((op, rank), ("all_reduce", 1), "{text}");
            assert!(
                text.contains(
                    "did not join all_reduce (sum) of 100 f32 within 300ms while the device of rank"
                ),
                "{text}"
            );
        }
    });
}

#[test]
fn a_rank_that_leaves_is_named_at_once_by_those_that_replay() {
    with_devices("a_rank_that_leaves_is_named_at_once_by_those_that_replay", |_| {
        let start = Instant::now();
        let results = on_each(group(3, LONG), |g| -> Result<Option<()>> {
            let b = g.backend().clone();
            let mut x = b.zeros::<f32>([100])?;
            let (graph, ()) = b.capture(|| step(&g, &mut x))?;
            b.replay(&graph)?;
            if g.rank() == 2 {
                drop(g);
                return Ok(None);
            }
            b.replay(&graph)?;
            b.synchronize().map(Some)
        });
        assert!(start.elapsed() < LONG / 2);
        for result in &results[..2] {
            let (op, rank, text) = blamed(result);
            assert_eq!((op, rank), ("all_reduce", 2), "{text}");
            assert!(text.contains("left the group while others waited for it"), "{text}");
        }
        assert_eq!(results[2].as_ref().expect("it has left"), &None);
    });
}

#[test]
fn a_kernel_that_dies_on_one_rank_ends_the_waits_of_the_others() {
    with_devices("a_kernel_that_dies_on_one_rank_ends_the_waits_of_the_others", |standin| {
        let group = group(2, SHORT);
        // One of the two kernels of the first call.
        standin.fail("kernel all_reduce_sum_f32:2");
        let results = on_each(group, |g| sum_of::<f32, _>(&g, 10));
        standin.fail("");
        assert!(results.iter().all(Result::is_err), "{results:?}");
        let of_group = |result: &&Result<_>| matches!(result, Err(ops_core::Error::Group { .. }));
        assert!(results.iter().any(|result| of_group(&result)), "{results:?}");
    });
}

#[test]
fn replays_of_different_steps_are_an_error() {
    with_devices("replays_of_different_steps_are_an_error", |_| {
        let both = Barrier::new(2);
        let results = on_each(group(2, LONG), |g| -> Result<()> {
            let b = g.backend();
            let (mut x, mut y) = (b.zeros::<f32>([100])?, b.zeros::<f32>([101])?);
            let (first, ()) = b.capture(|| step(&g, &mut x))?;
            let (second, ()) = b.capture(|| step(&g, &mut y))?;
            both.wait();
            b.replay(if g.rank() == 0 { &first } else { &second })?;
            b.synchronize()
        });
        for result in &results {
            let (_, _, text) = blamed(result);
            assert!(
                text.contains("all_reduce (sum) of 100 f32") && text.contains("all_reduce (sum) of 101 f32"),
                "{text}"
            );
            assert!(
                text.contains("record and replay the same calls in the same order on all ranks"),
                "{text}"
            );
        }
    });
}

#[test]
fn a_graph_outlives_its_group() {
    with_devices("a_graph_outlives_its_group", |standin| {
        let results =
            on_each(RocmGroup::with_limit(queues(2, plain), SHORT).expect("a group"), |g| -> Result<_> {
                let b = g.backend().clone();
                let mut x = b.tensor([3], &[1.0f32; 3])?;
                let (graph, ()) = b.capture(|| step(&g, &mut x))?;
                b.replay(&graph)?;
                let before = x.to_vec(&b)?;
                Ok((graph, g, before))
            });
        let (graphs, groups): (Vec<_>, Vec<_>) = results
            .into_iter()
            .map(|result| result.expect("a replay"))
            .map(|(graph, g, x)| ((graph, x), g))
            .unzip();
        drop(groups);
        for (graph, x) in &graphs {
            assert_eq!(x, &[3.0; 3]);
            graph.replay().expect("its memory is alive");
        }
        drop(graphs);
        assert_eq!(standin.misuses(), 0);
    });
}

#[test]
fn a_provider_that_a_collective_lacks_is_refused() {
    let error = Policy::parse("all_reduce=rocblas").expect_err("no such provider").to_string();
    assert_eq!(error, "policy: all_reduce has no provider \"rocblas\"; it has hip, rccl");
}
