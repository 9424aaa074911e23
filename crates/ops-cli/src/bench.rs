//! Timing a problem and setting it against what the machine can do.
use crate::backend::Engine;
use crate::catalogue::{Cost, Entry, Shapes, Spec, Types, notation};
use crate::ceilings::Ceilings;
use crate::exit::Failure;
use crate::timing::median_ns;
use serde::Serialize;
use std::time::Duration;

/// One problem to time.
pub(crate) struct Case {
    pub(crate) entry: &'static Entry,
    pub(crate) types: Types,
    pub(crate) shapes: Shapes,
}

/// What was measured.
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
    /// Values compared with the reference.
    pub(crate) checked: usize,
}

/// How a case went.
pub(crate) enum Measured {
    /// It was right, and this fast.
    Row(Box<Row>),
    /// The backend declines it.
    Declined(String),
    /// It was wrong, or could not be run.
    Failed(String),
}

/// Operations that a comparison with the reference may take: a part of a second.
const CHECKED: f64 = 2e7;

impl Case {
    /// The shapes, as `explain` takes them.
    pub(crate) fn label(&self) -> String {
        let first = self.entry.first();
        let given = &self.shapes.given;
        let mut label = given.get(first).map(|dims| notation(dims)).unwrap_or_default();
        for (name, dims) in given.iter().filter(|(name, _)| *name != first) {
            label += &format!(" {name}={}", notation(dims));
        }
        if self.shapes.causal { label + " causal" } else { label }
    }

    /// Checks and times it.
    ///
    /// # Errors
    /// The case is none that the op can take.
    pub(crate) fn measure(
        &self,
        engine: &dyn Engine,
        ceilings: &mut dyn Ceilings,
        budget: Duration,
    ) -> Result<Measured, Failure> {
        let spec = Spec::new(self.entry, self.types.clone(), &self.shapes.given)?;
        let problem = engine.problem(Spec { causal: self.shapes.causal, ..spec })?;
        let candidates = problem.explain().candidates;
        let Some(taken) = candidates.iter().find(|c| c.taken) else {
            let reason = candidates.into_iter().next_back().map_or_else(String::new, |c| c.reason);
            return Ok(Measured::Declined(reason));
        };
        let cost = problem.cost();
        let timed = problem.load().and_then(|mut loaded| {
            let checked = loaded.check(CHECKED)?;
            if checked.mismatch.is_some() {
                return Ok((checked, 0.0));
            }
            let mut ns = 0.0;
            loaded.prepare(&mut |run| {
                ns = median_ns(budget, run)?;
                Ok(())
            })?;
            Ok((checked, ns))
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
        let (copy, peak) = (ceilings.copy_gbps(cost.bytes), ceilings.peak_gflops(self.types.runs_in));
        // Whichever takes longer at its ceiling is the limit.
        let (limit, reached, ceiling) = if cost.flops / peak > cost.bytes as f64 / copy {
            ("compute", gflops, peak)
        } else {
            ("bandwidth", gbps, copy)
        };
        Row {
            op: self.entry.name,
            dtype: self.types.notation(self.entry),
            shape: self.shapes.given.get(self.entry.first()).cloned().unwrap_or_default(),
            backend,
            provider,
            ns: digits(ns),
            gbps: digits(gbps),
            gflops: digits(gflops),
            ceiling: digits(ceiling),
            percent: digits(100.0 * reached / ceiling),
            limit,
            bytes: cost.bytes,
            flops: cost.flops,
            checked: 0,
        }
    }
}

/// Rounded to the five digits that are worth writing.
fn digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(4 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::digits;

    #[test]
    fn five_digits_are_kept() {
        assert_eq!(
            [123_456.7, 1.234_567, 0.000_123_456_7, 0.0].map(digits),
            [123_460.0, 1.2346, 0.000_123_46, 0.0]
        );
        assert!(digits(f64::NAN).is_nan());
    }
}
