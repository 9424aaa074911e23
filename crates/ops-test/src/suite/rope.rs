//! Rotary position embedding.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::index::{ids, sentinel};
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INDICES, Suite};
use crate::Array;
use ops_core::DType;

pub(super) mod qk_norm_rope;

/// One case, with the fields that tests vary.
#[derive(Clone, Copy)]
struct Case<'a> {
    op: &'a str,
    dtype: DType,
    /// `[b, h, t, d]`, which is rearranged to the op's order.
    dims: [usize; 4],
    start: usize,
    /// Number of table columns, if not whole heads are rotated.
    half: Option<usize>,
    /// The index type of positions, and whether all batch entries share them; with positions, `start` is 0.
    positions: Option<(DType, bool)>,
    at: Placement,
    /// Unused extra rows of the tables.
    spare: usize,
    batched: bool,
    table_type: DType,
    x: Placement,
    tables: Placement,
    y: Placement,
}

impl<'a> Case<'a> {
    fn new(op: &'a str, dtype: DType, dims: [usize; 4]) -> Self {
        Case {
            op,
            dtype,
            dims,
            start: 3,
            half: None,
            positions: None,
            at: Placement::Plain,
            spare: 2,
            batched: false,
            table_type: dtype,
            x: Placement::Plain,
            tables: Placement::Plain,
            y: Placement::Plain,
        }
    }

    fn draft(self) -> CaseBuilder {
        let [b, h, t, d] = self.dims;
        let heads_inside = self.op.starts_with("rope_thd") || self.op == "qk_norm_rope";
        let dims = if heads_inside { [b, t, h, d] } else { self.dims };
        let (rows, half) = (self.rows(), self.half.unwrap_or(d / 2));
        let table: &[usize] = if self.batched { &[b, rows, half] } else { &[rows, half] };
        let (cos, sin) = self.tables(table.iter().product());

        let draft = CaseBuilder::new(self.op, self.dtype);
        let draft = match (self.op, self.positions) {
            ("qk_norm_rope", _) => draft.param("eps", 1e-5),
            (_, Some(_)) => draft,
            (_, None) => draft.param("start", self.start),
        };
        let draft = if self.op.ends_with("_inplace") {
            let x = draw(&mut Random::of(self.op), self.dtype, dims.iter().product(), NORMAL);
            draft.inout("x", &x, &dims, self.y)
        } else {
            draft.read("x", &dims, self.x, NORMAL).write("y", &dims, self.y)
        };
        let draft = draft.given("cos", &cos, table, self.tables).given("sin", &sin, table, self.tables);
        let Some((index, shared)) = self.positions else { return draft };
        let b = if shared { 1 } else { b };
        // Not in order, and some rows twice.
        let picked: Vec<i64> = (0..b * t).map(|i| ((i * 7 + i / t + 2) % rows.max(1)) as i64).collect();
        draft.given("positions", &ids(index, &picked), &[b, t], self.at)
    }

    /// Rows of the tables.
    fn rows(&self) -> usize {
        if self.op == "qk_norm_rope" {
            self.dims[2] + self.spare
        } else {
            self.start + self.dims[2] + self.spare
        }
    }

    fn tables(&self, n: usize) -> (Array, Array) {
        let angles = draw(
            &mut Random::of("angles"),
            DType::F64,
            n,
            Distribution::Between(0.0, core::f64::consts::TAU),
        );
        let angles = angles.to_f64().unwrap_or_default();
        let table =
            |f: fn(f64) -> f64| values_of(self.table_type, &angles.iter().map(|a| f(*a)).collect::<Vec<_>>());
        (table(f64::cos), table(f64::sin))
    }
}

pub(super) fn cases(s: &mut Suite<'_>) {
    for op in ["rope", "rope_i", "rope_thd"] {
        let inplace = format!("{op}_inplace");
        for dtype in FLOATS {
            if s.wants(op, dtype) || s.wants(&inplace, dtype) {
                family(s, op, &inplace, dtype);
            }
        }
    }
}

