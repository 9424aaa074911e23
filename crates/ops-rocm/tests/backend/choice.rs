//! Policies, explanations, decisions.
use ops_core::ops::*;
use ops_core::{
    Backend, Determinism, Element, Error, Execute, Fallback, Float, Op, Operands, Reason, Replay, bf16, f16,
};
use ops_cpu::{Cpu, Host};
use ops_rocm::hip::Gfx;
use ops_rocm::{
    Decision, Measurement, Policy, ProviderId, Providers, Rocm, Target, Verdict, class_of, explain,
};
use standin_testing::with_standin;

fn assumed<O: Op>(gfx: &str, policy: &str, op: &O, on: &dyn Operands) -> Decision
where
    Rocm: Providers<O>,
{
    let policy = Policy::parse(policy).unwrap();
    let target = Target::assumed(Gfx::parse(gfx).unwrap()).promising(policy.least());
    explain(&target, &policy, op, on)
}

fn softmax<T: Element + Float>(policy: &str) -> Decision {
    let x = [T::zeroed(); 12];
    let mut y = x;
    let x = Host::view(&x, &[3, 4]).unwrap();
    let y = Host::view_mut(&mut y, &[3, 4]).unwrap();
    assumed("gfx1100", policy, &Softmax::<T>::axis(-1), &args::softmax::Args::<Host, T> { x, y })
}

#[test]
fn a_policy_asks_for_a_level_of_determinism() {
    let (x, weight, mut y) = ([f16::ONE; 64 * 64], [f16::ONE; 64 * 64], [f16::ONE; 64 * 64]);
    let [x, weight] = [&x, &weight].map(|x| Host::view(x, &[64, 64]).unwrap());
    let y = Host::view_mut(&mut y, &[64, 64]).unwrap();
    let on = args::linear::Args::<Host, f16> { x, weight: weight.any(), bias: None, y };
    let decide = |policy: &str| assumed("gfx942", policy, &Linear::<f16>::OP, &on);
    assert_eq!(decide("").chosen, Some(ProviderId::HIPBLASLT));
    let by_row = decide("determinism=batch");
    assert_eq!(by_row.chosen, Some(ProviderId::HIP), "{by_row}");
    let declined = Reason::Determinism { wanted: Determinism::Batch, available: Determinism::Run };
    assert_eq!(by_row.candidates[1].verdict, Verdict::Declined(declined.clone()), "{by_row}");
    let none = decide("determinism=batch;linear=rocblas");
    assert_eq!((none.chosen, none.reason()), (None, declined));
    let text = none.to_string();
    assert!(text.contains("determinism batch or higher was requested; the best available is run"), "{text}");
    assert_eq!(decide("determinism=exact").chosen, None);
    let wrong = Policy::parse("determinism=always").unwrap_err().to_string();
    assert!(wrong.contains("\"always\" is not a level of determinism"), "{wrong}");
    assert_eq!(softmax::<f32>("determinism=exact").chosen, None);
    assert_eq!(softmax::<f32>("determinism=batch").chosen, Some(ProviderId::HIP));
}

#[test]
fn explanations_need_no_device() {
    let decision = softmax::<f32>("");
    assert_eq!(decision.chosen, Some(ProviderId::HIP));
    assert_eq!(
        decision.to_string(),
        "softmax (x f32 [3, 4], y f32 [3, 4])\n  hip: chosen [batch]\n  miopen: available, comes later [run]"
    );
    let decision = softmax::<bf16>("softmax=miopen");
    assert_eq!(decision.chosen, None);
    assert_eq!(decision.reason(), Reason::DType { operand: "x", dtype: ops_core::DType::BF16 });
    let verdicts: Vec<_> = decision.candidates.iter().map(|c| (c.provider, &c.verdict)).collect();
    assert_eq!(verdicts[1], (ProviderId::HIP, &Verdict::Declined(Reason::Policy)));
}

