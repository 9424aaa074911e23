//! The decoder on the stand-in for ROCm, with waves of 32 and of 64 lanes; and what goes wrong elsewhere.
// Functions of an op, a type and a backend that it has are not compiled once more here.
extern crate ops_cli as _;

mod continuation;
mod defects;
mod joined;
mod launches;
mod messages;
mod nan;
mod normal;
mod projected;
mod ranks;
mod recorded;

use ops_tests::{determinism, encoders, families, largest, model, pages};
use rocm_ops::combine::Timed;
use rocm_ops::gguf::Gguf;
use rocm_ops::model::Transformer;
use rocm_ops::models::{self, Decoder, Error};
use rocm_ops::{Backend, Checked, Cpu, Determinism, Float, Reference, Rocm, f16};
use standin_testing::with_standin;

const WAVES_OF_64: &[(&str, &str)] = &[("HIP_STANDIN_WAVE", "64")];

/// The first prompt and the tokens that follow.
fn expected() -> (Vec<u32>, Vec<u32>) {
    ops_tests::expected().swap_remove(0)
}

/// The logits of every step; each step gets the expected tokens.
fn forced<T: Float, B: Transformer<T>>(b: &B, gguf: &Gguf, steps: usize) -> Vec<Vec<f32>> {
    let (prompt, ids) = expected();
    let model = Decoder::<T, B>::load(b, gguf, prompt.len() + steps).unwrap();
    let mut state = model.state(b, prompt.len() + steps).unwrap();
    let mut logits = vec![model.forward(b, &mut state, &prompt).unwrap()];
    for id in &ids[..steps - 1] {
        logits.push(model.forward(b, &mut state, &[*id]).unwrap());
    }
    logits
}

/// Each step gets the right token, so that one wrong choice does not hide another.
fn tokens() {
    let (_, ids) = expected();
    let (gguf, rocm) = (model("f16"), Rocm::new().unwrap());
    let got = |logits: Vec<Vec<f32>>| -> Vec<u32> { logits.iter().map(|l| largest(l)).collect() };
    assert_eq!(got(forced::<f32, _>(&rocm, &gguf, 6)), ids[..6]);
    // Activations in f16 give the tokens of f64, as long as no two tokens are nearly equally likely.
    assert_eq!(got(forced::<f16, _>(&rocm, &gguf, 3)), ids[..3]);
}

#[test]
fn greedy_tokens_are_those_of_float64_on_waves_of_32() {
    with_standin("greedy_tokens_are_those_of_float64_on_waves_of_32", &[], |_| tokens());
}

#[test]
fn greedy_tokens_are_those_of_float64_on_waves_of_64() {
    with_standin("greedy_tokens_are_those_of_float64_on_waves_of_64", WAVES_OF_64, |_| tokens());
}

/// Compared with the same blocks in f64 on the reference, with the same tokens.
fn quantized() {
    let rocm = Rocm::new().unwrap();
    for dtype in ["q8_0", "q4_0"] {
        let gguf = model(dtype);
        let got = forced::<f32, _>(&rocm, &gguf, 3);
        let want = forced::<f64, _>(&Reference::new(), &gguf, 3);
        for (step, (got, want)) in got.iter().zip(&want).enumerate() {
            let difference: f32 = got.iter().zip(want).map(|(a, b)| (a - b) * (a - b)).sum();
            let nmse = difference / want.iter().map(|v| v * v).sum::<f32>();
            assert!(nmse <= 1e-3, "{dtype}, step {step}: {nmse}");
        }
    }
}

#[test]
fn quantized_logits_are_close_to_float64_on_waves_of_32() {
    with_standin("quantized_logits_are_close_to_float64_on_waves_of_32", &[], |_| quantized());
}

#[test]
fn quantized_logits_are_close_to_float64_on_waves_of_64() {
    with_standin("quantized_logits_are_close_to_float64_on_waves_of_64", WAVES_OF_64, |_| quantized());
}

#[test]
fn every_op_of_a_model_agrees_with_the_cpu() {
    with_standin("every_op_of_a_model_agrees_with_the_cpu", &[], |_| {
        let checked = Checked::new(Rocm::new().unwrap(), Cpu::new());
        forced::<f32, _>(&checked, &model("q8_0"), 3);
        assert!(checked.calls() > 100, "only {} calls", checked.calls());
    });
}

/// Why the model cannot be loaded.
fn refusal<B: Transformer<f16>>(b: &B) -> Option<Error> {
    Decoder::<f16, B>::load(b, &model("f16"), 32).err()
}

#[test]
fn a_model_that_does_not_fit_the_device_is_refused_before_it_is_loaded() {
    let test = "a_model_that_does_not_fit_the_device_is_refused_before_it_is_loaded";
    with_standin(test, &[("HIP_STANDIN_MEMORY", "8388608")], |_| {
        let rocm = Rocm::new().unwrap();
        let before = rocm.memory_stats().allocations;
        let error = refusal(&rocm).unwrap();
        let Error::Memory { needed, free, .. } = error else { panic!("{error}") };
        assert!(needed > 11 << 20 && free <= 8 << 20, "{needed}, {free}");
        assert!(
            error.to_string().contains("need 0.01 GiB of memory on rocm, but 0.01 GiB are free"),
            "{error}"
        );
        assert_eq!(rocm.memory_stats().allocations, before);
        assert!(matches!(refusal(&Timed::new(rocm)), Some(Error::Memory { .. })));
    });
}

