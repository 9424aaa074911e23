//! A product of normed rows whose heads are rotated and written to caches.
use super::super::blocks::blocks;
use super::super::data::{Distribution, NORMAL, Random, draw};
use super::super::draft::CaseBuilder;
use super::super::index::{ids, sentinel};
use super::super::placement::{IN, OUT, Placement};
use super::super::{FLOATS, INDICES, Suite};
use super::{ROWS, cache_types, outside, some_slots, tables};
use crate::types::block_types;
use ops_core::DType;

const OP: &str = "rms_norm_linear_rope_cache_write";
const SLOTS: usize = 13;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked(OP, FLOATS) {
        floats(s, dtype);
        for format in block_types() {
            of_blocks(s, dtype, format);
        }
        indices(s, Call::new(dtype, dtype));
    }
}

#[derive(Clone, Copy)]
struct Call<'a> {
    dtype: DType,
    weight: DType,
    norm: DType,
    tables: DType,
    cache: DType,
    bias: Option<DType>,
    /// Rows, and their features.
    rows: [usize; 2],
    /// Heads of queries and of keys, and the features of keys and of values.
    heads: [usize; 4],
    half: Option<usize>,
    order: &'a str,
    index: DType,
    /// One operand, or several of one kind, with another placement.
    place: (&'a str, Placement),
}

impl<'a> Call<'a> {
    fn new(dtype: DType, weight: DType) -> Self {
        Call {
            dtype,
            weight,
            norm: if dtype == DType::F64 { dtype } else { DType::F32 },
            tables: dtype,
            cache: dtype,
            bias: None,
            rows: [1, 72],
            heads: [3, 2, 16, 8],
            half: None,
            order: "half",
            index: DType::U32,
            place: ("", Placement::Plain),
        }
    }

    fn draft(self, positions: &[i64], slots: &[i64]) -> CaseBuilder {
        let ([n, m], [g, h, d, dv]) = (self.rows, self.heads);
        let place = |name: &str| if name == self.place.0 { self.place.1 } else { Placement::Plain };
        let columns = g * d + h * (d + dv);
        let of_weight = [columns, m / self.weight.values()];
        let mut draft = CaseBuilder::new(OP, self.dtype)
            .param("eps", 1e-5)
            .param("order", self.order)
            .read("x", &[n, m], place("x"), NORMAL)
            .read_as("norm", self.norm, &[m], place("norm"), Distribution::Normal(1.0, 0.5));
        draft = match self.weight {
            DType::Block(_) => {
                let all = blocks(self.weight, of_weight.iter().product());
                draft.given("weight", &all, &of_weight, place("weight"))
            }
            _ => draft.read_as("weight", self.weight, &of_weight, place("weight"), NORMAL),
        };
        if let Some(bias) = self.bias {
            draft = draft.read_as("bias", bias, &[columns], place("bias"), NORMAL);
        }
        let table = [ROWS, self.half.unwrap_or(d / 2)];
        let (cos, sin) = tables(self.tables, table.iter().product());
        let old =
            |name: &str, width: usize| draw(&mut Random::of(name), self.cache, SLOTS * h * width, NORMAL);
        draft
            .given("cos", &cos, &table, place("tables"))
            .given("sin", &sin, &table, place("tables"))
            .given("positions", &ids(self.index, positions), &[n], place("positions"))
            .given("slots", &ids(self.index, slots), &[n], place("slots"))
            .inout("k_cache", &old("old keys", d), &[SLOTS, h, d], place("k_cache"))
            .inout("v_cache", &old("old values", dv), &[SLOTS, h, dv], place("v_cache"))
            .write("y", &[n, g, d], place("y"))
    }
    fn case(self) -> CaseBuilder {
        // Not in order, and some rows twice. The first row is not skipped.
        let positions: Vec<i64> = (0..self.rows[0]).map(|i| ((i * 7 + 2) % ROWS) as i64).collect();
        self.draft(&positions, &some_slots(self.index, self.rows[0], SLOTS))
    }
}