#[test]
fn miopens_softmax_has_indices_of_24_bits() {
    // Zeroed memory that is never touched is not allocated.
    let (x, mut y) = (vec![0.0f32; (1 << 24) + 2], vec![0.0f32; (1 << 24) + 2]);
    let mut verdict = |rows: usize| {
        let x = Host::view(&x[..rows * 2], &[rows, 2]).unwrap();
        let y = Host::view_mut(&mut y[..rows * 2], &[rows, 2]).unwrap();
        let args = args::softmax::Args::<Host, f32> { x, y };
        assumed("gfx1100", "softmax=miopen", &Softmax::<f32>::axis(-1), &args).chosen
    };
    assert_eq!(verdict(1 << 23), Some(ProviderId::MIOPEN));
    assert_eq!(verdict((1 << 23) + 1), None);
}

#[test]
fn a_library_that_is_wrong_on_an_architecture_is_passed_over_with_the_report() {
    let (a, b, mut c) = ([bf16::ZERO; 4], [bf16::ZERO; 4], [bf16::ZERO; 4]);
    let view = |x| Host::view(x, &[2, 2]).unwrap();
    let args = args::matmul::Args::<Host, bf16> {
        a: view(&a),
        b: view(&b),
        c: Host::view_mut(&mut c, &[2, 2]).unwrap(),
    };
    let on = |gfx| assumed(gfx, "matmul=rocblas,hip", &MatMul::<bf16>::OP, &args);
    assert_eq!(on("gfx1101").chosen, Some(ProviderId::ROCBLAS));
    let denied = on("gfx1100");
    assert_eq!(denied.chosen, Some(ProviderId::HIP));
    assert!(
        denied
            .to_string()
            .contains("rocblas: passed over: wrong bf16 products on gfx1100 (pytorch/pytorch#189394)")
    );
}

/// A linear layer of zeros with this many rows and a row-major weight.
fn linear_of<T: Float>(gfx: &str, policy: &str, rows: usize) -> Decision {
    let (x, weight, mut y) =
        (vec![T::zeroed(); rows * 64], [T::zeroed(); 32 * 64], vec![T::zeroed(); rows * 32]);
    let args = args::linear::Args::<Host, T> {
        x: Host::view(&x, &[rows, 64]).unwrap(),
        weight: Host::view(&weight, &[32, 64]).unwrap().any(),
        bias: None,
        y: Host::view_mut(&mut y, &[rows, 32]).unwrap(),
    };
    assumed(gfx, policy, &Linear::<T>::OP, &args)
}

#[test]
fn products_of_few_rows_are_this_projects_unless_a_policy_says_otherwise() {
    let few = linear_of::<f16>("gfx1030", "", 8);
    assert_eq!(few.chosen, Some(ProviderId::HIP), "{few}");
    let reason = "rocblas: available, comes later: hip is expected to be faster up to 8 rows (product_rows)";
    assert!(few.to_string().contains(reason), "{few}");
    assert_eq!(linear_of::<f16>("gfx1030", "", 9).chosen, Some(ProviderId::ROCBLAS));
    for policy in ["linear=rocblas,hip", "*=rocblas,hip", "linear[rows<=8]=rocblas"] {
        let ordered = linear_of::<f16>("gfx1030", policy, 1);
        assert_eq!(ordered.chosen, Some(ProviderId::ROCBLAS), "{policy}: {ordered}");
    }
}

#[test]
fn rows_that_only_a_library_reads_well_are_not_few() {
    // The weight is column-major, so none of our kernels for few rows supports it.
    let chosen = |dims: &[usize], by_columns: bool| {
        let (a, b, mut c) = ([f16::ZERO; 32 * 64], [f16::ZERO; 64 * 64], [f16::ZERO; 32 * 64]);
        let len = dims.iter().product();
        let weight = Host::view(&b, &[64, 64]).unwrap();
        let weight = if by_columns { weight } else { weight.transpose(0, 1).unwrap() };
        let weight = weight.broadcast(&[&dims[..dims.len() - 2], &[64, 64]].concat()).unwrap();
        let a = Host::view(&a[..len], dims).unwrap();
        let args =
            args::matmul::Args::<Host, f16> { a, b: weight, c: Host::view_mut(&mut c[..len], dims).unwrap() };
        assumed("gfx1030", "", &MatMul::<f16>::OP, &args).chosen
    };
    assert_eq!(chosen(&[1, 64], true), Some(ProviderId::ROCBLAS));
    assert_eq!(chosen(&[1, 64], false), Some(ProviderId::HIP));
    assert_eq!(chosen(&[32, 1, 64], false), Some(ProviderId::ROCBLAS), "one product of 32 rows");
}