/// Positions, and heads with only their first features rotated.
fn wider(s: &mut Suite<'_>, case: Case<'_>) {
    let [b, h, t, _] = case.dims;
    for (d, half) in [(16, 4), (64, 12), (66, 1), (128, 32), (10, 0), (96, 44)] {
        let part = Case { half: Some(half), dims: [b, h, t, d], ..case };
        for positions in [None, Some((DType::U32, false))] {
            s.run(Case { positions, ..part }.draft());
            s.run(Case { positions, y: Placement::Gaps, ..part }.draft());
            s.run(Case { positions, y: Placement::Order(&[0, 2, 1, 3]), batched: true, ..part }.draft());
        }
    }
    for table_type in FLOATS {
        s.run(Case { positions: Some((DType::U32, false)), table_type, ..case }.draft());
    }
    for d in [2, 62, 64, 256] {
        for (batched, shared) in [(false, false), (false, true), (true, false), (true, true)] {
            let positions = Some((DType::I32, shared));
            s.run(Case { positions, batched, dims: [b, h, t, d], ..case }.draft());
        }
    }
    for index in INDICES {
        for at in [
            Placement::Plain,
            Placement::Offset,
            Placement::Strided,
            Placement::Reversed,
            Placement::Transposed,
        ] {
            s.run(Case { positions: Some((index, false)), at, ..case }.draft());
        }
        s.run(Case { positions: Some((index, true)), dims: [3, 2, 1, 8], ..case }.draft());
        outside(
            s,
            Case { positions: Some((index, false)), dims: [2, 3, 4, 8], ..case },
            index,
            &|case: Case<'_>| case.draft(),
        );
    }
    for dims in [[0, 2, 3, 8], [2, 0, 3, 8], [2, 2, 0, 8], [2, 2, 3, 0]] {
        s.run(Case { positions: Some((DType::U32, false)), dims, ..case }.draft());
    }
}

/// A position outside the table, or the index type's largest value, is an error.
fn outside(s: &mut Suite<'_>, case: Case<'_>, index: DType, draft: &dyn Fn(Case<'_>) -> CaseBuilder) {
    let (rows, signed) = (case.rows() as i64, matches!(index, DType::I32 | DType::I64));
    for wrong in [rows, sentinel(index)].into_iter().chain(signed.then_some(-1)) {
        let mut draft = draft(case).note("outside").note(&wrong.to_string());
        let picked = ids(index, &[0, 1, 2, 3, 0, wrong, 1, 2]);
        if let Some(positions) = draft.case().operand_mut("positions") {
            (positions.array, positions.layout) = Placement::Plain.input(&picked, &[2, 4]);
        }
        let bound = rows as usize;
        s.expect(draft, Expect::Index { operand: "positions", position: 5, index: wrong, bound });
    }
}

fn family(s: &mut Suite<'_>, op: &str, inplace: &str, dtype: DType) {
    for op in [op, inplace] {
        for (h, t, d) in [(1, 1, 2), (3, 5, 62), (2, 7, 64), (1, 33, 66), (2, 65, 126), (5, 2, 256)] {
            s.run(Case::new(op, dtype, [2, h, t, d]).draft());
        }
        s.run(Case::new(op, dtype, [1, 1, 1, 4098]).draft());
        for dims in [[0, 2, 3, 8], [2, 0, 3, 8], [2, 2, 0, 8], [2, 2, 3, 0]] {
            s.run(Case::new(op, dtype, dims).draft());
        }
        let case = Case::new(op, dtype, [2, 3, 5, 16]);
        for start in [0, 1, 17] {
            s.run(Case { start, spare: 0, ..case }.draft());
            s.run(Case { start, batched: true, ..case }.draft());
        }
        wider(s, Case { start: 0, spare: 3, ..case });
        for table_type in FLOATS {
            s.run(Case { table_type, ..case }.draft());
        }
        for batched in [false, true] {
            for tables in IN {
                s.run(Case { tables, batched, ..case }.draft());
            }
        }
        for y in OUT.into_iter().chain([Placement::Order(&[0, 2, 1, 3])]) {
            s.run(Case { y, ..case }.draft());
        }
    }
    let case = Case::new(op, dtype, [2, 3, 5, 16]);
    for x in IN.into_iter().chain([Placement::Order(&[0, 2, 1, 3])]) {
        s.run(Case { x, ..case }.draft());
        s.run(Case { x, y: Placement::Gaps, batched: true, ..case }.draft());
    }
}
