// Two operands of one op in different types.
use ops_core::{Ref, Result, f16, ops::*};

fn f<B: ElementwiseOps<f16>>(b: &B, x: Ref<'_, B, f16>, y: Ref<'_, B, f32>) -> Result<()> {
    b.add(x, y).map(drop)
}

fn main() {}
