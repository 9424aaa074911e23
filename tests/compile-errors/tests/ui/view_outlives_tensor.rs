// A view that would outlive its tensor.
use ops_core::{Ref, ops::*};

fn f<B: CopyOps>(b: &B) {
    let view: Ref<'_, B, f32>;
    {
        let x = b.tensor(&[4], &[1f32; 4]).unwrap();
        view = x.as_ref();
    }
    println!("{view:?}");
}

fn main() {}
