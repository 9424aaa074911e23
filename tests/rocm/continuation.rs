//! Texts continued by replays of one recorded step.
use crate::continued::continued;
use crate::standin::with_standin;
use crate::{WAVES_OF_64, model};
use rocm_ops::{Cpu, Fallback, Policy, Rocm};

/// Tokens are those of steps that the host prepares. The step is recorded if the device has a kernel for all of it.
fn check() {
    let rocm = Rocm::builder().policy(Policy::parse("linear=hip;matmul=hip").unwrap()).build().unwrap();
    let has_kernels = !ops_rocm::providers_of("attention_paged").unwrap_or_default().is_empty();
    let ([prepared, on_backend], refusal) = continued(&Fallback::new(rocm, Cpu::new()), &model("f16"));
    assert_eq!(on_backend, prepared);
    match refusal {
        None => assert!(has_kernels),
        Some(why) => assert!(!has_kernels && why.contains("attention_paged"), "{why}"),
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
