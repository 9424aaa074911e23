//! Recurrent layers over pages: which text has which memory, and what becomes of it.
use ops_tests::families::folder;
use ops_tests::pages::{assert_close, tokens};
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Sequence;
use rocm_ops::models::{Continuation, Decoder, Drawn, Error, PagedRow, Pages};
use rocm_ops::ops::Sample;
use rocm_ops::{Cpu, Host};

fn path() -> String {
    format!("{}/qwen3_5-f16.gguf", folder())
}

struct Texts {
    cpu: Cpu,
    model: Decoder<f32, Cpu>,
    pages: Pages<Host, f32>,
}

impl Texts {
    /// Room for this many.
    fn new(texts: usize) -> Self {
        Self::of(&Gguf::open(path()).unwrap(), texts)
    }
    fn of(gguf: &Gguf, texts: usize) -> Self {
        let cpu = Cpu::new();
        let model = Decoder::load(&cpu, gguf, 64).unwrap();
        let pages = model.pages_for(&cpu, 30, 4, texts).unwrap();
        Texts { cpu, model, pages }
    }
    fn begin(&self) -> Sequence {
        self.pages.blocks().sequence()
    }
    #[allow(clippy::result_large_err)]
    fn step(&mut self, rows: &mut [PagedRow<'_>]) -> Result<Vec<Vec<f32>>, Error> {
        self.model.forward_paged(&self.cpu, &mut self.pages, rows)
    }
    fn alone(&self, tokens: &[u32]) -> Vec<f32> {
        let mut state = self.model.state(&self.cpu, tokens.len()).unwrap();
        self.model.forward(&self.cpu, &mut state, tokens).unwrap()
    }
}

/// The text after another one in the same memory begins anew, even if the other leaves NaN.
#[test]
fn a_memory_is_cleared_before_another_text_has_it() {
    const BAD: u32 = 9;
    let gguf = Gguf::from_bytes(ops_tests::nan::model(&path(), BAD).unwrap()).unwrap();
    let mut texts = Texts::of(&gguf, 1);
    let mut text = texts.begin();
    assert!(texts.step(&mut [(&mut text, &[5, BAD, 6])]).unwrap()[0][0].is_nan());
    assert!(texts.step(&mut [(&mut text, &[5])]).unwrap()[0][0].is_nan());
    assert_eq!(text.memory(), Some(0));
    text.truncate(0);
    assert_eq!(text.memory(), None);
    for all in [&[3, 14, 15, 92][..], &[65, 35, 8]] {
        let mut next = texts.begin();
        let got = texts.step(&mut [(&mut next, all)]).unwrap();
        assert_close(&got[0], &texts.alone(all), "the next text");
        assert_eq!(next.memory(), Some(0));
    }
}

#[test]
fn more_texts_than_memories_are_an_error_that_changes_nothing() {
    let mut texts = Texts::new(2);
    let [mut one, mut two, mut three] = [texts.begin(), texts.begin(), texts.begin()];
    let all = tokens(1, 12);
    texts.step(&mut [(&mut one, &all[..5])]).unwrap();
    let error = texts.step(&mut [(&mut one, &all[5..6]), (&mut two, &all[..2]), (&mut three, &all[..3])]);
    let error = error.unwrap_err();
    let Error::Op(rocm_ops::Error::OutOfMemories { wanted: 2, free: 1, count: 2 }) = error else {
        panic!("{error}")
    };
    assert_eq!((one.len(), two.len(), texts.pages.blocks().free()), (5, 0, 28));
    let got = texts.step(&mut [(&mut three, &all[..3]), (&mut one, &all[5..7])]).unwrap();
    assert_close(&got[0], &texts.alone(&all[..3]), "the third");
    assert_close(&got[1], &texts.alone(&all[..7]), "the first");
    // Once one has ended, there is room for the one that waited.
    drop(one);
    let got = texts.step(&mut [(&mut two, &all[..2]), (&mut three, &all[3..4])]).unwrap();
    assert_eq!((two.memory(), three.memory()), (Some(0), Some(1)));
    assert_close(&got[0], &texts.alone(&all[..2]), "the second");
    assert_close(&got[1], &texts.alone(&all[..4]), "the third");
}

/// A memory is that of all tokens of one text.
#[test]
fn a_text_that_has_lost_its_memory_must_be_read_again() {
    let mut texts = Texts::new(3);
    let all = tokens(2, 12);
    let mut text = texts.begin();
    texts.step(&mut [(&mut text, &all[..6])]).unwrap();
    let mut fork = text.fork(6);
    let refused = |error: Error| {
        let error = error.to_string();
        assert!(error.contains("forked or truncated") && error.contains("truncated to 0"), "{error}");
    };
    refused(texts.step(&mut [(&mut fork, &all[6..7])]).unwrap_err());
    assert_eq!((fork.len(), fork.memory()), (6, None));
    fork.truncate(0);
    let got = texts.step(&mut [(&mut fork, &all[..7])]).unwrap();
    assert_close(&got[0], &texts.alone(&all[..7]), "a fork that was read again");
    text.truncate(4);
    refused(texts.step(&mut [(&mut text, &all[4..5])]).unwrap_err());
}

/// A step that fails in the middle leaves memories between two tokens: here a token that the model does not know.
#[test]
fn a_step_that_fails_costs_its_texts_their_memory() {
    let mut texts = Texts::new(2);
    let all = tokens(3, 12);
    let [mut one, mut two] = [texts.begin(), texts.begin()];
    texts.step(&mut [(&mut one, &all[..4]), (&mut two, &all[..2])]).unwrap();
    assert!(texts.step(&mut [(&mut one, &[u32::MAX - 1])]).is_err());
    assert_eq!((one.len(), one.memory(), two.memory()), (4, None, Some(1)));
    assert!(texts.step(&mut [(&mut one, &all[4..5])]).is_err());
    one.truncate(0);
    let got = texts.step(&mut [(&mut two, &all[2..3]), (&mut one, &all[..5])]).unwrap();
    assert_close(&got[0], &texts.alone(&all[..3]), "the other");
    assert_close(&got[1], &texts.alone(&all[..5]), "the one that was read again");
}

/// Texts that begin with the continuation, leave a part of its steps, and go on in the reverse order.
#[test]
fn texts_may_begin_with_a_continuation() {
    let mut texts = Texts::new(2);
    let Texts { cpu, model, pages } = &mut texts;
    let [mut one, mut two] = [pages.blocks().sequence(), pages.blocks().sequence()];
    let begin = vec![(&mut two, 7, 0), (&mut one, 9, 0)];
    let mut more = Continuation::new(cpu, model, pages, begin, Sample::greedy(), 5).unwrap();
    let steps: Vec<Vec<Drawn>> = (0..3).map(|_| more.next_tokens().unwrap()).collect();
    drop(more);
    assert_eq!((one.len(), two.len()), (3, 3));
    let said = |at: usize, first: u32| -> Vec<u32> {
        [first].into_iter().chain(steps.iter().map(|step| step[at].unwrap())).collect()
    };
    let (of_two, of_one) = (said(0, 7), said(1, 9));
    let got = texts.step(&mut [(&mut one, &of_one[3..]), (&mut two, &of_two[3..])]).unwrap();
    assert_close(&got[0], &texts.alone(&of_one), "the first");
    assert_close(&got[1], &texts.alone(&of_two), "the second");
}
