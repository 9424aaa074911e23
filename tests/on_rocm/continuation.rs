//! Texts continued by replaying one recorded step.
use crate::WAVES_OF_64;
use ops_tests::continued::continued;
use ops_tests::families::folder;
use ops_tests::model;
use rocm_ops::gguf::Gguf;
use rocm_ops::{Policy, Rocm};
use standin_testing::with_standin;

/// The tokens equal those of steps prepared by the host, and the step is recorded.
fn check() {
    let rocm = Rocm::builder().policy(Policy::parse("linear=hip;matmul=hip").unwrap()).build().unwrap();
    let recurrent = Gguf::open(format!("{}/qwen3_5-f16.gguf", folder())).unwrap();
    for gguf in [model("f16"), recurrent] {
        let ([prepared, on_backend], refusal) = continued(&rocm, &gguf);
        assert_eq!(on_backend, prepared);
        assert_eq!(refusal, None);
    }
}

#[test]
fn steps_are_replayed_on_waves_of_32() {
    with_standin("continuation::steps_are_replayed_on_waves_of_32", &[], |_| check());
}

#[test]
fn steps_are_replayed_on_waves_of_64() {
    with_standin("continuation::steps_are_replayed_on_waves_of_64", WAVES_OF_64, |_| check());
}
