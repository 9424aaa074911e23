//! A rank that fails ends the others, soon and with an error.
use super::{cpu, each, file};
use ops_tests::ranks::{PROMPT, load};
use rocm_ops::models::{Decoder, Error, GenerateOptions, Rank, Result, TextModel, on_ranks};
use rocm_ops::{Cpu, Determinism, HostGroup};
use std::time::{Duration, Instant};

/// Generates ten tokens on three ranks, with `fault` before the sixth.
fn generate(fault: impl Fn(&Rank<'_, Cpu>) -> Result<()> + Sync) -> (Error, Vec<usize>) {
    let (gguf, begin) = (file("llama-f16"), Instant::now());
    let counts = std::sync::Mutex::new(vec![0; 3]);
    let run = |rank: &Rank<'_, Cpu>| -> Result<()> {
        let model = TextModel::new(load::<f32, _>(rank, &gguf)?, None);
        let options = GenerateOptions { max_tokens: 10, ..Default::default() };
        for (i, token) in model.generate(rank.backend(), &PROMPT, options)?.enumerate() {
            token?;
            counts.lock().unwrap()[rank.share().rank()] += 1;
            if i == 4 {
                fault(rank)?;
            }
        }
        Ok(())
    };
    let ranks = HostGroup::of(vec![cpu(Determinism::Run); 3]).unwrap();
    let error = on_ranks(ranks, Determinism::Run, run, run).expect_err("a rank has failed");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    (error, counts.into_inner().unwrap())
}

#[test]
fn a_rank_that_dies_ends_all_with_an_error_that_names_it() {
    for dead in [1, 2] {
        let (error, counts) = generate(|rank| {
            assert!(rank.share().rank() != dead, "a fault of rank {dead}");
            Ok(())
        });
        let text = error.to_string();
        let (named, why) = (format!("rank {dead} of 3 panicked"), format!("a fault of rank {dead}"));
        assert!(text.contains(&named) && text.contains(&why), "{text}");
        assert_eq!(counts, [5; 3]);
    }
}

#[test]
fn an_error_of_one_rank_is_that_of_all() {
    for failing in [0, 1, 2] {
        let (error, counts) = generate(|rank| match rank.share().rank() == failing {
            true => Err(Error::Option { name: "fault", got: failing.to_string(), wanted: "none".into() }),
            false => Ok(()),
        });
        assert!(matches!(error, Error::Option { name: "fault", .. }), "rank {failing}: {error}");
        assert_eq!(counts, [5; 3]);
    }
}

/// A step that fails in the middle of the model leaves the group, even if the program goes on.
#[test]
fn after_a_failed_step_a_rank_calls_no_collective() {
    let gguf = file("llama-f16");
    let run = |rank: &Rank<'_, Cpu>| -> Result<Vec<String>> {
        let (b, model) = (rank.backend(), load::<f32, _>(rank, &gguf)?);
        let mut state = model.state(b, 16)?;
        model.forward(b, &mut state, &[1, 2])?;
        // An id that is not in the vocabulary fails before the first sum.
        let id = if rank.share().rank() == 1 { 100_000 } else { 3 };
        let first = model.forward(b, &mut state, &[id]).expect_err("fails on all").to_string();
        let second = model.forward(b, &mut state, &[4]).expect_err("fails on all").to_string();
        Ok(vec![first, second])
    };
    let all = each(2, Determinism::Run, run).unwrap();
    assert!(all[1][0].contains("100000"), "{all:?}");
    assert!(
        all[1][1].contains("rank 1 of 2 left the group after an error") && all[1][1].contains("100000"),
        "{all:?}"
    );
    assert!(all[0].iter().all(|text| text.contains("rank")), "{all:?}");
}

#[test]
fn a_number_of_ranks_that_cannot_keep_the_order_is_refused() {
    let error = each(3, Determinism::Batch, |_| Ok(())).expect_err("refused").to_string();
    assert!(error.contains("got 3, wanted 1, 2, 4 or 8 at determinism batch"), "{error}");
    each(3, Determinism::Run, |_| Ok(())).unwrap();
}

#[test]
fn ranks_agree_on_what_rank_0_decides() {
    let run = |rank: &Rank<'_, Cpu>| -> Result<Vec<usize>> {
        (0..4).map(|i| rank.agree(|| 10 * i + rank.share().rank())).collect()
    };
    assert_eq!(each(3, Determinism::Run, run).unwrap(), vec![vec![0, 10, 20, 30]; 3]);
    let lone = Rank::only(&cpu(Determinism::Run)).agree(|| 7).unwrap();
    assert_eq!(lone, 7);
    // Rank 0 ends before the others ask.
    let ranks = HostGroup::of(vec![cpu(Determinism::Run); 2]).unwrap();
    let error =
        on_ranks(ranks, Determinism::Run, |_| Ok::<_, Error>(()), |rank| rank.agree(|| ())).unwrap_err();
    assert!(error.to_string().contains("rank 0 of 2 has ended"), "{error}");
}

/// However late they are; and a rank that ends instead is an error of those that wait.
#[test]
fn ranks_wait_for_all() {
    let arrived = std::sync::atomic::AtomicUsize::new(0);
    let run = |rank: &Rank<'_, Cpu>| -> Result<usize> {
        std::thread::sleep(Duration::from_millis(50 * rank.share().rank() as u64));
        arrived.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        rank.wait_for_all()?;
        Ok(arrived.load(std::sync::atomic::Ordering::SeqCst))
    };
    assert_eq!(each(3, Determinism::Run, run).unwrap(), [3; 3]);
    for ending in [0, 1, 2] {
        let run = |rank: &Rank<'_, Cpu>| match rank.share().rank() == ending {
            true => Ok(()),
            false => rank.wait_for_all(),
        };
        let error = each(3, Determinism::Run, run).expect_err("a rank has ended").to_string();
        assert!(error.contains(&format!("rank {ending} of 3 has ended")), "{error}");
    }
}

#[test]
fn a_rank_without_heads_or_experts_still_fits_a_state() {
    let gguf = file("stablelm-f16");
    let sizes = each(8, Determinism::Run, |rank| {
        let model: Decoder<f32, Cpu> = load(rank, &gguf)?;
        assert_eq!(model.config().heads, 2, "the configuration is that of the whole model");
        Ok(model.state(rank.backend(), 16)?.save(rank.backend())?.len())
    });
    assert!(sizes.unwrap().iter().all(|size| *size > 0));
}

/// Here rank 1 would draw other tokens: it forbids those of rank 0, which forbids one that it would not draw.
#[test]
fn all_ranks_draw_what_rank_0_draws() {
    let gguf = file("llama-f16");
    let ids = |rank: &Rank<'_, Cpu>, forbidden: &[u32]| -> Result<Vec<u32>> {
        let model = TextModel::new(load::<f32, _>(rank, &gguf)?, None);
        let logit_bias = forbidden.iter().map(|id| (*id, f32::NEG_INFINITY)).collect();
        let options = GenerateOptions { max_tokens: 6, temperature: 0.0, logit_bias, ..Default::default() };
        model.generate(rank.backend(), &PROMPT, options)?.map(|token| Ok(token?.id)).collect()
    };
    let want = each(1, Determinism::Run, |rank| ids(rank, &[])).unwrap().remove(0);
    let other = [(0..).find(|id| !want.contains(id)).unwrap()];
    let run = |rank: &Rank<'_, Cpu>| ids(rank, if rank.leads() { &other } else { &want });
    assert_eq!(each(2, Determinism::Run, run).unwrap(), vec![want.clone(); 2]);
}
