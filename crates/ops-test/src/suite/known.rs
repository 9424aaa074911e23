//! Known results: small cases computed by hand, in every type.
use super::data::values_of;
use super::draft::CaseBuilder;
use super::placement::Placement;
use super::{Expect, FLOATS, INTEGERS, Suite};
use crate::judge::Want;
use ops_core::{DType, Tolerance};
use serde_json::json;

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// A case computed by hand: add the operands, then the result.
struct Known<'s, 'r> {
    suite: &'s mut Suite<'r>,
    draft: CaseBuilder,
}

impl<'s, 'r> Known<'s, 'r> {
    fn new(suite: &'s mut Suite<'r>, op: &str, dtype: DType) -> Self {
        Known { suite, draft: CaseBuilder::new(op, dtype).note("by hand") }
    }
    fn param(self, name: &str, value: serde_json::Value) -> Self {
        Known { draft: self.draft.param(name, value), ..self }
    }
    fn read(self, name: &str, dims: &[usize], values: &[f64]) -> Self {
        let dtype = self.draft.dtype();
        self.read_as(name, dtype, dims, values)
    }
    fn read_as(self, name: &str, dtype: DType, dims: &[usize], values: &[f64]) -> Self {
        Known { draft: self.draft.given(name, &values_of(dtype, values), dims, Placement::Plain), ..self }
    }
    fn gives(self, name: &str, dims: &[usize], values: &[f64]) {
        let dtype = self.draft.dtype();
        // The results are representable: exact except for the last bits of a sum.
        let tolerance = if dtype.is_float() { Tolerance::attention(dtype) } else { Tolerance::Exact };
        let values = values_of(if dtype.is_float() { DType::F64 } else { dtype }, values);
        let want = Want { name: name.into(), values, tolerance };
        self.suite.expect(self.draft.write(name, dims, Placement::Plain), Expect::Values(vec![want]));
    }
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        functions(s, dtype);
        relations(s, dtype);
        norms(s, dtype);
        softmax(s, dtype);
        ropes(s, dtype);
        attention(s, dtype);
        products(s, dtype);
    }
    for dtype in INTEGERS {
        integers(s, dtype);
    }
}

