//! Files that are not cases, cases that contradict themselves, and forms that do not occur in the recorded cases.
use super::steps;
use ops_test::golden::{CaseResult, FileError, Golden, Status};
use rocm_ops::ops::{ActivationMethods, UnaryFn};
use rocm_ops::{Backend as _, Reference};
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use serde_json::json;
use std::collections::HashMap;
use std::path::Path;

/// A file in memory: tensors by name with type, shape and bytes, and metadata.
#[derive(Clone)]
pub(super) struct CaseBuilder {
    tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
    metadata: HashMap<String, String>,
}

impl CaseBuilder {
    pub(super) fn new(op: &str, dtype: &str, params: serde_json::Value) -> Self {
        let words = [("op", op.to_owned()), ("dtype", dtype.to_owned()), ("params", params.to_string())];
        CaseBuilder { tensors: Vec::new(), metadata: words.map(|(k, v)| (k.to_owned(), v)).into() }
    }
    pub(super) fn raw(mut self, key: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) -> Self {
        self.tensors.push((key.into(), dtype, shape.to_vec(), bytes));
        self
    }
    pub(super) fn f32(self, key: &str, shape: &[usize], values: &[f32]) -> Self {
        self.raw(key, Dtype::F32, shape, bytemuck::cast_slice(values).to_vec())
    }
    pub(super) fn f64(self, key: &str, shape: &[usize], values: &[f64]) -> Self {
        self.raw(key, Dtype::F64, shape, bytemuck::cast_slice(values).to_vec())
    }
    pub(super) fn meta(mut self, key: &str, value: impl ToString) -> Self {
        self.metadata.insert(key.into(), value.to_string());
        self
    }
    fn bytes(&self) -> Vec<u8> {
        let views = self.tensors.iter().map(|(name, dtype, shape, bytes)| {
            (name.clone(), TensorView::new(*dtype, shape.clone(), bytes).expect("a tensor"))
        });
        safetensors::serialize(views, Some(self.metadata.clone())).expect("a file")
    }
    fn replay(&self) -> CaseResult {
        Golden::parse(&self.bytes()).expect("a case").replay(&Reference::new())
    }
}

fn neg() -> CaseBuilder {
    CaseBuilder::new("neg", "f32", json!({})).f32("in.x", &[2], &[1.0, -2.0]).f64("out.y", &[2], &[-1.0, 2.0])
}

#[test]
fn a_right_result_passes_and_a_wrong_one_is_named() {
    assert_eq!(neg().meta("limit.y", "exact").replay().status, Status::Ok);
    let wrong = CaseBuilder::new("neg", "f32", json!({})).f32("in.x", &[2], &[1.0, -2.0]);
    let wrong = wrong.f64("out.y", &[2], &[-1.0, 2.5]).meta("limit.y", "exact").replay();
    assert_eq!(wrong.to_string(), "neg f32 [2] fail y[1] is 2.0, wanted 2.5");
}

#[test]
fn a_limit_is_needed_and_must_be_one() {
    assert_eq!(neg().replay().status, Status::Error);
    for nonsense in ["NaN", "inf", "-1", "loose"] {
        assert_eq!(neg().meta("limit.y", nonsense).replay().status, Status::Error, "{nonsense}");
    }
}

#[test]
fn ops_and_types_that_core_lacks_are_unsupported() {
    let other =
        CaseBuilder::new("histogram", "f32", json!({"axis": -1})).f32("in.x", &[2], &[1.0, 2.0]).replay();
    assert_eq!(other.to_string(), "histogram f32 [2] unsupported `histogram` is not an op of this build");
    let other = CaseBuilder::new("neg", "c64", json!({})).replay();
    assert_eq!((other.status, other.shape.len()), (Status::Unsupported, 0));
    let exp = CaseBuilder::new("exp", "i32", json!({})).raw("in.x", Dtype::I32, &[1], vec![0; 4]);
    let exp = exp.raw("out.y", Dtype::I32, &[1], vec![0; 4]).meta("limit.y", "exact").replay();
    assert_eq!(exp.status, Status::Unsupported);
}

/// The reason why a case is unsupported.
fn unsupported(draft: &CaseBuilder) -> String {
    let result = draft.replay();
    assert_eq!(result.status, Status::Unsupported, "{result}");
    result.reason.expect("a reason")
}

#[test]
fn an_unknown_parameter_is_not_ignored() {
    let case = |params| neg().meta("limit.y", "exact").meta("params", params);
    assert_eq!(unsupported(&case(json!({"axis": 0}))), "`neg` of this build has no parameter `axis`");
    assert_eq!(unsupported(&case(json!({"axis": null}))), "`neg` of this build has no parameter `axis`");
}

