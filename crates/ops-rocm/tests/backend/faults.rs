//! Every call of HIP and of the libraries fails once: each failure is reported, nothing leaks, and the
//! backend still works.
use ops_core::ops::*;
use ops_core::quant::Q8_0;
use ops_core::{Backend, DType, Result};
use ops_rocm::{Policy, Rocm};
use standin_testing::{Standin, with_standin};

/// A small decoder step, with every kind of call that a real one makes.
fn step(b: &Rocm) -> Result<Vec<f32>> {
    let ramp = |n: usize| -> Vec<f32> { (0..n).map(|i| (i % 13) as f32 / 8.0 - 0.5).collect() };
    let table = b.tensor(&[5, 64], &ramp(320))?;
    let ids = b.tensor(&[2], &[1u32, 4])?;
    let x = b.index_select(table.as_ref(), ids.as_ref(), IndexSelect::axis(0))?;
    let x = b.add(x.as_ref(), b.zeros::<f32>(&[2, 64])?.as_ref())?;
    let norm = b.tensor(&[64], &ramp(64))?;
    let h = b.rms_norm(x.as_ref(), norm.as_ref(), RmsNorm::eps(1e-5))?;
    let weight = b.tensor(&[64, 64], &ramp(4096))?;
    let blocks = b.quantize(weight.as_ref(), DType::Block(&Q8_0))?;
    let q = b.linear_bias(h.as_ref(), weight.as_ref(), Some(norm.any()))?;
    let k = b.linear(h.as_ref(), blocks.as_ref())?;
    let view = |t: &ops_core::TensorOf<Rocm, f32>| -> Result<_> {
        ops_core::Tensor::new(b.upload(&t.as_ref().to_vec(b)?)?, *t.layout())
    };
    let (q, k) = (view(&q)?.reshape(&[1, 2, 1, 64])?, view(&k)?.reshape(&[1, 1, 2, 64])?);
    let o = b.attention(q.as_ref(), k.as_ref(), k.as_ref(), Attention::<f32>::full())?;
    let o = b.softmax(o.as_ref(), Softmax::axis(-1))?;
    let fork = b.fork()?;
    let y = fork.add(o.as_ref(), o.as_ref())?;
    y.as_ref().to_vec(b)
}

/// Further calls of a function are much like the first ones.
const MOST: u64 = 10;

/// Makes calls of these functions fail, one at a time, on a device that is opened for each.
fn fail_each(standin: &Standin, functions: &[&str], at_least: u32) {
    let open = |cached: bool| {
        let builder = Rocm::builder().policy(Policy::parse("softmax=miopen;linear=rocblas,hip").unwrap());
        if cached { builder.build() } else { builder.no_cache().build() }
    };
    let want = step(&open(true).unwrap()).unwrap();
    let mut failed = 0;
    for function in functions {
        // If kernels come from disk, nothing is compiled.
        let cached = !function.starts_with("hiprtc");
        let before = standin.count(function);
        let b = open(cached).unwrap();
        step(&b).and_then(|_| b.synchronize()).unwrap();
        let calls = standin.count(function) - before;
        drop(b);
        assert!(calls > 0, "{function} is not called");
        let most = if cached { MOST } else { 2 };
        // A call that is retried must also be reported if it fails again.
        let retried = TRIED_AGAIN.contains(function);
        let variants: &[&str] = if retried { &["", "+"] } else { &[""] };
        let places = (1..=calls).step_by(calls.div_ceil(most) as usize);
        for (nth, &onwards) in places.flat_map(|nth| variants.iter().map(move |onwards| (nth, onwards))) {
            let before = standin.count(function);
            standin.fail(&format!("{function}:{nth}{onwards}"));
            let opened = open(cached);
            // An error that a drop could not return is returned by the next call.
            let result = opened.clone().and_then(|b| step(&b).and_then(|got| b.synchronize().map(|()| got)));
            standin.fail("");
            // Pinned memory of a finished transfer is reused, so on a busy machine there may be fewer calls.
            let reached = standin.count(function) - before >= nth;
            let b = opened.or_else(|_| open(cached)).unwrap();
            match result {
                Ok(got) => {
                    assert_eq!(got, want, "{function}:{nth} gave another result and no error");
                    let told = !reached || retried && onwards.is_empty();
                    assert!(told, "{function}:{nth}{onwards} was not reported");
                }
                Err(error) => {
                    failed += 1;
                    assert!(error.to_string().contains("rocm"), "{function}:{nth}: {error}");
                }
            }
            assert_eq!(step(&b).or_else(|_| step(&b)).unwrap(), want, "after {function}:{nth}");
        }
    }
    assert!(failed >= at_least, "only {failed} failures were seen");
}

