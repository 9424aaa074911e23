//! Sorting and the largest elements.
use super::data::{Distribution, values_of};
use super::draft::CaseBuilder;
use super::elementwise::bounds;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, INTEGERS, LENGTHS, Suite};
use crate::Array;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS.into_iter().chain(INTEGERS) {
        for op in ["sort", "argsort"] {
            if s.wants(op, dtype) {
                sizes(s, op, dtype);
                layouts(s, op, dtype);
                values(s, op, dtype);
            }
        }
        if s.wants("topk", dtype) {
            topk(s, dtype);
        }
    }
}

/// Numbers with few distinct values, so that many are equal.
fn few(dtype: DType) -> Distribution {
    match dtype.is_float() {
        true => Distribution::Normal(0.0, 3.0),
        false => Distribution::Bits,
    }
}

type Placements = (Placement, Placement);
const PLAIN: Placements = (Placement::Plain, Placement::Plain);

fn output(draft: CaseBuilder, op: &str, dims: &[usize], y: Placement) -> CaseBuilder {
    if op == "sort" { draft.write("y", dims, y) } else { draft.write_as("y", DType::U32, dims, y) }
}

fn draft(
    op: &str,
    dtype: DType,
    dims: &[usize],
    axis: isize,
    descending: bool,
    (x, y): Placements,
) -> CaseBuilder {
    let draft = CaseBuilder::new(op, dtype).param("axis", axis).param("descending", descending);
    output(draft.read("x", dims, x, few(dtype)), op, dims, y)
}

fn given(op: &str, x: &Array, dims: &[usize], axis: isize, descending: bool) -> CaseBuilder {
    let draft = CaseBuilder::new(op, x.dtype()).param("axis", axis).param("descending", descending);
    output(draft.given("x", x, dims, Placement::Plain), op, dims, Placement::Plain)
}

fn sizes(s: &mut Suite<'_>, op: &str, dtype: DType) {
    for n in LENGTHS.into_iter().chain([2, 3, 5, 255, 256, 257, 1023, 1025, 2048]) {
        s.run(draft(op, dtype, &[3, n], -1, n % 2 == 0, PLAIN));
    }
    for descending in [false, true] {
        s.run(draft(op, dtype, &[1, 20_001], -1, descending, PLAIN));
        s.run(draft(op, dtype, &[2, 4097], -1, descending, PLAIN));
        s.run(draft(op, dtype, &[700, 5], -1, descending, PLAIN));
        s.run(draft(op, dtype, &[70, 130], 0, descending, PLAIN));
        s.run(draft(op, dtype, &[3, 33, 5], 1, descending, PLAIN));
    }
    for (dims, axis) in [
        (&[2, 3, 2, 1, 2, 7][..], 3),
        (&[2, 3, 2, 3, 2, 7], 2),
        (&[0, 5], 1),
        (&[5, 0], 1),
        (&[0], 0),
        (&[9], 0),
    ] {
        s.run(draft(op, dtype, dims, axis, false, PLAIN));
    }
    // Ascending order of the last axis is the default.
    let default = CaseBuilder::new(op, dtype).read("x", &[3, 9], Placement::Plain, few(dtype));
    s.run(output(default, op, &[3, 9], Placement::Plain));
}

fn layouts(s: &mut Suite<'_>, op: &str, dtype: DType) {
    for axis in [-1, 0] {
        for x in IN {
            s.run(draft(op, dtype, &[3, 4, 33], axis, true, (x, Placement::Plain)));
        }
        for y in OUT {
            s.run(draft(op, dtype, &[3, 4, 33], axis, false, (Placement::Plain, y)));
        }
    }
    s.run(draft(op, dtype, &[2, 2100], -1, false, (Placement::Strided, Placement::Strided)));
    s.run(draft(op, dtype, &[2100, 3], 0, true, (Placement::Reversed, Placement::Transposed)));
}

