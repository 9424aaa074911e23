//! Prints the nanoseconds of a small call from Rust, which tools/lab/torch.sh compares with the same call from Python.
use rocm_ops::prelude::*;
use std::io::Write as _;
use std::time::Instant;

/// So few that a round is often not interrupted.
const CALLS: u32 = 1000;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let b = Cpu::new();
    let (x, weight) = (b.tensor([1, 64], &[0.5f32; 64])?, b.tensor(64, &[1.0f32; 64])?);
    let mut y = b.zeros::<f32>([1, 64])?;
    let mut fastest = f64::INFINITY;
    for _ in 0..100 {
        let begin = Instant::now();
        for _ in 0..CALLS {
            b.rms_norm_into(&x, &weight, &mut y, RmsNorm::eps(1e-5))?;
        }
        fastest = fastest.min(begin.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS));
    }
    writeln!(std::io::stdout(), "{fastest:.0}")?;
    Ok(())
}
