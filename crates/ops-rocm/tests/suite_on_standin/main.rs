//! Golden cases and the suite on the stand-in for ROCm, with waves of 32 and of 64 lanes.

mod empties;
mod executed;
mod experts;
mod golden;
mod group;
mod miopen;
mod planted;
mod rows;

use executed::Except;
use golden::{replay, replay_products};
use ops_core::ops::{LinearMethods, MatMulMethods, QuantMethods, registry};
use ops_core::quant::Q8_0;
use ops_core::{Backend, DType, f16};
use ops_kernels::{ElementType, Family};
use ops_rocm::Rocm;
use ops_rocm::hip::Hip;
use ops_test::suite::{CaseStatus, Filter, Report, run, run_all};
use standin_testing::{Standin, has_program, with_standin};

const OWN_PRODUCTS: (&str, &str) = ("OPS_ROCM_POLICY", "matmul=hip;linear=hip");

const ONE_COMPUTE_UNIT: (&str, &str) = ("HIP_STANDIN_COMPUTE_UNITS", "1");

const SHUFFLED: (&str, &str) = ("HIP_STANDIN_ORDER", "shuffled");

const WAVES_OF_64: &[(&str, &str)] = &[("HIP_STANDIN_WAVE", "64")];

/// The devices of a test, in the order of `HIP_STANDIN_DEVICES`. A case that runs on several is drawn once, and its result is
/// computed once for all, which takes as long as it runs on one of them.
fn devices<const N: usize>() -> [Rocm; N] {
    std::array::from_fn(|ordinal| device(ordinal as u32))
}

fn device(ordinal: u32) -> Rocm {
    Rocm::builder().ordinal(ordinal).build().unwrap()
}

/// All cases of these ops on each of the devices.
fn suite_of(devices: &[Rocm], ops: &str) {
    suite_where(devices, Filter::op(ops));
}

/// The cases selected by `filter` and the environment variables. With `OPS_TEST_PART=2/12`, the second
/// twelfth of all ops: several processes share the work.
fn suite_where(devices: &[Rocm], filter: Filter) {
    let mut filter = filter.with_variables();
    if let (None, Ok(part)) = (&filter.op, std::env::var("OPS_TEST_PART")) {
        filter.op = Some(ops_of_part(&part));
    }
    run_all(devices, &filter).iter().for_each(passes);
}

/// The ops of a part such as `2/12`, without in-place forms: the suite runs those along with the plain op.
fn ops_of_part(part: &str) -> String {
    let numbers = part.split_once('/').and_then(|(which, of)| Some((which.parse().ok()?, of.parse().ok()?)));
    let (which, of): (usize, usize) =
        numbers.filter(|(which, of)| (1..=*of).contains(which)).expect("OPS_TEST_PART is like 2/12");
    let names = registry::entries().iter().map(|entry| entry.name).filter(|name| !name.ends_with("_inplace"));
    // Neighbouring ops share kernels, so each part consists of neighbours.
    let names: Vec<&str> = names.collect();
    let at = |part: usize| names.len() * part / of;
    names[at(which - 1)..at(which)].join(",")
}

fn suite_on(rocm: &Rocm, filter: &Filter) {
    passes(&run(rocm, filter));
}

fn passes(report: &Report) {
    println!("{}\n{}", report.backend, report.table());
    let failures = report.failures();
    none_of(
        failures
            .map(|o| format!("{}: {}", o.case, if let CaseStatus::Fail(why) = &o.status { why } else { "" }))
            .collect(),
    );
}

fn none_of(failures: Vec<String>) {
    let shown = failures.len().min(60);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures[..shown].join("\n"));
}

/// Every matrix instruction multiplies as the kernels expect.
fn instructions(rocm: &Rocm) -> usize {
    let checks = rocm.check_matrix_units().unwrap();
    checks.iter().for_each(|check| assert_eq!(check.wrong, None, "{}", check.instruction));
    checks.len()
}

/// Ops that targets compute in different ways.
const PRODUCTS: &str =
    "matmul,linear,attention,qlinear,linear_swiglu,linear_add,rms_norm_linear,rms_norm_linear_swiglu";