#[test]
fn an_unknown_operand_is_not_ignored() {
    let case = || neg().meta("limit.y", "exact");
    let read = case().f32("in.sinks", &[1], &[0.0]);
    assert_eq!(unsupported(&read), "`neg` of this build has no operand `sinks`");
    let written = case().f64("out.lse", &[2], &[-1.0, 2.0]).meta("limit.lse", "exact");
    assert_eq!(unsupported(&written), "`neg` of this build has no operand `lse`");
    let all = written.f32("in.sinks", &[1], &[0.0]).meta("params", json!({"axis": 0}));
    let reason = "`neg` of this build has no operand `sinks`, operand `lse`, parameter `axis`";
    assert_eq!(unsupported(&all), reason);
    // Operands that other ops broadcast.
    let others = case().f32("in.a", &[3], &[0.0; 3]).f32("in.b", &[5], &[0.0; 5]);
    assert_eq!(unsupported(&others), "`neg` of this build has no operand `a`, operand `b`");
}

#[test]
fn an_input_that_the_op_would_have_to_write_is_not_ignored() {
    let one = |case: CaseBuilder, name: &str| case.f32(name, &[1, 1], &[3.0]);
    let case = one(one(CaseBuilder::new("add_rms_norm", "f32", json!({"eps": 0.0})), "in.x"), "in.residual");
    let case = case.f32("in.weight", &[1], &[1.0]).f64("out.y", &[1, 1], &[1.0]).meta("limit.y", 1e-11);
    let case = case.f64("out.sum", &[1, 1], &[6.0]).meta("limit.sum", 1e-11);
    assert_eq!(case.replay().status, Status::Ok);
    let case = case.f64("out.residual", &[1, 1], &[3.0]).meta("limit.residual", "exact");
    assert_eq!(unsupported(&case), "`add_rms_norm` of this build does not write operand `residual`");
}

#[test]
fn tensors_and_views_in_no_known_form_are_not_ignored() {
    let case = || neg().meta("limit.y", "exact");
    for name in ["state", "inout.state", "scratch.x"] {
        assert_eq!(
            unsupported(&case().f32(name, &[1], &[0.0])),
            format!("tensor `{name}` is neither `in.` nor `out.`")
        );
    }
    let view = json!({"shape": [2], "strides": [1], "offset": 0, "modulo": 2});
    assert_eq!(unsupported(&case().meta("view.in.x", view)), "in.x: view: `modulo` is not known");
}

#[test]
fn unknown_words_and_types_are_named() {
    let cast = |to: &str| {
        let case = CaseBuilder::new("cast", "f32", json!({"to": to})).f32("in.x", &[1], &[1.0]);
        case.f64("out.y", &[1], &[1.0]).meta("limit.y", "exact")
    };
    assert_eq!(cast("f64").replay().status, Status::Ok);
    assert_eq!(unsupported(&cast("f4e2m1")), "`to` is `f4e2m1`, which this build does not know");

    let u8 = Dtype::U8;
    let quantize = |format: &str, dtype| {
        let case =
            CaseBuilder::new("quantize", dtype, json!({"format": format})).f32("in.x", &[1, 32], &[0.0; 32]);
        case.raw("out.y", u8, &[1, 34], vec![0; 34]).meta("limit.y", "exact")
    };
    assert_eq!(quantize("q8_0", "f32").replay().status, Status::Ok);
    assert_eq!(unsupported(&quantize("q9_9", "f32")), "`format` is `q9_9`, which this build does not know");
    assert_eq!(unsupported(&quantize("q8_0", "f16")), "`quantize` is not available in f16");
    let dequantize = CaseBuilder::new("dequantize", "bf16", json!({"format": "q8_0"}));
    let dequantize = dequantize.raw("in.x", u8, &[1, 34], vec![0; 34]);
    let dequantize = dequantize.f64("out.y", &[1, 32], &[0.0; 32]).meta("limit.y", "exact");
    assert_eq!(unsupported(&dequantize), "`dequantize` is not available in bf16");

    let stored = neg().meta("limit.y", "exact").raw("in.z", Dtype::F8_E5M2, &[1], vec![0]);
    assert_eq!(unsupported(&stored), "z: not available in F8_E5M2");
    let mixed = CaseBuilder::new("add", "f32", json!({})).f32("in.a", &[1], &[1.0]).f64("in.b", &[1], &[1.0]);
    let mixed = mixed.f64("out.y", &[1], &[2.0]).meta("limit.y", 1e-11);
    assert_eq!(unsupported(&mixed), "`add` in f32 takes `b` in f32, not in f64");
}

