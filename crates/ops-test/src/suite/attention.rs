//! Attention.
use super::data::{Distribution, NORMAL, values_of};
use super::draft::CaseBuilder;
use super::placement::Placement;
use super::{FLOATS, Suite};
use ops_core::DType;
use serde_json::{Value, json};

mod ragged;
mod unseen;

/// `[b, h, h_kv, t, s, d]`
type Dims = [usize; 6];

fn shapes([b, h, kv, t, s, d]: Dims) -> ([usize; 4], [usize; 4]) {
    ([b, h, t, d], [b, kv, s, d])
}

/// The head axis is inside the token axis, as a projection leaves it.
const THD: Placement = Placement::Order(&[0, 2, 1, 3]);

fn draft(dtype: DType, dims: Dims, params: &[(&str, Value)]) -> CaseBuilder {
    placed(dtype, dims, params, [Placement::Plain; 4], NORMAL)
}

fn placed(
    dtype: DType,
    dims: Dims,
    params: &[(&str, Value)],
    hows: [Placement; 4],
    scores: Distribution,
) -> CaseBuilder {
    let (q, k) = shapes(dims);
    let mut draft = CaseBuilder::new("attention", dtype);
    for (name, value) in params {
        draft = draft.param(name, value.clone());
    }
    let draft = draft.read("q", &q, hows[0], scores).read("k", &k, hows[1], NORMAL);
    draft.read("v", &k, hows[2], NORMAL).write("o", &q, hows[3])
}

pub(super) fn ragged_cases(s: &mut Suite<'_>) {
    ragged::cases(s, [unseen::of_varlen, unseen::of_paged]);
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("attention", FLOATS) {
        sizes(s, dtype);
        layouts(s, dtype);
        options(s, dtype);
        masks(s, dtype);
        numbers(s, dtype);
        unseen::cases(s, dtype);
        wide(s, dtype);
    }
}

/// Values with their own width, sinks and logarithms of the denominators, in kernels for few and many
/// queries.
fn wide(s: &mut Suite<'_>, dtype: DType) {
    let causal = [("causal", json!(true))];
    for (dims, dv) in [
        ([1, 4, 2, 1, 33, 16], 24),
        ([2, 4, 2, 3, 19, 40], 8),
        ([1, 6, 2, 20, 37, 24], 40),
        ([1, 2, 1, 40, 45, 192], 128),
        ([1, 1, 1, 33, 20, 72], 200),
        ([1, 4, 1, 2, 1030, 64], 32),
        ([1, 2, 1, 5, 21, 576], 512),
        // More queries than keys, and no keys at all: rows without a visible key.
        ([1, 2, 1, 6, 4, 16], 24),
        ([1, 2, 1, 70, 3, 64], 33),
        ([1, 2, 2, 3, 0, 8], 5),
        // No values, but denominators; no rows.
        ([1, 2, 1, 3, 5, 8], 0),
        ([1, 2, 1, 0, 5, 8], 7),
    ] {
        for sinks in [false, true] {
            for lse in [false, true] {
                s.run(widened(dtype, (dims, dv), &causal, sinks, lse.then_some(Placement::Plain)));
            }
        }
    }
    // Values are the first features of the keys.
    let (dims, dv) = ([1, 4, 1, 3, 9, 24], 16);
    let mut shared = widened(dtype, (dims, dv), &causal, false, None).note("values within keys");
    let case = shared.case();
    let keys = case.operand("k").map(|k| (k.array.clone(), k.layout.narrow(3, 0, dv)));
    if let (Some((array, Ok(layout))), Some(v)) = (keys, case.operand_mut("v")) {
        (v.array, v.layout) = (array, layout);
    }
    s.run(shared);
    // Sinks are neither scaled nor capped nor hidden, and may exceed every score.
    let strong = values_of(dtype, &[9.0, -3.0, 0.5, 30.0]);
    for (t, keys) in [(2, 9), (33, 40)] {
        let dims = [1, 4, 2, t, keys, 16];
        for params in [
            vec![("scale", json!(0.1)), ("softcap", json!(0.5))],
            vec![("window", json!([1, 0])), ("causal", json!(true))],
        ] {
            for how in [Placement::Plain, Placement::Strided, Placement::Same] {
                let draft = draft(dtype, dims, &params).given("sinks", &strong, &[4], how);
                s.run(draft.write_as("lse", DType::F32, &dims_of_lse(dims), Placement::Strided));
            }
        }
    }
    for how in [Placement::Offset, Placement::Gaps, Placement::Transposed, Placement::Reversed] {
        s.run(widened(dtype, ([2, 4, 2, 5, 9, 16], 24), &causal, true, Some(how)));
        s.run(widened(dtype, ([2, 4, 2, 20, 9, 16], 24), &causal, true, Some(how)));
    }
}

fn dims_of_lse([b, h, _, t, ..]: Dims) -> [usize; 3] {
    [b, h, t]
}

