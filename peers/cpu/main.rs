//! This project's side of the comparison with other programs. It reads one case name per line, checks the result against
//! the reference and prints microseconds. `peers/compare.py` runs it.
mod cases;

use cases::{Run, case};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

/// Time budget per case and round.
const ROUND: Duration = Duration::from_millis(300);

fn main() {
    let mut cases: HashMap<String, Run> = HashMap::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match cases.get(&line) {
            Some(run) => time(run),
            None => {
                // One case at a time, so that the memory of the previous one is free again.
                cases.clear();
                case(&line).and_then(|run| {
                    let us = time(&run);
                    cases.insert(line.clone(), run);
                    us
                })
            }
        };
        match answer {
            Ok(us) => println!("{us}"),
            Err(e) => println!("wrong {e}"),
        }
        if std::io::stdout().flush().is_err() {
            return;
        }
    }
}

/// The fastest calls of a round, in microseconds.
fn time(run: &Run) -> Result<f64, String> {
    let (begin, mut times) = (Instant::now(), Vec::new());
    run()?;
    let first = Instant::now();
    run()?;
    let batch = (20e-6 / first.elapsed().as_secs_f64()).ceil().max(1.0) as u32;
    while times.len() < 5 || begin.elapsed() < ROUND {
        let start = Instant::now();
        for _ in 0..batch {
            run()?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(batch));
    }
    // The fastest call: on a shared machine, anything slower includes other processes' work.
    Ok(times.into_iter().fold(f64::INFINITY, f64::min))
}
