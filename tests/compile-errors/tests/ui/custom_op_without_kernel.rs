// A user's own op, run before it has a kernel.
use core::marker::PhantomData;
use ops_core::{Backend, Float, Op, Result, Shape, operands};
#[path = "toy/mod.rs"]
mod toy;

#[derive(Clone, Debug)]
struct Twice<T>(PhantomData<T>);
operands!(mod twice: Twice<T: Float> { x: in T, y: out T });
impl<T: Float> Op for Twice<T> {
    fn name(&self) -> &'static str {
        "twice"
    }
    fn infer(&self, on: &twice::Shapes<'_>) -> Result<[Shape; 1]> {
        Ok([on.x.shape()])
    }
}

fn main() {
    let b = toy::Toy;
    let x = b.tensor(&[4], &[1f32; 4]).unwrap();
    let mut y = b.zeros(&[4]).unwrap();
    let _ = b.run(&Twice(PhantomData), twice::Args { x: x.as_ref(), y: y.as_mut() });
}