/// Calls that find the device full are retried, and a kernel on disk that cannot be loaded is compiled.
/// hipBLASLt must find a kernel before it is chosen, and again when it computes, which reports the
/// failure.
const TRIED_AGAIN: [&str; 13] = [
    "hipMalloc",
    "hipHostMalloc",
    "hipModuleLoadData",
    "hipStreamCreateWithFlags",
    "hipEventCreateWithFlags",
    "rocblas_create_handle",
    "hipblasLtCreate",
    "hipblasLtMatmulDescCreate",
    "hipblasLtMatmulDescSetAttribute",
    "hipblasLtMatrixLayoutCreate",
    "hipblasLtMatmulPreferenceCreate",
    "hipblasLtMatmulPreferenceSetAttribute",
    "hipblasLtMatmulAlgoGetHeuristic",
];

/// The calls to hipBLASLt before a product is enqueued.
fn asked_of_hipblaslt() -> impl Iterator<Item = &'static str> {
    TRIED_AGAIN.into_iter().filter(|function| function.starts_with("hipblasLt"))
}

#[test]
fn memory_and_copies() {
    with_standin("faults::memory_and_copies", &[], |standin| {
        fail_each(standin, &["hipMalloc", "hipHostMalloc", "hipMemcpyAsync", "hipMemsetAsync"], 10);
    });
}

#[test]
fn modules_and_launches() {
    with_standin("faults::modules_and_launches", &[], |standin| {
        let functions =
            ["hipModuleLoadData", "hipModuleGetFunction", "hipFuncGetAttribute", "hipModuleLaunchKernel"];
        fail_each(standin, &functions, 15);
    });
}

#[test]
fn streams_and_events() {
    with_standin("faults::streams_and_events", &[], |standin| {
        let functions = [
            "hipStreamCreateWithFlags",
            "hipStreamSynchronize",
            "hipStreamWaitEvent",
            "hipEventCreateWithFlags",
            "hipEventRecord",
            "hipEventQuery",
            "hipEventSynchronize",
            "hipGetDevice",
        ];
        fail_each(standin, &functions, 30);
    });
}

#[test]
fn compiling() {
    with_standin("faults::compiling", &[], |standin| {
        let functions = ["hiprtcCreateProgram", "hiprtcCompileProgram", "hiprtcGetCodeSize", "hiprtcGetCode"];
        fail_each(standin, &functions, 8);
    });
}

#[test]
fn libraries() {
    with_standin("faults::libraries", &[], |standin| {
        let functions = [
            "rocblas_create_handle",
            "rocblas_set_stream",
            "rocblas_set_atomics_mode",
            "rocblas_set_workspace",
            "rocblas_gemm_strided_batched_ex",
            "miopenCreateWithStream",
            "miopenCreateTensorDescriptor",
            "miopenSetTensorDescriptorV2",
            "miopenSoftmaxForward_V2",
        ];
        fail_each(standin, &functions, 8);
    });
}

#[test]
fn libraries_are_given_what_is_cached() {
    let small = [("HIP_STANDIN_MEMORY", "4194304"), ("HIP_STANDIN_OVERHEAD", "65536")];
    with_standin("faults::libraries_are_given_what_is_cached", &small, |standin| {
        let policy = Policy::parse("matmul=rocblas;softmax=miopen").unwrap();
        let rocm = Rocm::builder().policy(policy).build().unwrap();
        let x = rocm.tensor(&[8, 8], &[0.5f32; 64]).unwrap();
        let queue = rocm.fork().unwrap();
        for library in ["rocblas_create_handle", "miopenCreateWithStream"] {
            let blocks: Vec<_> = std::iter::from_fn(|| rocm.zeros::<u8>(&[16 << 10]).ok()).collect();
            assert!(blocks.len() > 50, "{} blocks", blocks.len());
            drop(blocks);
            let (calls, retries) = (standin.count(library), rocm.memory_stats().retries);
            match library {
                "rocblas_create_handle" => drop(queue.matmul(x.as_ref(), x.as_ref()).unwrap()),
                _ => drop(queue.softmax(x.as_ref(), Softmax::axis(-1)).unwrap()),
            }
            assert_eq!(standin.count(library) - calls, 2, "{library} is called again");
            assert!(rocm.memory_stats().retries > retries);
        }
        queue.synchronize().unwrap();
    });
}

