//! NaN among the logits of a text, in the ways to draw tokens.
use ops_tests::bundled;
use rocm_ops::gguf::Gguf;
use rocm_ops::models::{Continuation, Continues, Decoder, Drawn};
use rocm_ops::ops::Sample;
use rocm_ops::{Cpu, Rocm};
use standin_testing::{Standin, with_standin};

const PROMPTS: [&[u32]; 3] = [&[5, 9, 2], &[7, 300, 8, 4, 6], &[100, 3]];
/// A token of the second prompt, whose embedding is NaN.
const BAD: u32 = 300;

fn check_drawn(drawn: &[Drawn], position: usize) {
    let [Ok(_), Err(nan), Ok(_)] = drawn else { panic!("{drawn:?}") };
    assert_eq!(nan.position, position);
}

/// Every step reports the second text alone.
fn check<B: Continues<f32>>(b: &B, standin: Option<&Standin>) {
    let gguf = Gguf::from_bytes(ops_tests::nan::model(&bundled::path("f16"), BAD).unwrap()).unwrap();
    let model = Decoder::<f32, B>::load(b, &gguf, 32).unwrap();
    for sample in [Sample::greedy(), Sample::temperature(0.8).seed(3)] {
        let mut states = PROMPTS.map(|_| model.state(b, 32).unwrap());
        let mut rows: Vec<_> = states.iter_mut().zip(PROMPTS).collect();
        check_drawn(&model.sample_batch(b, &mut rows, &[0; 3], sample).unwrap(), 4);

        let mut pages = model.pages(b, 40, 4).unwrap();
        let mut texts = PROMPTS.map(|_| pages.blocks().sequence());
        let mut rows: Vec<_> = texts.iter_mut().zip(PROMPTS).collect();
        check_drawn(&model.sample_paged(b, &mut pages, &mut rows, &[0; 3], sample).unwrap(), 4);

        let begin = texts.iter_mut().map(|text| (text, 1, 1)).collect();
        let mut more = Continuation::new(b, &model, &mut pages, begin, sample, 2).unwrap();
        for position in [5, 6] {
            let copies = || standin.map_or(0, |standin| standin.count("hipMemcpyAsync"));
            let before = copies();
            check_drawn(&more.next_tokens().unwrap(), position);
            assert!(copies() - before <= 1, "a token and its logit are copied at once");
        }
    }
}

#[test]
fn a_text_with_nan_is_reported_alone() {
    check(&Cpu::new(), None);
    with_standin("nan::a_text_with_nan_is_reported_alone", &[], |standin| {
        let policy = rocm_ops::Policy::parse("linear=hip;matmul=hip").unwrap();
        check(&Rocm::builder().policy(policy).build().unwrap(), Some(standin));
    });
}
