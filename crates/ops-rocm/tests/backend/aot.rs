//! Kernels compiled before the program runs. The stand-in cannot run clang's output for AMD GPUs, so the test
//! provides code objects from the stand-in's own hipRTC.
use ops_core::ops::*;
use ops_core::quant::Q8_0;
use ops_core::{Backend, DType, Result};
use ops_kernels::{Unit, source};
use ops_rocm::hip::{Compiler, Gfx, Hip, Source};
use ops_rocm::{CodeObjects, KernelSource, Rocm, RocmBuilder};
use standin_testing::{folder, with_standin};
use std::fs;
use std::path::Path;

const UNITS: [&str; 2] = ["unary-activation-f32", "binary-f32"];

fn units() -> impl Iterator<Item = Unit> {
    Unit::all().into_iter().filter(|unit| UNITS.contains(&unit.name().as_str()))
}

/// The two units that `silu` needs, for a target.
fn compile(target: &str) -> Vec<(Unit, Vec<u8>)> {
    let compiler = Compiler::load(&Hip::load().unwrap()).unwrap();
    let options: Vec<String> = source::hiprtc_options(target).unwrap();
    let options: Vec<&str> = options.iter().map(String::as_str).filter(|o| !o.starts_with("--off")).collect();
    let gfx = Gfx::parse(target).unwrap();
    let code = |unit: Unit| {
        let source = Source { name: "unit.hip", text: &unit.text(target), headers: &[] };
        (unit, compiler.compile(source, &gfx, &options).unwrap().to_bytes())
    };
    units().map(code).collect()
}

fn bundle(target: &str, code: &[(Unit, Vec<u8>)]) -> CodeObjects {
    // SAFETY: the code comes from the stand-in's compiler, or the stand-in refuses it because of its header.
    unsafe { CodeObjects::from_objects(code.iter().map(|(unit, code)| (*unit, target, code.as_slice()))) }
}

fn open(objects: &CodeObjects) -> RocmBuilder {
    Rocm::builder().no_cache().code_objects(objects.clone())
}

/// silu(0 + 0): one kernel of each unit.
fn silu(builder: RocmBuilder) -> Result<f32> {
    let rocm = builder.build()?;
    let x = rocm.tensor(&[1], &[0.0f32])?;
    Ok(rocm.silu(rocm.add(x.as_ref(), x.as_ref())?.as_ref())?.as_ref().to_vec(&rocm)?[0])
}

/// How often hipRTC is called to run `silu` with code for one target.
fn compiled(test: &str, device: &str, target: &'static str, expected: u64) {
    with_standin(test, &[("HIP_STANDIN_GFX", device)], |standin| {
        let objects = bundle(target, &compile(target));
        let before = standin.count("hiprtcCompileProgram");
        assert_eq!(silu(open(&objects)).unwrap(), 0.0);
        assert_eq!(standin.count("hiprtcCompileProgram") - before, expected);
        let aot = silu(open(&objects).kernels(KernelSource::Aot));
        assert_eq!(aot.is_ok(), expected == 0, "{aot:?}");
        assert_eq!(silu(open(&objects).kernels(KernelSource::Jit)).unwrap(), 0.0);
        assert_eq!(standin.count("hiprtcCompileProgram") - before, expected + 2);
    });
}

#[test]
fn code_for_the_device_is_taken() {
    compiled("aot::code_for_the_device_is_taken", "gfx1100", "gfx1100", 0);
}

#[test]
fn what_the_device_says_of_its_features_is_no_hindrance() {
    let test = "aot::what_the_device_says_of_its_features_is_no_hindrance";
    compiled(test, "gfx90a:sramecc+:xnack-", "gfx90a", 0);
}

#[test]
fn code_for_the_same_feature_is_taken() {
    compiled("aot::code_for_the_same_feature_is_taken", "gfx90a:sramecc+:xnack-", "gfx90a:xnack-", 0);
}

#[test]
fn code_for_another_feature_is_left() {
    compiled("aot::code_for_another_feature_is_left", "gfx90a:sramecc+:xnack-", "gfx90a:xnack+", 2);
}

#[test]
fn the_generic_target_serves_a_card_that_is_not_listed() {
    compiled("aot::the_generic_target_serves_a_card_that_is_not_listed", "gfx1103", "gfx11-generic", 0);
}

