//! How to give an op a GPU kernel of your own: `cargo run --example custom_kernel`.
//!
//! The op is that of `custom_op.rs`, `y = cap · tanh(x / cap)`. Its HIP source lies beside this file, is compiled by hipRTC when it is
//! first needed, and is checked against the definition. What the kernel declines runs on the CPU.
use core::marker::PhantomData;
use ops_command::stdout;
use rocm_ops::backend::{Call, Execute, Kernel, Op, Operands, Provider, Providers, operands};
use rocm_ops::rocm::hip::{KernelArgs, Launch, Purpose, Source};
use rocm_ops::rocm::{HipSpace, ProviderId, Rocm, Target};
use rocm_ops::{
    AsView, Backend, Checked, Determinism, Fallback, Float, Host, Reason, Reference, Result, Shape, TensorOf,
};

/// `y = cap · tanh(x / cap)`, element by element.
#[derive(Clone, Copy, Debug)]
struct SoftCap<T> {
    cap: f64,
    types: PhantomData<T>,
}
operands!(mod soft_cap: SoftCap<T: Float> { x: in T, y: out T });
impl<T: Float> Op for SoftCap<T> {
    fn name(&self) -> &'static str {
        "soft_cap"
    }
    fn infer(&self, on: &soft_cap::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
}

/// The definition, from which `Checked` takes its results.
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

// Step 1: the source, and the structure of its arguments.
const SOURCE: Source<'static> =
    Source { name: "soft_cap.hip", text: include_str!("soft_cap.hip"), headers: &[] };
const BLOCK: u32 = 256;

#[repr(C)]
#[derive(Clone, Copy)]
struct SoftCapArgs {
    x: *const f32,
    y: *mut f32,
    count: u64,
    cap: f32,
    unused: u32,
}
// SAFETY: the same fields as in soft_cap.hip, without padding.
unsafe impl KernelArgs for SoftCapArgs {}

// Step 2: a provider, which says what the kernel can compute, and launches it.
struct OwnKernel;
impl Provider<SoftCap<f32>> for OwnKernel {
    fn id(&self) -> ProviderId {
        ProviderId::HIP
    }
    fn applicable(&self, _: &Target, _: &SoftCap<f32>, on: &dyn Operands) -> Result<(), Reason> {
        for operand in on.iter() {
            if !operand.layout.is_contiguous() {
                return Err(Reason::Stride(operand.name));
            }
        }
        Ok(())
    }
    fn determinism(&self, _: &Target, _: &SoftCap<f32>, _: &dyn Operands) -> Determinism {
        Determinism::Batch
    }
    fn launch(&self, rocm: &Rocm, call: Call<'_, '_, SoftCap<f32>, HipSpace>) -> Result<()> {
        let (op, args) = call.into_parts();
        let count = args.x.shape().len();
        let Ok(blocks) = u32::try_from(count.div_ceil(BLOCK as usize)) else {
            return Err(rocm_ops::Error::TooLarge { dims: args.x.dims().into() });
        };
        if blocks == 0 {
            return Ok(());
        }
        let kernel = rocm.kernel(SOURCE, "soft_cap_f32")?;
        let (x, y) = (args.x.data(), args.y.data());
        let (from, to) = (
            x.memory().access(rocm.stream(), Purpose::Read)?,
            y.memory().access(rocm.stream(), Purpose::Write)?,
        );
        // A view has an offset in its memory, in bytes, and its layout one in the view, in elements.
        let (x_first, y_first) =
            (x.offset() + 4 * args.x.layout().offset(), y.offset() + 4 * args.y.layout().offset());
        let args = SoftCapArgs {
            x: from.address().wrapping_byte_add(x_first).cast(),
            y: to.address().wrapping_byte_add(y_first).cast(),
            count: count as u64,
            cap: op.cap as f32,
            unused: 0,
        };
        // SAFETY: the call's views lie in their memory and are contiguous, so the kernel stays within `count` elements of
        // each; the stream may access both.
        Ok(unsafe { kernel.launch(rocm.stream(), Launch::line(blocks, BLOCK), &args) }?)
    }
}
impl Providers<SoftCap<f32>> for Rocm {
    const LIST: &'static [&'static dyn Provider<SoftCap<f32>>] = &[&OwnKernel];
}

// Step 3: the function that users call.
fn soft_cap<B: Execute<SoftCap<f32>>>(
    b: &B,
    x: impl AsView<B::Space, f32>,
    cap: f64,
) -> Result<TensorOf<B, f32>> {
    let mut y = b.empty(x.view().shape())?;
    let op = SoftCap { cap, types: PhantomData };
    b.run(&op, soft_cap::Args { x: x.view(), y: y.as_mut() })?;
    Ok(y)
}

/// Compares the kernel with the definition on sizes around its block, on views that begin within their memory, and on one that it
/// declines.
fn check(gpu: Rocm) -> Result<()> {
    let checked = Checked::new(gpu.clone(), Reference::new());
    for len in [0, 1, 255, 256, 257, 70_000] {
        let values: Vec<f32> = (0..len).map(|i| (i as f32 - 100.0) * 1.7).collect();
        let x = checked.tensor(&[len], &values)?;
        soft_cap(&checked, &x, 30.0)?;
        soft_cap(&checked, x.as_ref().narrow(0, len / 3, len / 2)?, 30.0)?;
    }
    let both = Fallback::new(gpu, Reference::new());
    let x = both.tensor(&[2, 2], &[10.0f32, 20.0, 30.0, 40.0])?;
    let turned = soft_cap(&both, x.as_ref().transpose(0, 1)?, 30.0)?;
    writeln!(
        stdout(),
        "the kernel matches the definition; a transposed view ran on the CPU: {:?}",
        turned.to_vec(&both)?
    );
    Ok(())
}

fn main() -> Result<()> {
    match Rocm::new() {
        Ok(gpu) => check(gpu),
        Err(why) => {
            writeln!(stdout(), "no AMD GPU, so there is nothing to check: {why}");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use standin_testing::with_standin;

    #[test]
    fn the_kernel_is_right_with_waves_of_32() {
        with_standin("tests::the_kernel_is_right_with_waves_of_32", &[], |_| {
            check(Rocm::new().unwrap()).unwrap()
        });
    }
    #[test]
    fn the_kernel_is_right_with_waves_of_64() {
        let wave = &[("HIP_STANDIN_WAVE", "64")];
        with_standin("tests::the_kernel_is_right_with_waves_of_64", wave, |_| {
            check(Rocm::new().unwrap()).unwrap()
        });
    }
}
