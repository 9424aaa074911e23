//! Texts whose steps are recorded when they repeat.
use ops_tests::families::folder;
use rocm_ops::gguf::Gguf;
use rocm_ops::models::{
    BatchEvent, BatchOptions, Decoder, GenerateOptions, Generation, Overflow, TextModel, Token,
};
use rocm_ops::{Determinism, Policy, Rocm, f16};
use standin_testing::{Standin, with_standin};
use std::collections::BTreeMap;

const PROMPT: &[u32] = &[5, 9, 2, 44, 17];
const REPLAYS: &str = "hipGraphLaunch";

fn backend(policy: &str, determinism: Determinism) -> Rocm {
    Rocm::builder().policy(Policy::parse(policy).unwrap()).determinism(determinism).build().unwrap()
}
/// Every call can be recorded, and a text is the same in a batch and on its own.
fn recording() -> Rocm {
    backend("linear=hip;matmul=hip", Determinism::Batch)
}
fn family(name: &str) -> Gguf {
    Gguf::open(format!("{}/{name}-f16.gguf", folder())).unwrap()
}
/// The model, with and without recorded steps.
fn models(b: &Rocm, gguf: &Gguf, context: usize) -> [TextModel<f32, Rocm>; 2] {
    let load = || TextModel::new(Decoder::load(b, gguf, context).unwrap(), None);
    [load(), load().record_steps(false)]
}
fn options(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, top_k: Some(40), seed: 3, ..Default::default() }
}
fn ids(text: Generation<'_, f32, Rocm>) -> Vec<u32> {
    text.map(|token| token.unwrap().id).collect()
}
/// What a call returns, and how many graphs it launched.
fn replays<R>(standin: &Standin, call: impl FnOnce() -> R) -> (R, u64) {
    let before = standin.count(REPLAYS);
    let done = call();
    (done, standin.count(REPLAYS) - before)
}

/// Attention, linear attention, windows, and latent attention. The prompt and the first step after it are prepared by the host.
#[test]
fn a_text_of_its_own_replays_its_steps() {
    with_standin("recorded::a_text_of_its_own_replays_its_steps", &[], |standin| {
        let penalty = GenerateOptions { repeat_penalty: 1.3, ..options(9) };
        let greedy = GenerateOptions { temperature: 0.0, ..options(9) };
        let (batch, run) = (recording(), Rocm::new().unwrap());
        let all = [(&batch, family("llama")), (&batch, family("qwen3_5")), (&run, family("gemma3"))];
        for (b, gguf) in all.into_iter().chain([(&run, family("deepseek-v2"))]) {
            let [recorded, prepared] = models(b, &gguf, 64);
            for options in [options(9), greedy.clone(), penalty.clone()] {
                let text = |model: &TextModel<_, _>| {
                    replays(standin, || ids(model.generate(b, PROMPT, options.clone()).unwrap()))
                };
                let (want, none) = text(&prepared);
                assert_eq!((want.len(), none), (9, 0));
                assert_eq!(text(&recorded), (want, 7), "{options:?}");
            }
        }
    });
}

#[test]
fn a_text_that_grows_is_recorded_again_when_its_length_has_doubled() {
    with_standin(
        "recorded::a_text_that_grows_is_recorded_again_when_its_length_has_doubled",
        &[],
        |standin| {
            let b = recording();
            let [recorded, prepared] = models(&b, &family("llama"), 140);
            let prompt: Vec<u32> = (0..120).map(|i| i * 7 % 50).collect();
            let text = |model: &TextModel<_, _>| {
                replays(standin, || ids(model.generate(&b, &prompt, options(15)).unwrap()))
            };
            // 14 steps of one token, of which one records for 8 blocks, and one for 16, each after another that the host prepared.
            assert_eq!(text(&recorded), (text(&prepared).0, 14 - 2));
            // The context is full at 130 tokens: half of them are read again.
            let [recorded, prepared] = models(&b, &family("llama"), 130);
            let shifted = GenerateOptions { overflow: Overflow::Shift, ..options(20) };
            let text = |model: &TextModel<_, _>| ids(model.generate(&b, &prompt, shifted.clone()).unwrap());
            assert_eq!(text(&recorded), text(&prepared));
        },
    );
}

