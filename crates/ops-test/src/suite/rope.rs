//! Rotary position embedding.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::place::{IN, OUT, Placement};
use super::{FLOATS, Suite};
use crate::Array;
use ops_core::DType;

/// One case, with the fields that tests vary.
#[derive(Clone, Copy)]
struct Case<'a> {
    op: &'a str,
    dtype: DType,
    /// `[b, h, t, d]`, which is rearranged to the op's order.
    dims: [usize; 4],
    start: usize,
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
        let dims = if self.op.starts_with("rope_thd") { [b, t, h, d] } else { self.dims };
        let rows = self.start + t + self.spare;
        let table: &[usize] = if self.batched { &[b, rows, d / 2] } else { &[rows, d / 2] };
        let (cos, sin) = self.tables(table.iter().product());

        let draft = CaseBuilder::new(self.op, self.dtype).param("start", self.start);
        let draft = if self.op.ends_with("_inplace") {
            let x = draw(&mut Random::of(self.op), self.dtype, dims.iter().product(), NORMAL);
            draft.inout("x", &x, &dims, self.y)
        } else {
            draft.read("x", &dims, self.x, NORMAL).write("y", &dims, self.y)
        };
        draft.given("cos", &cos, table, self.tables).given("sin", &sin, table, self.tables)
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
