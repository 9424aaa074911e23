//! Groups: collectives on threads of this process, and what becomes of a rank that is lost, late or of another mind.
use ops_test::group::{every_type, run};
use proptest::prelude::*;
use rocm_ops::group::{Collective, Group, Reduction};
use rocm_ops::{Backend, Cpu, DType, Determinism, Either, Error, HostGroup, Reference, Result, bf16, f16};
use std::time::{Duration, Instant};

/// Calls `f` on each rank, on a thread of its own that owns the rank.
fn on_each<B: Backend, R: Send>(ranks: Vec<HostGroup<B>>, f: impl Fn(HostGroup<B>) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let spawn = |rank| scope.spawn(|| f(rank));
        let threads: Vec<_> = ranks.into_iter().map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn group(size: usize) -> Vec<HostGroup<Cpu>> {
    HostGroup::of(vec![Cpu::new(); size]).expect("a group")
}

#[test]
fn every_collective_in_every_type() {
    for size in [1, 2, 3, 4, 8] {
        let cases = run(&group(size), every_type(), &[0, 1, 5, 64]).unwrap_or_else(|e| panic!("{e}"));
        assert!(cases > size * every_type().len() * 4 * 6, "{cases}");
    }
}

/// Those above 64 KiB are reduced in parts.
#[test]
fn collectives_of_some_mebibytes() {
    for size in [2, 3] {
        run(&group(size), &[DType::F32], &[(1 << 18) + 1]).unwrap_or_else(|e| panic!("{e}"));
    }
    run(&group(2), &[DType::U8], &[3 << 20]).unwrap_or_else(|e| panic!("{e}"));
    run(&group(8), &[DType::BF16], &[33_001]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
#[ignore = "takes gigabytes and a minute"]
fn collectives_of_256_mebibytes() {
    run(&group(2), &[DType::F32], &[64 << 20]).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn ranks_may_be_on_any_backend() {
    let types = [DType::F32, DType::F16];
    let reference = HostGroup::of(vec![Reference::new(); 2]).expect("a group");
    run(&reference, &types, &[3]).unwrap_or_else(|e| panic!("{e}"));
    let either = [Either::Left(Cpu::new()), Either::Right(Reference::new())];
    let either: Vec<Either<Cpu, Reference>> = either.into();
    run(&HostGroup::of(either).expect("a group"), &types, &[3]).unwrap_or_else(|e| panic!("{e}"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// On every rank, and whether it is reduced at once or in parts.
    #[test]
    fn sums_are_in_rank_order_and_rounded_once(
        size in 1usize..6,
        len in prop_oneof![1usize..40, 16_384usize..16_500],
        seed in any::<u32>(),
    ) {
        let value = |rank: usize, i: usize| {
            let mixed = (seed as u64 ^ (rank * 1_000_003 + i) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            ((mixed >> 40) as f32 / 4e6 - 2.0) * 10f32.powi((mixed % 9) as i32 - 4)
        };
        let wide: Vec<f32> = (0..len).map(|i| (1..size).fold(value(0, i), |sum, rank| sum + value(rank, i))).collect();
        let half = |rank: usize, i: usize| bf16::from_f32(value(rank, i)).to_f32();
        let sum = |i: usize| (1..size).fold(half(0, i), |sum, rank| sum + half(rank, i));
        let halves: Vec<bf16> = (0..len).map(|i| bf16::from_f32(sum(i))).collect();
        let results = on_each(group(size), |g| -> Result<_> {
            let (b, rank) = (g.backend(), g.rank());
            let x: Vec<f32> = (0..len).map(|i| value(rank, i)).collect();
            let h: Vec<bf16> = x.iter().map(|v| bf16::from_f32(*v)).collect();
            let y = g.all_reduce(b.tensor([len], &x)?, Reduction::Sum)?.to_vec(b)?;
            Ok((y, g.all_reduce(b.tensor([len], &h)?, Reduction::Sum)?.to_vec(b)?))
        });
        for result in results {
            let (y, h) = result.expect("a sum");
            prop_assert!(y == wide && h == halves);
        }
    }

    /// Whenever a rank leaves, stalls or pauses, each call succeeds on all ranks that make it, or fails on all.
    #[test]
    fn a_call_succeeds_on_all_ranks_or_fails_on_all(
        size in 2usize..6,
        faulty in 0usize..6,
        at in 0usize..8,
        stalls in any::<bool>(),
        pauses in proptest::collection::vec(0u64..300, 48),
    ) {
        const CALLS: usize = 8;
        let (faulty, limit) = (faulty % size, Duration::from_millis(if stalls { 40 } else { 20_000 }));
        let ranks = HostGroup::with_limit(vec![Cpu::new(); size], limit).expect("a group");
        let made = on_each(ranks, |g| {
            let mut made = Vec::new();
            for call in 0..CALLS {
                std::thread::sleep(Duration::from_micros(pauses[call * 6 + g.rank()]));
                match (g.rank() == faulty && call == at, stalls) {
                    (true, true) => std::thread::sleep(4 * limit),
                    (true, false) => return made,
                    _ => {}
                }
                made.push(sum(&g, call).is_ok());
            }
            made
        });
        for call in 0..CALLS {
            let results: Vec<bool> = made.iter().filter_map(|made| made.get(call).copied()).collect();
            prop_assert!(results.iter().all(|ok| *ok == results[0]), "call {call}: {made:?}");
            prop_assert!(results[0] == (call < at) || stalls, "call {call}: {made:?}");
            prop_assert!(!results[0] || call < at, "call {call}: {made:?}");
        }
    }

    /// Scattering what was reduced, and gathering that, is the same as reducing.
    #[test]
    fn a_reduction_is_a_scatter_and_a_gather(size in 1usize..5, each in 0usize..9, salt in any::<u8>()) {
        let results = on_each(group(size), |g| -> Result<bool> {
            let b = g.backend();
            let x: Vec<i32> = (0..size * each).map(|i| (i * i) as i32 - i32::from(salt) * g.rank() as i32).collect();
            let x = b.tensor([size * each], &x)?;
            let whole = g.all_reduce(&x, Reduction::Max)?.to_vec(b)?;
            let part = g.reduce_scatter(&x, Reduction::Max)?;
            let there = g.all_to_all(&x)?;
            let back = g.all_to_all(&there)?;
            Ok(g.all_gather(&part)?.to_vec(b)? == whole && back.to_vec(b)? == x.to_vec(b)?)
        });
        prop_assert!(results.into_iter().all(|same| same.expect("no error")));
    }
}

#[test]
fn maxima_keep_nan_and_integers_wrap() {
    let results = on_each(group(2), |g| -> Result<_> {
        let (b, odd) = (g.backend(), g.rank() == 1);
        let nan = b.tensor([2], &[if odd { f16::NAN } else { f16::ONE }, f16::ONE])?;
        let nan = g.all_reduce(&nan, Reduction::Max)?.to_vec(b)?;
        let wraps = g.all_reduce(b.tensor([1], &[200u8])?, Reduction::Sum)?.to_vec(b)?;
        let sum = g.determinism(Collective::AllReduce(Reduction::Sum), DType::F32);
        Ok((nan[0].is_nan() && nan[1] == f16::ONE, wraps, sum))
    });
    for result in results {
        assert_eq!(result.expect("no error"), (true, vec![144], Determinism::Exact));
    }
}

/// The error of a group, with the op and the rank that it names.
fn blamed<T: std::fmt::Debug>(result: &Result<T>) -> (&'static str, usize, String) {
    match result {
        Err(Error::Group { op, rank, why, .. }) => (op, *rank, why.clone()),
        other => panic!("no error of a group: {other:?}"),
    }
}

fn sum<B: Backend>(g: &HostGroup<B>, len: usize) -> Result<()> {
    let x = g.backend().tensor([len], &vec![1.0f32; len])?;
    g.all_reduce(&x, Reduction::Sum).map(drop)
}

#[test]
fn a_rank_that_leaves_is_named_on_all_others_at_once() {
    let start = Instant::now();
    let results = on_each(group(4), |g| {
        sum(&g, 5)?;
        // The handle of rank 2 is dropped; that of rank 3 as well, by a panic.
        match g.rank() {
            2 => return Ok(None),
            3 => {
                _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let _owned = g;
                    panic!("a fault of the program");
                }))
            }
            _ => return Ok(Some((sum(&g, 5), sum(&g, 5)))),
        }
        Ok::<_, Error>(None)
    });
    assert!(start.elapsed() < Duration::from_secs(30), "before the limit");
    for (first, later) in results.iter().filter_map(|result| result.as_ref().expect("rank 0 and 1").as_ref())
    {
        let (op, rank, why) = blamed(first);
        assert!(op == "all_reduce" && rank >= 2 && why.starts_with("left the group"), "{first:?}");
        assert_eq!(blamed(first), blamed(later), "the group stays over");
    }
}

#[test]
fn a_rank_that_is_late_ends_the_call_on_all_ranks_and_on_its_own() {
    let limit = Duration::from_millis(150);
    let results = on_each(HostGroup::with_limit(vec![Cpu::new(); 3], limit).expect("a group"), |g| {
        if g.rank() == 1 {
            std::thread::sleep(4 * limit);
        }
        sum(&g, 5)
    });
    for result in &results {
        let (op, rank, why) = blamed(result);
        assert_eq!((op, rank), ("all_reduce", 1));
        assert!(why.contains("did not join all_reduce (sum) of 5 f32 within 150ms"), "{why}");
        assert!(why.ends_with("find what it waits for, or set a longer limit"), "{why}");
    }
}

/// What a rank calls in a group of three.
type Calls = fn(&HostGroup<Cpu>) -> Result<()>;

#[test]
fn ranks_that_disagree_all_learn_of_it() {
    let agreed: Calls = |g| sum(g, 6);
    let others: [(Calls, &str); 6] = [
        (|g| sum(g, 12), "all_reduce (sum) of 12 f32"),
        (
            |g| g.all_reduce(g.backend().zeros::<f32>([6])?, Reduction::Max).map(drop),
            "all_reduce (max) of 6 f32",
        ),
        (
            |g| g.all_reduce(g.backend().zeros::<i32>([6])?, Reduction::Sum).map(drop),
            "all_reduce (sum) of 6 i32",
        ),
        (|g| g.all_gather(g.backend().zeros::<f32>([6])?).map(drop), "all_gather of 6 f32"),
        (|g| g.broadcast_inplace(&mut g.backend().zeros::<f32>([6])?, 0), "broadcast from rank 0 of 6 f32"),
        (|g| g.send(g.backend().zeros::<f32>([6])?, 0), "send to rank 0 of 6 f32"),
    ];
    for (other, name) in others {
        let results = on_each(group(3), |g| if g.rank() == 2 { other(&g) } else { agreed(&g) });
        for result in &results {
            let (_, _, why) = blamed(result);
            assert!(why.contains(name) && why.contains("all_reduce (sum) of 6 f32"), "{name}: {why}");
            assert!(why.contains("rank 2") || blamed(result).1 == 2, "{name}: {why}");
        }
    }
}

#[test]
fn point_to_point_calls_that_do_not_match_end_on_all_ranks() {
    let pairs: [(Calls, Calls); 3] = [
        // Another size; both send; another type.
        (|g| g.send(g.backend().zeros::<f32>([6])?, 1), |g| g.recv::<f32>([5], 0).map(drop)),
        (|g| g.send(g.backend().zeros::<f32>([6])?, 1), |g| g.send(g.backend().zeros::<f32>([6])?, 0)),
        (|g| g.send(g.backend().zeros::<f32>([6])?, 1), |g| g.recv::<i32>([6], 0).map(drop)),
    ];
    for (first, second) in pairs {
        let results = on_each(group(3), |g| match g.rank() {
            0 => first(&g),
            1 => second(&g),
            _ => sum(&g, 1),
        });
        for result in &results {
            let (_, _, why) = blamed(result);
            assert!(why.contains("send to rank") || why.contains("recv from rank"), "{why}");
        }
    }
}

#[test]
fn a_call_that_is_refused_on_its_rank_leaves_the_group_whole() {
    let results = on_each(group(2), |g| {
        let b = g.backend();
        let x = b.tensor([2, 3], &[1.0f32; 6])?;
        if g.rank() == 0 {
            let strided = x.as_ref().transpose(0, 1)?;
            let error = g.all_reduce(strided, Reduction::Sum).expect_err("it is not contiguous");
            assert!(error.to_string().contains("contiguous elements; copy it first (copy_of)"), "{error}");
            let error = g.reduce_scatter(b.zeros::<f32>([3])?, Reduction::Sum).expect_err("3 of 2 ranks");
            assert!(error.to_string().contains("a first extent that is a multiple of 2"), "{error}");
            let error = g.send(&x, 0).expect_err("to itself");
            assert_eq!(error.to_string(), "send: to is 0, expected another rank than 0, which calls");
            let error = g.broadcast_inplace(&mut b.zeros::<f32>([3])?, 2).expect_err("no such rank");
            assert_eq!(error.to_string(), "broadcast: root is 2, expected a rank below 2");
            let error = g.run(Collective::AllReduce(Reduction::Sum), Some(x.any()), None);
            assert!(
                error.expect_err("no output").to_string().contains("y is missing"),
                "an output is needed"
            );
        }
        g.all_reduce(&x, Reduction::Sum)?.to_vec(b)
    });
    for result in results {
        assert_eq!(result.expect("a sum"), [2.0; 6]);
    }
}

#[test]
fn a_rank_may_leave_when_nobody_waits_for_it() {
    let results = on_each(group(3), |g| {
        sum(&g, 3)?;
        if g.rank() == 0 {
            return Ok(());
        }
        let b = g.backend();
        if g.rank() == 1 { g.send(b.zeros::<u8>([3])?, 2) } else { g.recv::<u8>([3], 1).map(drop) }
    });
    results.into_iter().for_each(|result| result.expect("ranks 1 and 2 do not need rank 0"));
    assert!(HostGroup::of(Vec::<Cpu>::new()).is_err(), "a group has ranks");
}