fn widened(
    dtype: DType,
    (dims, dv): (Dims, usize),
    params: &[(&str, Value)],
    sinks: bool,
    lse: Option<Placement>,
) -> CaseBuilder {
    let ([b, h, kv, t, keys, _], (q, k)) = (dims, shapes(dims));
    let mut draft = CaseBuilder::new("attention", dtype);
    for (name, value) in params {
        draft = draft.param(name, value.clone());
    }
    let draft = draft.read("q", &q, Placement::Plain, NORMAL).read("k", &k, Placement::Plain, NORMAL);
    let draft = draft.read("v", &[b, kv, keys, dv], Placement::Plain, NORMAL);
    let draft = if sinks { draft.read("sinks", &[h], Placement::Plain, NORMAL) } else { draft };
    let draft = draft.write("o", &[b, h, t, dv], Placement::Plain);
    match lse {
        Some(how) => draft.write_as("lse", DType::F32, &dims_of_lse(dims), how),
        None => draft,
    }
}

fn sizes(s: &mut Suite<'_>, dtype: DType) {
    for causal in [false, true] {
        let causal = [("causal", json!(causal))];
        for dims in [
            [1, 1, 1, 1, 1, 1],
            [1, 2, 2, 1, 33, 64],
            [2, 4, 2, 5, 9, 32],
            [1, 6, 2, 31, 31, 33],
            [1, 4, 1, 33, 65, 80],
            [1, 2, 1, 65, 130, 128],
            [1, 1, 1, 3, 1025, 64],
            [1, 1, 1, 129, 129, 16],
            [1, 2, 2, 3, 7, 256],
            // Head sizes above 128, which some kernels process in two halves.
            [1, 2, 1, 35, 41, 160],
            [1, 2, 2, 17, 66, 192],
            [1, 1, 1, 70, 37, 256],
            [2, 2, 1, 20, 33, 250],
            // Few queries and many keys, for groups of lanes of every width and one row of a key head or several; the last step
            // has fewer keys than the others.
            [2, 2, 2, 1, 300, 96],
            [1, 2, 2, 1, 150, 200],
            [1, 8, 2, 1, 300, 128],
            [1, 4, 1, 1, 170, 256],
            [1, 6, 2, 2, 270, 64],
            // More queries than keys: the first queries see no key when causal.
            [1, 2, 1, 6, 4, 16],
            [1, 1, 1, 70, 3, 64],
        ] {
            s.run(draft(dtype, dims, &causal));
        }
        for dims in [[0, 2, 2, 3, 3, 8], [2, 2, 1, 0, 3, 8], [1, 2, 2, 3, 0, 8], [1, 0, 0, 3, 3, 8]] {
            s.run(draft(dtype, dims, &causal));
        }
    }
}

fn layouts(s: &mut Suite<'_>, dtype: DType) {
    let causal = [("causal", json!(true))];
    for dims in [[2, 4, 2, 5, 9, 16], [1, 4, 2, 2, 77, 72]] {
        places(s, dtype, dims, &causal);
    }
    s.run(cache(dtype, [2, 4, 2, 3, 11, 32], &causal));
    s.run(cache(dtype, [1, 6, 3, 1, 7, 64], &causal));
}

fn places(s: &mut Suite<'_>, dtype: DType, dims: Dims, causal: &[(&str, Value)]) {
    for how in [
        Placement::Offset,
        Placement::Gaps,
        Placement::Strided,
        Placement::Transposed,
        Placement::Reversed,
        THD,
    ] {
        for operand in 0..4 {
            let mut hows = [Placement::Plain; 4];
            hows[operand] = how;
            s.run(placed(dtype, dims, causal, hows, NORMAL));
        }
    }
    s.run(placed(dtype, dims, causal, [THD; 4], NORMAL));
    s.run(placed(
        dtype,
        dims,
        causal,
        [Placement::Plain, Placement::Repeated, Placement::Same, Placement::Plain],
        NORMAL,
    ));
}

/// Keys and values in a cache that is only partly filled and not read from its start.
fn cache(dtype: DType, dims: Dims, params: &[(&str, Value)]) -> CaseBuilder {
    let [b, _, kv, _, s, d] = dims;
    let (capacity, skip) = (s + 9, 4);
    let mut draft = draft(dtype, dims, params).note("in a cache");
    for name in ["k", "v"] {
        let mut whole =
            CaseBuilder::new("cache", dtype).read(name, &[b, kv, capacity, d], Placement::Plain, NORMAL);
        let slot = draft.case().operand_mut(name);
        if let (Some(slot), Some(whole)) = (slot, whole.case().operands.pop())
            && let Ok(view) = whole.layout.narrow(2, skip, s)
        {
            (slot.array, slot.layout) = (whole.array, view);
        }
    }
    draft
}