#[test]
fn memory_that_is_cached_counts_as_free_and_memory_in_use_does_not() {
    let test = "memory_that_is_cached_counts_as_free_and_memory_in_use_does_not";
    with_standin(test, &[("HIP_STANDIN_MEMORY", "33554432")], |_| {
        let rocm = Rocm::new().unwrap();
        let large = rocm.zeros::<u8>(&[24 << 20]).unwrap();
        assert!(matches!(refusal(&rocm), Some(Error::Memory { .. })));
        drop(large);
        assert!(refusal(&rocm).is_none());
        rocm.device().set_memory_cap(Some(10 << 20));
        assert!(matches!(refusal(&rocm), Some(Error::Memory { .. })));
    });
}

/// A model whose steps were prepared compiles nothing more, and computes the same as without preparation.
#[test]
fn a_prepared_model_waits_for_no_compiler() {
    let no_cache = [("OPS_ROCM_CACHE", "")];
    with_standin("a_prepared_model_waits_for_no_compiler", &no_cache, |standin| {
        let (gguf, rocm) = (model("f16"), Rocm::new().unwrap());
        let steps = || {
            forced::<f16, _>(&rocm, &gguf, 2);
            Ok::<(), rocm_ops::Error>(())
        };
        let prepared = rocm.prepare(steps).unwrap();
        assert_eq!(prepared.compiled(), prepared.units().len());
        // Further processes compile, too.
        let compiled = standin.count("hiprtcCompileProgram");
        let (_, ids) = expected();
        let got: Vec<u32> = forced::<f16, _>(&rocm, &gguf, 3).iter().map(|l| largest(l)).collect();
        assert_eq!(got, ids[..3]);
        assert_eq!(standin.count("hiprtcCompileProgram"), compiled, "{prepared}");
    });
}

/// Models of every family: windows, norms of heads, experts, biases, on kernels of f32. Half of those that do not run with every wave size.
fn families(half: usize) {
    let (rocm, all) = (Rocm::new().unwrap(), families::all());
    families::FAMILIES.iter().for_each(|name| families::check(&rocm, name, 2, 2));
    let others = all.iter().filter(|name| !families::FAMILIES.contains(&name.as_str()));
    others.skip(half).step_by(2).for_each(|name| families::check(&rocm, name, 1, 1));
    // Several texts at once: each text's rows are part of tensors that hold those of all.
    for name in ["qwen3-f16", "qwen3next-f16"] {
        let gguf = Gguf::open(format!("{}/{name}.gguf", families::folder())).unwrap();
        families::check_batch(&rocm, &gguf, name);
    }
}

/// Texts of any lengths in one step over pages: plain heads, windows, sinks, latent attention, and recurrent layers.
fn pages() {
    let rocm = Rocm::new().unwrap();
    for name in ["qwen3-f16", "gemma3-f16", "gpt-oss-f16", "deepseek-v3-f16", "qwen3_5-f16"] {
        pages::check_mixed(&rocm, name, &[5]);
    }
}

#[test]
fn pages_on_waves_of_32() {
    with_standin("pages_on_waves_of_32", &[], |_| pages());
}

#[test]
fn pages_on_waves_of_64() {
    with_standin("pages_on_waves_of_64", WAVES_OF_64, |_| pages());
}

#[test]
fn families_on_waves_of_32() {
    with_standin("families_on_waves_of_32", &[], |_| families(0));
}

#[test]
fn families_on_waves_of_64() {
    with_standin("families_on_waves_of_64", WAVES_OF_64, |_| families(1));
}

#[test]
fn encoders_on_waves_of_32() {
    with_standin("encoders_on_waves_of_32", &[], |_| encoders(0));
}

#[test]
fn encoders_on_waves_of_64() {
    with_standin("encoders_on_waves_of_64", WAVES_OF_64, |_| encoders(1));
}

/// Half of the files, and the folders that every backend runs.
fn encoders(half: usize) {
    let rocm = Rocm::new().unwrap();
    encoders::ENCODERS.iter().for_each(|name| encoders::check(&rocm, name));
    for name in encoders::files().iter().skip(half).step_by(2) {
        encoders::check_file(&rocm, name, &models::open(encoders::file(name)).unwrap());
    }
}

/// With determinism *batch*, logits do not depend on splits of the prompt and on batches.
fn by_row() {
    let rocm = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
    for dtype in ["f16", "q8_0", "q4_0"] {
        determinism::check::<f16, _>(&rocm, dtype, 4, 2, &[2]);
    }
}

#[test]
fn logits_do_not_depend_on_cuts_and_batches_on_waves_of_32() {
    with_standin("logits_do_not_depend_on_cuts_and_batches_on_waves_of_32", &[], |_| by_row());
}

#[test]
fn logits_do_not_depend_on_cuts_and_batches_on_waves_of_64() {
    with_standin("logits_do_not_depend_on_cuts_and_batches_on_waves_of_64", WAVES_OF_64, |_| by_row());
}

/// Recurrent layers, too: many texts that join and leave say what each says alone.
#[test]
fn sixty_four_texts_say_what_each_says_alone() {
    with_standin("sixty_four_texts_say_what_each_says_alone", &[], |_| {
        let rocm = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
        assert!(pages::is_exact(&rocm, "qwen3_5-f16", 64, 2));
        assert!(pages::is_exact(&rocm, "qwen3_5_moe-f16", 5, 2));
        // Layers with windows of 16, which the longest texts outgrow.
        assert!(pages::is_exact(&rocm, "gemma3-f16", 5, 12));
    });
}
