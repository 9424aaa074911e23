//! Steps over pages, compared with a state for each text, on any backend.
use crate::families::folder;
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
                // One more text, which shares the beginning of the second one, up to the middle of a block.
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
