//! Models divided over several devices.
use ops_tests::families::{self, folder};
use ops_tests::ranks::{PROMPT, each, error, load, logits, logits_in_pages, logits_of};
use rocm_ops::gguf::Gguf;
use rocm_ops::models::{Continuation, Decoder, GenerateOptions, Rank, Result, TextModel, on_ranks};
use rocm_ops::ops::Sample;
use rocm_ops::rocm::RocmGroup;
use rocm_ops::{Determinism, HostGroup, Policy, Rocm, f16};
use standin_testing::{Standin, with_standin};
use std::time::Duration;

fn with_devices(test: &str, body: impl FnOnce(&Standin)) {
    let devices = "gfx1100,gfx1100,gfx1100,gfx1100";
    with_standin(&format!("ranks::{test}"), &[("HIP_STANDIN_DEVICES", devices)], body);
}

fn queues(count: u32, level: Determinism) -> Vec<Rocm> {
    (0..count).map(|ordinal| Rocm::builder().ordinal(ordinal).determinism(level).build().unwrap()).collect()
}

fn queues_with(policy: &str, count: u32, level: Determinism) -> Vec<Rocm> {
    let policy = Policy::parse(policy).unwrap();
    let queue = |ordinal| Rocm::builder().ordinal(ordinal).determinism(level).policy(policy.clone()).build();
    (0..count).map(|ordinal| queue(ordinal).unwrap()).collect()
}

/// Their products are not rocBLAS's, which cannot be recorded.
fn queues_that_record(count: u32, level: Determinism) -> Vec<Rocm> {
    queues_with("linear=hip;matmul=hip", count, level)
}

fn file(name: &str) -> Gguf {
    Gguf::open(format!("{}/{name}.gguf", folder())).unwrap()
}

#[test]
fn models_have_the_same_bits_on_1_2_and_4_devices_at_batch() {
    with_devices("models_have_the_same_bits_on_1_2_and_4_devices_at_batch", |_| {
        let level = Determinism::Batch;
        // Attention with windows does not reach this level.
        for name in ["llama-f16", "llama-Q4_K_M", "qwen3-f16", "qwen3moe-f16", "deepseek-v3-f16"] {
            let gguf = file(name);
            let of = |b: &Rocm, model: &Decoder<f16, Rocm>| logits_in_pages(b, model, 3);
            let one = logits_of(HostGroup::of(queues(1, level)).unwrap(), &gguf, level, of);
            for n in [2, 4] {
                let got = logits_of(RocmGroup::of(queues(n, level)).unwrap(), &gguf, level, of);
                assert!(got == one, "{name} on {n}: {}", error(&got, &one));
            }
        }
        for dtype in ["f16", "q8_0"] {
            let gguf = ops_tests::model(dtype);
            let of = |b: &Rocm, model: &Decoder<f16, Rocm>| logits(b, model, 1);
            let one = logits_of(HostGroup::of(queues(1, level)).unwrap(), &gguf, level, of);
            let got = logits_of(RocmGroup::of(queues(2, level)).unwrap(), &gguf, level, of);
            assert!(got == one, "{dtype}: {}", error(&got, &one));
        }
    });
}

/// Sums in the order of RCCL.
#[test]
fn families_on_two_devices_are_close_to_one() {
    with_devices("families_on_two_devices_are_close_to_one", |_| {
        for name in families::FAMILIES.into_iter().filter(|name| !name.contains("Q4")) {
            let (gguf, level) = (file(name), Determinism::Run);
            let rocm = queues(1, level).remove(0);
            let model = Decoder::<f32, _>::load(&rocm, &gguf, 64).unwrap();
            let whole = logits(&rocm, &model, 1).unwrap();
            let of = |b: &Rocm, model: &Decoder<f32, Rocm>| logits(b, model, 1);
            let got = logits_of(RocmGroup::of(queues(2, level)).unwrap(), &gguf, level, of);
            let error = error(&got, &whole);
            assert!(error < 1e-9, "{name}: {error}");
        }
    });
}