/// A recorded case of every op, read from files.
fn recorded_cases() -> HashMap<String, CaseBuilder> {
    let mut drafts = HashMap::new();
    for set in ["golden", "golden-2"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(set);
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths.iter().filter(|p| p.extension().is_some_and(|e| e == "safetensors")) {
            let bytes = std::fs::read(path).unwrap();
            let (file, (_, header)) =
                (SafeTensors::deserialize(&bytes).unwrap(), SafeTensors::read_metadata(&bytes).unwrap());
            let metadata = header.metadata().clone().unwrap();
            let op = metadata["op"].clone();
            if drafts.contains_key(&op)
                || Golden::parse(&bytes).unwrap().replay(&Reference::new()).status != Status::Ok
            {
                continue;
            }
            let tensors =
                file.iter().map(|(name, t)| (name.into(), t.dtype(), t.shape().to_vec(), t.data().to_vec()));
            drafts.insert(op, CaseBuilder { tensors: tensors.collect(), metadata });
        }
    }
    drafts
}

/// Cases of the ops that no recorded case runs.
fn generated_cases() -> impl Iterator<Item = CaseBuilder> {
    let rope = |op| {
        let case = CaseBuilder::new(op, "f32", json!({})).f32("in.x", &[1, 1, 1, 2], &[3.0, 4.0]);
        let case = case.f32("in.cos", &[1, 1], &[1.0]).f32("in.sin", &[1, 1], &[0.0]);
        case.f64("out.x", &[1, 1, 1, 2], &[3.0, 4.0]).meta("limit.x", "exact")
    };
    let y = |case: CaseBuilder| case.f64("out.y", &[1], &[0.0]).meta("limit.y", "exact");
    let x = |op, params| CaseBuilder::new(op, "f32", params).f32("in.x", &[1], &[0.0]);
    let affine = x("affine_inplace", json!({"mul": 2.0, "add": 0.0}));
    let others = [
        y(CaseBuilder::new("geglu", "f32", json!({})).f32("in.gate", &[1], &[0.0]).f32(
            "in.up",
            &[1],
            &[0.0],
        )),
        y(CaseBuilder::new("fill", "f32", json!({"value": 0.0}))),
        affine.f64("out.x", &[1], &[0.0]).meta("limit.x", "exact"),
        ["x", "gate", "up"]
            .iter()
            .fold(CaseBuilder::new("linear_swiglu", "f32", json!({})), |case, name| {
                case.f32(&format!("in.{name}"), &[1, 1], &[0.0])
            })
            .f64("out.y", &[1, 1], &[0.0])
            .meta("limit.y", "exact"),
        // Of the words 0x844515e1 and 0xf08d6eaa, which another implementation of Philox gives.
        CaseBuilder::new("random_uniform", "f32", json!({"seed": 0}))
            .f64(
                "out.y",
                &[2],
                &[
                    f64::from(0x844515u32) / f64::from(1u32 << 24),
                    f64::from(0xf08d6eu32) / f64::from(1u32 << 24),
                ],
            )
            .meta("limit.y", "exact"),
        CaseBuilder::new("random_normal", "f32", json!({"seed": 0}))
            .f64("out.y", &[2], &[1.1202434188318223, -0.44632233830327483])
            .meta("limit.y", 1e-13),
        CaseBuilder::new("cumprod", "f32", json!({"axis": 0}))
            .f32("in.x", &[3], &[2.0, -0.5, 3.0])
            .f64("out.y", &[3], &[2.0, -1.0, -3.0])
            .meta("limit.y", 1e-10),
        CaseBuilder::new("arange", "f32", json!({"start": 0.1, "step": 0.1}))
            .f64("out.y", &[2], &[f64::from(0.1f32), f64::from(0.2f32)])
            .meta("limit.y", "exact"),
        rope("rope_inplace"),
        rope("rope_i_inplace"),
        rope("rope_thd_inplace"),
    ];
    UnaryFn::ALL.into_iter().map(unary_case).chain(others).chain(cases_of_bits()).chain(steps::cases())
}

