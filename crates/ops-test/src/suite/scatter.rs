//! Ops that read and write elements by index: duplicates, sentinels and indices out of range.
use super::copy::elements;
use super::data::{Distribution, NORMAL, Random, draw};
use super::draft::CaseBuilder;
use super::index::{ids, sentinel};
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INDICES, INTEGERS, Suite};
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["gather", "scatter"] {
        for dtype in s.asked(op, elements()) {
            all(s, op, dtype);
        }
    }
    for op in ["scatter_add", "index_add"] {
        for dtype in s.asked(op, FLOATS.into_iter().chain(INTEGERS)) {
            all(s, op, dtype);
        }
    }
}

/// Extents of the indexed tensor, the axis, and the extents of the indices.
type Sizes = (&'static [usize], isize, &'static [usize]);

const SIZES: [Sizes; 14] = [
    (&[5], 0, &[9]),
    (&[1], 0, &[1]),
    (&[4, 6], 0, &[3, 6]),
    (&[4, 6], 1, &[4, 33]),
    (&[6, 5], -1, &[4, 7]),
    (&[5, 3, 33], 0, &[7, 2, 31]),
    (&[3, 5, 33], 1, &[3, 9, 33]),
    (&[2, 3, 2, 1, 2, 5], 3, &[2, 3, 2, 2, 2, 5]),
    (&[3, 4097], 0, &[2, 4097]),
    (&[7, 2], 0, &[1025, 2]),
    (&[300, 2], 0, &[300, 2]),
    (&[0, 4], 0, &[2, 4]),
    (&[4, 3], 0, &[0, 3]),
    (&[3, 0], 0, &[4, 0]),
];

/// Indices of every kind below `bound`: repeated, and "no element" for one in five.
fn some(index: DType, n: usize, bound: usize) -> Vec<i64> {
    let (mut random, none) = (Random::of("places"), sentinel(index));
    // The index type cannot represent larger indices.
    let bound = bound.min(usize::try_from(none).unwrap_or(usize::MAX));
    (0..n)
        .map(|_| {
            let drawn = (random.next() >> 20) as usize;
            if bound == 0 || drawn % 5 == 4 { none } else { (drawn / 5 % bound) as i64 }
        })
        .collect()
}

fn draft(
    op: &str,
    dtype: DType,
    (dims, axis, like): (&[usize], isize, &[usize]),
    (index, given): (DType, &[i64]),
    [on, at, other]: [Placement; 3],
) -> CaseBuilder {
    let numbers = if dtype.is_float() && op.ends_with("add") { NORMAL } else { Distribution::Bits };
    let places = ids(index, given);
    let draft = CaseBuilder::new(op, dtype).param("axis", axis);
    let of_ids = |draft: CaseBuilder, dims: &[usize]| draft.given("ids", &places, dims, at);
    if op == "gather" {
        return of_ids(draft.read("x", dims, on, numbers), like).write("y", like, other);
    }
    let dst = draw(&mut Random::of(&format!("dst {dims:?}")), dtype, dims.iter().product(), numbers);
    let draft = draft.inout("dst", &dst, dims, on);
    if op == "index_add" {
        let mut of_src = dims.to_vec();
        of_src[along(dims, axis)] = given.len();
        return of_ids(draft, &[given.len()]).read("src", &of_src, other, numbers);
    }
    of_ids(draft, like).read("src", like, other, numbers)
}

fn along(dims: &[usize], axis: isize) -> usize {
    if axis < 0 { dims.len().wrapping_add_signed(axis) } else { axis as usize }
}

/// Number of indices in a call.
fn count(op: &str, (dims, axis, like): Sizes) -> usize {
    if op == "index_add" { like[along(dims, axis)] } else { like.iter().product() }
}

fn all(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let plain = [Placement::Plain; 3];
    for index in INDICES {
        for sizes in SIZES {
            let given = some(index, count(op, sizes), sizes.0[along(sizes.0, sizes.1)]);
            s.run(draft(op, dtype, sizes, (index, &given), plain));
        }
        outside(s, op, dtype, index);
    }
    // All to the same element, and each to its own.
    for given in [vec![3; 65], (0..65).map(|i| i % 4).collect()] {
        s.run(draft(op, dtype, (&[4], 0, &[65]), (DType::U32, &given), plain));
    }
    let (on, other) = if op == "gather" { (&IN[..], &OUT[..]) } else { (&OUT[..], &IN[..]) };
    for sizes in [(&[5, 4, 33][..], 0, &[6, 4, 33][..]), (&[4, 5, 33], 1, &[4, 6, 31])] {
        let given = some(DType::U32, count(op, sizes), 5);
        let mut run = |places| s.run(draft(op, dtype, sizes, (DType::U32, &given), places));
        on.iter().for_each(|how| run([*how, Placement::Plain, Placement::Plain]));
        other.iter().for_each(|how| run([Placement::Plain, Placement::Plain, *how]));
        [Placement::Offset, Placement::Strided, Placement::Reversed]
            .iter()
            .for_each(|how| run([Placement::Plain, *how, Placement::Plain]));
    }
}

fn outside(s: &mut Suite<'_>, op: &str, dtype: DType, index: DType) {
    let signed = matches!(index, DType::I32 | DType::I64);
    // Rows of one and of several packs: the error names a place within a pack.
    let all_sizes: [Sizes; 2] = [(&[5, 3], 0, &[4, 3]), (&[5, 8], 0, &[4, 8])];
    for (wrong, sizes) in [5, 200]
        .into_iter()
        .chain(signed.then_some(-1))
        .flat_map(|wrong| all_sizes.map(|sizes| (wrong, sizes)))
    {
        let mut given = some(index, count(op, sizes), 5);
        let position = given.len() - 2;
        given[position] = wrong;
        let draft = draft(op, dtype, sizes, (index, &given), [Placement::Plain; 3]).note("outside");
        s.expect(draft, Expect::Index { operand: "ids", position, index: wrong, bound: 5 });
    }
}
