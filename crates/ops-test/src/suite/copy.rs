//! Copies, fills and numbers in steps: scalars and blocks of every size with its own code path, and every pair of
//! layouts.
use super::data::Distribution;
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, INTEGERS, LENGTHS, Suite};
use crate::types::{SCALARS, moved_block_types};
use ops_core::DType;

/// The scalar types, and block formats with different code paths for moves.
pub(super) fn elements() -> impl Iterator<Item = DType> {
    SCALARS.into_iter().chain(moved_block_types())
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in elements() {
        if s.wants("copy", dtype) {
            copy(s, dtype);
        }
        if s.wants("fill", dtype) && SCALARS.contains(&dtype) {
            fill(s, dtype);
        }
    }
    for dtype in s.asked("arange", FLOATS.into_iter().chain(INTEGERS)) {
        arange(s, dtype);
    }
}

/// Starts and steps: usual ones; sums that f64 rounds; numbers that a type, or all, cannot represent; and wrapping.
fn arange(s: &mut Suite<'_>, dtype: DType) {
    let json = |v: &str| serde_json::from_str::<serde_json::Value>(v).unwrap_or_else(|_| v.into());
    let integers =
        [("0", "1"), ("5", "-3"), ("100", "7"), ("9223372036854775800", "9007199254740993"), ("-1", "0")];
    let floats = [
        ("0.1", "0.1"),
        ("-1e3", "0.3"),
        ("1e-3", "1e-9"),
        ("65500", "0.5"),
        ("1e300", "-1e298"),
        ("inf", "1"),
        ("0", "inf"),
        ("nan", "1"),
    ];
    let floats = floats.into_iter().filter(|_| dtype.is_float());
    for (start, step) in integers.into_iter().chain(floats) {
        let draft = |dims: &[usize], y| {
            let draft = CaseBuilder::new("arange", dtype).param("start", json(start));
            draft.param("step", json(step)).write("y", dims, y)
        };
        for dims in [&[][..], &[1], &[65], &[4097], &[0], &[3, 0], &[2, 3, 129], &[3, 70_001]] {
            s.run(draft(dims, Placement::Plain));
        }
        for y in OUT {
            s.run(draft(&[3, 4, 33], y));
        }
    }
    s.run(CaseBuilder::new("arange", dtype).write("y", &[300], Placement::Plain).note("as default"));
}

fn copy(s: &mut Suite<'_>, dtype: DType) {
    let draft = |dims: &[usize], x: Placement, y: Placement| {
        CaseBuilder::new("copy", dtype).read("x", dims, x, Distribution::Bits).write("y", dims, y)
    };
    for n in LENGTHS {
        s.run(draft(&[n], Placement::Plain, Placement::Plain));
    }
    for dims in [&[][..], &[0], &[3, 0], &[0, 3], &[2, 1, 3, 2, 2, 5], &[2, 3, 129]] {
        s.run(draft(dims, Placement::Plain, Placement::Plain));
    }
    for x in IN {
        for y in OUT {
            s.run(draft(&[3, 4, 33], x, y));
        }
    }
    // Whole tiles of a transposition, and parts of tiles.
    for dims in [&[2, 37, 70][..], &[130, 65], &[8, 9]] {
        s.run(draft(dims, Placement::Transposed, Placement::Plain));
        s.run(draft(dims, Placement::Transposed, Placement::Offset));
    }
    for (x, y) in
        [(Placement::Order(&[1, 0, 2]), Placement::Plain), (Placement::Plain, Placement::Order(&[0, 2, 1]))]
    {
        s.run(draft(&[5, 31, 33], x, y));
    }
}

fn fill(s: &mut Suite<'_>, dtype: DType) {
    let special = ["nan", "inf", "-inf"].map(serde_json::Value::from);
    let (integers, floats) =
        ([0, 1, 77].map(serde_json::Value::from), [0.1, -2.5].map(serde_json::Value::from));
    let floats = floats.into_iter().chain(special).filter(|_| dtype.is_float());
    for value in integers.into_iter().chain(floats) {
        let draft = |dims: &[usize], y| {
            CaseBuilder::new("fill", dtype).param("value", value.clone()).write("y", dims, y)
        };
        for dims in [&[][..], &[1], &[65], &[4097], &[0], &[3, 0], &[2, 3, 129]] {
            s.run(draft(dims, Placement::Plain));
        }
        for y in OUT {
            s.run(draft(&[3, 4, 33], y));
        }
    }
}
