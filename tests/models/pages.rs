//! The decoder over pages: texts of any lengths in one step, against a state for each.
use crate::fixture::{FAMILIES, folder};
use crate::{expected, largest, model};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::{Sequence, Transformer};
use rocm_ops::models::{Decoder, Error, Pages};
use rocm_ops::ops::Sample;
use rocm_ops::{Checked, Cpu, Reference};

/// The families whose layers all have attention: windows, sinks, softcaps, experts and latent attention among them.
const MORE: [&str; 6] = [
    "gemma2-f16",
    "deepseek-v2-f16",
    "phi3-long-f16",
    "starcoder2-f16",
    "stablelm-parallel-f16",
    "mistral-f16",
];

fn load<B: Transformer<f32>>(b: &B, name: &str) -> Decoder<f32, B> {
    Decoder::load(b, &Gguf::open(format!("{}/{name}.gguf", folder())).unwrap(), 64).unwrap()
}

fn tokens(seed: u32, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (seed * 131 + i * 37) % 500 + 2).collect()
}

/// Whether two rows of logits are equal but for the order of sums.
fn assert_close(got: &[f32], want: &[f32], what: &str) {
    let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let off = got.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(got.len() == want.len() && off <= 2e-5 * scale, "{what}: {off} of {scale}");
}

/// A text in pages, and the same text alone in a state.
struct Pair<'m, B: Transformer<f32>> {
    model: &'m Decoder<f32, B>,
    b: &'m B,
    text: Sequence,
    all: Vec<u32>,
}

impl<B: Transformer<f32>> Pair<'_, B> {
    /// The logits after all tokens, read at once.
    fn alone(&self) -> Vec<f32> {
        let mut state = self.model.state(self.b, self.all.len()).unwrap();
        self.model.forward(self.b, &mut state, &self.all).unwrap()
    }
}

/// Texts join, grow by many tokens or by one, share prefixes and leave.
fn check_mixed<B: Transformer<f32>>(b: &B, name: &str) {
    let model = load(b, name);
    for size in [1, 5, 16] {
        let mut pages = model.pages(b, 120 / size, size).unwrap();
        let mut texts: Vec<Pair<'_, B>> = Vec::new();
        // For each step: texts that begin, and the tokens of each.
        let steps: [&[usize]; 5] = [&[9], &[1, 14], &[3, 1, 1], &[1, 1, 6], &[1, 1, 1, 2]];
        for (step, counts) in steps.iter().enumerate() {
            if step == 4 {
                // One more text, with the beginning of the second one, which ends inside of a block.
                let (text, all) = (texts[1].text.fork(12), texts[1].all[..12].to_vec());
                texts.push(Pair { model: &model, b, text, all });
                drop(texts.remove(0));
            }
            while texts.len() < counts.len() {
                let text = pages.blocks().sequence();
                texts.push(Pair { model: &model, b, text, all: Vec::new() });
            }
            let fresh: Vec<Vec<u32>> =
                counts.iter().enumerate().map(|(i, n)| tokens((step * 7 + i) as u32, *n)).collect();
            let mut rows: Vec<_> = texts
                .iter_mut()
                .zip(&fresh)
                .map(|(pair, fresh)| (&mut pair.text, fresh.as_slice()))
                .collect();
            let logits = model.forward_paged(b, &mut pages, &mut rows).unwrap();
            for ((pair, fresh), got) in texts.iter_mut().zip(&fresh).zip(logits) {
                pair.all.extend_from_slice(fresh);
                assert_eq!(pair.text.len(), pair.all.len());
                assert_close(&got, &pair.alone(), &format!("{name} in blocks of {size}, step {step}"));
            }
        }
        drop(texts);
        assert_eq!(pages.blocks().free(), pages.blocks().count());
    }
}

#[test]
fn mixed_steps_are_what_each_text_gives_alone() {
    let cpu = Cpu::new();
    let plain = FAMILIES.iter().chain(&MORE).filter(|name| !name.starts_with("qwen3next"));
    plain.filter(|name| !name.contains("Q4")).for_each(|name| check_mixed(&cpu, name));
}

#[test]
fn mixed_steps_on_the_reference_and_checked() {
    check_mixed(&Reference::new(), "gpt-oss-f16");
    let checked = Checked::new(Cpu::new(), Reference::new());
    check_mixed(&checked, "gemma3-f16");
    check_mixed(&checked, "deepseek-v3-f16");
    assert!(checked.calls() > 1000);
}

/// Greedy tokens of all prompts in one batch, which prompts join one after the other.
fn greedy<B: Transformer<f32>>(b: &B, n: usize) {
    let gguf = model("f16");
    let cases = expected();
    let context = cases.iter().map(|(prompt, _)| prompt.len()).max().unwrap() + n;
    let model = Decoder::<f32, B>::load(b, &gguf, context).unwrap();
    let mut pages = model.pages(b, 200, 7).unwrap();
    let mut texts: Vec<(Sequence, Vec<u32>, Vec<u32>)> = Vec::new();
    for step in 0..cases.len() + n {
        if let Some((prompt, _)) = cases.get(step) {
            texts.push((pages.blocks().sequence(), prompt.clone(), Vec::new()));
        }
        let mut rows: Vec<_> = texts
            .iter_mut()
            .filter(|(_, _, made)| made.len() < n)
            .map(|(text, fresh, _)| (text, fresh.as_slice()))
            .collect();
        let logits = model.forward_paged(b, &mut pages, &mut rows).unwrap();
        let growing = texts.iter_mut().filter(|(_, _, made)| made.len() < n);
        for ((_, fresh, made), logits) in growing.zip(logits) {
            *fresh = vec![largest(&logits)];
            made.push(fresh[0]);
        }
    }
    for ((_, _, made), (_, want)) in texts.iter().zip(&cases) {
        assert_eq!(made, &want[..n.min(want.len())], "{}", b.name());
    }
}