/// Bitwise functions, and functions of truth values.
fn cases_of_bits() -> impl Iterator<Item = CaseBuilder> {
    use Dtype::{I32, U8};
    let bytes = |v: i32| v.to_le_bytes().to_vec();
    let integers = ["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"];
    let integers = integers.into_iter().zip([2, 7, 5, 48, 0]).map(move |(op, y)| {
        let case = CaseBuilder::new(op, "i32", json!({})).raw("in.a", I32, &[1], bytes(6));
        case.raw("in.b", I32, &[1], bytes(3)).raw("out.y", I32, &[1], bytes(y))
    });
    let not = CaseBuilder::new("bitwise_not", "i32", json!({})).raw("in.x", I32, &[1], bytes(6));
    let not = not.raw("out.y", I32, &[1], bytes(-7));
    let truths = [("logical_and", 0), ("logical_or", 1), ("logical_xor", 1)].into_iter().map(|(op, y)| {
        let case = CaseBuilder::new(op, "f32", json!({})).f32("in.a", &[1], &[2.0]).f32("in.b", &[1], &[0.0]);
        case.raw("out.y", U8, &[1], vec![y])
    });
    let false_ = CaseBuilder::new("logical_not", "f32", json!({})).f32("in.x", &[1], &[2.0]);
    let false_ = false_.raw("out.y", U8, &[1], vec![0]);
    integers.chain([not, false_]).chain(truths).map(|case| case.meta("limit.y", "exact"))
}

/// A function of one number, with the result that the replay should give.
fn unary_case(f: UnaryFn) -> CaseBuilder {
    let b = Reference::new();
    let x = b.tensor(&[1], &[0.5f32]).unwrap();
    let y = b.unary(x.as_ref(), f).unwrap().as_ref().to_vec(&b).unwrap();
    let case = CaseBuilder::new(f.name(), "f32", json!({})).f32("in.x", &[1], &[0.5]);
    case.f64("out.y", &[1], &[f64::from(y[0])]).meta("limit.y", 1e-10)
}

#[test]
fn no_op_ignores_an_operand_or_a_parameter() {
    let mut drafts = recorded_cases();
    for draft in generated_cases() {
        assert_eq!(draft.replay().status, Status::Ok, "{}", draft.replay());
        drafts.entry(draft.metadata["op"].clone()).or_insert(draft);
    }
    let missing: Vec<_> = ops_test::op_names().filter(|op| !drafts.contains_key(*op)).collect();
    assert!(missing.is_empty(), "no case of {missing:?}");
    for (op, draft) in drafts {
        let read = draft.clone().f32("in.unheard_of", &[1], &[0.0]);
        assert_eq!(unsupported(&read), format!("`{op}` of this build has no operand `unheard_of`"));
        let written = draft.clone().f64("out.unheard_of", &[1], &[0.0]).meta("limit.unheard_of", "exact");
        assert_eq!(unsupported(&written), format!("`{op}` of this build has no operand `unheard_of`"));
        let mut params: serde_json::Value = serde_json::from_str(&draft.metadata["params"]).unwrap();
        params["unheard_of"] = json!(0);
        let option = draft.meta("params", params);
        assert_eq!(unsupported(&option), format!("`{op}` of this build has no parameter `unheard_of`"));
    }
}

#[test]
fn views_that_lead_outside_are_errors() {
    let views = [
        ("view.in.x", json!({"shape": [2], "strides": [1], "offset": 1})),
        ("view.in.x", json!({"shape": [1, 2], "strides": [1], "offset": 0})),
        ("view.in.x", json!({"shape": [2], "strides": [i64::MAX], "offset": u64::MAX})),
        ("view.in.x", json!({"shape": [1u64 << 40, 1u64 << 40], "strides": [0, 0], "offset": 0})),
        ("view.in.x", json!({"shape": [1u64 << 40], "strides": [0], "offset": 0})),
        ("view.in.x", json!({"shape": "many"})),
        ("view.out.y", json!({"shape": [2], "strides": [1], "offset": 0, "len": 1})),
        ("view.out.y", json!({"shape": [2], "strides": [1], "offset": 0, "len": 1u64 << 60})),
        ("view.out.y", json!({"shape": [2], "strides": [0], "offset": 0, "len": 4})),
        ("view.out.y", json!({"shape": [3], "strides": [1], "offset": 0, "len": 4})),
    ];
    for (key, view) in views {
        let result = neg().meta("limit.y", "exact").meta(key, &view).replay();
        assert_eq!(result.status, Status::Error, "{key} {view}: {result}");
    }
}