fn functions(s: &mut Suite<'_>, dtype: DType) {
    for (op, x, y) in [
        ("relu", [NAN, INF, -INF, -1.0, 2.0], [NAN, INF, 0.0, 0.0, 2.0]),
        ("sign", [NAN, INF, -INF, -0.0, 2.0], [0.0, 1.0, -1.0, 0.0, 1.0]),
        ("abs", [NAN, INF, -INF, -0.0, -2.0], [NAN, INF, INF, 0.0, 2.0]),
        ("neg", [NAN, INF, -INF, 3.0, -2.0], [NAN, -INF, INF, -3.0, 2.0]),
        ("round", [0.5, 1.5, 2.5, -0.5, -2.5], [1.0, 2.0, 3.0, -1.0, -3.0]),
        ("floor", [0.5, -0.5, 2.0, NAN, -INF], [0.0, -1.0, 2.0, NAN, -INF]),
        ("ceil", [0.5, -0.5, 2.0, NAN, INF], [1.0, 0.0, 2.0, NAN, INF]),
        ("trunc", [0.5, -1.5, 2.0, NAN, -INF], [0.0, -1.0, 2.0, NAN, -INF]),
        ("recip", [0.0, -0.0, 0.5, INF, NAN], [INF, -INF, 2.0, 0.0, NAN]),
        ("log", [0.0, 1.0, -1.0, INF, NAN], [-INF, 0.0, NAN, INF, NAN]),
        ("softplus", [1000.0, -INF, -2000.0, INF, NAN], [1000.0, 0.0, 0.0, INF, NAN]),
        ("log1p", [0.0, -1.0, -2.0, INF, NAN], [0.0, -INF, NAN, INF, NAN]),
        ("expm1", [0.0, -INF, 2000.0, INF, NAN], [0.0, -1.0, INF, INF, NAN]),
        ("sqrt", [0.0, 4.0, -1.0, INF, NAN], [0.0, 2.0, NAN, INF, NAN]),
        ("exp", [0.0, -INF, 2000.0, INF, NAN], [1.0, 0.0, INF, INF, NAN]),
        ("sigmoid", [0.0, -INF, 2000.0, INF, NAN], [0.5, 0.0, 1.0, 1.0, NAN]),
        ("silu", [0.0, -INF, 200.0, INF, NAN], [0.0, NAN, 200.0, INF, NAN]),
        ("gelu", [0.0, -INF, 200.0, INF, NAN], [0.0, NAN, 200.0, INF, NAN]),
        ("gelu_erf", [0.0, -INF, 200.0, INF, NAN], [0.0, NAN, 200.0, INF, NAN]),
        ("tanh", [0.0, -INF, 200.0, INF, NAN], [0.0, -1.0, 1.0, 1.0, NAN]),
        ("erf", [0.0, -INF, 200.0, INF, NAN], [0.0, -1.0, 1.0, 1.0, NAN]),
        ("sin", [0.0, INF, -INF, -0.0, NAN], [0.0, NAN, NAN, 0.0, NAN]),
        ("cos", [0.0, INF, -INF, -0.0, NAN], [1.0, NAN, NAN, 1.0, NAN]),
        ("sqr", [0.0, -INF, 1.5, INF, NAN], [0.0, INF, 2.25, INF, NAN]),
    ] {
        Known::new(s, op, dtype).read("x", &[5], &x).gives("y", &[5], &y);
    }
    let (a, b) = ([NAN, 1.0, INF, -1.0, 0.0], [1.0, NAN, -INF, 0.0, 0.0]);
    for (op, y) in [
        ("maximum", [NAN, NAN, INF, 0.0, 0.0]),
        ("minimum", [NAN, NAN, -INF, -1.0, 0.0]),
        ("add", [NAN, NAN, NAN, -1.0, 0.0]),
        ("sub", [NAN, NAN, INF, -1.0, 0.0]),
        ("mul", [NAN, NAN, -INF, 0.0, 0.0]),
        ("div", [NAN, NAN, NAN, -INF, NAN]),
        ("pow", [NAN, 1.0, 0.0, 1.0, 1.0]),
    ] {
        Known::new(s, op, dtype).read("a", &[5], &a).read("b", &[5], &b).gives("y", &[5], &y);
    }
}

