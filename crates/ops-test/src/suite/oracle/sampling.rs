//! Drawing tokens from logits, and random numbers.
use super::double::Double;
use super::{Wants, exactly, integers, values, want};
use crate::{Array, CallError, Case};
use ops_core::DType;
use ops_core::ops::Random;

/// The ops computed here.
pub(super) const OPS: &[&str] = &["sample", "random_uniform", "random_normal"];

/// Minimum distance of `u` and `top_p` from the boundaries between two ids, so that every backend draws the
/// same.
const MARGIN: f64 = 1e-5;

pub(super) fn wants(case: &Case) -> Wants {
    if case.op != "sample" {
        return random(case);
    }
    let options = Options::of(case)?;
    let rows = options.rows(case)?;
    let counters = integers::integers(case, "counter")?;
    let draw = |(row, counter): (&Row, i128)| row.draw(options.u(counter as i64), options.top_p);
    let ids: Vec<i64> = rows.iter().zip(counters).map(draw).collect();
    Ok(vec![exactly("ids", integers::array(DType::U32, &ids)?)])
}

/// For each row, the first counter, starting from the given one, for which rounding cannot affect which id is
/// drawn.
///
/// # Errors
/// The case is malformed.
pub(in crate::suite) fn steady_counters(case: &Case, counters: &[i64]) -> Result<Vec<i64>, CallError> {
    let options = Options::of(case)?;
    let steady = |row: &Row, counter: i64| {
        let shifts = [(-MARGIN, -MARGIN), (-MARGIN, MARGIN), (MARGIN, -MARGIN), (MARGIN, MARGIN)];
        let draw = |(u, p)| row.draw(options.u(counter) + u, options.top_p + p);
        let ids = shifts.map(draw);
        ids.iter().all(|id| *id == ids[0])
    };
    let find = |(row, from): (&Row, &i64)| {
        let next = (0..1000).map(|step| from.wrapping_add(step)).find(|counter| steady(row, *counter));
        next.ok_or_else(|| CallError::Malformed("every counter draws near a bound".into()))
    };
    options.rows(case)?.iter().zip(counters).map(find).collect()
}

struct Options {
    temperature: f64,
    top_k: usize,
    top_p: f64,
    seed: u64,
}

impl Options {
    fn of(case: &Case) -> Result<Self, CallError> {
        let p = &case.params;
        Ok(Options {
            temperature: p.f64("temperature")?,
            top_k: p.count("top_k")?.unwrap_or(usize::MAX),
            top_p: p.number("top_p")?.unwrap_or(1.0),
            seed: p.count("seed")?.unwrap_or(0) as u64,
        })
    }

    fn rows(&self, case: &Case) -> Result<Vec<Row>, CallError> {
        let logits = values(case, "logits")?;
        let v = logits.dims.last().copied().unwrap_or(1);
        Ok(logits.of.chunks(v).map(|row| Row::new(row, self)).collect())
    }

    /// The random number of a counter.
    fn u(&self, counter: i64) -> f64 {
        (f64::from(first_word(self.seed, counter)) + 0.5) / 2f64.powi(32)
    }
}

/// What can be drawn from a row.
enum Row {
    /// Always this id.
    Certain(i64),
    /// These ids, likelier ones first; and for each the cumulative probability up to it, not normalised.
    Among(Vec<usize>, Vec<f64>),
}

impl Row {
    fn new(row: &[f64], options: &Options) -> Self {
        let nan = row.iter().position(|logit| logit.is_nan());
        let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let greedy = options.temperature == 0.0 || largest == f64::NEG_INFINITY;
        if let Some(id) = nan.or_else(|| row.iter().position(|logit| greedy && *logit == largest)) {
            return Row::Certain(id as i64);
        }
        let mut order: Vec<usize> = (0..row.len()).collect();
        // Stable, so the lower id comes first among equals, and zeros of either sign are equal.
        order.sort_by(|i, j| row[*j].partial_cmp(&row[*i]).unwrap_or(std::cmp::Ordering::Equal));
        order.truncate(options.top_k);
        let mut sum = 0.0;
        let running = order.iter().map(|i| {
            let below = if row[*i] == largest { 0.0 } else { row[*i] - largest };
            sum += (below / options.temperature).exp();
            sum
        });
        let running = running.collect();
        Row::Among(order, running)
    }

    fn draw(&self, u: f64, top_p: f64) -> i64 {
        let (order, running) = match self {
            Row::Certain(id) => return *id,
            Row::Among(order, running) => (order, running),
        };
        let total = |n: usize| running[n - 1];
        let bound = top_p * total(running.len());
        let n = running.iter().position(|sum| *sum >= bound).map_or(running.len(), |at| at + 1);
        // If shifted beyond 1, `u` selects the last id with a non-zero probability.
        let bound = (u * total(n)).min(total(n) * (1.0 - 1e-15));
        let drawn = running[..n].iter().position(|sum| *sum > bound);
        drawn.map_or(0, |at| order[at] as i64)
    }
}

