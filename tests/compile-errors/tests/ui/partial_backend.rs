// A backend with few kernels, where a whole family is required.
use ops_core::{Float, ops::NormOps};
#[path = "toy/mod.rs"]
mod toy;

fn model<T: Float, B: NormOps<T>>(_: &B) {}

fn main() {
    model::<f32, _>(&toy::Toy);
}
