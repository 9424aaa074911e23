//! Texts continued on the backend, compared with steps prepared by the host.
use ops_tests::continued::continued;
use ops_tests::families::folder;
use rocm_ops::Cpu;
use rocm_ops::gguf::Gguf;
use rocm_ops::models::{Continuation, Decoder, Error};
use rocm_ops::ops::Sample;

#[test]
fn tokens_are_those_of_steps_that_the_host_prepares() {
    let recurrent = Gguf::open(format!("{}/qwen3_5-f16.gguf", folder())).unwrap();
    for gguf in [ops_tests::model("f16"), recurrent] {
        let ([prepared, on_backend], refusal) = continued(&Cpu::new(), &gguf);
        assert_eq!(on_backend, prepared);
        let refusal = refusal.expect("calls on the host are not recorded");
        assert!(refusal.contains("has no graphs"), "{refusal}");
    }
}

#[test]
fn what_cannot_be_continued_leaves_texts_as_they_were() {
    let (cpu, gguf) = (Cpu::new(), ops_tests::model("f16"));
    let model = Decoder::<f32, Cpu>::load(&cpu, &gguf, 32).unwrap();
    let mut pages = model.pages(&cpu, 4, 4).unwrap();
    let mut text = pages.blocks().sequence();
    model.forward_paged(&cpu, &mut pages, &mut [(&mut text, &[1, 2, 3])]).unwrap();
    for steps in [0, 14, 40] {
        let begin = vec![(&mut text, 4, 0)];
        let failed = Continuation::new(&cpu, &model, &mut pages, begin, Sample::greedy(), steps);
        match failed.err().expect("an error") {
            Error::Tokens { got, before: 3, .. } => assert_eq!(got, steps),
            Error::Op(rocm_ops::Error::OutOfBlocks { .. }) => assert_eq!(steps, 14),
            other => panic!("{other}"),
        }
        assert_eq!((text.len(), text.blocks().len(), pages.blocks().free()), (3, 1, 3));
    }
    assert!(Continuation::new(&cpu, &model, &mut pages, vec![], Sample::greedy(), 1).is_err());
    let mut more =
        Continuation::new(&cpu, &model, &mut pages, vec![(&mut text, 4, 0)], Sample::greedy(), 1).unwrap();
    more.next_tokens().unwrap();
    assert!(matches!(more.next_tokens(), Err(Error::Tokens { got: 1, room: 0, .. })));
}
