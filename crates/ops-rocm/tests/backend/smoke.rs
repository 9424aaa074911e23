//! A few calls of every op with several providers, each checked against the reference.
use ops_core::ops::*;
use ops_core::{Backend, Checked, Float, Result, Scalar, bf16, f16};
use ops_cpu::Reference;
use ops_rocm::{Policy, ProviderId, Rocm};
use standin_testing::{Standin, with_standin};

/// Values between -2 and 2 that f16 represents.
fn values<T: Scalar>(len: usize) -> Vec<T> {
    (0..len).map(|i| T::from_f64(((i * 37 + 11) % 65) as f64 / 16.0 - 2.0)).collect()
}

fn floats<T: Float>(b: &Checked<Rocm, Reference>) -> Result<()> {
    let x = b.tensor(&[2, 3, 8, 16], &values::<T>(768))?;
    let w = b.tensor(&[16], &values::<T>(16))?;
    let channels = b.tensor(&[3], &values::<T>(3))?;
    let table = b.tensor(&[10, 8], &values::<T>(80))?;
    let weight = b.tensor(&[7, 16], &values::<T>(112))?;
    let bias = b.tensor(&[7], &values::<T>(7))?;
    let bias_f32 = b.tensor(&[7], &values::<f32>(7))?;
    let (x, w) = (x.as_ref(), w.as_ref());

    b.softmax(x, Softmax::axis(-1))?;
    b.softmax(x, Softmax::axis(1).log())?;
    b.sigmoid(x)?;
    b.tanh(x)?;
    b.abs(x)?;
    b.relu(x)?;
    b.rms_norm(x, w, RmsNorm::eps(1e-5))?;
    let any = Some(w.any());
    b.layer_norm(x, any, any, LayerNorm::<T>::eps(1e-5))?;
    b.layer_norm(x, None, None, LayerNorm::<T>::eps(1e-5))?;
    b.layer_norm(x, any, None, LayerNorm::<T>::eps(1e-5))?;
    let c = Some(channels.as_ref().any());
    b.group_norm(x, c, c, GroupNorm::<T>::new(3, 1e-5))?;
    b.group_norm(x, None, None, GroupNorm::<T>::new(1, 1e-5))?;
    for form in [RopeForm::Interleaved, RopeForm::Half] {
        b.rope(x, table.as_ref(), table.as_ref(), Rope::new(form).start(2))?;
    }
    b.matmul(x, x.transpose(2, 3)?)?;
    b.matmul(x.transpose(1, 2)?.transpose(2, 3)?, x.transpose(1, 2)?)?;
    b.linear(x, weight.as_ref())?;
    b.linear_bias(x, weight.as_ref(), Some(bias.any()))?;
    b.linear_bias(x, weight.as_ref(), Some(bias_f32.any()))?;
    b.linear_bias(x.narrow(2, 0, 5)?, weight.as_ref(), Some(bias.any()))?;
    Ok(())
}

fn all(policy: &str) -> Rocm {
    let rocm = Rocm::builder().policy(Policy::parse(policy).unwrap()).build().unwrap();
    let checked = Checked::new(rocm.clone(), Reference::new());
    floats::<f16>(&checked).unwrap();
    floats::<bf16>(&checked).unwrap();
    floats::<f32>(&checked).unwrap();
    floats::<f64>(&checked).unwrap();
    rocm
}

/// The ops that a provider computed.
fn ops_of(rocm: &Rocm, provider: ProviderId) -> Vec<&'static str> {
    let mine = |decision: &ops_rocm::Decision| decision.chosen == Some(provider) && decision.calls > 0;
    let mut ops: Vec<_> = rocm.decisions().into_iter().filter(mine).map(|decision| decision.op).collect();
    ops.sort_unstable();
    ops.dedup();
    ops
}

const PRODUCTS: [&str; 2] = ["linear", "matmul"];

fn defaults(_: &Standin) {
    let rocm = all("");
    assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), PRODUCTS);
    assert_eq!(ops_of(&rocm, ProviderId::MIOPEN), [""; 0]);
}

#[test]
fn defaults_on_waves_of_32() {
    with_standin("smoke::defaults_on_waves_of_32", &[], |standin| {
        defaults(standin);
        assert!(standin.count("hipblasLtMatmul") > 0, "it is first on gfx1100");
    });
}

#[test]
fn defaults_on_waves_of_64() {
    with_standin("smoke::defaults_on_waves_of_64", &[("HIP_STANDIN_WAVE", "64")], |standin| {
        defaults(standin);
        assert_eq!(standin.count("hipblasLtMatmul"), 0, "rocBLAS is first on gfx90a");
    });
}

#[test]
fn libraries_first() {
    with_standin("smoke::libraries_first", &[], |_| {
        let rocm = all("*=miopen,rocblas,hip");
        let miopen = ["abs", "rms_norm", "rope_i", "sigmoid", "softmax", "tanh"];
        assert_eq!(ops_of(&rocm, ProviderId::MIOPEN), miopen);
        assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), PRODUCTS);
    });
}

