//! Every call of HIP and of the libraries fails once: an error each time, nothing leaks, and the backend goes on.
use crate::standin::with_standin;
use ops_core::ops::*;
use ops_core::quant::BlockQ8_0;
use ops_core::{Backend, Result};
use ops_rocm::{Policy, Rocm};

/// One step of a decoder in small: every kind of call that a step makes.
fn step(b: &Rocm) -> Result<Vec<f32>> {
    let ramp = |n: usize| -> Vec<f32> { (0..n).map(|i| (i % 13) as f32 / 8.0 - 0.5).collect() };
    let table = b.tensor(&[5, 64], &ramp(320))?;
    let ids = b.tensor(&[2], &[1u32, 4])?;
    let x = b.index_select(table.as_ref(), ids.as_ref(), IndexSelect::axis(0))?;
    let norm = b.tensor(&[64], &ramp(64))?;
    let h = b.rms_norm(x.as_ref(), norm.as_ref(), RmsNorm::eps(1e-5))?;
    let weight = b.tensor(&[64, 64], &ramp(4096))?;
    let blocks = QuantOps::<f32, BlockQ8_0>::quantize(b, weight.as_ref())?;
    let q = b.linear_bias(h.as_ref(), weight.as_ref(), norm.as_ref())?;
    let k = b.qlinear(h.as_ref(), blocks.as_ref())?;
    let view = |t: &ops_core::TensorOf<Rocm, f32>| -> Result<_> {
        Ok(ops_core::Tensor::new(b.upload(&t.as_ref().to_vec(b)?)?, *t.layout())?)
    };
    let (q, k) = (view(&q)?.reshape(&[1, 2, 1, 64])?, view(&k)?.reshape(&[1, 1, 2, 64])?);
    let o = b.attention(q.as_ref(), k.as_ref(), k.as_ref(), Attention::full())?;
    let o = b.softmax(o.as_ref(), Softmax::axis(-1))?;
    let fork = b.fork()?;
    let y = fork.add(o.as_ref(), o.as_ref())?;
    y.as_ref().to_vec(b)
}

/// What a step calls; those that only a drop calls come last.
const FUNCTIONS: &[&str] = &[
    "hipMalloc",
    "hipHostMalloc",
    "hipMemcpyAsync",
    "hipMemsetAsync",
    "hipModuleLoadData",
    "hipModuleGetFunction",
    "hipFuncGetAttribute",
    "hipModuleLaunchKernel",
    "hipStreamCreateWithFlags",
    "hipStreamSynchronize",
    "hipStreamWaitEvent",
    "hipEventCreateWithFlags",
    "hipEventRecord",
    "hipEventQuery",
    "hipEventSynchronize",
    "hipGetDevice",
    "hiprtcCreateProgram",
    "hiprtcCompileProgram",
    "hiprtcGetCodeSize",
    "hiprtcGetCode",
    "rocblas_create_handle",
    "rocblas_set_stream",
    "rocblas_set_atomics_mode",
    "rocblas_gemm_strided_batched_ex",
    "miopenCreateWithStream",
    "miopenCreateTensorDescriptor",
    "miopenSetTensorDescriptorV2",
    "miopenSoftmaxForward_V2",
];

/// More calls of one function than this are much like those before.
const MOST: u64 = 25;

#[test]
fn a_failing_call_is_an_error_and_no_end() {
    with_standin("faults::a_failing_call_is_an_error_and_no_end", &[], |standin| {
        let policy = Policy::parse("softmax=miopen").unwrap();
        let open = || Rocm::builder().policy(policy.clone()).build();
        let rocm = open().unwrap();
        let want = step(&rocm).unwrap();
        let mut failed = 0;
        for function in FUNCTIONS {
            // Some functions are called by the first step on a device only, so each round opens one.
            let fresh = || Rocm::builder().policy(policy.clone()).no_cache().build();
            let before = standin.count(function);
            let quick = !function.starts_with("hiprtc");
            let build = || if quick { open() } else { fresh() };
            step(&build().unwrap()).unwrap();
            let calls = standin.count(function) - before;
            assert!(calls > 0, "{function} is not called");
            let step_by = calls.div_ceil(if quick { MOST } else { 2 }).max(1);
            for nth in (1..=calls).step_by(step_by as usize) {
                standin.fail(&format!("{function}:{nth}"));
                let device = build();
                let result = device.as_ref().map_err(Clone::clone).and_then(|device| {
                    // What a drop could not return comes with the next call.
                    step(device).and_then(|got| device.synchronize().map(|()| got))
                });
                standin.fail("");
                let Ok(device) = device else {
                    failed += 1;
                    continue;
                };
                match result {
                    Ok(got) => assert_eq!(got, want, "{function}:{nth} gave another result and no error"),
                    Err(error) => {
                        failed += 1;
                        let text = error.to_string();
                        assert!(text.contains("rocm"), "{function}:{nth}: {text}");
                    }
                }
                assert_eq!(step(&device).or_else(|_| step(&device)).unwrap(), want, "after {function}:{nth}");
            }
        }
        assert!(failed > 150, "only {failed} failures were seen");
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