#[test]
fn greedy_tokens_of_a_batch_are_those_of_float64() {
    greedy(&Cpu::new(), 24);
    greedy(&Reference::new(), 4);
}

#[test]
fn tokens_are_drawn_on_the_backend() {
    let cpu = Cpu::new();
    let model = load(&cpu, "gemma2-f16");
    let mut pages = model.pages(&cpu, 16, 4).unwrap();
    let (one, two) = (tokens(1, 6), tokens(2, 3));
    let sample = || Sample::temperature(0.9).seed(7);
    let mut texts = [pages.blocks().sequence(), pages.blocks().sequence()];
    let [first, second] = &mut texts;
    let together = model
        .sample_paged(&cpu, &mut pages, &mut [(first, &one), (second, &two)], &[5, 9], sample())
        .unwrap();
    for ((tokens, counter), got) in [(&one, 5), (&two, 9)].into_iter().zip(together) {
        let mut state = model.state(&cpu, 16).unwrap();
        let alone = model.sample_batch(&cpu, &mut [(&mut state, tokens)], &[counter], sample()).unwrap();
        assert_eq!(got, alone[0]);
    }
}

/// What fails leaves every text as it was, and no block is lost.
#[test]
fn a_failed_step_changes_nothing() {
    let cpu = Cpu::new();
    let model = load(&cpu, "qwen3-f16");
    let mut pages: Pages<_, f32> = model.pages(&cpu, 4, 4).unwrap();
    let mut texts = [pages.blocks().sequence(), pages.blocks().sequence()];
    let all = tokens(3, 30);
    let step = |pages: &mut Pages<_, f32>, texts: &mut [Sequence; 2], one: &[u32], two: &[u32]| {
        let [first, second] = texts;
        model.forward_paged(&cpu, pages, &mut [(first, one), (second, two)])
    };
    step(&mut pages, &mut texts, &all[..6], &all[..3]).unwrap();
    let error = step(&mut pages, &mut texts, &all[6..8], &all[3..9]).unwrap_err();
    assert!(
        matches!(error, Error::Op(rocm_ops::Error::OutOfBlocks { wanted: 2, free: 1, count: 4 })),
        "{error}"
    );
    // No tokens, more than the context, and a token that the model does not know.
    assert!(matches!(
        step(&mut pages, &mut texts, &all[6..8], &[]).unwrap_err(),
        Error::Tokens { got: 0, before: 3, .. }
    ));
    let long = vec![1; 62];
    assert!(matches!(
        step(&mut pages, &mut texts, &all[6..7], &long).unwrap_err(),
        Error::Tokens { got: 62, before: 3, room: 61 }
    ));
    let unknown = step(&mut pages, &mut texts, &all[6..8], &[u32::MAX - 1]).unwrap_err().to_string();
    assert!(unknown.contains("index") || unknown.contains("ids"), "{unknown}");
    assert_eq!((texts[0].len(), texts[1].len(), pages.blocks().free()), (6, 3, 1));
    let got = step(&mut pages, &mut texts, &all[6..8], &all[3..4]).unwrap();
    let mut state = model.state(&cpu, 8).unwrap();
    assert_close(&got[0], &model.forward(&cpu, &mut state, &all[..8]).unwrap(), "the first text");
}

#[test]
fn what_cannot_be_in_pages_is_refused() {
    let cpu = Cpu::new();
    let recurrent = load(&cpu, "qwen3next-f16");
    let error = recurrent.pages(&cpu, 4, 4).err().expect("refused").to_string();
    assert!(error.contains("qwen3next") && error.contains("recurrent"), "{error}");
    let (model, other) = (load(&cpu, "qwen3-f16"), load(&cpu, "gemma3-f16"));
    assert!(model.pages(&cpu, 4, 0).is_err());
    assert!(model.pages(&cpu, usize::MAX, 4).is_err());
    let mut pages = other.pages(&cpu, 4, 4).unwrap();
    let mut text = pages.blocks().sequence();
    let error = model.forward_paged(&cpu, &mut pages, &mut [(&mut text, &[1])]).err().expect("refused");
    assert!(text.is_empty() && pages.blocks().free() == 4, "{error}");
    // A sequence of other pages.
    let mut stranger = model.pages(&cpu, 4, 4).unwrap().blocks().sequence();
    let mut pages = model.pages(&cpu, 4, 4).unwrap();
    assert!(model.forward_paged(&cpu, &mut pages, &mut [(&mut stranger, &[1])]).is_err());
    assert!(model.forward_paged(&cpu, &mut pages, &mut []).unwrap().is_empty());
}