fn floats(s: &mut Suite<'_>, dtype: DType) {
    let call = Call::new(dtype, dtype);
    for cache in cache_types(dtype) {
        for (rows, heads) in [
            ([1, 1], [1, 1, 2, 2]),
            ([1, 256], [5, 2, 64, 64]),
            ([2, 33], [2, 1, 6, 4]),
            ([4, 96], [2, 2, 32, 32]),
            ([8, 64], [1, 3, 10, 12]),
            ([9, 40], [2, 1, 16, 16]),
            ([1, 4104], [1, 1, 4, 4]),
            ([3, 40], [0, 2, 8, 8]),
            ([1, 40], [2, 0, 8, 8]),
            ([1, 40], [2, 1, 8, 5]),
            ([1, 40], [2, 1, 8, 0]),
            ([1, 40], [0, 1, 0, 8]),
            ([0, 40], [2, 1, 8, 8]),
            ([2, 0], [2, 1, 8, 8]),
        ] {
            for order in ["half", "interleaved"] {
                s.run(Call { cache, rows, heads, order, ..call }.case());
            }
        }
        for half in [0, 1, 5, 8] {
            for order in ["half", "interleaved"] {
                s.run(Call { cache, half: Some(half), order, ..call }.case());
            }
        }
        for name in ["k_cache", "v_cache"] {
            OUT.iter().for_each(|how| s.run(Call { cache, place: (name, *how), ..call }.case()));
            // Heads before tokens, as in a cache for one text.
            let place = (name, Placement::Order(&[1, 0, 2]));
            s.run(Call { cache, rows: [3, 72], place, ..call }.case());
        }
    }
    for other in FLOATS {
        for rows in [[1, 72], [3, 72]] {
            s.run(Call { weight: other, rows, ..call }.case());
            s.run(Call { tables: other, bias: Some(other), rows, ..call }.case());
            s.run(Call { norm: other, rows, ..call }.case());
        }
    }
    for name in ["x", "norm", "weight", "tables", "bias"] {
        let bias = Some(dtype);
        IN.iter().for_each(|how| s.run(Call { bias, rows: [2, 72], place: (name, *how), ..call }.case()));
    }
    OUT.iter().for_each(|how| s.run(Call { rows: [2, 72], place: ("y", *how), ..call }.case()));
}

fn of_blocks(s: &mut Suite<'_>, dtype: DType, format: DType) {
    let values = |blocks: usize| (blocks * 32).next_multiple_of(format.values());
    let call = Call { rows: [1, values(3)], ..Call::new(dtype, format) };
    let wide = Call { rows: [1, values(129)], heads: [3, 1, 24, 40], ..call };
    s.run(wide.case());
    s.run(
        Call { order: "interleaved", half: Some(5), cache: DType::F8E4M3, bias: Some(dtype), ..call }.case(),
    );
    s.run(Call { half: Some(4), bias: Some(DType::F32), ..call }.case());
    // Queries and keys by one product, and values by another.
    s.run(Call { heads: [3, 2, 16, 0], ..call }.case());
    s.run(Call { heads: [0, 8, 0, 16], ..call }.case());
    if format.name() != "q8_0" {
        return;
    }
    for (rows, heads) in [([1, 8192 + 64], [5, 1, 12, 6]), ([2, 96], [2, 1, 64, 64]), ([1, 96], [1, 1, 2, 2])]
    {
        s.run(Call { rows, heads, ..call }.case());
    }
    for other in FLOATS {
        s.run(Call { tables: other, ..call }.case());
        s.run(Call { norm: other, bias: Some(other), ..call }.case());
    }
    for name in ["x", "norm", "weight", "tables", "bias", "y", "k_cache", "v_cache"] {
        for how in [Placement::Offset, Placement::Strided] {
            s.run(Call { bias: Some(dtype), place: (name, how), ..call }.case());
        }
    }
    s.run(call.draft(&[4], &[sentinel(DType::U32)]).note("skipped"));
}

fn indices(s: &mut Suite<'_>, call: Call<'_>) {
    let good = [5, 0, 3, 9, 7, 8];
    for index in INDICES {
        let call = Call { index, rows: [6, 72], ..call };
        s.run(call.case());
        for name in ["positions", "slots"] {
            s.run(Call { place: (name, Placement::Strided), ..call }.case());
        }
        outside(s, index, ROWS, "positions", &|wrong| call.draft(wrong, &good));
        outside(s, index, SLOTS, "slots", &|wrong| call.draft(&good, wrong));
        s.run(call.draft(&good, &[sentinel(index); 6]).note("all skipped"));
        // Positions are checked where there is nothing to rotate.
        let empty = Call { heads: [0, 2, 0, 0], ..call };
        outside(s, index, ROWS, "positions", &|wrong| empty.draft(wrong, &good));
    }
}
