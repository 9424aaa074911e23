// An op called on a tensor, as in libraries whose tensors know their device.
use ops_core::{Ref, Result, ops::*};

fn f<B: MatMulOps<f32>>(x: Ref<'_, B, f32>, y: Ref<'_, B, f32>) -> Result<()> {
    x.matmul(y).map(drop)
}

fn main() {}