/// A text on its own that joins another one is read again.
#[test]
fn texts_alone_and_together_are_the_same() {
    with_standin("recorded::texts_alone_and_together_are_the_same", &[], |_| {
        let b = recording();
        let [model, _] = models(&b, &family("llama"), 64);
        let begin = |prompt: &[u32]| model.generate(&b, prompt, options(8)).unwrap();
        let prompts = [PROMPT, &[7, 8]];
        let alone = prompts.map(|prompt| ids(begin(prompt)));
        let mut texts = prompts.map(begin);
        let mut got: [Vec<u32>; 2] = Default::default();
        got[0].extend(texts[0].by_ref().take(4).map(|token| token.unwrap().id));
        while texts.iter().any(|text| !text.has_ended()) {
            for (ids, token) in got.iter_mut().zip(Generation::step(&mut texts).unwrap()) {
                ids.extend(token.map(|token: Result<Token, _>| token.unwrap().id));
            }
        }
        assert_eq!(got, alone);
    });
}

/// The ids of each text of a batch. Texts join in twos and end at different steps.
fn batched(b: &Rocm, model: &TextModel<f32, Rocm>, size: BatchOptions) -> BTreeMap<usize, Vec<u32>> {
    let mut batch = model.batch(b, size).unwrap();
    let mut texts = BTreeMap::<_, Vec<u32>>::new();
    for round in 0..60 {
        if round % 6 == 0 && round < 24 {
            for i in 0..2 {
                let prompt = [PROMPT, &[round, i, 11]].concat();
                let seed = u64::from(round + i);
                batch.add(&prompt, GenerateOptions { seed, ..options(8 + 5 * i as usize) }).unwrap();
            }
        }
        for event in batch.step() {
            match event {
                BatchEvent::Token { text, token } => texts.entry(text).or_default().push(token.id),
                BatchEvent::Finished { reason, .. } => assert!(reason.is_ok(), "{reason:?}"),
                _ => {}
            }
        }
    }
    assert!(batch.is_idle());
    texts
}

#[test]
fn texts_of_a_batch_join_and_leave_recorded_steps() {
    with_standin("recorded::texts_of_a_batch_join_and_leave_recorded_steps", &[], |standin| {
        let b = recording();
        // With 28 blocks, a text waits; a block of two tokens makes the tables grow.
        let small = BatchOptions { blocks: 28, block_size: 2, ..Default::default() };
        for (gguf, size) in
            [(family("llama"), BatchOptions::default()), (family("llama"), small), (family("qwen3_5"), small)]
        {
            let [recorded, prepared] = models(&b, &gguf, 64);
            let want = batched(&b, &prepared, size);
            let (got, replays) = replays(standin, || batched(&b, &recorded, size));
            assert_eq!(got, want);
            assert!(replays > 8, "{replays}"); // of about 40 steps
        }
    });
}

/// The library's product cannot be recorded.
#[test]
fn a_refusal_is_told_and_changes_no_token() {
    with_standin("recorded::a_refusal_is_told_and_changes_no_token", &[], |standin| {
        let b = backend("linear=rocblas", Determinism::Run);
        let load = || TextModel::<f16, _>::new(Decoder::load(&b, &family("llama"), 64).unwrap(), None);
        let recorded = load();
        let mut text = recorded.generate(&b, PROMPT, options(6)).unwrap();
        let ids = |text: &mut Generation<'_, f16, Rocm>| -> Vec<u32> {
            text.map(|token| token.unwrap().id).collect()
        };
        let (got, replays) = replays(standin, || ids(&mut text));
        let why = text.refusal().map(ToString::to_string).unwrap_or_default();
        assert!(why.contains("rocblas") && replays == 0, "{why:?}, {replays}");
        let prepared = load().record_steps(false);
        assert_eq!(got, ids(&mut prepared.generate(&b, PROMPT, options(6)).unwrap()));
    });
}

/// The device makes no graph, once or ever: the steps are made all the same.
#[test]
fn a_graph_that_cannot_be_made_ends_no_text() {
    with_standin("recorded::a_graph_that_cannot_be_made_ends_no_text", &[], |standin| {
        let b = recording();
        for gguf in [family("llama"), family("qwen3_5")] {
            let [recorded, prepared] = models(&b, &gguf, 64);
            let want = ids(prepared.generate(&b, PROMPT, options(9)).unwrap());
            let small = BatchOptions { blocks: 28, block_size: 2, ..Default::default() };
            let texts = batched(&b, &prepared, small);
            standin.fail("hipGraphInstantiate:1+");
            let mut text = recorded.generate(&b, PROMPT, options(9)).unwrap();
            let got: Vec<u32> = text.by_ref().map(|token| token.unwrap().id).collect();
            assert_eq!(got, want);
            assert!(
                text.refusal().unwrap().to_string().contains("hipGraphInstantiate"),
                "{:?}",
                text.refusal()
            );
            assert_eq!(batched(&b, &recorded, small), texts);
            standin.fail("");
        }
    });
}