#[test]
fn the_workspace_of_rocblas_is_counted_and_capped() {
    with_standin("faults::the_workspace_of_rocblas_is_counted_and_capped", &[], |standin| {
        let policy = Policy::parse("matmul=rocblas").unwrap();
        let rocm = Rocm::builder().policy(policy).build().unwrap();
        let x = rocm.tensor(&[8, 8], &[0.5f32; 64]).unwrap();
        let mut y = rocm.zeros::<f32>(&[8, 8]).unwrap();
        let before = rocm.memory_stats().in_use;
        rocm.matmul_into(x.as_ref(), x.as_ref(), y.as_mut()).unwrap();
        assert_eq!(rocm.memory_stats().in_use - before, 8 << 20, "1/512 of 4 GiB");
        assert_eq!(standin.count("rocblas_set_workspace"), 1);
        // A queue's handle and its workspace are freed with the queue.
        rocm.fork().unwrap().matmul_into(x.as_ref(), x.as_ref(), y.as_mut()).unwrap();
        assert_eq!(rocm.memory_stats().in_use - before, 8 << 20);

        rocm.trim().unwrap();
        rocm.device().set_memory_cap(Some(rocm.memory_stats().in_use));
        let other = rocm.fork().unwrap();
        let error = other.matmul_into(x.as_ref(), x.as_ref(), y.as_mut()).unwrap_err().to_string();
        assert!(error.contains("out of memory on rocm") && error.contains("cap"), "{error}");
        rocm.device().set_memory_cap(None);
        other.matmul_into(x.as_ref(), x.as_ref(), y.as_mut()).unwrap();
        assert_eq!(y.as_ref().to_vec(&other).unwrap(), [2.0; 64]);
    });
}

#[test]
fn hipblaslt() {
    with_standin("faults::hipblaslt", &[("OPS_ROCM_POLICY", "linear=hipblaslt")], |standin| {
        let mut functions = vec!["hipblasLtMatmul"];
        functions.extend(asked_of_hipblaslt());
        fail_each(standin, &functions, 2);
    });
}

/// A function that fails every time is reported, even if it is called before the choice.
#[test]
fn hipblaslt_that_always_fails_is_reported() {
    let policy = [("OPS_ROCM_POLICY", "linear=hipblaslt,rocblas,hip")];
    with_standin("faults::hipblaslt_that_always_fails_is_reported", &policy, |standin| {
        for function in asked_of_hipblaslt() {
            standin.fail(&format!("{function}:1+"));
            let error = Rocm::new().and_then(|b| step(&b)).unwrap_err().to_string();
            standin.fail("");
            assert!(error.contains(function) && error.contains("HIPBLAS_STATUS"), "{function}: {error}");
        }
    });
}

#[test]
fn memory_that_is_full_is_given_back_and_the_step_succeeds() {
    let small = [("HIP_STANDIN_MEMORY", "1048576")];
    with_standin("faults::memory_that_is_full_is_given_back_and_the_step_succeeds", &small, |_| {
        let rocm = Rocm::new().unwrap();
        let want = step(&rocm).unwrap();
        let large = rocm.zeros::<u8>(&[600_000]).unwrap();
        drop(large);
        assert_eq!(step(&rocm).unwrap(), want);
        let text = rocm.zeros::<u8>(&[2_000_000]).unwrap_err().to_string();
        assert!(text.starts_with("out of memory on rocm: 2000000 bytes wanted"), "{text}");
        assert_eq!(step(&rocm).unwrap(), want);
        assert!(rocm.memory_stats().retries > 0 || rocm.memory_stats().trims > 0);
    });
}
