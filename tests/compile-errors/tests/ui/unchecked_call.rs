// A kernel cannot be reached with arguments that were not checked.
use ops_core::{Call, Execute, ops::*, ops::args::copy};

fn f<B: Execute<TensorCopy>>(b: &B) {
    let x = b.tensor(&[4], &[1f32; 4]).unwrap();
    let mut y = b.zeros::<f32>(&[3]).unwrap();
    let mut args = copy::Args { x: x.as_ref().any(), y: y.as_mut().any() };
    let _ = b.execute(Call { op: &ops_core::ops::TensorCopy, args: &mut args });
}

fn main() {}
