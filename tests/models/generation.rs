//! Texts that grow: alone, several in one pass, and in a batch.
use ops_tests::bundled;
use rocm_ops::models::{
    BatchEvent, BatchOptions, Chat, Decoder, Error, Finish, GenerateOptions, Generation, Overflow, TextModel,
    Token,
};
use rocm_ops::ops::Sample;
use rocm_ops::{Cpu, Reference};

const PROMPTS: [&str; 3] = ["In the beginning", "And God said, Let there be light", "The LORD"];

fn model(cpu: &Cpu, context: usize) -> TextModel<f32, Cpu> {
    TextModel::load(cpu, &bundled::model("f16"), context).unwrap()
}
fn greedy(max_tokens: usize) -> GenerateOptions {
    GenerateOptions { max_tokens, temperature: 0.0, ignore_eos: true, ..Default::default() }
}
fn ids(tokens: &[Token]) -> Vec<u32> {
    tokens.iter().map(|token| token.id).collect()
}
fn text(tokens: &[Token]) -> String {
    tokens.iter().map(|token| token.text.as_str()).collect()
}
/// All tokens of a text, and why it ended.
fn all(mut generation: Generation<'_, f32, Cpu>) -> (Vec<Token>, Option<Finish>) {
    let tokens = generation.by_ref().collect::<Result<_, Error>>().unwrap();
    (tokens, generation.finish())
}

/// The same tokens as by hand, at any temperature, and their text in pieces.
#[test]
fn tokens_are_those_of_the_op_and_texts_those_of_the_tokenizer() {
    let (cpu, gguf) = (Cpu::new(), bundled::model("f16"));
    let (model, decoder) = (model(&cpu, 64), Decoder::<f32, _>::load(&cpu, &gguf, 64).unwrap());
    let tokenizer = gguf.tokenizer().unwrap();
    for temperature in [0.0, 1.1] {
        let options =
            GenerateOptions { temperature, seed: 5, top_k: Some(50), top_p: Some(0.9), ..greedy(12) };
        let (tokens, finish) = all(model.generate(&cpu, PROMPTS[0], options).unwrap());
        let mut fresh = tokenizer.encode(PROMPTS[0]).unwrap();
        let (mut state, mut want) = (decoder.state(&cpu, 64).unwrap(), Vec::new());
        while want.len() < 12 {
            let sample = Sample::temperature(temperature).seed(5).top_k(50).top_p(0.9);
            let counter = want.len() as i64;
            let next = decoder.sample_batch(&cpu, &mut [(&mut state, &fresh)], &[counter], sample).unwrap();
            want.push(next[0].unwrap());
            fresh = vec![next[0].unwrap()];
        }
        assert_eq!((ids(&tokens), finish), (want.clone(), Some(Finish::Length)));
        let whole = tokenizer.decode(&[tokenizer.encode(PROMPTS[0]).unwrap(), want].concat()).unwrap();
        assert_eq!(format!("{}{}", PROMPTS[0], text(&tokens)), whole);
    }
}

#[test]
fn a_stop_text_ends_the_text_before_it() {
    let (cpu, prompt) = (Cpu::new(), PROMPTS[0]);
    let model = model(&cpu, 128);
    let (whole, _) = all(model.generate(&cpu, prompt, greedy(40)).unwrap());
    let said = text(&whole);
    // Any part of the text, within tokens and across them.
    for (from, to) in [(10, 14), (11, 12), (20, 33), (0, 5)] {
        let stop = said[from..to].to_owned();
        let first = said.find(&stop).unwrap();
        let options = GenerateOptions { stop: vec!["never said".into(), stop.clone()], ..greedy(40) };
        let (tokens, finish) = all(model.generate(&cpu, prompt, options).unwrap());
        assert_eq!((text(&tokens).as_str(), finish), (&said[..first], Some(Finish::Stop)), "{stop:?}");
        assert_eq!(ids(&tokens), ids(&whole[..tokens.len()]));
    }
    // What was held back comes at the end.
    let stop = format!("{}!", &said[said.len() - 6..]);
    let options = GenerateOptions { stop: vec![stop], ..greedy(40) };
    assert_eq!(text(&all(model.generate(&cpu, prompt, options).unwrap()).0), said);
}

#[test]
fn several_texts_are_what_each_is_alone_with_options_of_its_own() {
    let cpu = Cpu::new();
    let model = model(&cpu, 64);
    let options = [
        GenerateOptions { temperature: 1.1, seed: 1, ..greedy(9) },
        GenerateOptions { temperature: 0.9, min_p: Some(0.02), repeat_penalty: 1.3, ..greedy(12) },
        greedy(5),
    ];
    let begin = || -> Vec<_> {
        let texts = PROMPTS.iter().zip(&options);
        texts.map(|(prompt, options)| model.generate(&cpu, *prompt, options.clone()).unwrap()).collect()
    };
    let alone: Vec<Vec<Token>> = begin().into_iter().map(|text| all(text).0).collect();
    let (mut texts, mut together) = (begin(), vec![Vec::new(); 3]);
    while texts.iter().any(|text| !text.has_ended()) {
        for (tokens, token) in together.iter_mut().zip(Generation::step(&mut texts).unwrap()) {
            tokens.extend(token.map(Result::unwrap));
        }
    }
    assert_eq!(together, alone);
    assert_eq!(alone.iter().map(Vec::len).collect::<Vec<_>>(), [9, 12, 5]);
    // And in a batch, where all rows are computed independently.
    let model = TextModel::<f32, _>::load(&Reference::new(), &bundled::model("f16"), 64).unwrap();
    let alone: Vec<Vec<Token>> = (PROMPTS.iter().zip(&options))
        .map(|(prompt, options)| {
            let text = model.generate(&Reference, *prompt, options.clone()).unwrap();
            text.collect::<Result<_, Error>>().unwrap()
        })
        .collect();
    let size = BatchOptions { blocks: 20, block_size: 4, prefill: 3, ..Default::default() };
    let (mut batch, mut together) = (model.batch(&Reference, size).unwrap(), vec![Vec::new(); 3]);
    for (number, (prompt, options)) in (1..).zip(PROMPTS.iter().zip(&options)) {
        assert_eq!(batch.add(*prompt, options.clone()).unwrap(), number);
    }
    let mut finished = Vec::new();
    while !batch.is_idle() {
        for event in batch.step() {
            match event {
                BatchEvent::Token { text, token } => together[text - 1].push(token),
                BatchEvent::Finished { text, reason } => finished.push((text, reason.unwrap())),
                _ => {}
            }
        }
    }
    assert_eq!(together, alone);
    finished.sort_by_key(|(text, _)| *text);
    assert_eq!(finished, [1, 2, 3].map(|text| (text, Finish::Length)));
    assert_eq!((batch.blocks().free(), batch.stats().generated), (20, 26));
}

