//! Writing rows to key and value caches.
use super::data::{Distribution, NORMAL, Random, draw, values_of};
use super::draft::CaseBuilder;
use super::index::{ids, sentinel};
use super::placement::{IN, OUT, Placement};
use super::{Expect, FLOATS, INDICES, Suite};
use crate::Array;
use ops_core::DType;

mod projected;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in s.asked("cache_write", FLOATS) {
        writes(s, dtype);
    }
    for op in ["rope_cache_write", "qk_norm_rope_cache_write", "rope_qk_cache_write"] {
        for dtype in s.asked(op, FLOATS) {
            keys(s, op, dtype);
        }
    }
    projected::cases(s);
}

/// The types of caches for rows of this type.
fn cache_types(dtype: DType) -> [DType; 2] {
    [dtype, DType::F8E4M3]
}

/// Distinct slots of a cache, in no particular order; one in four is "no slot".
fn some_slots(index: DType, n: usize, slots: usize) -> Vec<i64> {
    let none = sentinel(index);
    // Steps that reach each slot once: the number is odd, and not a multiple of 3 or 7 for the sizes here.
    let picked = (0..n).map(|i| if i % 4 == 3 || slots == 0 { none } else { ((i * 11 + 5) % slots) as i64 });
    picked.map(|slot| if slot < 0 { none } else { slot }).collect()
}

#[derive(Clone, Copy)]
struct Write<'a> {
    dtype: DType,
    cache_type: DType,
    n: usize,
    slots: usize,
    row: &'a [usize],
    index: DType,
    x: Placement,
    at: Placement,
    cache: Placement,
}

impl<'a> Write<'a> {
    fn new(dtype: DType, (n, slots): (usize, usize), row: &'a [usize]) -> Self {
        let plain = Placement::Plain;
        let index = DType::U32;
        Write { dtype, cache_type: dtype, n, slots, row, index, x: plain, at: plain, cache: plain }
    }

    fn draft(self, given: &[i64]) -> CaseBuilder {
        let dims = |first: usize| [&[first], self.row].concat();
        let old = draw(&mut Random::of("cache"), self.cache_type, dims(self.slots).iter().product(), NORMAL);
        CaseBuilder::new("cache_write", self.dtype)
            .read("x", &dims(self.n), self.x, Distribution::Bits)
            .given("slots", &ids(self.index, given), &[self.n], self.at)
            .inout("cache", &old, &dims(self.slots), self.cache)
    }
    fn case(self) -> CaseBuilder {
        self.draft(&some_slots(self.index, self.n, self.slots))
    }
}

fn writes(s: &mut Suite<'_>, dtype: DType) {
    for cache_type in cache_types(dtype) {
        for (n, slots, row) in [
            (1, 1, &[1][..]),
            (5, 13, &[2, 16]),
            (1, 65, &[8, 128]),
            (9, 37, &[3, 33]),
            (40, 53, &[7]),
            (3, 17, &[4097]),
            (6, 31, &[2, 3, 5, 2]),
            (7, 16, &[]),
            (70, 101, &[1, 64]),
            (0, 5, &[2, 4]),
            (4, 0, &[2, 4]),
            (2, 5, &[0, 4]),
            (2, 5, &[4, 0]),
        ] {
            s.run(Write { cache_type, ..Write::new(dtype, (n, slots), row) }.case());
        }
        let case = Write { cache_type, ..Write::new(dtype, (6, 17), &[3, 33]) };
        IN.iter().for_each(|x| s.run(Write { x: *x, ..case }.case()));
        OUT.iter().for_each(|cache| s.run(Write { cache: *cache, ..case }.case()));
        // Heads before tokens, as in a cache for one text.
        s.run(Write { cache: Placement::Order(&[1, 0, 2]), x: Placement::Order(&[1, 0, 2]), ..case }.case());
        for index in INDICES {
            for at in [Placement::Plain, Placement::Offset, Placement::Strided, Placement::Reversed] {
                s.run(Write { index, at, ..case }.case());
            }
            let nothing = vec![sentinel(index); 6];
            s.run(Write { index, ..case }.draft(&nothing).note("all skipped"));
            outside(s, index, 17, "slots", &|given| Write { index, ..case }.draft(given));
        }
    }
}