/// Replays golden cases of products and attention on one target, and checks that matrix units were used if
/// there are any.
fn golden_products(ordinal: u32, gfx: &str) {
    replay_products(&device(ordinal));
    let rocm = &device(ordinal);
    let expected = match gfx {
        "gfx90a" | "gfx942" => 6,
        "gfx1030" | "gfx906" => 0,
        _ => 3,
    };
    assert_eq!(instructions(rocm), expected);
    let (a, b) = (rocm.tensor(&[40, 24], &[f16::ONE; 960]), rocm.tensor(&[24, 9], &[f16::ONE; 216]));
    let c = rocm.matmul(a.unwrap().as_ref(), b.unwrap().as_ref()).unwrap();
    assert!(c.as_ref().to_vec(rocm).unwrap().iter().all(|x| x.to_f32() == 24.0));
    let [decision] = &rocm.decisions()[..] else { panic!("one decision: {:?}", rocm.decisions()) };
    let matrix = !["gfx1030", "gfx906"].contains(&gfx);
    assert_eq!(decision.to_string().contains("chosen, on matrix units"), matrix, "{decision}");
}

/// A product whose kernels are of the families of `matmul` and of `qlinear`.
const PROJECTED: &str = "rms_norm_linear_rope_cache_write";

/// Products, or one in `one_case_in` of their cases, on two targets for which no test here runs the whole suite.
fn products_on(test: &str, gfx: [&str; 2], one_case_in: Option<usize>, then: impl FnOnce(&Standin, &[Rocm])) {
    with_standin(test, &[OWN_PRODUCTS, ("HIP_STANDIN_DEVICES", &gfx.join(","))], |standin| {
        let rocm = devices::<2>();
        suite_where(&rocm, Filter { one_case_in, ..Filter::op(PRODUCTS) });
        gfx.iter().zip(0..).for_each(|(gfx, ordinal)| golden_products(ordinal, gfx));
        then(standin, &rocm);
    });
}

/// The same, on a target for which a test here runs the whole suite.
fn golden_products_on(test: &str, gfx: &str) {
    with_standin(test, &[OWN_PRODUCTS, ("HIP_STANDIN_GFX", gfx)], |_| {
        golden_products(0, gfx);
    });
}

/// Whether one row and a few rows of a product with quantized weights use byte products.
fn uses_bytes(rocm: &Rocm, bytes: Option<&str>) {
    // With fewer outputs, byte products are not used.
    let ones = rocm.tensor(&[65, 64], &vec![1.0f32; 65 * 64]).unwrap();
    let weight = rocm.quantize(ones.as_ref(), DType::Block(&Q8_0)).unwrap();
    for rows in [1, 3] {
        let x = rocm.tensor(&[rows, 64], &vec![f16::ONE; rows * 64]).unwrap();
        let y = rocm.linear(x.as_ref(), weight.as_ref()).unwrap();
        assert!(y.as_ref().to_vec(rocm).unwrap().iter().all(|y| (y.to_f32() - 64.0).abs() < 0.1));
        let decisions = rocm.decisions();
        let last = decisions.last().map(ToString::to_string).unwrap_or_default();
        let instruction = bytes.unwrap_or("no matrix units");
        assert!(last.contains(instruction), "{last}");
    }
}

/// Products with quantized weights on targets without matrix units: gfx1030 has products of bytes.
#[test]
fn quantized_products_without_matrix_units() {
    let three = [("HIP_STANDIN_DEVICES", "gfx1030,gfx1010,gfx900")];
    with_standin("quantized_products_without_matrix_units", &three, |standin| {
        suite_of(&devices::<3>(), "qlinear,linear_swiglu,rms_norm_linear");
        let bytes = [Some("v_dot4_i32_i8"), None, None];
        devices::<3>().iter().zip(bytes).for_each(|(rocm, bytes)| uses_bytes(rocm, bytes));
        let devices = devices::<3>();
        suite_on(&devices[0], &Filter { dtype: Some(DType::F16), ..Filter::op(PROJECTED) });
        executed::check(standin, "gfx1030", &[Family::QlinearDot], &[]);
        executed::check(standin, "gfx1010", &[Family::Qlinear], &[]);
    });
}

/// Convolutions in 16-bit types on one target's matrix units.
fn convolutions_on_units(test: &str, gfx: &str) {
    with_standin(test, &[("HIP_STANDIN_GFX", gfx)], |standin| {
        let rocm = Rocm::new().unwrap();
        for (op, dtype) in [("conv1d", DType::F16), ("conv2d", DType::F16), ("conv2d", DType::BF16)] {
            suite_on(&rocm, &Filter { op: Some(op.to_owned()), dtype: Some(dtype), ..Filter::all() });
        }
        executed::check(standin, gfx, &[Family::ConvMma], &[]);
    });
}