#[test]
fn options_change_what_is_drawn() {
    let cpu = Cpu::new();
    let model = model(&cpu, 64);
    let draw = |options| ids(&all(model.generate(&cpu, PROMPTS[0], options).unwrap()).0);
    let best = draw(greedy(20));
    let only_best = GenerateOptions { temperature: 0.8, min_p: Some(1.0), ..greedy(20) };
    assert_eq!(draw(only_best), best);
    let without = draw(GenerateOptions { logit_bias: vec![(best[0], f32::NEG_INFINITY)], ..greedy(20) });
    assert!(!without.contains(&best[0]), "{without:?}");
    let distinct = |ids: &[u32]| ids.iter().collect::<std::collections::BTreeSet<_>>().len();
    assert!(distinct(&best) < 20, "{best:?}");
    for options in [
        GenerateOptions { presence_penalty: 1e4, ..greedy(20) },
        GenerateOptions { frequency_penalty: 1e4, ..greedy(20) },
    ] {
        assert_eq!(distinct(&draw(options)), 20);
    }
    assert_ne!(draw(GenerateOptions { repeat_penalty: 1.5, ..greedy(20) }), best);
}

#[test]
fn the_end_of_the_context_ends_a_text_or_drops_its_older_half() {
    let cpu = Cpu::new();
    let model = model(&cpu, 16);
    let (tokens, finish) = all(model.generate(&cpu, PROMPTS[0], greedy(60)).unwrap());
    let prompt = model.tokens(PROMPTS[0]).unwrap().len();
    assert_eq!((tokens.len(), finish), (16 - prompt + 1, Some(Finish::Context)));
    let shift = GenerateOptions { overflow: Overflow::Shift, ..greedy(60) };
    let mut text = model.generate(&cpu, PROMPTS[0], shift).unwrap();
    assert_eq!(text.by_ref().map(Result::unwrap).collect::<Vec<_>>()[..tokens.len()], tokens);
    assert_eq!(text.finish(), Some(Finish::Length));
    assert!(text.dropped() >= 40, "{}", text.dropped());
}

#[test]
fn what_cannot_be_continued_is_a_typed_error() {
    let cpu = Cpu::new();
    let model = model(&cpu, 8);
    let error = |ids: &[u32], options| model.generate(&cpu, ids, options).err().unwrap();
    assert!(matches!(error(&[], greedy(1)), Error::Prompt { got: 0, max: 8 }));
    assert!(matches!(error(&[1; 9], greedy(1)), Error::Prompt { got: 9, max: 8 }));
    assert!(matches!(error(&[1, u32::MAX], greedy(1)), Error::PromptId { id: u32::MAX, .. }));
    let wrong = GenerateOptions { min_p: Some(2.0), ..greedy(1) };
    assert!(matches!(error(&[1], wrong), Error::Option { name: "min_p", .. }));
    assert_eq!(model.generate(&cpu, &[1, 2][..], greedy(0)).unwrap().count(), 0);

    let decoder = Decoder::<f32, _>::load(&cpu, &bundled::model("f16"), 8).unwrap();
    let bare = TextModel::new(decoder, None);
    assert!(matches!(bare.generate(&cpu, "x", greedy(1)).err(), Some(Error::NoTokenizer)));
    let (tokens, _) = all(bare.generate(&cpu, &[1, 2][..], greedy(2)).unwrap());
    assert_eq!((tokens.len(), text(&tokens)), (2, String::new()));
    let mut of_both = [&model, &bare].map(|model| model.generate(&cpu, &[1][..], greedy(2)).unwrap());
    assert!(matches!(Generation::step(&mut of_both), Err(Error::Option { name: "texts", .. })));

    let mut batch = model.batch(&cpu, BatchOptions::default()).unwrap();
    assert!(matches!(batch.add("x", greedy(0)), Err(Error::Option { name: "max_tokens", .. })));
    let shift = GenerateOptions { overflow: Overflow::Shift, ..greedy(1) };
    assert!(matches!(batch.add("x", shift), Err(Error::Option { name: "overflow", .. })));
    let none = BatchOptions { blocks: 0, ..Default::default() };
    assert!(matches!(model.batch(&cpu, none).err(), Some(Error::Option { name: "blocks", .. })));
    assert!(!batch.cancel(1) && batch.is_idle() && batch.step().is_empty());

    let chat = Chat::new().message("user", "hello");
    let error = chat.render(model.tokenizer().unwrap()).unwrap_err();
    assert!(
        matches!(&error, Error::Chat { .. }) && error.to_string().contains("no chat template"),
        "{error}"
    );
}