/// An index out of range is an error.
fn outside(
    s: &mut Suite<'_>,
    index: DType,
    bound: usize,
    operand: &'static str,
    draft: &dyn Fn(&[i64]) -> CaseBuilder,
) {
    let signed = matches!(index, DType::I32 | DType::I64);
    // The largest value is not a position; as a slot it skips the row.
    let largest = (operand == "positions").then(|| sentinel(index));
    let wide = (index == DType::I64).then_some(1 << 40);
    for wrong in [bound as i64, 200].into_iter().chain(signed.then_some(-1)).chain(largest).chain(wide) {
        let draft = draft(&[1, 4, 0, 2, wrong, 3]).note("outside").note(&format!("{operand} {wrong}"));
        s.expect(draft, Expect::Index { operand, position: 4, index: wrong, bound });
    }
}

/// A call of one of the ops that rotate keys.
#[derive(Clone, Copy)]
struct Keys<'a> {
    op: &'a str,
    dtype: DType,
    cache_type: DType,
    /// `[n, h, d, dv]`
    dims: [usize; 4],
    slots: usize,
    half: Option<usize>,
    /// The types of positions and slots.
    index: [DType; 2],
    tables: DType,
    weight: DType,
    /// Whether `rope_qk_cache_write` norms queries and keys.
    norms: [bool; 2],
    /// One operand, or several of one kind, with another placement.
    place: (&'a str, Placement),
}

const ROWS: usize = 19;

impl<'a> Keys<'a> {
    fn new(op: &'a str, dtype: DType, dims: [usize; 4]) -> Self {
        let (index, place) = ([DType::U32; 2], ("", Placement::Plain));
        Keys {
            op,
            dtype,
            cache_type: dtype,
            dims,
            slots: 37,
            half: None,
            index,
            tables: dtype,
            weight: dtype,
            norms: [true; 2],
            place,
        }
    }

    fn draft(self, positions: &[i64], slots: &[i64]) -> CaseBuilder {
        let [n, h, d, dv] = self.dims;
        let place = |name: &str| if name == self.place.0 { self.place.1 } else { Placement::Plain };
        let table = [ROWS, self.half.unwrap_or(d / 2)];
        let (cos, sin) = tables(self.tables, table.iter().product());
        let (with_queries, of_queries) = (self.op == "rope_qk_cache_write", [n, 2 * h + 1, d]);
        let mut draft = CaseBuilder::new(self.op, self.dtype);
        if with_queries {
            draft = draft.read("q", &of_queries, place("q"), NORMAL);
        }
        draft = draft.read("k", &[n, h, d], place("k"), NORMAL).read("v", &[n, h, dv], place("v"), NORMAL);
        let norms: &[&str] = match (self.op, self.norms) {
            ("rope_cache_write", _) | (_, [false, false]) => &[],
            ("qk_norm_rope_cache_write", _) => &["weight"],
            (_, [true, true]) => &["q_norm", "k_norm"],
            (_, [true, false]) => &["q_norm"],
            (_, [false, true]) => &["k_norm"],
        };
        if !norms.is_empty() {
            draft = draft.param("eps", 1e-5);
        }
        for norm in norms {
            let numbers = Distribution::Normal(1.0, 0.5);
            draft = draft.read_as(norm, self.weight, &[d], place("weight"), numbers);
        }
        let old = |name: &str, width: usize| {
            let count = self.slots * h * width;
            (draw(&mut Random::of(name), self.cache_type, count, NORMAL), [self.slots, h, width])
        };
        let ((keys, of_keys), (values, of_values)) = (old("old keys", d), old("old values", dv));
        let draft = draft
            .given("cos", &cos, &table, place("tables"))
            .given("sin", &sin, &table, place("tables"))
            .given("positions", &ids(self.index[0], positions), &[n], place("positions"))
            .given("slots", &ids(self.index[1], slots), &[n], place("slots"));
        let draft = draft.inout("k_cache", &keys, &of_keys, place("k_cache")).inout(
            "v_cache",
            &values,
            &of_values,
            place("v_cache"),
        );
        if with_queries { draft.write("y", &of_queries, place("y")) } else { draft }
    }
    fn case(self) -> CaseBuilder {
        // Not in order, and some rows twice.
        let positions: Vec<i64> = (0..self.dims[0]).map(|i| ((i * 7 + 2) % ROWS) as i64).collect();
        self.draft(&positions, &some_slots(self.index[1], self.dims[0], self.slots))
    }
}