/// The first of the four words of Philox-4×32-10, from section 3.3 of its paper: `L' = mullo(R, M)` and
/// `R' = mulhi(R, M) ^ k ^ L` for each of two pairs, which then exchange their `R`.
fn first_word(seed: u64, counter: i64) -> u32 {
    philox([counter as u64, 0], seed)[0] as u32
}

/// Words 0 and 1, and words 2 and 3.
fn philox(counter: [u64; 2], key: u64) -> [u64; 2] {
    const M: [u64; 2] = [0xd251_1f53, 0xcd9e_8d57];
    const W: [u64; 2] = [0x9e37_79b9, 0xbb67_ae85];
    const WORD: u64 = u32::MAX as u64;
    let halves = |v: u64| [v & WORD, v >> 32];
    // Words 0 and 2 are multiplied; words 1 and 3 are mixed in.
    let ([r0, l0], [r1, l1]) = (halves(counter[0]), halves(counter[1]));
    let (mut r, mut l) = ([r0, r1], [l0, l1]);
    for round in 0..10 {
        let k = [0, 1].map(|i| (halves(key)[i] + round * W[i]) & WORD);
        let products = [M[0] * r[0], M[1] * r[1]];
        r = [(products[1] >> 32) ^ l[0] ^ k[0], (products[0] >> 32) ^ l[1] ^ k[1]];
        l = [products[1] & WORD, products[0] & WORD];
    }
    [l[0] << 32 | r[0], l[1] << 32 | r[1]]
}

/// Fractions of the highest bits of 32-bit words, or in f64 of 64-bit words; or normal numbers of two such fractions.
fn random(case: &Case) -> Wants {
    let count = |name| Ok::<_, CallError>(case.params.count(name)?.unwrap_or(0) as u64);
    let (seed, offset) = (count("seed")?, count("offset")?);
    let (is_wide, is_normal) = (case.dtype == DType::F64, case.op == "random_normal");
    let words = (0u64..).flat_map(|block| philox([offset.wrapping_add(block), 1], seed)).flat_map(|two| {
        let (one, other) = (two & u64::from(u32::MAX), two >> 32);
        if is_wide { vec![two] } else { vec![one << 32, other << 32] }
    });
    let n = case.expect("y")?.layout.len();
    if !is_normal {
        let bits = case.dtype.precision().unwrap_or(0);
        let y: Vec<f64> =
            words.map(|word| (word >> (64 - bits)) as f64 / 2f64.powi(bits as i32)).take(n).collect();
        return Ok(vec![exactly("y", Array::from_slice(&y)?)]);
    }
    let steps = if is_wide { 53 } else { 24 };
    let mut words = words.map(|word| word >> (64 - steps));
    let scale = Double::of(2f64.powi(-steps));
    let mut y = Vec::new();
    while let (Some(u), Some(v), true) = (words.next(), words.next(), y.len() < n) {
        let radius = (Double::of(-2.0) * (Double::of(((1 << steps) - u) as f64) * scale).ln()).sqrt();
        // An eighth of a turn at most, so that sine and cosine are exact to the last bits.
        let (eighth, rest) = (v >> (steps - 3), v & ((1 << (steps - 3)) - 1));
        let whole = 1u64 << (steps - 3);
        let angle = |steps_of: u64| steps_of as f64 * 2f64.powi(-steps) * std::f64::consts::TAU;
        let (from_below, from_above) = (angle(rest).sin_cos(), angle(whole - rest).sin_cos());
        let (cos, sin) = match eighth {
            0 => (from_below.1, from_below.0),
            1 => (from_above.0, from_above.1),
            2 => (-from_below.0, from_below.1),
            3 => (-from_above.1, from_above.0),
            4 => (-from_below.1, -from_below.0),
            5 => (-from_above.0, -from_above.1),
            6 => (from_below.0, -from_below.1),
            _ => (from_above.1, -from_above.0),
        };
        y.extend([radius * Double::of(cos), radius * Double::of(sin)]);
    }
    y.truncate(n);
    Ok(vec![want(case, &Random::<f64>::normal(0), "y", &y)?])
}

#[cfg(test)]
mod tests {
    use super::philox;

    /// The known answers of the Random123 distribution.
    #[test]
    fn philox_gives_the_known_answers() {
        assert_eq!(philox([0; 2], 0), [0xe169_c58d_6627_e8d5, 0x9b00_dbd8_bc57_ac4c]);
        assert_eq!(philox([u64::MAX; 2], u64::MAX), [0x41c8_3b0e_408f_276d, 0x6d54_51fd_a20b_c7c6]);
        let pi = [0x85a3_08d3_243f_6a88, 0x0370_7344_1319_8a2e];
        assert_eq!(philox(pi, 0x299f_31d0_a409_3822), [0x94fd_cceb_d16c_fe09, 0x2412_6ea1_5001_e420]);
    }
}