fn options(s: &mut Suite<'_>, dtype: DType) {
    let dims = [1, 4, 2, 9, 13, 32];
    for scale in [0.0, 1.0, 0.3, -0.5] {
        s.run(draft(dtype, dims, &[("scale", json!(scale))]));
    }
    for window in
        [json!([4, 0]), json!([0, 0]), json!([null, 2]), json!([3, null]), json!([2, 3]), json!([100, 100])]
    {
        for causal in [false, true] {
            s.run(draft(dtype, dims, &[("causal", json!(causal)), ("window", window.clone())]));
        }
        // Queries before the first key.
        s.run(draft(dtype, [1, 2, 1, 9, 4, 8], &[("window", window)]));
    }
    s.run(draft(dtype, [1, 1, 1, 70, 200, 16], &[("causal", json!(true)), ("window", json!([17, null]))]));
    // Caps with a strong effect, and one with hardly any.
    for cap in [0.5, 2.0, 50.0] {
        s.run(draft(dtype, dims, &[("softcap", json!(cap))]));
        s.run(draft(dtype, dims, &[("softcap", json!(cap)), ("causal", json!(true)), ("scale", json!(1.0))]));
    }
    let slopes = values_of(dtype, &[0.5, 0.25, 0.125, 0.0625]);
    for causal in [false, true] {
        for how in [Placement::Plain, Placement::Strided, Placement::Same] {
            let draft = draft(dtype, dims, &[("causal", json!(causal))]).given("alibi", &slopes, &[4], how);
            s.run(draft);
        }
    }
    // ALiBi is added after the cap: if capped too, the scores would be smaller.
    let steep = values_of(dtype, &[4.0, 2.0, 1.0, 0.5]);
    s.run(draft(dtype, dims, &[("softcap", json!(1.0))]).given("alibi", &steep, &[4], Placement::Plain));
}

fn masks(s: &mut Suite<'_>, dtype: DType) {
    // Few queries, and enough for kernels that process tiles. The mask ends with its last query.
    masks_of(s, dtype, [2, 4, 2, 5, 9, 16]);
    masks_of(s, dtype, [1, 2, 1, 20, 33, 16]);
}

fn masks_of(s: &mut Suite<'_>, dtype: DType, dims: Dims) {
    let [b, h, _, t, keys, _] = dims;
    let n = b * h * t * keys;
    let visible: Vec<f64> = (0..n).map(|i| f64::from((i * 7 + i / 9) % 3 != 0)).collect();
    // In some rows nothing is visible.
    let empty_rows: Vec<f64> = (0..n).map(|i| if i / keys % 4 == 0 { 0.0 } else { visible[i] }).collect();
    let additive: Vec<f64> = (0..n).map(|i| ((i * 5 % 17) as f64 - 8.0) / 4.0).collect();
    let hiding: Vec<f64> = empty_rows
        .iter()
        .zip(&additive)
        .map(|(v, a)| if *v == 0.0 { f64::NEG_INFINITY } else { *a })
        .collect();

    for (word, dtype_of_mask, values) in [
        ("flags", DType::U8, &visible),
        ("flags, empty rows", DType::U8, &empty_rows),
        ("additive", dtype, &additive),
        ("hiding, empty rows", dtype, &hiding),
    ] {
        let mask = values_of(dtype_of_mask, values);
        for params in [
            &[][..],
            &[("causal", json!(true))],
            &[("causal", json!(true)), ("softcap", json!(0.5))],
            &[("window", json!([3, 1])), ("scale", json!(0.4))],
        ] {
            let draft = draft(dtype, dims, params)
                .given("mask", &mask, &[b, h, t, keys], Placement::Plain)
                .note(word);
            s.run(draft);
        }
        for how in
            [Placement::Strided, Placement::Transposed, Placement::Gaps, Placement::Repeated, Placement::Same]
        {
            let draft = draft(dtype, dims, &[]).given("mask", &mask, &[b, h, t, keys], how);
            s.run(draft.note(word));
        }
    }
    // Any flag other than 0 means visible.
    let flags: Vec<f64> = visible.iter().enumerate().map(|(i, v)| v * (1 + i % 255) as f64).collect();
    let draft = draft(dtype, dims, &[]).given(
        "mask",
        &values_of(DType::U8, &flags),
        &[b, h, t, keys],
        Placement::Plain,
    );
    s.run(draft.note("flags of all values"));
}

fn numbers(s: &mut Suite<'_>, dtype: DType) {
    let causal = [("causal", json!(true))];
    // Scores up to several hundred: exp overflows unless the maximum is subtracted.
    let draft = |scores, dims| placed(dtype, dims, &causal, [Placement::Plain; 4], scores);
    s.run(draft(Distribution::Normal(0.0, 60.0), [1, 2, 1, 7, 19, 64]).note("large scores"));
    s.run(draft(Distribution::Normal(20.0, 1.0), [1, 2, 1, 7, 300, 64]).note("large scores"));
    // Equal scores over many keys: low-precision sums stop growing.
    s.run(draft(Distribution::Between(0.0, 0.0), [1, 1, 1, 2, 4097, 8]).note("equal scores"));
}
