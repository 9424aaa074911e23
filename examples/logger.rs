//! How to see every call of every op: `cargo run --example logger`.
//!
//! A wrapper is a backend around another. It says what it does with calls once, for all ops, and forwards the rest. Here it prints the
//! name and the shapes of each call before the wrapped backend runs it.
use ops_command::stdout;
use rocm_ops::backend::{Call, Execute, Op};
use rocm_ops::combine::{Intercept, Wrapper};
use rocm_ops::prelude::*;

#[derive(Clone)]
struct Logged<B>(B);

impl<B: Backend> Wrapper for Logged<B> {
    type Inner = B;
    fn inner(&self) -> &B {
        &self.0
    }
    fn around(&self, inner: B) -> Self {
        Logged(inner)
    }
}

impl<O: Op, B: Execute<O>> Intercept<O> for Logged<B> {
    fn execute(&self, call: Call<'_, '_, O, B::Space>) -> Result<()> {
        let operands: Vec<String> =
            call.operands().iter().map(|x| format!("{} {:?}", x.name, x.layout.dims())).collect();
        writeln!(stdout(), "{}: {}", call.name(), operands.join(", "));
        self.inner().execute(call)
    }
}

fn main() -> Result<()> {
    let b = Logged(Cpu::new());
    let x = b.tensor(&[2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
    let weight = b.tensor(&[4, 3], &[0.5f32; 12])?;
    let y = b.softmax(b.linear(&x, &weight)?, -1)?;
    writeln!(stdout(), "{:?}", y.to_vec(&b)?);
    Ok(())
}