#[test]
fn convolutions_on_gfx1100() {
    convolutions_on_units("convolutions_on_gfx1100", "gfx1100");
}

#[test]
fn convolutions_on_gfx942() {
    convolutions_on_units("convolutions_on_gfx942", "gfx942");
}

#[test]
fn golden_cases_on_waves_of_32() {
    with_standin("golden_cases_on_waves_of_32", &[], |_| replay(32));
}

#[test]
fn golden_cases_on_waves_of_64() {
    with_standin("golden_cases_on_waves_of_64", WAVES_OF_64, |_| replay(64));
}

/// With libraries, where they come first, on a device with one compute unit and one block on it: grids are smaller than the
/// work, so kernels loop over it, and waves run in random order, so one that runs ahead into the next turn is noticed. Each op runs
/// in about one in four of its types, because `all_ops_on_waves_of_32_and_of_64` runs all;
/// `OPS_TEST_ONE_TYPE_IN=1` runs all here.
#[test]
fn suite_on_waves_of_32() {
    with_standin("suite_on_waves_of_32", &[ONE_COMPUTE_UNIT, SHUFFLED], |_| {
        let mut tuning = *Rocm::new().unwrap().tuning();
        for knob in ["element_blocks", "row_blocks", "dot_blocks"] {
            assert!(tuning.set(knob, 1), "{knob}");
        }
        let rocm = Rocm::builder().tuning(tuning).build().unwrap();
        suite_where(&[rocm], Filter { one_type_in: Some(4), ..Filter::all() });
    });
}

/// No result depends on which wave runs first. Tests start in the order of their names. This one takes longest, and its name makes
/// it one of the first, so that the others run beside it.
#[test]
fn all_ops_on_waves_of_32_and_of_64() {
    let variables = [OWN_PRODUCTS, SHUFFLED, ("HIP_STANDIN_DEVICES", "gfx1201,gfx90a:sramecc+:xnack-")];
    with_standin("all_ops_on_waves_of_32_and_of_64", &variables, |standin| {
        let rocm = devices::<2>();
        suite_where(&rocm, Filter::all());
        for (rocm, gfx) in rocm.iter().zip(["gfx1201", "gfx90a"]) {
            instructions(rocm);
            executed::check(standin, gfx, Family::ALL, &ELSEWHERE);
        }
    });
}

/// Runs every op in one type, with one in eight of its cases, on two devices at once, from threads whose
/// current device is the first.
#[test]
fn suite_on_two_devices_at_once() {
    let two = [("HIP_STANDIN_DEVICES", "gfx1036:integrated,gfx1100")];
    with_standin("suite_on_two_devices_at_once", &two, |_| {
        let hip = &Hip::load().unwrap();
        std::thread::scope(|scope| {
            for ordinal in [0, 1] {
                scope.spawn(move || {
                    let rocm = Rocm::builder().ordinal(ordinal).build().unwrap();
                    let filter = Filter { dtype: Some(DType::F32), one_case_in: Some(8), ..Filter::all() };
                    suite_on(&rocm, &filter.with_variables());
                    assert_eq!(hip.current_device(), Ok(0));
                });
            }
        });
    });
}

/// The suite with kernels compiled by the LLVM of a ROCm release, with hipRTC's optimisations: code that this
/// compiler miscompiles on the host, it may also miscompile for a GPU. Each op runs in about one in eight of
/// its types, because clang takes four times as long as g++, which compiles the same kernels for every type;
/// `OPS_TEST_ONE_TYPE_IN=1` runs all.
fn suite_by_clang(test: &str, half: &str) {
    const CLANG: &str = "clang++-19";
    if !has_program(test, CLANG) {
        return;
    }
    let compiler = [("HIP_STANDIN_CXX", CLANG), ("HIP_STANDIN_CXXFLAGS", "-O3"), ("HIP_STANDIN_WAVE", "32")];
    with_standin(test, &compiler, |_| {
        suite_where(&devices::<1>(), Filter { one_type_in: Some(8), ..Filter::op(&ops_of_part(half)) });
    });
}

#[test]
#[ignore = "both halves take 165 s of processor time; a step of `cargo xtask check` runs them"]
fn suite_compiled_by_clang_first_half() {
    suite_by_clang("suite_compiled_by_clang_first_half", "1/2");
}