/// Comparisons of numbers and NaN; the results are u8.
fn relations(s: &mut Suite<'_>, dtype: DType) {
    let (a, b) = ([NAN, 1.0, NAN, INF, -0.0, 1.0, 2.0], [NAN, NAN, 1.0, INF, 0.0, 2.0, 1.0]);
    for (op, y) in [
        ("eq", [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0]),
        ("ne", [1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]),
        ("lt", [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
        ("le", [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0]),
        ("gt", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),
        ("ge", [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0]),
        ("logical_and", [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
        ("logical_or", [1.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0]),
        ("logical_xor", [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ] {
        let known = Known::new(s, op, dtype).read("a", &[7], &a).read("b", &[7], &b);
        let want = Want { name: "y".into(), values: values_of(DType::U8, &y), tolerance: Tolerance::Exact };
        let draft = known.draft.write_as("y", DType::U8, &[7], Placement::Plain);
        known.suite.expect(draft, Expect::Values(vec![want]));
    }
}

fn norms(s: &mut Suite<'_>, dtype: DType) {
    // Root mean square 5, weights 1 and 2.
    Known::new(s, "rms_norm", dtype)
        .param("eps", json!(0.0))
        .read("x", &[1, 2], &[1.0, -7.0])
        .read("weight", &[2], &[5.0, 10.0])
        .gives("y", &[1, 2], &[1.0, -14.0]);
    // eps is inside the root: sqrt(9 + 16) = 5.
    Known::new(s, "rms_norm", dtype)
        .param("eps", json!(16.0))
        .read("x", &[1, 2], &[3.0, -3.0])
        .read("weight", &[2], &[5.0, 5.0])
        .gives("y", &[1, 2], &[3.0, -3.0]);
    // Mean 5, deviation 2.
    Known::new(s, "layer_norm", dtype)
        .param("eps", json!(0.0))
        .read("x", &[1, 2], &[3.0, 7.0])
        .read("weight", &[2], &[2.0, 3.0])
        .read("bias", &[2], &[0.5, 0.25])
        .gives("y", &[1, 2], &[-1.5, 3.25]);
    // Two groups of two channels; weight and bias are per channel.
    Known::new(s, "group_norm", dtype)
        .param("eps", json!(0.0))
        .param("num_groups", json!(2))
        .read("x", &[1, 4, 1], &[3.0, 7.0, -1.0, -9.0])
        .read("weight", &[4], &[1.0, 2.0, 3.0, 4.0])
        .read("bias", &[4], &[0.0, 0.0, 1.0, 1.0])
        .gives("y", &[1, 4, 1], &[-1.0, 2.0, 4.0, -3.0]);
}

fn softmax(s: &mut Suite<'_>, dtype: DType) {
    for (op, flat) in [("softmax", 0.25), ("log_softmax", -(4f64.ln()))] {
        for (x, y) in [([-INF; 4], [NAN; 4]), ([1.0, NAN, 0.0, 0.0], [NAN; 4]), ([2.0; 4], [flat; 4])] {
            let known = Known::new(s, op, dtype).param("axis", json!(-1)).read("x", &[1, 4], &x);
            known.gives("y", &[1, 4], &y);
        }
    }
}

fn ropes(s: &mut Suite<'_>, dtype: DType) {
    // The second row of the tables is a quarter turn: (a, b) becomes (−b, a).
    let (cos, sin) = ([1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]);
    for (op, dims, y) in [
        ("rope", [1, 1, 1, 4], [-3.0, -4.0, 1.0, 2.0]),
        ("rope_i", [1, 1, 1, 4], [-2.0, 1.0, -4.0, 3.0]),
        ("rope_thd", [1, 1, 1, 4], [-3.0, -4.0, 1.0, 2.0]),
    ] {
        let known = Known::new(s, op, dtype).param("start", json!(1)).read("x", &dims, &[1.0, 2.0, 3.0, 4.0]);
        known.read("cos", &[2, 2], &cos).read("sin", &[2, 2], &sin).gives("y", &dims, &y);
    }
}

/// With zero queries all visible keys have equal weight, so the result is the mean of the visible values.
fn attention(s: &mut Suite<'_>, dtype: DType) {
    let values = [1.0, 2.0, 4.0, 8.0];
    let case = |s: &mut Suite<'_>,
                params: &[(&str, serde_json::Value)],
                t: usize,
                mask: Option<&[f64]>,
                o: &[f64]| {
        let mut known = Known::new(s, "attention", dtype);
        for (name, value) in params {
            known = known.param(name, value.clone());
        }
        let known =
            known.read("q", &[1, 1, t, 1], &vec![0.0; t]).read("k", &[1, 1, 4, 1], &[9.0, -3.0, 0.5, 2.0]);
        let mut known = known.read("v", &[1, 1, 4, 1], &values);
        if let Some(mask) = mask {
            known = known.read_as("mask", DType::U8, &[1, 1, t, 4], mask);
        }
        known.gives("o", &[1, 1, t, 1], o);
    };
    let causal = ("causal", json!(true));
    case(s, &[], 1, None, &[3.75]);
    // The last query sees all keys, and each earlier one sees one key fewer.
    case(s, core::slice::from_ref(&causal), 3, None, &[1.5, 7.0 / 3.0, 3.75]);
    case(s, core::slice::from_ref(&causal), 6, None, &[0.0, 0.0, 1.0, 1.5, 7.0 / 3.0, 3.75]);
    case(s, &[("window", json!([1, 0]))], 3, None, &[1.5, 3.0, 6.0]);
    case(s, &[("window", json!([0, 1]))], 4, None, &[1.5, 3.0, 6.0, 8.0]);
    case(s, &[causal, ("window", json!([1, 1]))], 4, None, &[1.0, 1.5, 3.0, 6.0]);
    case(s, &[], 2, Some(&[0.0, 7.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]), &[5.0, 0.0]);

    // Consecutive query heads share keys: 0 and 1 read the first, 2 and 3 the second.
    Known::new(s, "attention", dtype)
        .read("q", &[1, 4, 1, 1], &[1.0, 2.0, 3.0, 4.0])
        .read("k", &[1, 2, 1, 1], &[1.0, 1.0])
        .read("v", &[1, 2, 1, 1], &[5.0, 7.0])
        .gives("o", &[1, 4, 1, 1], &[5.0, 5.0, 7.0, 7.0]);
    // Slope times distance to the query: the farther key has weight e⁻¹⁰⁰.
    Known::new(s, "attention", dtype)
        .read("q", &[1, 1, 1, 1], &[0.0])
        .read("k", &[1, 1, 2, 1], &[0.0, 0.0])
        .read("v", &[1, 1, 2, 1], &[5.0, 7.0])
        .read("alibi", &[1], &[100.0])
        .gives("o", &[1, 1, 1, 1], &[7.0]);
}

fn products(s: &mut Suite<'_>, dtype: DType) {
    let (a, b) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, -1.0, 0.0, 3.0]);
    Known::new(s, "matmul", dtype).read("a", &[2, 3], &a).read("b", &[3, 2], &b).gives(
        "c",
        &[2, 2],
        &[5.0, 7.0, 14.0, 13.0],
    );
    Known::new(s, "linear", dtype)
        .read("x", &[2, 3], &a)
        .read("weight", &[2, 3], &b)
        .read("bias", &[2], &[0.5, -0.5])
        .gives("y", &[2, 2], &[7.5, 7.5, 16.5, 13.5]);
    Known::new(s, "affine", dtype)
        .param("mul", json!(2.0))
        .param("add", json!(3.0))
        .read("x", &[3], &[1.0, -1.0, INF])
        .gives("y", &[3], &[5.0, 1.0, INF]);
    Known::new(s, "swiglu", dtype).read("gate", &[2], &[0.0, 100.0]).read("up", &[2], &[3.0, 3.0]).gives(
        "y",
        &[2],
        &[0.0, 300.0],
    );
}

fn integers(s: &mut Suite<'_>, dtype: DType) {
    let (low, high) = (super::elementwise::bounds(dtype)[0], super::elementwise::bounds(dtype)[1]);
    // f64 cannot represent the ends of the 64-bit range, which are tested elsewhere.
    if dtype == DType::I64 {
        return;
    }
    let both = |s: &mut Suite<'_>, op, a: [f64; 3], b: [f64; 3], y: [f64; 3]| {
        Known::new(s, op, dtype).read("a", &[3], &a).read("b", &[3], &b).gives("y", &[3], &y);
    };
    both(s, "add", [high, low, 1.0], [1.0, 0.0, 2.0], [low, low, 3.0]);
    both(s, "sub", [low, high, 5.0], [1.0, 0.0, 2.0], [high, high, 3.0]);
    both(s, "mul", [high, low, 5.0], [2.0, 2.0, 3.0], [if low < 0.0 { -2.0 } else { high - 1.0 }, 0.0, 15.0]);
    both(s, "div", [7.0, high, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]);
    both(s, "div", [7.0, high, 6.0], [2.0, high, 4.0], [3.0, 1.0, 1.0]);
    if low < 0.0 {
        both(s, "div", [low, -7.0, 7.0], [-1.0, 2.0, -2.0], [low, -3.0, -3.0]);
        Known::new(s, "abs", dtype).read("x", &[3], &[low, -5.0, 5.0]).gives("y", &[3], &[low, 5.0, 5.0]);
        Known::new(s, "neg", dtype).read("x", &[3], &[low, -5.0, 5.0]).gives("y", &[3], &[low, 5.0, -5.0]);
    }
}