#[test]
fn hipblaslt_first() {
    with_standin("smoke::hipblaslt_first", &[], |standin| {
        let rocm = all("*=hipblaslt,hip");
        assert_eq!(ops_of(&rocm, ProviderId::HIPBLASLT), PRODUCTS);
        assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), [""; 0]);
        // Three types, four products each, and each product keeps its own descriptors.
        let chosen = standin.count("hipblasLtMatmulAlgoGetHeuristic");
        floats::<f16>(&Checked::new(rocm.clone(), Reference::new())).unwrap();
        assert_eq!(standin.count("hipblasLtMatmulAlgoGetHeuristic"), chosen, "kernels are chosen once");
        drop(rocm);
        for kind in ["hipblaslt handle", "hipblaslt layout", "hipblaslt desc", "hipblaslt preference"] {
            assert_eq!(standin.live_of(kind), 0, "{kind}");
        }
    });
}

#[test]
fn libraries_denied() {
    with_standin("smoke::libraries_denied", &[], |standin| {
        let rocm = all("*=hip");
        assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), [""; 0]);
        drop(rocm);
        for library in ["rocblas_create_handle", "hipblasLtCreate", "miopenCreateWithStream"] {
            assert_eq!(standin.count(library), 0, "{library}");
        }
    });
}

#[test]
fn libraries_absent() {
    // The libraries that the backend needs, in a separate folder.
    let folder = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("hip-only");
    if let Some(standin) = standin_testing::folder().filter(|standin| **standin != folder) {
        std::fs::create_dir_all(&folder).unwrap();
        for library in ["libamdhip64.so.7", "libhiprtc.so.7", "libamd_comgr.so.3"] {
            std::fs::copy(standin.join(library), folder.join(library)).unwrap();
        }
    }
    let path = folder.to_string_lossy().into_owned();
    with_standin("smoke::libraries_absent", &[("OPS_ROCM_PATH", &path)], |_| {
        let rocm = all("*=miopen,rocblas,hip");
        assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), [""; 0]);
        assert_eq!(ops_of(&rocm, ProviderId::MIOPEN), [""; 0]);
        let matmul =
            rocm.decisions().into_iter().find(|decision| decision.op == "matmul").unwrap().to_string();
        assert!(matmul.contains("rocblas: passed over: ") && matmul.contains("librocblas.so.5"), "{matmul}");
    });
}

#[test]
fn rocblas_without_kernels_for_the_device() {
    let gfx = [("HIP_STANDIN_GFX", "gfx1152")];
    with_standin("smoke::rocblas_without_kernels_for_the_device", &gfx, |standin| {
        let rocm = all("");
        assert_eq!(ops_of(&rocm, ProviderId::ROCBLAS), [""; 0]);
        assert_eq!(standin.count("rocblas_create_handle"), 0, "it would end the process");
        let matmul =
            rocm.decisions().into_iter().find(|decision| decision.op == "matmul").unwrap().to_string();
        assert!(matmul.contains("rocBLAS has no kernels for gfx1152"), "{matmul}");
        assert_eq!(standin.count("hipblasLtCreate"), 0, "it would end the process, too");
        assert!(matmul.contains("hipBLASLt has no kernels for gfx1152"), "{matmul}");
    });
}

#[test]
fn a_newer_target_is_not_named_to_an_older_hiprtc() {
    let test = "smoke::a_newer_target_is_not_named_to_an_older_hiprtc";
    // hipRTC of ROCm 6.4 ends the process when it is given an unknown name.
    let old = [
        ("HIP_STANDIN_GFX", "gfx1250"),
        ("HIP_STANDIN_VERSION", "7.1.0"),
        ("HIP_STANDIN_BAD_ARCH", "abort"),
        ("OPS_ROCM_CACHE", ""),
    ];
    with_standin(test, &old, |standin| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[3], &[1.0f32, 2.0, 3.0]).unwrap();
        let error = rocm.neg(x.as_ref()).unwrap_err().to_string();
        assert!(error.contains("this hipRTC is 7.1.0, gfx1250 requires ROCm 7.2 or newer"), "{error}");
        assert_eq!(standin.count("hiprtcCompileProgram"), 0);
    });
}

#[test]
fn an_infinite_input_reaches_only_the_outputs_of_its_window() {
    with_standin("smoke::an_infinite_input_reaches_only_the_outputs_of_its_window", &[], |_| {
        const TOKENS: usize = 16;
        const CHANNELS: usize = 8;
        let b = Rocm::builder().build().unwrap();
        let mut x = values::<f32>(TOKENS * CHANNELS);
        x[3 * CHANNELS..4 * CHANNELS].fill(f32::INFINITY);
        let x = b.tensor(&[1, TOKENS, CHANNELS], &x).unwrap();
        for w in 1..=5 {
            let weight = b.tensor(&[CHANNELS, w], &values::<f32>(CHANNELS * w)).unwrap();
            let mut state = b.zeros::<f32>(&[1, CHANNELS, w - 1]).unwrap();
            let y = b.conv1d_update(&x, &weight, None, &mut state, Conv1dUpdate::plain()).unwrap();
            for (at, y) in y.to_vec(&b).unwrap().iter().enumerate() {
                let token = at / CHANNELS;
                assert_eq!(y.is_finite(), !(3..3 + w).contains(&token), "{y} at token {token}, {w} taps");
            }
        }
    });
}