/// Embeddings, and little else, are on both.
#[test]
fn a_device_has_only_its_part_of_the_weights() {
    with_devices("a_device_has_only_its_part_of_the_weights", |_| {
        let gguf = ops_tests::model("f16");
        let of = |n| {
            let in_use = |rank: &Rank<'_, Rocm>| {
                let before = rank.backend().memory_stats().in_use;
                let _model = load::<f16, _>(rank, &gguf)?;
                Ok(rank.backend().memory_stats().in_use - before)
            };
            each(RocmGroup::of(queues(n, Determinism::Run)).unwrap(), Determinism::Run, in_use).unwrap()
        };
        let embeddings = gguf.tensor("token_embd.weight").unwrap().bytes().unwrap().len();
        let ([two, whole], tables) = ([of(2), of(1)], 1 << 16);
        for part in two {
            let want = embeddings + (whole[0] - embeddings) / 2;
            assert!(part.abs_diff(want) < tables, "{part} bytes, wanted about {want} of {}", whole[0]);
        }
    });
}

/// Tokens drawn by a continuation, and why its steps were not recorded.
fn continued(rank: &Rank<'_, Rocm>, gguf: &Gguf, sample: Sample<f32>) -> Result<(Vec<u32>, Option<String>)> {
    let (b, model) = (rank.backend(), load::<f32, _>(rank, gguf)?);
    let mut pages = model.pages(b, 16, 4)?;
    let mut text = pages.blocks().sequence();
    model.forward_paged(b, &mut pages, &mut [(&mut text, &PROMPT)])?;
    let mut more = Continuation::new(b, &model, &mut pages, vec![(&mut text, 1, 0)], sample, 6)?;
    let refusal = more.refusal().map(ToString::to_string);
    let ids = (0..6).map(|_| Ok(more.next_tokens()?[0]?)).collect::<Result<_>>()?;
    Ok((ids, refusal))
}

/// All logits are gathered, or the largest ones of each rank, or sums are in order.
#[test]
fn a_step_of_a_divided_model_is_recorded() {
    with_devices("a_step_of_a_divided_model_is_recorded", |_| {
        let few = Sample::temperature(0.7).top_k(5).seed(2);
        for (name, level) in [("llama-f16", Determinism::Run), ("qwen3_5-f16", Determinism::Batch)] {
            let gguf = file(name);
            for sample in [few, Sample::temperature(0.7), Sample::greedy()] {
                let run = |rank: &Rank<'_, Rocm>| continued(rank, &gguf, sample);
                let one =
                    each(HostGroup::of(queues_that_record(1, level)).unwrap(), level, run).unwrap().remove(0);
                let two = each(RocmGroup::of(queues_that_record(2, level)).unwrap(), level, run).unwrap();
                assert!(
                    two.iter().all(|got| *got == one) && one.1.is_none(),
                    "{name} {sample:?}: {two:?}, alone {one:?}"
                );
            }
        }
    });
}

/// The queues of both ranks fail, and neither hangs.
#[test]
fn a_link_that_fails_while_a_text_grows_ends_it_on_all_ranks() {
    with_devices("a_link_that_fails_while_a_text_grows_ends_it_on_all_ranks", |standin| {
        let gguf = file("llama-f16");
        let level = Determinism::Run;
        let through_rccl = queues_with("all_reduce=rccl;all_gather=rccl", 2, level);
        let ranks = RocmGroup::with_limit(through_rccl, Duration::from_secs(2)).unwrap();
        let run = |rank: &Rank<'_, Rocm>| -> Result<usize> {
            let model = TextModel::new(load::<f32, _>(rank, &gguf)?, None);
            let options = GenerateOptions { max_tokens: 8, ..Default::default() };
            for (i, token) in model.generate(rank.backend(), &PROMPT, options)?.enumerate() {
                token?;
                if i == 2 && rank.share().rank() == 1 {
                    standin.fail("rccl link:1");
                }
            }
            Ok(0)
        };
        let error =
            on_ranks(ranks, level, run, |rank| run(rank).map(drop)).expect_err("a link fails").to_string();
        standin.fail("");
        assert!(error.contains("on its device within 2s"), "{error}");
    });
}