fn tables(dtype: DType, n: usize) -> (Array, Array) {
    let turns = Distribution::Between(0.0, core::f64::consts::TAU);
    let angles = draw(&mut Random::of("angles"), DType::F64, n, turns).to_f64().unwrap_or_default();
    let table = |f: fn(f64) -> f64| values_of(dtype, &angles.iter().map(|a| f(*a)).collect::<Vec<_>>());
    (table(f64::cos), table(f64::sin))
}

fn keys(s: &mut Suite<'_>, op: &str, dtype: DType) {
    for cache_type in cache_types(dtype) {
        let new = |dims| Keys { cache_type, ..Keys::new(op, dtype, dims) };
        for dims in [
            [1, 1, 2, 2],
            [5, 2, 16, 16],
            [1, 8, 128, 128],
            [3, 5, 62, 33],
            [9, 1, 66, 1],
            [30, 2, 64, 64],
            [2, 3, 256, 300],
            [1, 1, 1030, 7],
            [3, 2, 8, 0],
            [3, 2, 0, 8],
            [0, 2, 8, 8],
            [2, 0, 8, 8],
        ] {
            for order in ["half", "interleaved"] {
                s.run(new(dims).case().param("order", order));
            }
        }
        let case = new([6, 3, 32, 20]);
        for half in [0, 1, 7, 12, 16] {
            for order in ["half", "interleaved"] {
                s.run(Keys { half: Some(half), ..case }.case().param("order", order));
            }
        }
        for other in FLOATS {
            s.run(Keys { tables: other, ..case }.case());
            s.run(Keys { weight: other, tables: other, half: Some(5), ..case }.case());
        }
        for name in ["k", "v", "weight", "tables"] {
            IN.iter().for_each(|how| s.run(Keys { place: (name, *how), ..case }.case()));
        }
        for name in ["k", "v", "k_cache", "v_cache"] {
            // Heads before tokens, as in a cache for one text.
            s.run(Keys { place: (name, Placement::Order(&[1, 0, 2])), ..case }.case());
        }
        if op == "rope_qk_cache_write" {
            for norms in [[false, false], [true, false], [false, true]] {
                s.run(Keys { norms, ..case }.case());
                s.run(
                    Keys { norms, half: Some(5), ..new([1, 4, 64, 64]) }.case().param("order", "interleaved"),
                );
            }
            for name in ["q", "y"] {
                s.run(Keys { place: (name, Placement::Order(&[1, 0, 2])), ..case }.case());
            }
            IN.iter().for_each(|how| s.run(Keys { place: ("q", *how), ..case }.case()));
            OUT.iter().for_each(|how| s.run(Keys { place: ("y", *how), ..case }.case()));
        }
        for name in ["k_cache", "v_cache"] {
            OUT.iter().for_each(|how| s.run(Keys { place: (name, *how), ..case }.case()));
        }
        indices(s, case);
    }
}

fn indices(s: &mut Suite<'_>, case: Keys<'_>) {
    for of_positions in INDICES {
        for of_slots in INDICES {
            s.run(Keys { index: [of_positions, of_slots], ..case }.case());
        }
    }
    for index in INDICES {
        for name in ["positions", "slots"] {
            for how in [Placement::Offset, Placement::Strided, Placement::Reversed] {
                s.run(Keys { index: [index; 2], place: (name, how), ..case }.case());
            }
        }
        let case = Keys { index: [index; 2], ..case };
        let good = [5, 0, 3, 9, 7, 8];
        outside(s, index, ROWS, "positions", &|wrong| case.draft(wrong, &good));
        outside(s, index, case.slots, "slots", &|wrong| case.draft(&good, wrong));
        s.run(case.draft(&good, &[sentinel(index); 6]).note("all skipped"));
    }
}
