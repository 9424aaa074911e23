// One tensor as operand and result.
use ops_core::ops::*;

fn f<B: NormOps<f32>>(b: &B) {
    let mut x = b.tensor(&[1, 4], &[1f32; 4]).unwrap();
    let weight = b.tensor(&[4], &[1f32; 4]).unwrap();
    let _ = b.rms_norm_into(x.as_ref(), weight.as_ref(), x.as_mut(), RmsNorm::eps(1e-5));
}

fn main() {}
