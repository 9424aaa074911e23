//! Clocks.
use ops_core::Result;
use std::time::{Duration, Instant};

/// Nanoseconds that a call takes: the median over rounds, each long enough for the clock.
///
/// Runs for about `budget`, and three rounds at least; one, where a call takes a second.
///
/// # Errors
/// Those of `call`.
pub(crate) fn median_ns(budget: Duration, mut call: impl FnMut() -> Result<()>) -> Result<f64> {
    // A round of this length is five hundred times what reading the clock takes.
    const ROUND: Duration = Duration::from_micros(25);
    const MOST_ROUNDS: usize = 2001;

    let mut time = |calls: u32| -> Result<Duration> {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        Ok(start.elapsed().max(Duration::from_nanos(1)))
    };
    // The first call warms up; where it was short, another one tells how long one is.
    let first = time(1)?;
    let once = if first < budget { time(1)? } else { first };
    let calls = (ROUND.as_nanos() / once.as_nanos()).clamp(1, 10_000) as u32;
    let least = if once < Duration::from_secs(1) { 3 } else { 1 };

    let mut rounds = Vec::new();
    let start = Instant::now();
    while rounds.len() < least || (start.elapsed() < budget && rounds.len() < MOST_ROUNDS) {
        rounds.push(time(calls)?.as_nanos() as f64 / f64::from(calls));
    }
    Ok(median(&mut rounds))
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
        let failing = || Err(ops_core::Error::Axis { axis: 3, rank: 1 });
        assert!(median_ns(Duration::ZERO, failing).is_err());
    }
}
