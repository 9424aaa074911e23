//! Ops that select by index: sentinels and indices out of range.
use super::copy::elements;
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{Expect, INDICES, Suite};
use crate::Array;
use ops_core::DType;

/// The value that means "no element".
pub(super) fn sentinel(dtype: DType) -> i64 {
    match dtype {
        DType::U8 => u8::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::I32 => i32::MAX.into(),
        _ => i64::MAX,
    }
}

/// Indices as an array. Integers beyond 2⁵³ are converted without going through f64.
pub(super) fn ids(dtype: DType, values: &[i64]) -> Array {
    match Array::from_slice(values) {
        Ok(wide) if dtype == DType::I64 => wide,
        _ => values_of(dtype, &values.iter().map(|v| *v as f64).collect::<Vec<_>>()),
    }
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("index_select", elements()) {
        for index in INDICES {
            select(s, dtype, index);
            outside(s, dtype, index);
        }
    }
}

fn draft(dtype: DType, dims: &[usize], axis: isize, ids: &Array, [x, i, y]: [Placement; 3]) -> CaseBuilder {
    let at = if axis < 0 { dims.len().wrapping_add_signed(axis) } else { axis as usize };
    let mut out = dims.to_vec();
    out[at] = ids.len();
    let draft =
        CaseBuilder::new("index_select", dtype).param("axis", axis).read("x", dims, x, Distribution::Bits);
    draft.given("ids", ids, &[ids.len()], i).write("y", &out, y)
}

fn select(s: &mut Suite<'_>, dtype: DType, index: DType) {
    let plain = [Placement::Plain; 3];
    let none = sentinel(index);
    // With repeats, and with "no element" at both ends.
    let some = ids(index, &[none, 3, 0, 2, 2, 4, none, 1, none]);
    for n in [1, 33, 127] {
        s.run(draft(dtype, &[5, n], 0, &some, plain));
    }
    s.run(draft(dtype, &[5, 4097], 0, &ids(index, &[4, 0]), plain));
    for (dims, axis) in
        [(&[5][..], 0), (&[3, 5], 1), (&[3, 5, 7], 1), (&[3, 7, 5], -1), (&[5, 2, 3, 1, 2, 2], 0)]
    {
        s.run(draft(dtype, dims, axis, &some, plain));
    }
    let many: Vec<i64> = (0..300).map(|i| i * 7 % 5).collect();
    s.run(draft(dtype, &[5, 3], 0, &ids(index, &many), plain));
    let nothing = ids(index, &[none, none]);
    for dims in [&[0, 4][..], &[4, 0], &[3, 2]] {
        s.run(draft(dtype, dims, 0, &nothing, plain));
    }
    s.run(draft(dtype, &[5, 7], 0, &ids(index, &[]), plain));
    for how in IN {
        s.run(draft(dtype, &[5, 3, 33], 0, &some, [how, Placement::Plain, Placement::Plain]));
        s.run(draft(dtype, &[3, 5, 33], 1, &some, [how, Placement::Plain, Placement::Plain]));
    }
    for how in [Placement::Offset, Placement::Strided, Placement::Reversed] {
        s.run(draft(dtype, &[5, 3, 33], 0, &some, [Placement::Plain, how, Placement::Plain]));
    }
    for how in OUT {
        s.run(draft(dtype, &[5, 3, 33], 0, &some, [Placement::Plain, Placement::Plain, how]));
        s.run(draft(dtype, &[3, 5, 33], 1, &some, [Placement::Plain, Placement::Plain, how]));
    }
}

fn outside(s: &mut Suite<'_>, dtype: DType, index: DType) {
    let signed = matches!(index, DType::I32 | DType::I64);
    for wrong in [5, 200].into_iter().chain(signed.then_some(-1)) {
        for (dims, axis) in [(&[5, 33][..], 0), (&[3, 5], 1)] {
            let draft = draft(dtype, dims, axis, &ids(index, &[0, 4, wrong, 1]), [Placement::Plain; 3])
                .note("outside");
            s.expect(draft, Expect::Index { operand: "ids", position: 2, index: wrong, bound: 5 });
        }
    }
}
