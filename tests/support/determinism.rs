//! Compares the bits of logits between splits of a prompt and between batches.
use crate::model;
use rocm_ops::Float;
use rocm_ops::model::Transformer;
use rocm_ops::models::Decoder;

/// A prompt with this many tokens of the vocabulary, which has more than 300.
fn prompt(seed: u32, tokens: usize) -> Vec<u32> {
    (0..tokens as u32).map(|i| (i * i * 7 + i * 31 + seed * 13) % 300).collect()
}

fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|v| v.to_bits()).collect()
}

/// Compares a prompt split after every `step` tokens with the whole prompt. Returns the first split with
/// different bits.
pub fn first_cut<T: Float, B: Transformer<T>>(
    b: &B,
    dtype: &str,
    tokens: usize,
    step: usize,
) -> Option<usize> {
    let decoder = Decoder::<T, B>::load(b, &model(dtype), tokens).unwrap();
    let prompt = prompt(1, tokens);
    let all = |pieces: &[&[u32]]| {
        let mut state = decoder.state(b, tokens).unwrap();
        let logits = pieces.iter().map(|piece| decoder.forward_all(b, &mut state, piece).unwrap());
        bits(&logits.collect::<Vec<_>>().concat())
    };
    let whole = all(&[&prompt]);
    if all(&prompt.chunks(1).collect::<Vec<_>>()) != whole {
        return Some(0);
    }
    (1..tokens).step_by(step).find(|cut| all(&[&prompt[..*cut], &prompt[*cut..]]) != whole)
}

/// Compares steps of several texts of different lengths with each text alone. Returns the first number of
/// texts with different bits.
pub fn first_batch<T: Float, B: Transformer<T>>(b: &B, dtype: &str, sizes: &[usize]) -> Option<usize> {
    let decoder = Decoder::<T, B>::load(b, &model(dtype), 32).unwrap();
    let differs = |texts: &usize| {
        let prompts: Vec<_> = (0..*texts).map(|i| prompt(i as u32, 1 + i * 5 % 11)).collect();
        let state = || decoder.state(b, 32).unwrap();
        let mut together: Vec<_> = prompts.iter().map(|_| state()).collect();
        let mut alone: Vec<_> = prompts.iter().map(|_| state()).collect();
        [None, Some([7u32]), Some([100])].into_iter().any(|step| {
            let tokens = |i: usize| step.as_ref().map_or(&prompts[i][..], |step| &step[..]);
            let mut rows: Vec<_> = together.iter_mut().enumerate().map(|(i, s)| (s, tokens(i))).collect();
            let got = decoder.forward_batch(b, &mut rows).unwrap();
            let mut all = alone.iter_mut().enumerate().zip(got);
            all.any(|((i, s), got)| bits(&decoder.forward(b, s, tokens(i)).unwrap()) != bits(&got))
        })
    };
    sizes.iter().copied().find(|texts| differs(texts))
}

/// Neither splits nor batches change the bits.
pub fn check<T: Float, B: Transformer<T>>(b: &B, dtype: &str, tokens: usize, step: usize, sizes: &[usize]) {
    let on = format!("{dtype} in {} on {}", T::DTYPE, b.name());
    assert_eq!(first_cut::<T, B>(b, dtype, tokens, step), None, "{on}: a different prefill, split there");
    assert_eq!(first_batch::<T, B>(b, dtype, sizes), None, "{on}: a different batch, with this many texts");
}