fn values(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for descending in [false, true] {
        if dtype.is_float() {
            let rows = [
                [2.0, nan, 2.0, -1.0, 0.0, 2.0],
                [inf, -inf, nan, inf, -inf, nan],
                [0.0, -0.0, 0.0, -0.0, -0.0, 0.0],
                [nan, nan, nan, nan, nan, nan],
                [-1.0, -2.0, -0.5, -inf, 1e-3, -1e-3],
            ];
            let x = values_of(dtype, rows.as_flattened());
            s.run(given(op, &x, &[5, 6], -1, descending).note("infinities and nan"));
            s.run(given(op, &x, &[5, 6], 0, descending).note("infinities and nan"));
            // NaN of either sign, with and without a payload.
            let mut signed = values_of(dtype, &[1.0, nan, -inf, nan, inf, 0.5]);
            let size = dtype.size();
            signed.element_mut(1)[size - 1] |= 0x80;
            signed.element_mut(3)[0] |= 1;
            s.run(given(op, &signed, &[6], -1, descending).note("nan of either sign"));
        } else {
            let corners = bounds(dtype);
            s.run(
                given(op, &values_of(dtype, &corners), &[corners.len()], -1, descending)
                    .note("corner values"),
            );
        }
        // Few distinct values, each many times: only a stable sort keeps their order.
        for n in [97, 700, 5000] {
            let x: Vec<f64> = (0..n).map(|i| f64::from((i * 7919 % 1009) as u32 % 4)).collect();
            s.run(given(op, &values_of(dtype, &x), &[1, n], -1, descending).note("many equal"));
        }
        // In order already, in reverse order, and all equal.
        for (note, of) in [
            ("rising", (|i| i % 120) as fn(u32) -> u32),
            ("falling", |i| 119 - i % 120),
            ("all equal", |_| 7),
        ] {
            let x: Vec<f64> = (0..360).map(|i| f64::from(of(i / 3))).collect();
            s.run(given(op, &values_of(dtype, &x), &[1, 360], -1, descending).note(note));
        }
    }
}

fn topk(s: &mut Suite<'_>, dtype: DType) {
    let draft = |dims: &[usize], k: usize, x: Placement, [values, indices]: [Placement; 2]| {
        let mut to = dims.to_vec();
        if let Some(last) = to.last_mut() {
            *last = k;
        }
        let draft = CaseBuilder::new("topk", dtype).param("k", k).read("x", dims, x, few(dtype));
        draft.write("values", &to, values).write_as("indices", DType::U32, &to, indices)
    };
    let plain = [Placement::Plain; 2];
    for (n, k) in [
        (1, 1),
        (5, 0),
        (17, 5),
        (33, 33),
        (64, 1),
        (300, 40),
        (1000, 40),
        (1025, 1000),
        (4097, 1),
        (4097, 64),
        (4097, 2000),
        (20_001, 50),
        (20_001, 3000),
    ] {
        s.run(draft(&[3, n], k, Placement::Plain, plain));
    }
    for dims in [&[9][..], &[2, 3, 40], &[0, 5], &[4, 0]] {
        s.run(draft(dims, dims[dims.len() - 1].min(4), Placement::Plain, plain));
    }
    for x in IN {
        s.run(draft(&[3, 4, 33], 6, x, plain));
    }
    for y in OUT {
        s.run(draft(&[3, 4, 33], 6, Placement::Plain, [y, Placement::Plain]));
        s.run(draft(&[3, 4, 33], 6, Placement::Plain, [Placement::Plain, y]));
    }
    let x: Vec<f64> = (0..5000).map(|i| f64::from((i * 7919 % 1009) as u32 % 4)).collect();
    let equal = CaseBuilder::new("topk", dtype).param("k", 1500).given(
        "x",
        &values_of(dtype, &x),
        &[1, 5000],
        Placement::Plain,
    );
    let equal = equal.write("values", &[1, 1500], Placement::Plain);
    s.run(equal.write_as("indices", DType::U32, &[1, 1500], Placement::Plain).note("many equal"));
    if dtype.is_float() {
        let row = [2.0, f64::NAN, 2.0, f64::INFINITY, f64::NEG_INFINITY, 2.0, f64::NAN];
        let draft = CaseBuilder::new("topk", dtype).param("k", 5).given(
            "x",
            &values_of(dtype, &row),
            &[7],
            Placement::Plain,
        );
        let draft = draft.write("values", &[5], Placement::Plain);
        s.run(draft.write_as("indices", DType::U32, &[5], Placement::Plain).note("infinities and nan"));
    }
}