#[test]
#[ignore = "both halves take 165 s of processor time; a step of `cargo xtask check` runs them"]
fn suite_compiled_by_clang_second_half() {
    suite_by_clang("suite_compiled_by_clang_second_half", "2/2");
}

/// Kernels that the whole suite does not execute on a target with matrix units and byte products.
const ELSEWHERE: [Except; 4] = [
    Except {
        kernels: |k, _| k.family == Family::Group,
        reason: "collectives are no ops; group::on_two_devices_of_every_target executes them",
    },
    Except {
        kernels: |k, gfx| {
            let on_matrix = |t: &ElementType| [ElementType::F16, ElementType::Bf16].contains(t);
            match k.family {
                Family::Matmul => {
                    let by_matrix = ops_kernels::find("matmul", "mma128", &k.types);
                    k.part == "tile" && by_matrix.is_some_and(|by_matrix| by_matrix.runs_on(gfx))
                }
                // There are no matrix-unit tiles for heads wider than 256.
                Family::Attention => {
                    k.op == "attention" && on_matrix(&k.types[0]) && !k.variant.ends_with("head256")
                }
                _ => false,
            }
        },
        reason: "matrix units compute these products; products_on_gfx1030_and_gfx942 executes them",
    },
    Except {
        kernels: |k, _| {
            // Some formats have no kernels for matrix units.
            let by_matrix = || ops_kernels::find("qlinear", "mma64", &k.types).is_some();
            k.family == Family::Qlinear && k.part == "tile" && by_matrix()
        },
        reason: "matrix units compute these products; quantized_products_without_matrix_units executes them",
    },
    Except {
        kernels: |k, _| {
            // Matrix units support all types of x that are summed in f32.
            let by_matrix =
                || ops_kernels::find("linear_experts", "mma64", &[k.types[0], ElementType::F16]).is_some();
            k.family == Family::ExpertsTile
                && k.types[1] == ElementType::F32
                && k.types[0].values() > 1
                && by_matrix()
        },
        reason: "matrix units compute these products; experts::on_vectors executes them",
    },
];

/// Products with any number of rows, by one library; calls that it declines go to this project's kernels.
fn products_by(test: &str, library: &str, wave: &str, computing: &'static str) {
    let policy = format!("matmul={library},hip;linear={library},hip");
    with_standin(test, &[("OPS_ROCM_POLICY", &policy), ("HIP_STANDIN_WAVE", wave)], |standin| {
        for op in ["matmul", "linear"] {
            for dtype in [DType::F16, DType::BF16, DType::F32] {
                let before = standin.count(computing);
                let filter = Filter { op: Some(op.to_owned()), dtype: Some(dtype), ..Filter::all() };
                suite_on(&Rocm::new().unwrap(), &filter);
                let calls = standin.count(computing) - before;
                assert!(calls > 10, "{computing} computed {op} of {dtype} {calls} times");
            }
        }
        replay_products(&Rocm::new().unwrap());
    });
}

#[test]
fn products_by_rocblas() {
    // On gfx90a, since its bf16 is denied on gfx1100.
    products_by("products_by_rocblas", "rocblas", "64", "rocblas_gemm_strided_batched_ex");
}

#[test]
fn products_by_hipblaslt() {
    products_by("products_by_hipblaslt", "hipblaslt", "32", "hipblasLtMatmul");
}

#[test]
fn golden_products_on_gfx1201() {
    golden_products_on("golden_products_on_gfx1201", "gfx1201");
}

#[test]
fn golden_products_on_gfx90a() {
    golden_products_on("golden_products_on_gfx90a", "gfx90a");
}

// Every layout of matrix units, and targets without any: the same ops use different kernels.
#[test]
fn products_on_gfx1030_and_gfx942() {
    products_on("products_on_gfx1030_and_gfx942", ["gfx1030", "gfx942"], None, |standin, rocm| {
        suite_of(rocm, "attention_varlen");
        suite_on(&rocm[0], &Filter::op(PROJECTED));
        let families = [Family::Matmul, Family::Attention, Family::AttentionDecode];
        executed::check(standin, "gfx1030", &families, &[]);
        let families = [Family::MmaUnit, Family::MatmulMma, Family::AttentionMma, Family::QlinearMma];
        executed::check(standin, "gfx942", &families, &[]);
    });
}

#[test]
fn products_on_gfx906_and_gfx1100() {
    products_on("products_on_gfx906_and_gfx1100", ["gfx906", "gfx1100"], Some(3), |_, _| ());
}
