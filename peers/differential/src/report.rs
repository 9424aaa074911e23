//! Judges results and counts them.
use crate::call::Call;
use crate::explained::{EXPLAINED, Explained};
use candle_core::{DType, Tensor};
use rocm_ops::Scalar;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[derive(Default)]
struct Row {
    calls: u64,
    equal: u64,
    rounded: u64,
    explained: u64,
    refused: u64,
}

/// Counts by op and type; explained differences by explanation; and unexplained ones.
#[derive(Default)]
pub(crate) struct Report {
    rows: BTreeMap<(String, String), Row>,
    used: BTreeMap<usize, u64>,
    refusals: BTreeMap<String, u64>,
    unexplained: Vec<String>,
}

/// candle's result, with panics as errors.
pub(crate) fn theirs(f: impl FnOnce() -> candle_core::Result<Tensor>) -> Result<Vec<f64>, String> {
    match catch_unwind(AssertUnwindSafe(|| f().and_then(|y| numbers(&y)))) {
        Ok(done) => done.map_err(|e| e.to_string().lines().next().unwrap_or("").to_owned()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("");
            Err(format!("panic: {}", text.lines().next().unwrap_or("")))
        }
    }
}

fn numbers(y: &Tensor) -> candle_core::Result<Vec<f64>> {
    let y = y.contiguous()?.flatten_all()?;
    if y.dtype() == DType::I64 {
        return Ok(y.to_vec1::<i64>()?.into_iter().map(|v| v as f64).collect());
    }
    if y.dtype() == DType::F8E4M3 {
        // Read as bits: in the first runs of this program candle's conversion of these results to f64 did not return, for a reason
        // that was not found.
        let bits = |v: float8::F8E4M3| rocm_ops::F8E4M3::from_bits(v.to_bits()).to_f64();
        return Ok(y.to_vec1::<float8::F8E4M3>()?.into_iter().map(bits).collect());
    }
    y.to_dtype(DType::F64)?.to_vec1::<f64>()
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

impl Report {
    /// Compares results; `truth` is computed in f64, if the op exists in it.
    pub(crate) fn compare(
        &mut self,
        call: &Call<'_>,
        ours: Result<Vec<f64>, String>,
        theirs: Result<Vec<f64>, String>,
        truth: Option<Vec<f64>>,
    ) {
        let row = self.rows.entry((call.op.to_owned(), call.dtype.to_owned())).or_default();
        row.calls += 1;
        let (ours, theirs) = match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Ok(_), Err(why)) => {
                row.refused += 1;
                *self.refusals.entry(format!("{}: {}", call.op, plain(&why))).or_default() += 1;
                return;
            }
            (Err(_), Err(why)) => {
                row.refused += 1;
                *self
                    .refusals
                    .entry(format!("{}, and so is it here: {}", call.op, plain(&why)))
                    .or_default() += 1;
                return;
            }
            (Err(why), Ok(_)) => {
                self.unexplained
                    .push(format!("{} {} {}: ours {why}, theirs a result", call.op, call.dtype, call.text));
                return;
            }
        };
        if ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| same(*a, *b)) {
            row.equal += 1;
            return;
        }
        let scale =
            theirs.iter().chain(&ours).filter(|v| v.is_finite()).map(|v| v.abs()).fold(call.terms, f64::max);
        let near = |a: f64, b: f64| {
            same(a, b) || (a - b).abs() <= call.rounding * (scale * 0.1 + a.abs().max(b.abs()))
        };
        if ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| near(*a, *b)) {
            row.rounded += 1;
            return;
        }
        let ours_right = truth.is_some_and(|truth| {
            truth.len() == ours.len()
                && truth.iter().zip(&ours).all(|(t, a)| near(*t, *a) || overflow(*t, *a, call.dtype))
        });
        let found = EXPLAINED.iter().position(|e: &Explained| e.covers(call, ours_right));
        if let Some(at) = found {
            row.explained += 1;
            *self.used.entry(at).or_default() += 1;
            return;
        }
        let at = ours.iter().zip(&theirs).position(|(a, b)| !near(*a, *b));
        let pair = at.map(|at| (at, ours[at], theirs[at]));
        self.unexplained.push(format!(
            "{} {} {}: element, ours, theirs {pair:?} of {} and {}; ours is {} within the contract",
            call.op,
            call.dtype,
            call.text,
            ours.len(),
            theirs.len(),
            if ours_right { "" } else { "not" }
        ));
    }

    /// Prints everything; returns whether all differences are explained.
    pub(crate) fn finish(self) -> bool {
        println!("| op | type | calls | equal | within rounding | explained | refused by candle |");
        println!("|---|---|---:|---:|---:|---:|---:|");
        for ((op, dtype), row) in &self.rows {
            let Row { calls, equal, rounded, explained, refused } = row;
            println!("| {op} | {dtype} | {calls} | {equal} | {rounded} | {explained} | {refused} |");
        }
        println!("\n| ops | theirs | ours | contract | results |\n|---|---|---|---|---:|");
        for (at, e) in EXPLAINED.iter().enumerate() {
            let count = self.used.get(&at).copied().unwrap_or(0);
            println!("| {} | {} | {} | {} | {count} |", e.ops.join(", "), e.theirs, e.ours, e.contract);
        }
        println!("\n| candle refuses | calls |\n|---|---:|");
        self.refusals.iter().for_each(|(why, count)| println!("| {why} | {count} |"));
        println!("\n{} results without an explanation", self.unexplained.len());
        self.unexplained.iter().take(60).for_each(|line| println!("{line}"));
        self.unexplained.is_empty()
    }
}

/// Whether the exact result exceeds the type's range, and the result is infinite.
fn overflow(truth: f64, got: f64, dtype: &str) -> bool {
    let largest = match dtype {
        "f16" => 65504.0,
        "bf16" | "f32" => 3.38e38,
        _ => return false,
    };
    truth.abs() >= largest && got.is_infinite() && (truth > 0.0) == (got > 0.0)
}

/// The text without numbers, so that similar refusals are counted together.
fn plain(why: &str) -> String {
    let text: String = why.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    text.split('[').next().unwrap_or("").chars().take(90).collect()
}
