//! Steps over pages, compared with a state for each text, on any backend.
use crate::families::folder;
use crate::{largest, largest_difference};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::{Sequence, Transformer};
use rocm_ops::models::Decoder;

/// One of [`FAMILIES`](crate::families::FAMILIES).
pub fn load<B: Transformer<f32>>(b: &B, name: &str) -> Decoder<f32, B> {
    Decoder::load(b, &Gguf::open(format!("{}/{name}.gguf", folder())).unwrap(), 64).unwrap()
}

/// `n` tokens of the smallest vocabulary, chosen by `seed`.
pub fn tokens(seed: u32, n: usize) -> Vec<u32> {
    (0..n as u32).map(|i| (seed * 131 + i * 37) % 270 + 2).collect()
}

/// Checks that two rows of logits are equal except for the order of sums.
pub fn assert_close(got: &[f32], want: &[f32], what: &str) {
    let scale = want.iter().fold(0.0_f32, |m, v| m.max(v.abs()));
    let off = largest_difference(got, want);
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

/// Texts join, grow by one or many tokens, share prefixes and leave.
pub fn check_mixed<B: Transformer<f32>>(b: &B, name: &str, sizes: &[usize]) {
    let model = load(b, name);
    for &size in sizes {
        let mut pages = model.pages(b, 120 / size, size).unwrap();
        let mut texts: Vec<Pair<'_, B>> = Vec::new();
        // For each step: the number of texts that begin, and the tokens of each.
        let steps: [&[usize]; 5] = [&[9], &[1, 14], &[3, 1, 1], &[1, 1, 6], &[1, 1, 1, 2]];
        for (step, counts) in steps.iter().enumerate() {
            if step == 4 {
                // One more text, which shares the beginning of the second one, up to the middle of a block; or which gets the memory
                // that the first one leaves, because memories are not shared.
                let shared = if model.config().recurrent.is_some() { 0 } else { 12 };
                let (text, all) = (texts[1].text.fork(shared), texts[1].all[..shared].to_vec());
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

/// A text that reads its prompt in pieces, then continues with the most likely tokens; and the logits after
/// each of its tokens.
struct Growing {
    text: Sequence,
    tokens: Vec<u32>,
    prompt: usize,
    piece: usize,
    said: Vec<Vec<f32>>,
}

impl Growing {
    /// The tokens of its next step.
    fn fresh(&self) -> std::ops::Range<usize> {
        let len = self.text.len();
        len..self.tokens.len().min(len.saturating_add(self.piece))
    }
}

/// Runs texts together, with `join` more of them at every step, until each has generated `n` tokens.
fn grow<B: Transformer<f32>>(
    b: &B,
    model: &Decoder<f32, B>,
    prompts: &[(Vec<u32>, usize)],
    join: usize,
    n: usize,
) -> Vec<Vec<Vec<f32>>> {
    let mut pages = model.pages_for(b, 10 * prompts.len(), 3, prompts.len()).unwrap();
    let mut texts: Vec<Growing> = Vec::new();
    while texts.len() < prompts.len() || texts.iter().any(|text| text.said.len() < n) {
        for (tokens, piece) in prompts[texts.len()..].iter().take(join) {
            let (text, tokens, piece) = (pages.blocks().sequence(), tokens.clone(), *piece);
            texts.push(Growing { text, prompt: tokens.len(), tokens, piece, said: Vec::new() });
        }
        let growing = || |text: &&mut Growing| text.said.len() < n;
        let fresh: Vec<Vec<u32>> =
            texts.iter_mut().filter(growing()).map(|text| text.tokens[text.fresh()].to_vec()).collect();
        let rows = texts.iter_mut().filter(growing()).zip(&fresh);
        let mut rows: Vec<_> = rows.map(|(text, fresh)| (&mut text.text, fresh.as_slice())).collect();
        let logits = model.forward_paged(b, &mut pages, &mut rows).unwrap();
        for (text, logits) in texts.iter_mut().filter(growing()).zip(logits) {
            if text.text.len() == text.tokens.len() {
                text.tokens.push(largest(&logits));
                text.said.push(logits);
            }
        }
    }
    assert!(texts.iter().all(|text| text.tokens.len() == text.prompt + n));
    texts.into_iter().map(|text| text.said).collect()
}

/// Whether texts that run together, with prompts in pieces, give the same bits as each one alone.
pub fn is_exact<B: Transformer<f32>>(b: &B, name: &str, texts: usize, n: usize) -> bool {
    let model = load(b, name);
    let prompts: Vec<_> = (0..texts).map(|i| (tokens(i as u32, 1 + i * 5 % 13), 1 + i % 4)).collect();
    let together = grow(b, &model, &prompts, 9, n);
    let bits = |said: &[Vec<f32>]| -> Vec<u32> { said.iter().flatten().map(|v| v.to_bits()).collect() };
    prompts.iter().zip(together).all(|((tokens, _), said)| {
        let alone = grow(b, &model, &[(tokens.clone(), usize::MAX)], 1, n);
        bits(&alone[0]) == bits(&said)
    })
}