#[test]
fn a_card_without_code_gets_hiprtc_or_an_error_that_lists_the_targets() {
    let test = "aot::a_card_without_code_gets_hiprtc_or_an_error_that_lists_the_targets";
    with_standin(test, &[("HIP_STANDIN_GFX", "gfx1032")], |_| {
        let code = compile("gfx1100");
        let objects = bundle("gfx1100", &code);
        assert_eq!(silu(open(&objects)).unwrap(), 0.0);
        let text = silu(open(&objects).kernels(KernelSource::Aot)).unwrap_err().to_string();
        for part in
            ["embeds kernels for gfx1100", "gfx1032", "OPS_ROCM_AOT=gfx10-3-generic", "OPS_ROCM_KERNELS=jit"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let none = bundle("gfx1100", &[]);
        let text = silu(open(&none).kernels(KernelSource::Aot)).unwrap_err().to_string();
        assert!(text.contains("feature `aot`"), "{text}");
    });
}

#[test]
fn the_environment_forces_a_way() {
    let test = "aot::the_environment_forces_a_way";
    with_standin(test, &[("OPS_ROCM_KERNELS", "aot"), ("HIP_STANDIN_GFX", "gfx1032")], |_| {
        let objects = bundle("gfx1100", &compile("gfx1100"));
        assert!(silu(open(&objects)).unwrap_err().to_string().contains("gfx1032"));
        assert_eq!(silu(open(&objects).kernels(KernelSource::Jit)).unwrap(), 0.0, "code comes before it");
    });
}

#[test]
fn a_word_that_is_no_way_is_an_error() {
    let test = "aot::a_word_that_is_no_way_is_an_error";
    with_standin(test, &[("OPS_ROCM_KERNELS", "both")], |_| {
        let text = Rocm::new().unwrap_err().to_string();
        assert!(text.contains("\"both\" is neither jit nor aot"), "{text}");
    });
}

#[test]
fn code_that_does_not_load_is_compiled_or_an_error() {
    let test = "aot::code_that_does_not_load_is_compiled_or_an_error";
    with_standin(test, &[], |standin| {
        let good = compile("gfx1100");
        let real_gpu = |_: &[u8]| [b"\x7fELF".as_slice(), &[0; 400]].concat();
        let flipped = |code: &[u8]| code.iter().enumerate().map(|(i, b)| b ^ u8::from(i == 200)).collect();
        type Damage = fn(&[u8]) -> Vec<u8>;
        let damages: [Damage; 2] = [real_gpu, flipped];
        for damage in damages {
            let bad: Vec<_> = good.iter().map(|(unit, code)| (*unit, damage(code))).collect();
            let objects = bundle("gfx1100", &bad);
            let before = standin.count("hiprtcCompileProgram");
            assert_eq!(silu(open(&objects)).unwrap(), 0.0);
            assert_eq!(standin.count("hiprtcCompileProgram") - before, 2);
            let text = silu(open(&objects).kernels(KernelSource::Aot)).unwrap_err().to_string();
            assert!(text.contains("binary-f32") && text.contains("cannot be loaded"), "{text}");
        }
    });
}

#[test]
fn neither_hiprtc_nor_rocblas_nor_miopen_is_needed() {
    const TEST: &str = "aot::neither_hiprtc_nor_rocblas_nor_miopen_is_needed";
    const STAGE: &str = "OPS_ROCM_TEST_STAGE";
    let stage = std::env::var(STAGE).unwrap_or_default();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("aot-only-hip");
    let file = |unit: &Unit| place.join(unit.name());
    if stage.is_empty() {
        let _ = fs::remove_dir_all(&place);
        fs::create_dir_all(&place).unwrap();
        let Some(standin) = folder() else { return with_standin(TEST, &[], |_| ()) };
        fs::copy(standin.join("libamdhip64.so.7"), place.join("libamdhip64.so.7")).unwrap();
    }
    if stage != "run" {
        with_standin(TEST, &[(STAGE, "make")], |_| {
            compile("gfx1100").iter().for_each(|(unit, code)| fs::write(file(unit), code).unwrap());
        });
    }
    if stage != "make" {
        let only_hip = place.to_str().unwrap();
        with_standin(TEST, &[(STAGE, "run"), ("OPS_ROCM_PATH", only_hip)], |_| {
            assert!(Compiler::load(&Hip::load().unwrap()).is_err(), "there is no hipRTC");
            let code: Vec<_> = units().map(|unit| (unit, fs::read(file(&unit)).unwrap())).collect();
            assert_eq!(silu(open(&bundle("gfx1100", &code))).unwrap(), 0.0);
            let text = silu(open(&bundle("gfx942", &code))).unwrap_err().to_string();
            for part in ["embeds kernels for gfx942", "gfx1100", "libhiprtc.so.7"] {
                assert!(text.contains(part), "{part}: {text}");
            }
        });
    }
}

/// The device has byte products, but the generic target that its code was compiled for has none.
#[test]
fn instructions_that_the_generic_target_lacks_are_not_asked_for() {
    let test = "aot::instructions_that_the_generic_target_lacks_are_not_asked_for";
    with_standin(test, &[("HIP_STANDIN_GFX", "gfx906:sramecc+:xnack-")], |_| {
        let objects = bundle("gfx9-generic", &compile("gfx9-generic"));
        let by_bytes = |builder: RocmBuilder| {
            let rocm = builder.build().unwrap();
            let x = rocm.tensor(&[3, 32], &[1.0f32; 96]).unwrap();
            // With fewer outputs, byte products are not used.
            let rows = rocm.tensor(&[33, 32], &[1.0f32; 33 * 32]).unwrap();
            let weight = rocm.quantize(rows.as_ref(), DType::Block(&Q8_0)).unwrap();
            rocm.linear(x.as_ref(), weight.as_ref()).unwrap();
            rocm.decisions().iter().any(|decision| decision.to_string().contains("v_dot4_i32_i8"))
        };
        assert!(!by_bytes(open(&objects)));
        assert!(by_bytes(open(&objects).kernels(KernelSource::Jit)));
        assert!(by_bytes(open(&bundle("gfx906", &compile("gfx906")))));
    });
}
