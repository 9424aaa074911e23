//! Routing of tokens to experts, and the weighted sum of the experts' results.
use super::data::{Distribution, NORMAL, Random, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, Suite};
use crate::Array;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        if s.wants("router_topk", dtype) {
            choices(s, dtype);
            options(s, dtype);
            ties(s, dtype);
        }
        if s.wants("combine_experts", dtype) {
            combine(s, dtype);
        }
    }
}

/// Multiples of 1/32, exact in every float type, so that rounding cannot affect choices; with few distinct
/// values, many are equal.
fn steps(dtype: DType, seed: &str, n: usize, values: u64) -> Array {
    let mut random = Random::of(seed);
    let step = |_| (random.next() % values) as f64 / 32.0 - values as f64 / 64.0;
    values_of(dtype, &(0..n).map(step).collect::<Vec<_>>())
}

/// One case of the router.
#[derive(Clone, Copy)]
struct Router {
    dtype: DType,
    /// Numbers of tokens, experts and choices.
    sizes: [usize; 3],
    scoring: &'static str,
    order: &'static str,
    renormalize: bool,
    scale: f64,
    groups: Option<(usize, usize, &'static str)>,
    bias: Option<DType>,
    /// Placements of logits, bias, weights and ids.
    hows: [Placement; 4],
}

impl Router {
    fn new(dtype: DType, sizes: [usize; 3]) -> Self {
        let hows = [Placement::Plain; 4];
        Router {
            dtype,
            sizes,
            scoring: "softmax",
            order: "before",
            renormalize: false,
            scale: 1.0,
            groups: None,
            bias: None,
            hows,
        }
    }
    fn draft(self) -> CaseBuilder {
        let [n, e, _] = self.sizes;
        self.with(&steps(self.dtype, &format!("logits {n} {e}"), n * e, 255))
    }
    fn with(self, given: &Array) -> CaseBuilder {
        let ([n, e, k], [logits, bias, weights, ids]) = (self.sizes, self.hows);
        let draft = CaseBuilder::new("router_topk", self.dtype).param("k", k).param("scoring", self.scoring);
        let draft = draft.param("order", self.order).param("renormalize", self.renormalize);
        let mut draft = draft.param("scale", self.scale);
        if let Some((groups, kept, score)) = self.groups {
            draft = draft.param("groups", groups).param("groups_kept", kept).param("group_score", score);
        }
        draft = draft.given("logits", given, &[n, e], logits);
        if let Some(dtype) = self.bias {
            draft = draft.given("bias", &steps(dtype, &format!("bias {e}"), e, 31), &[e], bias);
        }
        draft.write_as("weights", DType::F32, &[n, k], weights).write_as("ids", DType::U32, &[n, k], ids)
    }
}

fn choices(s: &mut Suite<'_>, dtype: DType) {
    for sizes in [
        [1, 1, 1],
        [3, 8, 2],
        [5, 31, 4],
        [2, 33, 33],
        [9, 64, 6],
        [3, 128, 8],
        [2, 129, 70],
        [1, 512, 10],
        // More than a wave can keep.
        [3, 513, 7],
        [2, 1000, 140],
        [67, 16, 2],
        [0, 8, 2],
        [3, 8, 0],
        [2, 0, 0],
    ] {
        for (scoring, order) in
            [("softmax", "before"), ("softmax", "after"), ("sigmoid", "before"), ("sigmoid", "after")]
        {
            s.run(Router { scoring, order, ..Router::new(dtype, sizes) }.draft());
            s.run(
                Router { scoring, order, renormalize: true, scale: 2.5, ..Router::new(dtype, sizes) }.draft(),
            );
        }
    }
    let router = Router { bias: Some(dtype), ..Router::new(dtype, [5, 40, 6]) };
    for how in IN {
        let [plain, _, weights, ids] = router.hows;
        s.run(Router { hows: [how, plain, weights, ids], ..router }.draft());
        s.run(Router { hows: [plain, how, weights, ids], ..router }.draft());
    }
    for how in OUT {
        let [logits, bias, plain, _] = router.hows;
        s.run(Router { hows: [logits, bias, how, plain], ..router }.draft());
        s.run(Router { hows: [logits, bias, plain, how], ..router }.draft());
    }
}

fn options(s: &mut Suite<'_>, dtype: DType) {
    let every = [("softmax", "before"), ("softmax", "after"), ("sigmoid", "before"), ("sigmoid", "after")];
    for (scoring, order) in every {
        for bias in [None, Some(dtype), Some(DType::F32)] {
            let router = Router { scoring, order, bias, renormalize: true, ..Router::new(dtype, [6, 64, 6]) };
            s.run(router.draft());
            for score in ["top2", "max"] {
                for (groups, kept) in [(8, 3), (4, 1), (8, 8), (32, 5), (64, 12)] {
                    s.run(Router { groups: Some((groups, kept, score)), ..router }.draft());
                }
                // More than a wave can keep.
                let large = Router { groups: Some((10, 4, score)), ..Router::new(dtype, [2, 600, 5]) };
                s.run(Router { scoring, order, bias, ..large }.draft());
            }
        }
    }
    // The defaults.
    let draft = CaseBuilder::new("router_topk", dtype).param("k", 3);
    let draft = draft.given("logits", &steps(dtype, "defaults", 40, 255), &[5, 8], Placement::Plain);
    let draft = draft.write_as("weights", DType::F32, &[5, 3], Placement::Plain);
    s.run(draft.write_as("ids", DType::U32, &[5, 3], Placement::Plain).note("defaults"));
}

fn ties(s: &mut Suite<'_>, dtype: DType) {
    for (scoring, order) in
        [("softmax", "before"), ("softmax", "after"), ("sigmoid", "before"), ("sigmoid", "after")]
    {
        let router = Router { scoring, order, ..Router::new(dtype, [6, 48, 9]) };
        s.run(router.with(&steps(dtype, "few", 6 * 48, 7)).note("many equal"));
        let grouped = Router { groups: Some((12, 5, "top2")), ..router };
        s.run(grouped.with(&steps(dtype, "few", 6 * 48, 7)).note("many equal"));
        s.run(
            Router { groups: Some((12, 5, "max")), ..router }
                .with(&steps(dtype, "few", 6 * 48, 7))
                .note("many equal"),
        );
        let all = values_of(dtype, &vec![0.5; 6 * 48]);
        s.run(router.with(&all).note("all equal"));
        s.run(grouped.with(&all).note("all equal"));
        // Zeros of either sign are equal.
        let zeros: Vec<f64> = (0..6 * 48).map(|i| if i % 3 == 0 { -0.0 } else { 0.0 }).collect();
        s.run(router.with(&values_of(dtype, &zeros)).note("zeros of either sign"));
        // Experts that are ruled out.
        let inf = f64::NEG_INFINITY;
        let out: Vec<f64> =
            (0..6 * 48).map(|i| if i % 4 == 1 { f64::from(i % 13) / 4.0 } else { inf }).collect();
        s.run(router.with(&values_of(dtype, &out)).note("most are -inf"));
    }
    not_finite(s, dtype);
    // Sigmoids that are 1 in f32 are equal, and the lower id comes first.
    let far: Vec<f64> = (0..3 * 8).map(|i| f64::from(20 + i * 5 % 8)).collect();
    let saturated = Router { scoring: "sigmoid", ..Router::new(dtype, [3, 8, 5]) };
    s.run(saturated.with(&values_of(dtype, &far)).note("saturated"));
    // Softmaxes of large logits.
    let large: Vec<f64> = (0..3 * 8).map(|i| f64::from(900 + i * 5 % 8)).collect();
    s.run(Router::new(dtype, [3, 8, 4]).with(&values_of(dtype, &large)).note("large"));
}

/// It is undefined which experts such logits give, but the call must succeed and must not write anything
/// else.
fn not_finite(s: &mut Suite<'_>, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let some: Vec<f64> = (0..6 * 48).map(|i| [nan, 0.5, inf, -inf, 1.0, 0.25, nan][i % 7]).collect();
    for (note, logits) in
        [("some not finite", some), ("all nan", vec![nan; 6 * 48]), ("all -inf", vec![-inf; 6 * 48])]
    {
        for (scoring, order) in [("softmax", "before"), ("softmax", "after"), ("sigmoid", "before")] {
            for groups in [None, Some((12, 5, "top2")), Some((12, 5, "max"))] {
                let router =
                    Router { scoring, order, groups, renormalize: true, ..Router::new(dtype, [6, 48, 9]) };
                s.expect(router.with(&values_of(dtype, &logits)).note(note), Expect::Values(Vec::new()));
            }
        }
    }
}

fn combine(s: &mut Suite<'_>, dtype: DType) {
    let draft = |[n, k, d]: [usize; 3], [x, weights, y]: [Placement; 3]| {
        let draft = CaseBuilder::new("combine_experts", dtype).read("x", &[n, k, d], x, NORMAL);
        let draft = draft.read_as("weights", DType::F32, &[n, k], weights, Distribution::Normal(0.2, 0.2));
        draft.write("y", &[n, d], y)
    };
    let plain = [Placement::Plain; 3];
    for sizes in [
        [1, 1, 1],
        [3, 2, 65],
        [5, 8, 33],
        [4, 8, 128],
        [2, 3, 4097],
        [1, 70, 31],
        [300, 2, 7],
        [0, 2, 5],
        [2, 0, 5],
        [2, 3, 0],
    ] {
        s.run(draft(sizes, plain));
    }
    for operand in 0..3 {
        for how in if operand == 2 { &OUT[..] } else { &IN[..] } {
            let mut hows = plain;
            hows[operand] = *how;
            s.run(draft([3, 4, 33], hows));
            s.run(draft([3, 4, 64], hows));
        }
    }
    // Weights of zero skip an expert; large cancelling terms are summed in f32.
    let x = values_of(dtype, &[1000.0, 1.0, -1000.0, 2.0, 0.25, 4.0]);
    let weights = values_of(DType::F32, &[1.0, 0.5, 1.0]);
    let draft = CaseBuilder::new("combine_experts", dtype).given("x", &x, &[1, 3, 2], Placement::Plain);
    let draft = draft.given("weights", &weights, &[1, 3], Placement::Plain);
    s.run(draft.write("y", &[1, 2], Placement::Plain).note("cancels"));
}
