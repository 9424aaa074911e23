// A function that requires a backend but no op.
use ops_core::{Backend, Ref, Result, ops::*};

fn f<B: Backend>(b: &B, x: Ref<'_, B, f32>, weight: Ref<'_, B, f32>) -> Result<()> {
    b.rms_norm(x, weight, RmsNorm::eps(1e-5)).map(drop)
}

fn main() {}
