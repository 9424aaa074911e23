//! How to catch a wrong kernel: `cargo run --example checked`.
//!
//! `Checked` also runs every op on a second backend and compares the results within the op's own tolerance.
//! Here a backend ignores `eps`, a bug that nobody would notice by looking at the output.
use ops_command::stdout;
use rocm_ops::backend::{Call, Execute};
use rocm_ops::combine::{Intercept, OnMismatch, Wrapper};
use rocm_ops::{Checked, Cpu, Error, Reference, Result, Scalar, ops::*};

/// The CPU with a bug. It computes in the CPU's memory, so it is a wrapper.
#[derive(Clone)]
struct Faulty(Cpu);

impl Wrapper for Faulty {
    type Inner = Cpu;
    fn inner(&self) -> &Cpu {
        &self.0
    }
    fn around(&self, inner: Cpu) -> Self {
        Faulty(inner)
    }
}

impl Intercept<RmsNorm<f32>> for Faulty {
    fn execute(&self, call: Call<'_, '_, RmsNorm<f32>, rocm_ops::Host>) -> Result<()> {
        let (_, a) = call.into_parts();
        let without_eps = RmsNorm::eps(0.0);
        self.0.rms_norm_into(&a.x, &a.weight, &mut a.y, without_eps)
    }
}

fn normalise<B: Execute<RmsNorm<f32>>>(b: &B, size: f32) -> Result<()> {
    let x = b.tensor(&[2, 3], &[size, -size, size, 2.0 * size, size, 0.0])?;
    let weight = b.tensor(&[3], &[1.0f32; 3])?;
    let mut y = b.zeros::<f32>(&[2, 3])?;
    let args = args::rms_norm::Args { x: x.as_ref(), weight: weight.any(), y: y.as_mut() };
    b.run(&RmsNorm::eps(1e-5), args)?;
    writeln!(stdout(), "  first output: {:?}", y.to_vec(b)?[0].to_f64());
    Ok(())
}

fn main() -> Result<()> {
    writeln!(stdout(), "a right kernel, checked:");
    normalise(&Checked::new(Cpu::new(), Reference::new()), 0.01)?;

    writeln!(stdout(), "a wrong kernel, unchecked:");
    normalise(&Faulty(Cpu::new()), 0.01)?;

    writeln!(stdout(), "a wrong kernel, checked:");
    match normalise(&Checked::new(Faulty(Cpu::new()), Reference::new()), 0.01) {
        Err(error @ Error::Mismatch { .. }) => writeln!(stdout(), "  {error}"),
        other => return Err(Error::param("example", "result", format!("{other:?}"), "a mismatch")),
    }

    writeln!(stdout(), "the same, logged instead of failing:");
    let logging = Checked::new(Faulty(Cpu::new()), Reference::new()).on_mismatch(OnMismatch::Log);
    normalise(&logging, 0.01)?;
    writeln!(stdout(), "  {} mismatch in {} calls", logging.mismatches().len(), logging.calls());
    Ok(())
}