#[test]
fn damaged_files_are_errors() {
    let whole = neg().meta("limit.y", "exact").bytes();
    for cut in 0..whole.len() {
        assert!(Golden::parse(&whole[..cut]).is_err(), "{cut} bytes of {}", whole.len());
    }
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        if let Ok(golden) = Golden::parse(&flipped) {
            golden.replay(&Reference::new());
        }
    }
    assert!(matches!(Golden::load("no such file"), Err(FileError::Io(_))));
    let nameless = safetensors::serialize(Vec::<(String, TensorView<'_>)>::new(), None).unwrap();
    assert!(matches!(Golden::parse(&nameless), Err(FileError::Metadata(_))));
}

#[test]
fn absent_operands_are_errors() {
    let case = CaseBuilder::new("add", "f32", json!({})).f32("in.a", &[1], &[1.0]).f64("out.y", &[1], &[1.0]);
    assert_eq!(case.meta("limit.y", "exact").replay().status, Status::Error);
    assert_eq!(CaseBuilder::new("neg", "f32", json!({})).replay().status, Status::Error);
}

#[test]
fn in_place_forms_are_known_by_their_output() {
    let case = |op| {
        let case = CaseBuilder::new(op, "f32", json!({"mul": 2.0, "add": 1.0}));
        case.f32("in.x", &[4], &[1.0, 9.0, 2.0, 9.0]).f64("out.x", &[2], &[3.0, 5.0]).meta("limit.x", 1e-11)
    };
    let view = json!({"shape": [2], "strides": [2], "offset": 0});
    for op in ["affine", "affine_inplace"] {
        let result = case(op).meta("view.in.x", &view).replay();
        assert_eq!(result.status, Status::Ok, "{result}");
    }
}

#[test]
fn biases_of_another_type_are_given_in_one_that_is_offered() {
    let half =
        |v: &[f32]| v.iter().flat_map(|v| rocm_ops::f16::from_f32(*v).to_le_bytes()).collect::<Vec<u8>>();
    let case = |bias: f64| {
        let case = CaseBuilder::new("linear", "f32", json!({})).f32("in.x", &[1, 1], &[3.0]);
        let case = case.raw("in.weight", Dtype::F16, &[1, 1], half(&[0.5]));
        case.f64("in.bias", &[1], &[bias])
            .f64("out.y", &[1, 1], &[1.5 + bias])
            .meta("limit.y", 1e-10)
            .replay()
    };
    assert_eq!(case(0.25).status, Status::Ok);
    assert_eq!(case(0.1).status, Status::Unsupported, "f32 cannot represent 0.1");
}

#[test]
fn blocks_are_bytes_in_either_shape() {
    use rocm_ops::quant::{Block as _, BlockQ8_0, Encode};
    let values: Vec<f32> = (0..64).map(|i| i as f32 - 31.5).collect();
    let blocks: Vec<BlockQ8_0> = values.chunks(32).map(BlockQ8_0::quantize).collect();
    let bytes = bytemuck::cast_slice::<_, u8>(&blocks).to_vec();
    let mut exact = [0f32; 64];
    blocks.iter().zip(exact.chunks_mut(32)).for_each(|(b, e)| b.dequantize(e));
    let exact = exact.map(f64::from);
    let u8 = Dtype::U8;

    for shape in [&[1, 68][..], &[1, 2, 34]] {
        let case =
            CaseBuilder::new("quantize", "f32", json!({"format": "q8_0"})).f32("in.x", &[1, 64], &values);
        let case = case.raw("out.y", u8, shape, bytes.clone()).meta("limit.y", "exact").replay();
        assert_eq!(case.status, Status::Ok, "{case}");

        let case = CaseBuilder::new("dequantize", "q8_0", json!({})).raw("in.x", u8, shape, bytes.clone());
        let case = case.f64("out.y", &[1, 64], &exact).meta("limit.y", "exact").replay();
        assert_eq!(case.status, Status::Ok, "{case}");

        let case =
            CaseBuilder::new("qlinear", "f32", json!({"format": "q8_0"})).f32("in.x", &[1, 64], &[1.0; 64]);
        let case = case.raw("in.weight", u8, shape, bytes.clone());
        let case = case.f64("out.y", &[1, 1], &[exact.iter().sum()]).meta("limit.y", 1e-10).replay();
        assert_eq!(case.status, Status::Ok, "{case}");
    }
    let case =
        CaseBuilder::new("qembedding", "f32", json!({"format": "q8_0"})).raw("in.table", u8, &[2, 34], bytes);
    let case = case.raw("in.ids", Dtype::U32, &[1], vec![1, 0, 0, 0]);
    let case = case.f64("out.y", &[1, 32], &exact[32..]).meta("limit.y", 1e-11).replay();
    assert_eq!(case.status, Status::Ok, "{case}");
}