#[test]
fn hipblaslt_is_first_where_it_is_tuned_for_the_device() {
    for gfx in ["gfx942", "gfx950", "gfx1100", "gfx1103", "gfx1151", "gfx1200", "gfx1201"] {
        let many = linear_of::<bf16>(gfx, "", 512);
        assert_eq!(many.chosen, Some(ProviderId::HIPBLASLT), "{many}");
        assert_eq!(linear_of::<bf16>(gfx, "", 1).chosen, Some(ProviderId::HIP), "{gfx}");
    }
    for gfx in ["gfx90a", "gfx906", "gfx1030"] {
        let many = linear_of::<bf16>(gfx, "", 512);
        assert_eq!(many.chosen, Some(ProviderId::ROCBLAS), "{many}");
        let reason = format!("hipblaslt: available, comes later: rocblas is preferred on {gfx}");
        assert!(many.to_string().contains(&reason), "{many}");
    }
    let double = linear_of::<f64>("gfx942", "", 512);
    assert_eq!(double.chosen, Some(ProviderId::ROCBLAS));
    assert!(double.to_string().contains("hipblaslt: passed over: "), "{double}");
}

#[test]
fn what_hipblaslt_has_no_kernel_for_goes_to_the_next() {
    with_standin("choice::what_hipblaslt_has_no_kernel_for_goes_to_the_next", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[16, 32], &[f16::ONE; 512]).unwrap();
        let weight = rocm.tensor(&[24, 32], &[f16::ONE; 768]).unwrap();
        let bias = rocm.tensor(&[24], &[f16::ONE; 24]).unwrap();
        // Both factors transposed, with a 16-bit bias: only a query shows that the library has no kernel.
        let by_columns = rocm.tensor(&[32, 16], &[f16::ONE; 512]).unwrap();
        let turned = by_columns.as_ref().transpose(0, 1).unwrap();
        for x in [x.as_ref(), turned] {
            let y = rocm.linear_bias(x, weight.as_ref(), Some(bias.any())).unwrap();
            assert!(y.as_ref().to_vec(&rocm).unwrap().iter().all(|y| y.to_f32() == 33.0));
        }
        let decisions = rocm.decisions();
        let chosen: Vec<_> = decisions.iter().map(|decision| decision.chosen).collect();
        assert_eq!(chosen, [Some(ProviderId::HIPBLASLT), Some(ProviderId::ROCBLAS)]);
        let why = "hipblaslt: passed over: hipBLASLt has no kernel for these types, strides and bias on this device";
        assert!(decisions[1].to_string().contains(why), "{}", decisions[1]);
    });
}

#[test]
fn a_policy_may_depend_on_the_shape() {
    let chosen = |policy: &str, rows| linear_of::<f32>("gfx1030", policy, rows).chosen;
    let policy = "linear[rows<=16]=hip;linear=rocblas";
    assert_eq!(
        [1, 16, 17].map(|rows| chosen(policy, rows)),
        [Some(ProviderId::HIP), Some(ProviderId::HIP), Some(ProviderId::ROCBLAS)]
    );
    assert_eq!(chosen("linear[columns=64]=hip", 17), Some(ProviderId::HIP));
    assert_eq!(chosen("linear[columns<64]=hip", 17), Some(ProviderId::ROCBLAS), "the default order");
    let error = Policy::parse("linear[rows<=8]=miopen").unwrap_err().to_string();
    assert!(error.contains("linear has no provider \"miopen\""), "{error}");
    let error = Policy::parse("linear[height<=8]=hip").unwrap_err().to_string();
    let wanted = "policy: \"height<=8\" is not a condition; one compares rows or columns with a number by <=, <, >=, > \
                  or =, as in linear[rows<=8]=hip";
    assert_eq!(error, wanted);
}

