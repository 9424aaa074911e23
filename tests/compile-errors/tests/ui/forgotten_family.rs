// A function that requires one family and uses another.
use ops_core::{Float, Ref, Result, ops::*};

fn f<T: Float, B: NormOps<T>>(b: &B, x: Ref<'_, B, T>) -> Result<()> {
    b.softmax(x, Softmax::axis(-1)).map(drop)
}

fn main() {}
