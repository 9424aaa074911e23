//! NaN and infinities in keys and values that most queries do not see: they reach no other row.
use super::super::Suite;
use super::super::data::values_of;
use super::super::draft::CaseBuilder;
use super::super::index::sentinel;
use super::super::placement::Placement;
use super::ragged::{Cache, HEADS, Heads, Lengths, plain_cache, plain_varlen};
use super::{draft, placed};
use ops_core::DType;
use serde_json::{Value, json};

/// The options of a mask, and the keys to fill, counted from the end of their sequence.
type Mask = (&'static [&'static str], [usize; 2]);

/// The last key is seen by the last query only, the one before it by the last two; in a window, a key before them by a few.
const MASKS: [Mask; 3] = [(&["causal"], [1, 2]), (&["causal", "left"], [1, 9]), (&["left", "right"], [2, 9])];

fn with(mut draft: CaseBuilder, words: &[&str]) -> CaseBuilder {
    let limit = |word, limit: usize| if words.contains(&word) { json!(limit) } else { Value::Null };
    if words.contains(&"causal") {
        draft = draft.param("causal", true);
    }
    let window = json!([limit("left", 5), limit("right", 1)]);
    if window == json!([null, null]) { draft } else { draft.param("window", window) }
}

/// Each operand that is filled, and what with.
const FILLS: [(&str, f64); 3] = [("k", f64::NAN), ("v", f64::NAN), ("v", f64::INFINITY)];

/// Runs the case with the elements of an operand for which `is_filled` is true replaced.
fn run(s: &mut Suite<'_>, draft: impl Fn() -> CaseBuilder, is_filled: impl Fn(&str, usize) -> bool) {
    for (name, value) in FILLS {
        let mut draft = draft().note(&format!("{value} in {name}, mostly unseen"));
        let element = values_of(draft.dtype(), &[value]);
        let Some(operand) = draft.case().operand_mut(name) else { continue };
        for (at, position) in operand.layout.positions().enumerate() {
            if is_filled(name, at) {
                operand.array.element_mut(position).copy_from_slice(element.element(0));
            }
        }
        s.run(draft);
    }
}

pub(super) fn cases(s: &mut Suite<'_>, dtype: DType) {
    // Few queries and many, features for every kind of kernel, parts of keys for threads.
    for dims in [
        [1, 2, 1, 4, 40, 32],
        [1, 1, 1, 2, 40, 128],
        [1, 2, 1, 40, 40, 32],
        [2, 2, 2, 40, 45, 72],
        [1, 1, 1, 40, 40, 160],
        [1, 1, 1, 3, 1500, 64],
    ] {
        let [b, h, _, t, keys, d] = dims;
        for (words, filled) in MASKS {
            run(s, || with(draft(dtype, dims, &[]), words), |_, at| filled.contains(&(keys - at / d % keys)));
        }
        // Flags that hide the last key from all queries but every third.
        let flag = |i: usize| f64::from(i % keys + 1 != keys || (i / keys).is_multiple_of(3));
        let flags: Vec<f64> = (0..b * h * t * keys).map(flag).collect();
        let masked = || {
            let draft = placed(dtype, dims, &[], [Placement::Plain; 4], super::NORMAL);
            draft.given("mask", &values_of(DType::U8, &flags), &[b, h, t, keys], Placement::Plain)
        };
        run(s, masked, |_, at| at / d % keys == keys - 1);
    }
}

const LENGTHS: Lengths<'static> = &[[1, 33], [0, 5], [40, 48], [12, 12], [0, 0], [2, 700]];
const WIDE: Heads = Heads { d: 128, dv: 128, ..HEADS };

/// Number of elements of a row of `name`.
fn width(heads: Heads, name: &str) -> usize {
    heads.kv * if name == "k" { heads.d } else { heads.dv }
}

pub(super) fn of_varlen(s: &mut Suite<'_>, dtype: DType) {
    for heads in [HEADS, WIDE] {
        for (words, filled) in MASKS {
            let from_end: Vec<usize> = LENGTHS.iter().flat_map(|[_, keys]| (1..=*keys).rev()).collect();
            let is_filled = |name: &str, at: usize| filled.contains(&from_end[at / width(heads, name)]);
            run(s, || with(plain_varlen(dtype, heads, LENGTHS), words), is_filled);
        }
    }
}

pub(super) fn of_paged(s: &mut Suite<'_>, dtype: DType) {
    for (heads, block) in [(HEADS, 3), (HEADS, 16), (WIDE, 32)] {
        let cache = Cache { lengths: LENGTHS, block, index: DType::U32, shared: false };
        let (table, blocks) = cache.table(sentinel(cache.index));
        for (words, filled) in MASKS {
            let mut rows = vec![false; blocks * block];
            for (row, [_, keys]) in table.chunks(cache.width()).zip(LENGTHS) {
                for j in filled.iter().filter_map(|end| keys.checked_sub(*end)) {
                    rows[row[j / block] as usize * block + j % block] = true;
                }
            }
            let is_filled = |name: &str, at: usize| rows[at / width(heads, name)];
            run(s, || with(plain_cache(dtype, heads, &cache), words), is_filled);
        }
    }
}
