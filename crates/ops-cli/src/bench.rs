//! Times a problem and compares it with the machine's ceilings.
use crate::backend::Engine;
use crate::catalogue::{Cost, Entry, Shapes, Spec, Types, notation};
use crate::ceilings::Ceilings;
use crate::exit::Failure;
use crate::problem::Running;
use crate::timing::median_ns;
use ops_core::{DType, Result};
use serde::Serialize;
use std::time::Duration;

/// One problem to time.
pub(crate) struct Case {
    pub(crate) entry: &'static Entry,
    pub(crate) types: Types,
    pub(crate) shapes: Shapes,
    /// Bytes of operands that calls rotate through; 0 for one set of operands.
    pub(crate) rotate: usize,
}

/// The measurement of one problem: a line of `ops bench --json`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) op: &'static str,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) backend: &'static str,
    pub(crate) provider: &'static str,
    pub(crate) ns: f64,
    pub(crate) gbps: f64,
    pub(crate) gflops: f64,
    pub(crate) ceiling: f64,
    pub(crate) percent: f64,
    pub(crate) limit: &'static str,
    pub(crate) bytes: usize,
    pub(crate) flops: f64,
    /// Number of values compared with the reference.
    pub(crate) checked: usize,
}

/// The outcome of one case.
pub(crate) enum Measured {
    /// The result was right; this is how fast it was.
    Row(Box<Row>),
    /// The backend declined it, for this reason.
    Declined(String),
    /// The result was wrong, or the op failed.
    Failed(String),
}

/// Maximum number of operations for a comparison with the reference: this takes a fraction of a second.
pub(crate) const CHECK_LIMIT: f64 = 2e7;
/// Maximum number of operand sets that calls rotate through: small operands would need millions.
const MOST_SETS: usize = 256;

impl Case {
    /// The shapes in the notation of `ops explain --shape`.
    pub(crate) fn label(&self) -> String {
        let first = self.entry.first();
        let given = &self.shapes.given;
        let mut label = given.get(first).map(|dims| notation(dims)).unwrap_or_default();
        for (name, dims) in given.iter().filter(|(name, _)| *name != first) {
            label += &format!(" {name}={}", notation(dims));
        }
        if self.shapes.causal { label + " causal" } else { label }
    }

    /// Checks the result, then times the op.
    ///
    /// # Errors
    /// The op does not support these types or shapes.
    pub(crate) fn measure(
        &self,
        engine: &dyn Engine,
        ceilings: &mut dyn Ceilings,
        budget: Duration,
    ) -> std::result::Result<Measured, Failure> {
        let spec = Spec::new(self.entry, self.types.clone(), &self.shapes.given)?;
        let problem = engine.problem(Spec { causal: self.shapes.causal, ..spec })?;
        let candidates = problem.explain().candidates;
        let Some(taken) = candidates.iter().find(|c| c.taken) else {
            let reason = candidates.into_iter().next_back().map_or_else(String::new, |c| c.reason);
            return Ok(Measured::Declined(reason));
        };
        let cost = problem.cost();
        let timed = problem.load().and_then(|mut loaded| {
            let checked = loaded.check(CHECK_LIMIT)?;
            if checked.mismatch.is_some() {
                return Ok((checked, 0.0));
            }
            let mut sets = vec![loaded];
            for _ in 1..self.rotate.div_ceil(cost.bytes.max(1)).min(MOST_SETS) {
                sets.push(problem.load()?);
            }
            Ok((checked, in_turn(&mut sets, budget)?))
        });
        Ok(match timed {
            Err(e) => Measured::Failed(e.to_string()),
            Ok((checked, ns)) => match checked.mismatch {
                Some(mismatch) => Measured::Failed(mismatch),
                None => {
                    let row = self.row(engine.name(), taken.provider, cost, ns, ceilings);
                    Measured::Row(Box::new(Row { checked: checked.values, ..row }))
                }
            },
        })
    }

    fn row(
        &self,
        backend: &'static str,
        provider: &'static str,
        cost: Cost,
        ns: f64,
        ceilings: &mut dyn Ceilings,
    ) -> Row {
        let (gbps, gflops) = (cost.bytes as f64 / ns, cost.flops / ns);
        let floor = Floor::of(cost, cost.bytes.max(self.rotate), self.types.runs_in, ceilings);
        let Floor { limit, ceiling, .. } = floor;
        let reached = if limit == Floor::COMPUTE { gflops } else { gbps };
        Row {
            op: self.entry.name,
            dtype: self.types.notation(self.entry),
            shape: self.shapes.given.get(self.entry.first()).cloned().unwrap_or_default(),
            backend,
            provider,
            ns: rounded(ns),
            gbps: rounded(gbps),
            gflops: rounded(gflops),
            ceiling: rounded(ceiling),
            percent: rounded(100.0 * reached / ceiling),
            limit,
            bytes: cost.bytes,
            flops: cost.flops,
            checked: 0,
        }
    }
}

/// The time that no implementation of a problem can beat at the machine's ceilings.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// Nanoseconds.
    pub(crate) ns: f64,
    /// What the limit is: [`COMPUTE`](Self::COMPUTE) or `bandwidth`.
    pub(crate) limit: &'static str,
    /// The ceiling of the limit, in GFLOP/s or GB/s.
    pub(crate) ceiling: f64,
}

impl Floor {
    pub(crate) const COMPUTE: &'static str = "compute";

    /// The floor of a problem, compared with a copy that moves `copied` bytes and with multiply-adds in
    /// `dtype`.
    pub(crate) fn of(cost: Cost, copied: usize, dtype: DType, ceilings: &mut dyn Ceilings) -> Self {
        let (copy, peak) = (ceilings.copy_gbps(copied), ceilings.peak_gflops(dtype));
        let (moving, computing) = (cost.bytes as f64 / copy, cost.flops / peak);
        // The limit is whichever takes longer at its ceiling.
        if computing > moving {
            Floor { ns: computing, limit: Floor::COMPUTE, ceiling: peak }
        } else {
            Floor { ns: moving, limit: "bandwidth", ceiling: copy }
        }
    }
}

/// Nanoseconds per call. Rotates through the sets of operands, waiting once per round.
pub(crate) fn in_turn(sets: &mut [Running<'_>], budget: Duration) -> Result<f64> {
    let mut ns = 0.0;
    let count = sets.len();
    together(sets, &mut || Ok(()), &mut |round| {
        ns = median_ns(budget, round)?;
        Ok(())
    })?;
    Ok(ns / count as f64)
}

/// Takes a function that makes a round of calls.
type WithRound<'w> = dyn FnMut(&mut dyn FnMut() -> Result<()>) -> Result<()> + 'w;

/// Hands a function to `with` that enqueues `before` and a call on each set, and waits.
fn together(
    sets: &mut [Running<'_>],
    before: &mut dyn FnMut() -> Result<()>,
    with: &mut WithRound<'_>,
) -> Result<()> {
    let Some((first, rest)) = sets.split_first_mut() else {
        return Ok(());
    };
    first.prepare(&mut |call| {
        if rest.is_empty() {
            return with(&mut || before().and_then(|()| call.run()));
        }
        together(rest, &mut || before().and_then(|()| call.enqueue()), with)
    })
}

/// Rounded to five significant digits; the rest is noise.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(
            [123_456.7, 1.234_567, 0.000_123_456_7, 0.0].map(rounded),
            [123_460.0, 1.2346, 0.000_123_46, 0.0]
        );
        assert!(rounded(f64::NAN).is_nan());
    }
}
