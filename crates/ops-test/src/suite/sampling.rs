//! Drawing tokens from logits, and random numbers.
use super::data::{Distribution, Random, values_of, zeroed};
use super::draft::CaseBuilder;
use super::placement::{IN, OUT, Placement};
use super::{FLOATS, LENGTHS, Suite, oracle};
use crate::Array;
use ops_core::DType;

pub(super) fn cases(s: &mut Suite<'_>) {
    for dtype in FLOATS {
        if s.wants("sample", dtype) {
            sizes(s, dtype);
            options(s, dtype);
            layouts(s, dtype);
            counters(s, dtype);
            special(s, dtype);
        }
        for op in ["random_uniform", "random_normal"] {
            if s.wants(op, dtype) {
                random(s, op, dtype);
            }
        }
    }
}

fn random(s: &mut Suite<'_>, op: &str, dtype: DType) {
    let draft = |seed: u64, offset: u64, dims: &[usize], y| {
        let draft = CaseBuilder::new(op, dtype).param("seed", seed).param("offset", offset);
        draft.write("y", dims, y)
    };
    for n in LENGTHS {
        s.run(draft(1, 0, &[n], Placement::Plain));
    }
    // Words that need all bits of the key, and blocks beyond 32 bits and at the end of the counter.
    for (seed, offset) in [(0, 0), (7 << 40 | 5, 3), (1, (1 << 32) - 1), (u64::MAX, u64::MAX - 1)] {
        for dims in [&[][..], &[1], &[4099], &[0], &[3, 0], &[2, 3, 129]] {
            s.run(draft(seed, offset, dims, Placement::Plain));
        }
    }
    for y in OUT {
        s.run(draft(3, 1, &[3, 4, 33], y));
    }
    s.run(draft(3, 1, &[2, 5, 3], Placement::Order(&[1, 2, 0])));
}

/// Options of a draw.
#[derive(Clone, Copy)]
struct Draw {
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    seed: u64,
}

const PLAIN: Draw = Draw { temperature: 1.0, top_k: None, top_p: None, seed: 0 };
const GREEDY: Draw = Draw { temperature: 0.0, ..PLAIN };
/// Usual options for text.
const USUAL: Draw = Draw { temperature: 0.8, top_k: Some(40), top_p: Some(0.95), seed: 17 };

impl Draw {
    fn draft(self, dtype: DType) -> CaseBuilder {
        let draft = CaseBuilder::new("sample", dtype).param("temperature", self.temperature);
        let draft = if self.seed == 0 { draft } else { draft.param("seed", self.seed) };
        let draft = self.top_k.into_iter().fold(draft, |draft, k| draft.param("top_k", k));
        self.top_p.into_iter().fold(draft, |draft, p| draft.param("top_p", p))
    }
}

/// Adds the output, and counters, starting from the given ones, for which rounding does not affect the
/// result.
fn with_counters(mut draft: CaseBuilder, counters: &[i64], hows: [Placement; 2]) -> CaseBuilder {
    let counters = oracle::steady_counters(draft.case(), counters)
        .and_then(|counters| Array::from_slice(&counters))
        .unwrap_or_else(|e| unreachable!("the suite's own data: {e}"));
    let n = counters.len();
    draft.given("counter", &counters, &[n], hows[0]).write_as("ids", DType::U32, &[n], hows[1])
}

/// The first `n` counters.
fn first(n: usize) -> Vec<i64> {
    (0..n as i64).map(|i| 10 * i).collect()
}

const LOGITS: Distribution = Distribution::Normal(0.0, 3.0);

fn drawn(dtype: DType, dims: [usize; 2], draw: Draw) -> CaseBuilder {
    let draft = draw.draft(dtype).read("logits", &dims, Placement::Plain, LOGITS);
    with_counters(draft, &first(dims[0]), [Placement::Plain; 2])
}

fn given(dtype: DType, rows: &[f64], v: usize, draw: Draw) -> CaseBuilder {
    let n = rows.len() / v;
    let draft = draw.draft(dtype).given("logits", &values_of(dtype, rows), &[n, v], Placement::Plain);
    with_counters(draft, &first(n), [Placement::Plain; 2])
}

fn sizes(s: &mut Suite<'_>, dtype: DType) {
    for v in [1, 2, 3, 31, 33, 64, 65, 1000, 1023, 1025, 2049, 4097] {
        for draw in [GREEDY, PLAIN, USUAL] {
            s.run(drawn(dtype, [3, v], draw));
        }
    }
    for (dims, draw) in [
        ([0, 5], PLAIN),
        ([0, 5], GREEDY),
        ([300, 17], PLAIN),
        ([40, 17], USUAL),
        ([2, 20_001], Draw { top_k: Some(5000), ..PLAIN }),
        ([2, 20_001], Draw { top_k: Some(5000), top_p: Some(0.9), ..PLAIN }),
        ([1, 131_073], USUAL),
        ([1, 131_073], Draw { top_p: Some(0.9), ..PLAIN }),
        ([2, 262_144], PLAIN),
    ] {
        s.run(drawn(dtype, dims, draw));
    }
}