#[test]
fn decisions_are_made_once_and_counted() {
    with_standin("choice::decisions_are_made_once_and_counted", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[2, 3], &[1.0f32; 6]).unwrap();
        for _ in 0..3 {
            rocm.softmax(x.as_ref(), Softmax::axis(-1)).unwrap();
        }
        // Another shape gives the same decision; another type gives another.
        rocm.softmax(rocm.tensor(&[5], &[1.0f32; 5]).unwrap().as_ref(), Softmax::axis(-1)).unwrap();
        rocm.softmax(rocm.tensor(&[5], &[1.0f64; 5]).unwrap().as_ref(), Softmax::axis(-1)).unwrap();
        let decisions = rocm.fork().unwrap().decisions();
        let calls: Vec<_> = decisions.iter().map(|d| (d.op, d.chosen.unwrap().name(), d.calls)).collect();
        assert_eq!(calls, [("softmax", "hip", 4), ("softmax", "hip", 1)]);
        let mut y = rocm.zeros::<f32>(&[2, 3]).unwrap();
        let args = args::softmax::Args { x: x.as_ref(), y: y.as_mut() };
        rocm.support(&Softmax::<f32>::axis(0), &args).unwrap();
        assert_eq!(rocm.explain(&Softmax::<f32>::axis(0), &args).chosen, Some(ProviderId::HIP));
        assert_eq!(rocm.decisions()[0].calls, 4, "asking is not calling");
    });
}

