// An op of floats, where the backend may be any.
use ops_core::{Backend, Result, TensorOf, ops::*};

fn f<B: Backend>(b: &B, x: &TensorOf<B, f32>) -> Result<()> {
    b.silu(x).map(drop)
}

fn main() {}
