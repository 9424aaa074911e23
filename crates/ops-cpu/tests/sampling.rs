//! Draws from logits: their frequencies, and agreement of all backends and numbers of threads.
use ops_core::ops::{Sample, SamplingMethods, SamplingOps};
use ops_core::{Backend, Result};
use ops_cpu::{Cpu, Reference};

/// `rows` rows of logits in −4..4, from a hash of their positions.
fn logits(rows: usize, v: usize) -> Vec<f32> {
    let hash = |at: u64| {
        (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23).wrapping_mul(0xd6e8_feb8_6659_fd93)
    };
    (0..rows * v).map(|at| (hash(at as u64) >> 40) as f32 / (1 << 21) as f32 - 4.0).collect()
}

fn drawn<B: Backend + SamplingOps<f32>>(b: &B, x: &[f32], n: usize, op: Sample<f32>) -> Result<Vec<u32>> {
    let counters: Vec<i64> = (0..n as i64).collect();
    let (logits, counters) = (b.tensor(&[n, x.len() / n], x)?, b.tensor(&[n], &counters)?);
    b.sample(&logits, &counters, op)?.to_vec(b)
}

#[test]
fn frequencies_are_the_probabilities() {
    let (n, row) = (40_000, [0.0f32, 1.5, -1.0, 0.5, 0.5, -2.5, 1.0, -0.25]);
    for (op, kept) in [
        (Sample::temperature(1.0).seed(5), &[0, 1, 2, 3, 4, 5, 6, 7][..]),
        (Sample::temperature(0.6).seed(6), &[0, 1, 2, 3, 4, 5, 6, 7]),
        (Sample::temperature(1.0).top_k(4).seed(7), &[1, 3, 4, 6]),
        (Sample::temperature(2.0).top_k(6).top_p(0.6).seed(8), &[1, 3, 6]),
    ] {
        let ids = drawn(&Cpu::new(), &row.repeat(n), n, op).unwrap();
        let power = |id: &usize| (f64::from(row[*id]) / op.temperature).exp();
        let total: f64 = kept.iter().map(power).sum();
        let mut chi_squared = 0.0;
        for id in 0..row.len() {
            let count = ids.iter().filter(|drawn| **drawn as usize == id).count() as f64;
            if kept.contains(&id) {
                let expected = n as f64 * power(&id) / total;
                chi_squared += (count - expected).powi(2) / expected;
            } else {
                assert_eq!(count, 0.0, "{id} {op:?}");
            }
        }
        // With seven degrees of freedom, one in 10000 seeds exceeds this.
        assert!(chi_squared < 29.9, "{chi_squared} {op:?}");
    }
}

/// Even where rounding could matter: probabilities are summed as integers.
#[test]
fn every_backend_and_number_of_threads_draws_the_same_ids() {
    let plain = || Sample::temperature(0.9).seed(3);
    for (n, v) in [(3000, 97), (40, 3001), (2, 60_000)] {
        let x = logits(n, v);
        for op in [
            plain(),
            plain().top_k(40).top_p(0.95),
            plain().top_p(0.8),
            plain().top_k(2000),
            plain().top_k(2000).top_p(0.9),
            Sample::greedy(),
        ] {
            let want = drawn(&Reference::new(), &x, n, op).unwrap();
            for threads in [1, 3] {
                let cpu = Cpu::builder().threads(threads).build().unwrap();
                assert!(drawn(&cpu, &x, n, op).unwrap() == want, "{n} {v} {op:?}, {threads} threads");
            }
        }
    }
}

#[test]
fn half_of_four_equal_probabilities_are_two() {
    let (n, op) = (300, Sample::temperature(0.7).top_p(0.5));
    let ids = drawn(&Cpu::new(), &vec![2.5; 4 * n], n, op).unwrap();
    assert_eq!(drawn(&Reference::new(), &vec![2.5; 4 * n], n, op).unwrap(), ids);
    assert!(ids.iter().all(|id| *id < 2) && [0, 1].iter().all(|id| ids.contains(id)));
}

#[test]
fn options_out_of_range_are_errors_that_say_what_is_in_range() {
    let error = |op| drawn(&Cpu::new(), &[1.0, 2.0], 1, op).unwrap_err().to_string();
    for (op, part) in [
        (Sample::temperature(-1.0), "temperature"),
        (Sample::temperature(f64::NAN), "temperature"),
        (Sample::temperature(1.0).top_k(0), "at least 1"),
        (Sample::temperature(1.0).top_p(1.5), "from 0 to 1"),
        (Sample::temperature(1.0).top_p(f64::NAN), "from 0 to 1"),
    ] {
        let error = error(op);
        assert!(error.contains("sample") && error.contains(part), "{error}");
    }
    assert!(drawn(&Cpu::new(), &[], 1, Sample::greedy()).unwrap_err().to_string().contains("v from 1"));
    assert_eq!(drawn(&Cpu::new(), &[-1.0, 2.0], 1, Sample::temperature(1.0).top_p(0.0)).unwrap(), [1]);
}
