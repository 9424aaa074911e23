//! Measures how long a call takes.
use ops_core::Result;
use std::time::{Duration, Instant};

/// Nanoseconds per call: the median over rounds, each long enough for the clock's resolution.
///
/// Runs for about `budget` and at least three rounds, or one round if a call takes a second or more.
///
/// # Errors
/// Errors of `call`.
pub(crate) fn median_ns(budget: Duration, call: impl FnMut() -> Result<()>) -> Result<f64> {
    Ok(median(&mut rounds(budget, call)?))
}

/// The shortest time of a call in nanoseconds, for the machine's limits: other programs can only make a call
/// slower.
///
/// # Errors
/// Errors of `call`.
pub(crate) fn best_ns(budget: Duration, call: impl FnMut() -> Result<()>) -> Result<f64> {
    Ok(rounds(budget, call)?.into_iter().fold(f64::INFINITY, f64::min))
}

/// Nanoseconds per call, one number per round.
fn rounds(budget: Duration, mut call: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    // About 500 times the cost of reading the clock.
    const ROUND: Duration = Duration::from_micros(25);
    const MAX_ROUNDS: usize = 2001;

    let mut time = |calls: u32| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        Ok(start.elapsed().max(Duration::from_nanos(1)))
    };
    // The first call warms up. If it was short, a second call gives the estimate.
    let first = time(1)?;
    let once = if first < budget { time(1)? } else { first };
    let calls = (ROUND.as_nanos() / once.as_nanos()).clamp(1, 10_000) as u32;
    let min_rounds = if once < Duration::from_secs(1) { 3 } else { 1 };

    let mut rounds = Vec::new();
    let start = Instant::now();
    while rounds.len() < min_rounds || (start.elapsed() < budget && rounds.len() < MAX_ROUNDS) {
        rounds.push(time(calls)?.as_nanos() as f64 / f64::from(calls));
    }
    Ok(rounds)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values {
        [] => 0.0,
        v if v.len() % 2 == 1 => v[middle],
        v => (v[middle - 1] + v[middle]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_call_is_timed_and_its_error_returned() {
        let mut calls = 0;
        let ns = median_ns(Duration::from_nanos(1), || {
            calls += 1;
            std::thread::sleep(Duration::from_millis(1));
            Ok(())
        });
        assert!(ns.unwrap() >= 1e6);
        assert_eq!(calls, 4, "one to warm up, three rounds");
        let failing = || Err(ops_core::Error::Axis { of: None, axis: 3, rank: 1 });
        assert!(median_ns(Duration::ZERO, failing).is_err());
    }
}