#[test]
fn a_policy_from_the_environment_holds_and_replaces_that_in_code() {
    let policy = [("OPS_ROCM_POLICY", "softmax=miopen,hip; matmul=hip")];
    with_standin(
        "choice::a_policy_from_the_environment_holds_and_replaces_that_in_code",
        &policy,
        |standin| {
            let code = Policy::new().order("softmax", ["hip"]).order("linear", ["hip"]);
            let rocm = Rocm::builder().policy(code).build().unwrap();
            let x = rocm.tensor(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
            rocm.softmax(x.as_ref(), Softmax::axis(-1)).unwrap();
            rocm.matmul(x.as_ref(), x.as_ref()).unwrap();
            rocm.linear(x.as_ref(), x.as_ref()).unwrap();
            let chosen: Vec<_> = rocm.decisions().iter().map(|d| (d.op, d.chosen.unwrap().name())).collect();
            assert_eq!(chosen, [("softmax", "miopen"), ("matmul", "hip"), ("linear", "hip")]);
            assert_eq!(standin.count("miopenSoftmaxForward_V2"), 1);
        },
    );
}

#[test]
fn a_policy_that_names_a_provider_an_op_lacks_is_an_error() {
    let policy = [("OPS_ROCM_POLICY", "softmax=rocblas")];
    with_standin("choice::a_policy_that_names_a_provider_an_op_lacks_is_an_error", &policy, |_| {
        let text = Rocm::new().unwrap_err().to_string();
        assert!(text.ends_with("policy: softmax has no provider \"rocblas\"; it has hip, miopen"), "{text}");
    });
}

#[test]
fn a_policy_in_code_is_checked_before_a_device_is_opened() {
    let code = Policy::new().order("matmul", ["miopen"]);
    let text = Rocm::builder().policy(code).build().unwrap_err().to_string();
    assert!(
        text.ends_with("policy: matmul has no provider \"miopen\"; it has hipblaslt, rocblas, hip"),
        "{text}"
    );
}

#[test]
fn what_nobody_may_compute_is_unsupported_and_falls_back_only_on_request() {
    with_standin(
        "choice::what_nobody_may_compute_is_unsupported_and_falls_back_only_on_request",
        &[],
        |_| {
            let rocm = Rocm::builder().policy(Policy::new().order("softmax", ["miopen"])).build().unwrap();
            let x = rocm.tensor(&[1, 2], &[bf16::ONE; 2]).unwrap();
            let error = rocm.softmax(x.as_ref(), Softmax::axis(-1)).unwrap_err();
            assert!(matches!(error, Error::Unsupported { reason: Reason::DType { .. }, .. }), "{error}");
            let fallback = Fallback::new(rocm, Cpu::new());
            let y = fallback.softmax(x.as_ref(), Softmax::axis(-1)).unwrap();
            assert_eq!(y.as_ref().to_vec(&fallback).unwrap(), [bf16::from_f32(0.5); 2]);
            assert_eq!(fallback.events()[0].on, "cpu");
        },
    );
}

#[test]
fn strides_decide() {
    with_standin("choice::strides_decide", &[], |_| {
        let rocm = Rocm::new().unwrap();
        let x = rocm.tensor(&[4, 4], &[1.0f32; 16]).unwrap();
        // Every second element of a row: no leading dimension can express that.
        let wide = rocm.tensor(&[4, 4, 2], &[1.0f32; 32]).unwrap();
        let gaps = wide.as_ref().narrow(2, 0, 1).unwrap().squeeze(2).unwrap();
        let y = rocm.matmul(x.as_ref(), gaps).unwrap();
        assert_eq!(y.as_ref().to_vec(&rocm).unwrap(), [4.0; 16]);
        let decision = &rocm.decisions()[0];
        assert_eq!(decision.chosen, Some(ProviderId::HIP));
        assert_eq!(decision.candidates[0].verdict, Verdict::Declined(Reason::Stride("b")));
    });
}

#[test]
fn a_decision_tells_which_units_multiply_and_why() {
    let (a, b, mut c) = ([f16::ZERO; 1024], [f16::ZERO; 1024], [f16::ZERO; 1024]);
    let view = |x| Host::view(x, &[32, 32]).unwrap();
    let args = args::matmul::Args::<Host, f16> {
        a: view(&a),
        b: view(&b),
        c: Host::view_mut(&mut c, &[32, 32]).unwrap(),
    };
    let on = |gfx| assumed(gfx, "matmul=hip", &MatMul::<f16>::OP, &args).to_string();
    assert!(on("gfx942").contains("hip: chosen, on matrix units (MFMA)"), "{}", on("gfx942"));
    assert!(on("gfx1201").contains("hip: chosen, on matrix units (WMMA)"), "{}", on("gfx1201"));
    assert!(on("gfx1030").contains("on vector units: gfx1030 has no matrix units"), "{}", on("gfx1030"));
    let (a, b, mut c) = ([0f32; 1024], [0f32; 1024], [0f32; 1024]);
    let view = |x| Host::view(x, &[32, 32]).unwrap();
    let args = args::matmul::Args::<Host, f32> {
        a: view(&a),
        b: view(&b),
        c: Host::view_mut(&mut c, &[32, 32]).unwrap(),
    };
    let wide = assumed("gfx942", "matmul=hip", &MatMul::<f32>::OP, &args).to_string();
    assert!(
        wide.contains("on vector units: matrix units need f16 or bf16 on both sides, or f32 on the left"),
        "{wide}"
    );
}

#[test]
fn a_decision_tells_how_a_convolution_is_computed_and_why() {
    fn on<T: Float>(gfx: &str, form: ConvForm, channels: usize) -> String {
        let (x, weight) = (vec![T::zeroed(); channels * 64], vec![T::zeroed(); 16 * channels * 9]);
        let mut y = vec![T::zeroed(); 16 * 36];
        let weight_dims = if form == ConvForm::Conv2d { [16, channels, 3, 3] } else { [channels, 16, 3, 3] };
        let side = if form == ConvForm::Conv2d { 8 } else { 4 };
        let args = args::conv::Args::<Host, T> {
            x: Host::view(&x[..channels * side * side], &[1, channels, side, side]).unwrap(),
            weight: Host::view(&weight, &weight_dims).unwrap(),
            bias: None,
            y: Host::view_mut(&mut y, &[1, 16, 6, 6]).unwrap(),
        };
        let op = Conv::<T>::new(form, [ConvAxis::PLAIN; 2], 1);
        assumed(gfx, &format!("{}=hip", form.name()), &op, &args).to_string()
    }
    let forward = ConvForm::Conv2d;
    for (gfx, said) in [
        ("gfx942", "hip: chosen, on matrix units (MFMA)"),
        ("gfx1100", "hip: chosen, on matrix units (WMMA)"),
        ("gfx1030", "on vector units: gfx1030 has no matrix units"),
    ] {
        assert!(on::<f16>(gfx, forward, 32).contains(said), "{}", on::<f16>(gfx, forward, 32));
    }
    let wide = on::<f32>("gfx942", forward, 32);
    assert!(wide.contains("on vector units: matrix units need f16 or bf16"), "{wide}");
    let transposed = on::<bf16>("gfx942", ConvForm::Transpose2d, 32);
    assert!(transposed.contains("on vector units: matrix units do not support transposed"), "{transposed}");
}

/// The order that `ops tune` measured for a class of problems comes before that of the list, and after a policy.
#[test]
fn measured_orders_are_used_until_something_changes() {
    let cache = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("measured");
    let _ = std::fs::remove_dir_all(&cache);
    let cache = cache.display().to_string();
    let test = "choice::measured_orders_are_used_until_something_changes";
    with_standin(test, &[("OPS_ROCM_CACHE", &cache)], |_| {
        let chosen = |rocm: &Rocm, rows: usize| {
            let x = rocm.tensor(&[rows, 4], &vec![1.0f32; rows * 4]).unwrap();
            let mut y = rocm.zeros::<f32>(&[rows, 4]).unwrap();
            let on = args::softmax::Args::<ops_rocm::HipSpace, f32> { x: x.as_ref(), y: y.as_mut() };
            rocm.explain(&Softmax::<f32>::axis(-1), &on)
        };
        let rocm = Rocm::new().unwrap();
        let row = |rows| {
            let x = rocm.tensor(&[rows, 4], &vec![1.0f32; rows * 4]).unwrap();
            let mut y = rocm.zeros::<f32>(&[rows, 4]).unwrap();
            let class =
                class_of(&args::softmax::Args::<ops_rocm::HipSpace, f32> { x: x.as_ref(), y: y.as_mut() });
            let times = vec![("miopen".to_owned(), 41e3), ("hip".to_owned(), 63e3)];
            Measurement { op: "softmax".to_owned(), class, date: "2026-11-30".to_owned(), times }
        };
        assert_eq!(chosen(&rocm, 4).chosen, Some(ProviderId::HIP));
        let file = rocm.keep_measurements([row(4)]).unwrap();
        let rocm = Rocm::new().unwrap();
        let decision = chosen(&rocm, 3);
        assert_eq!(decision.chosen, Some(ProviderId::MIOPEN), "of the same class as 4 rows");
        assert!(
            decision.to_string().contains("miopen: chosen, measured: 41.0 µs (2026-11-30)"),
            "{decision}"
        );
        assert!(decision.to_string().contains("measured: 63.0 µs"), "{decision}");
        assert_eq!(chosen(&rocm, 5).chosen, Some(ProviderId::HIP), "of another class");

        let by_policy = Rocm::builder().policy(Policy::parse("softmax=hip").unwrap()).build().unwrap();
        assert_eq!(chosen(&by_policy, 4).chosen, Some(ProviderId::HIP));
        let batch = Rocm::builder().determinism(Determinism::Batch).build().unwrap();
        assert_eq!(chosen(&batch, 4).chosen, Some(ProviderId::HIP));

        // A library's launches cannot be recorded, so a recorded call keeps the order of the list.
        let x = rocm.tensor(&[4, 4], &[1.0f32; 16]).unwrap();
        let mut y = rocm.zeros::<f32>(&[4, 4]).unwrap();
        let mut softmax = || rocm.softmax_into(&x, &mut y, Softmax::axis(-1));
        softmax().unwrap();
        let recorded = rocm.capture(&mut softmax);
        assert!(recorded.is_ok(), "{}", recorded.map(drop).unwrap_err());

        // A second run adds to the first.
        rocm.keep_measurements([row(32)]).unwrap();
        let rocm = Rocm::new().unwrap();
        assert_eq!([4, 32].map(|rows| chosen(&rocm, rows).chosen), [Some(ProviderId::MIOPEN); 2]);

        let text = std::fs::read_to_string(&file).unwrap();
        let version = text.lines().find(|line| line.starts_with("miopen = ")).unwrap();
        std::fs::write(&file, text.replace(version, "miopen = \"0.1.0\"")).unwrap();
        assert_eq!(chosen(&Rocm::new().unwrap(), 4).chosen, Some(ProviderId::HIP), "another version");
        std::fs::write(&file, text.replace("41000", "-1")).unwrap();
        assert_eq!(chosen(&Rocm::new().unwrap(), 4).chosen, Some(ProviderId::HIP), "a damaged file");
    });
}
