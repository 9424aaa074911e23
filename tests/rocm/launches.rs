//! The kernels of a decode step, counted by name.
use crate::standin::{Standin, with_standin};
use crate::{expected, model};
use rocm_ops::models::Decoder;
use rocm_ops::{Float, Rocm, f16};
use std::collections::BTreeMap;

/// A layer of the bundled llama takes no more launches than this.
const MOST: u64 = 10;

/// How often each kernel has run so far.
fn launches(standin: &Standin) -> BTreeMap<&'static str, u64> {
    let count = |symbol: &'static str| (symbol, standin.count(&format!("kernel {symbol}")));
    ops_kernels::instances().iter().map(|k| count(k.symbol.as_str())).filter(|(_, n)| *n > 0).collect()
}

/// The launches of one decode step that every layer makes, by kernel, for one layer.
fn of_a_layer<T: Float>(standin: &Standin, dtype: &str) -> BTreeMap<&'static str, u64> {
    let (gguf, rocm, (prompt, ids)) = (model(dtype), Rocm::new().unwrap(), expected());
    let decoder = Decoder::<T, Rocm>::load(&rocm, &gguf, prompt.len() + 2).unwrap();
    let mut state = decoder.state(&rocm, prompt.len() + 2).unwrap();
    decoder.forward(&rocm, &mut state, &prompt).unwrap();
    let before = launches(standin);
    decoder.forward(&rocm, &mut state, &ids[..1]).unwrap();
    let layers = decoder.config().layers as u64;
    let made = launches(standin).into_iter().map(|(name, n)| (name, n - before.get(name).unwrap_or(&0)));
    // What comes before and after the layers runs less often than there are layers.
    made.map(|(name, n)| (name, n / layers)).filter(|(_, n)| *n > 0).collect()
}

fn check<T: Float>(standin: &Standin, dtype: &str, wanted: &[(&str, u64)]) {
    let made = of_a_layer::<T>(standin, dtype);
    let total: u64 = made.values().sum();
    println!("{dtype} in {}: {total} launches a layer: {made:?}", T::DTYPE);
    assert!(total <= MOST, "{dtype} in {}: {total} launches a layer: {made:?}", T::DTYPE);
    assert_eq!(made, wanted.iter().copied().collect(), "{dtype} in {}", T::DTYPE);
}

#[test]
fn a_layer_of_a_decode_step_takes_ten_launches_or_fewer() {
    with_standin("launches::a_layer_of_a_decode_step_takes_ten_launches_or_fewer", &[], |standin| {
        check::<f16>(standin, "f16", &[]);
        check::<f32>(standin, "q8_0", &[]);
        check::<f32>(standin, "q4_0", &[]);
    });
}