fn options(s: &mut Suite<'_>, dtype: DType) {
    for draw in [
        Draw { temperature: 0.1, ..PLAIN },
        Draw { temperature: 3.0, ..PLAIN },
        Draw { temperature: 1e-30, ..PLAIN },
        Draw { temperature: 1e30, ..PLAIN },
        Draw { seed: 1, ..PLAIN },
        Draw { seed: 1 << 32, ..PLAIN },
        Draw { seed: u64::MAX, ..PLAIN },
        Draw { top_k: Some(1), ..PLAIN },
        Draw { top_k: Some(2), ..PLAIN },
        Draw { top_k: Some(7), ..PLAIN },
        Draw { top_k: Some(37), ..PLAIN },
        Draw { top_k: Some(1000), ..PLAIN },
        Draw { top_k: Some(1 << 40), ..PLAIN },
        Draw { top_p: Some(0.0), ..PLAIN },
        Draw { top_p: Some(1e-300), ..PLAIN },
        Draw { top_p: Some(0.3), ..PLAIN },
        Draw { top_p: Some(0.6), temperature: 2.0, ..PLAIN },
        Draw { top_p: Some(0.95), ..PLAIN },
        Draw { top_p: Some(1.0), ..PLAIN },
        // Probabilities are relative to the ten ids that are kept, not to all.
        Draw { top_k: Some(10), top_p: Some(0.7), temperature: 5.0, ..PLAIN },
    ] {
        s.run(drawn(dtype, [16, 37], draw));
    }
}

fn layouts(s: &mut Suite<'_>, dtype: DType) {
    let case = |[logits, counter, ids]: [Placement; 3], draw: Draw| {
        let draft = draw.draft(dtype).read("logits", &[9, 130], logits, LOGITS);
        with_counters(draft, &first(9), [counter, ids])
    };
    let plain = Placement::Plain;
    for draw in [GREEDY, USUAL, Draw { top_p: Some(0.9), ..PLAIN }] {
        for how in IN {
            s.run(case([how, plain, plain], draw));
        }
    }
    for how in OUT {
        s.run(case([plain, plain, how], USUAL));
        s.run(case([plain, how, plain], USUAL));
    }
}

/// Counters of all 64 bits, for the same logits.
fn counters(s: &mut Suite<'_>, dtype: DType) {
    let half = 1i64 << 32;
    let huge = [0, 1, -1, half, half + 1, -half, 1_099_511_627_779, i64::MAX - 1000, i64::MIN, i64::MIN + 1];
    for seed in [0, 0x0123_4567_89ab_cdef] {
        let draft =
            Draw { seed, ..PLAIN }.draft(dtype).read("logits", &[10, 65], Placement::Repeated, LOGITS);
        s.run(with_counters(draft, &huge, [Placement::Plain; 2]).note("counters of 64 bits"));
    }
    // All logits are equal, so the id reveals `u`.
    for v in [64, 1000] {
        let draft = PLAIN.draft(dtype).given("logits", &zeroed(dtype, 16 * v), &[16, v], Placement::Plain);
        s.run(with_counters(draft, &first(16), [Placement::Plain; 2]).note("all equal"));
    }
}

fn special(s: &mut Suite<'_>, dtype: DType) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let rows = [
        [2.0, nan, 3.0, nan, inf, 3.0],
        [-inf, -inf, -inf, -inf, -inf, -inf],
        [-inf, -inf, -inf, 1.0, -inf, 1.0],
        [0.0, inf, -inf, inf, 1.0, inf],
        [0.0, -0.0, -1.0, -0.0, 0.0, -0.0],
        [nan, nan, nan, nan, nan, nan],
        [-inf, -inf, nan, -inf, -inf, -inf],
        [-5.0, 4.0, 4.0, -inf, 4.0, 4.0],
    ];
    for draw in [GREEDY, PLAIN, USUAL, Draw { top_k: Some(2), ..PLAIN }, Draw { top_p: Some(0.6), ..PLAIN }] {
        for shift in 0..4 {
            // The same rows with other counters.
            let repeated = [rows.as_flattened()].repeat(shift + 1).concat();
            s.run(given(dtype, &repeated, 6, draw).note("infinities and nan"));
        }
    }
    // Few distinct values, each many times: the lower id comes first among equals.
    for (v, draw) in [
        (97, GREEDY),
        (97, Draw { top_k: Some(30), ..PLAIN }),
        (700, PLAIN),
        (700, Draw { top_p: Some(0.31), ..PLAIN }),
        (5000, Draw { top_k: Some(1500), ..PLAIN }),
        (5000, Draw { top_k: Some(40), top_p: Some(0.77), ..PLAIN }),
    ] {
        let mut random = Random::of(&format!("{v}"));
        let few: Vec<f64> = (0..8 * v).map(|_| (random.next() % 4) as f64 / 2.0).collect();
        s.run(given(dtype, &few, v, draw).note("many equal"));
    }
    // In order already, and in reverse order.
    for sign in [1.0, -1.0] {
        let row: Vec<f64> = (0..2000).map(|i| sign * f64::from(i / 8) / 16.0).collect();
        s.run(given(dtype, &row, 2000, USUAL).note("sorted"));
        s.run(given(dtype, &row, 2000, PLAIN).note("sorted"));
    }
}
