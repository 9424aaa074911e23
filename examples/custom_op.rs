//! How to add an op: `cargo run --example custom_op`.
//!
//! Gemma bounds its logits with `cap · tanh(x / cap)`. The op is a struct, one line that declares the operands, and a shape rule,
//! followed by a kernel for each backend. Every combinator then supports it.
use core::marker::PhantomData;
use ops_command::stdout;
use rocm_ops::backend::{Call, Execute, Kernel, Op, operands};
use rocm_ops::{Checked, Cpu, Float, Host, Mut, Ref, Reference, Result, Scalar, Shape, TensorOf, f16};

/// `y = cap · tanh(x / cap)`, element by element.
#[derive(Clone, Copy, Debug)]
struct SoftCap<T> {
    cap: f64,
    types: PhantomData<T>,
}

// Step 1: the operands.
operands!(mod soft_cap: SoftCap<T: Float> { x: in T, y: out T });

// Step 2: the name and the shape rule. The default tolerance is one rounding to T.
impl<T: Float> Op for SoftCap<T> {
    fn name(&self) -> &'static str {
        "soft_cap"
    }
    fn infer(&self, on: &soft_cap::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
}

// Step 3: the definition, for the reference. It computes in f64 and rounds once when storing.
impl<T: Float> Kernel<SoftCap<T>> for Reference {
    fn compute(&self, call: Call<'_, '_, SoftCap<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = T::from_f64(op.cap * (x[p].to_f64() / op.cap).tanh());
        }
        Ok(())
    }
}

// Step 4: the kernel for users. It computes in f32 for 16-bit types.
impl<T: Float> Kernel<SoftCap<T>> for Cpu {
    fn compute(&self, call: Call<'_, '_, SoftCap<T>, Host>) -> Result<()> {
        let (op, a) = call.into_parts();
        let (lx, ly, x, y) = (*a.x.layout(), *a.y.layout(), a.x.data(), a.y.data_mut());
        let cap = T::Acc::from_f64(op.cap);
        for (p, q) in lx.positions().zip(ly.positions()) {
            y[q] = T::from_acc(cap * num_traits::Float::tanh(x[p].acc() / cap));
        }
        Ok(())
    }
}

// Step 5: the method that users call, available on every backend with the kernel.
trait SoftCapOps<T: Float>: Execute<SoftCap<T>> {
    fn soft_cap_into(&self, x: Ref<'_, Self, T>, mut y: Mut<'_, Self, T>, cap: f64) -> Result<()> {
        let op = SoftCap { cap, types: PhantomData };
        self.run(&op, soft_cap::Args { x: x.shorten(), y: y.reborrow() })
    }
    fn soft_cap(&self, x: Ref<'_, Self, T>, cap: f64) -> Result<TensorOf<Self, T>> {
        let mut y = self.empty(x.shape())?;
        self.soft_cap_into(x, y.as_mut(), cap)?;
        Ok(y)
    }
}
impl<T: Float, B: Execute<SoftCap<T>>> SoftCapOps<T> for B {}

fn bounded<B: SoftCapOps<f16>>(b: &B) -> Result<Vec<f16>> {
    let x = b.tensor(&[4], &[0.1, 10.0, -99.0, 3e4].map(f16::from_f32))?;
    b.soft_cap(x.as_ref(), 30.0)?.as_ref().to_vec(b)
}

fn main() -> Result<()> {
    writeln!(stdout(), "on the CPU:        {:?}", bounded(&Cpu::new())?);
    writeln!(stdout(), "checked as it ran: {:?}", bounded(&Checked::new(Cpu::new(), Reference::new()))?);
    Ok(())
}
