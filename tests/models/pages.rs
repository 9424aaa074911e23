//! The decoder over pages: texts of any lengths in one step, compared with a state for each.
use ops_tests::families::all;
use ops_tests::pages::{assert_close, check_mixed, is_exact, load, tokens};
use ops_tests::{expected, largest, model};
use rocm_ops::model::{Sequence, Transformer};
use rocm_ops::models::{Decoder, Error, Pages};
use rocm_ops::ops::Sample;
use rocm_ops::{Checked, Cpu, Determinism, Reference};

#[test]
fn mixed_steps_are_what_each_text_gives_alone() {
    let cpu = Cpu::new();
    // Activations in 8 bits depend on the other rows.
    let floats = all().into_iter().filter(|name| name.ends_with("f16"));
    floats.for_each(|name| check_mixed(&cpu, &name, &[1, 5, 16]));
}

#[test]
fn mixed_steps_on_the_reference_and_checked() {
    check_mixed(&Reference::new(), "gpt-oss-f16", &[5]);
    let checked = Checked::new(Cpu::new(), Reference::new());
    check_mixed(&checked, "gemma3-f16", &[5]);
    check_mixed(&checked, "deepseek-v3-f16", &[16]);
    check_mixed(&checked, "qwen3_5-f16", &[16]);
    assert!(checked.calls() > 1000);
}

/// Greedy tokens of all prompts in one batch, which prompts join one by one.
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

/// A failed step leaves every text as it was, and no block is lost.
#[test]
fn a_failed_step_changes_nothing() {
    let cpu = Cpu::new();
    let model = load(&cpu, "qwen3-f16");
    let mut pages: Pages<_, f32> = model.pages(&cpu, 4, 4).unwrap();
    let mut texts = [pages.blocks().sequence(), pages.blocks().sequence()];
    let all = tokens(3, 30);
    #[allow(clippy::result_large_err)]
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
    let (model, other) = (load(&cpu, "qwen3-f16"), load(&cpu, "gemma3-f16"));
    assert!(model.pages(&cpu, 4, 0).is_err());
    assert!(model.pages(&cpu, usize::MAX, 4).is_err());
    let mut pages = other.pages(&cpu, 4, 4).unwrap();
    let mut text = pages.blocks().sequence();
    let error = model.forward_paged(&cpu, &mut pages, &mut [(&mut text, &[1])]).expect_err("refused");
    assert!(text.is_empty() && pages.blocks().free() == 4, "{error}");
    let recurrent = load(&cpu, "qwen3next-f16");
    let error = recurrent.forward_paged(&cpu, &mut pages, &mut [(&mut text, &[1])]).unwrap_err().to_string();
    assert!(error.contains("1 layers with keys and 3 recurrent ones"), "{error}");
    // A sequence of a different cache.
    let mut stranger = model.pages(&cpu, 4, 4).unwrap().blocks().sequence();
    let mut pages = model.pages(&cpu, 4, 4).unwrap();
    assert!(model.forward_paged(&cpu, &mut pages, &mut [(&mut stranger, &[1])]).is_err());
    assert!(model.forward_paged(&cpu, &mut pages, &mut []).unwrap().is_empty());
}

/// The reference computes each row independently, in a fixed order.
#[test]
fn sixty_four_texts_say_what_each_says_alone_on_the_reference() {
    assert!(is_exact(&Reference::new(), "qwen3-f16", 64, 3));
    assert!(is_exact(&Reference::new(), "gemma2-f16", 20, 3));
}

/// Products and attention that sum each row independently, in the mode that guarantees it.
#[test]
fn sixty_four_texts_say_what_each_says_alone_on_the_cpu() {
    let cpu = Cpu::builder().determinism(Determinism::Batch).build().unwrap();
    for name in [
        "qwen3-f16",
        "gemma3-f16",
        "gpt-oss-f16",
        "deepseek-v3-f16",
        "qwen3moe-f16",
        "llama-Q4_K_M",
        "qwen3_5-f16",
    ] {
        assert!(is_exact(&cpu, name, 64, 3), "{name}");
    }
    for name in ["qwen3next-f16", "qwen3_5_moe-f16"] {
        assert!(is_exact(&cpu, name, 20, 3), "{name}");
    }
}
