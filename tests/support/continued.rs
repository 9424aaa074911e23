//! The same texts continued in two ways.
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Sequence;
use rocm_ops::models::{Continuation, Continues, Decoder, Drawn};
use rocm_ops::ops::Sample;

/// The tokens of each step.
type Steps = Vec<Vec<Drawn>>;

/// Prompts of different lengths, in blocks some of which are full.
const PROMPTS: [&[u32]; 3] = [&[5, 9, 2, 44, 17], &[7], &[100, 3, 8, 61, 2, 12, 30, 9]];
const STEPS: usize = 11;

fn sample() -> Sample<f32> {
    Sample::temperature(0.9).top_k(40).seed(3)
}

/// The tokens of each step, as prepared by the host and as continued by the backend; and why the latter was
/// not recorded.
pub fn continued<B: Continues<f32>>(b: &B, gguf: &Gguf) -> ([Steps; 2], Option<String>) {
    let model = Decoder::<f32, B>::load(b, gguf, 64).unwrap();
    let mut pages = model.pages(b, 40, 4).unwrap();
    let counters = [10, 20, 30];
    let mut texts: Vec<_> = PROMPTS.iter().map(|_| pages.blocks().sequence()).collect();
    let mut rows: Vec<_> = texts.iter_mut().zip(PROMPTS).collect();
    let first = model.sample_paged(b, &mut pages, &mut rows, &counters, sample()).unwrap();
    let first: Vec<u32> = first.into_iter().map(Result::unwrap).collect();
    let mut forks: Vec<_> = texts.iter().map(|text| text.fork(text.len())).collect();
    if model.config().recurrent.is_some() {
        // Their memory is not shared.
        forks.iter_mut().for_each(|text| text.truncate(0));
        let mut rows: Vec<_> = forks.iter_mut().zip(PROMPTS).collect();
        model.forward_paged(b, &mut pages, &mut rows).unwrap();
    }

    let (mut prepared, mut ids) = (vec![], first.clone());
    for step in 0..STEPS {
        let counters = counters.map(|counter| counter + 1 + step as i64);
        let mut rows: Vec<_> = texts.iter_mut().zip(ids.chunks(1)).collect();
        let drawn = model.sample_paged(b, &mut pages, &mut rows, &counters, sample()).unwrap();
        ids = drawn.iter().copied().map(Result::unwrap).collect();
        prepared.push(drawn);
    }

    let begin = forks.iter_mut().zip(&first).zip(counters);
    let begin = begin.map(|((text, id), counter)| (text, *id, counter + 1)).collect();
    let mut more = Continuation::new(b, &model, &mut pages, begin, sample(), STEPS + 5).unwrap();
    let refusal = more.refusal().map(ToString::to_string);
    let on_backend = (0..STEPS).map(|_| more.next_tokens().unwrap()).collect();
    assert_eq!(more.left(), 5);
    drop(more);
    for ((text, fork), prompt) in texts.iter().zip(&forks).zip(PROMPTS) {
        assert_eq!((text.len(), fork.len()), (prompt.len() + STEPS, prompt.len() + STEPS));
        assert_eq!(text.blocks().len(), fork.blocks().len(), "unused blocks are returned");
    }
    // Both go on alike.
    let mut next = |texts: &mut [Sequence]| {
        let mut rows: Vec<_> = texts.iter_mut().zip(ids.chunks(1)).collect();
        model.sample_paged(b, &mut pages, &mut rows, &counters, sample()).unwrap()
    };
    assert_eq!(next(&mut texts), next(&mut forks));
    ([prepared, on_backend], refusal)
}
