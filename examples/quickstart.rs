//! One function, three backends: `cargo run --release --example quickstart`.
use ops_command::stdout;
use rocm_ops::{Checked, Reference, prelude::*};

/// `silu(rms_norm(x))` on any backend with these op families.
fn layer<B: NormOps<bf16> + ActivationOps<bf16>>(
    b: &B,
    x: &TensorOf<B, bf16>,
    weight: &TensorOf<B, bf16>,
) -> Result<TensorOf<B, bf16>> {
    let h = b.rms_norm(x, weight, 1e-5)?;
    b.silu(&h)
}

fn show<B: NormOps<bf16> + ActivationOps<bf16>>(b: &B, name: &str) -> Result<()> {
    let x = b.tensor([1, 4], &[1.0, -2.0, 3.0, -4.0].map(bf16::from_f32))?;
    let weight = b.tensor(4, &[bf16::ONE; 4])?;
    let y = layer(b, &x, &weight)?;
    writeln!(stdout(), "{name:>9}: {:?}", y.to_vec(b)?);
    Ok(())
}

fn main() -> Result<()> {
    show(&Cpu::new(), "cpu")?;
    show(&Reference::new(), "reference")?;
    show(&Checked::new(Cpu::new(), Reference::new()), "checked")
}
