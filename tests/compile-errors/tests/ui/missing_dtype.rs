// A kernel exists in f32, but f64 is requested.
use ops_core::{Execute, Float, ops::RmsNorm};
#[path = "toy/mod.rs"]
mod toy;

fn norm<T: Float, B: Execute<RmsNorm<T>>>(_: &B) {}

fn main() {
    norm::<f32, _>(&toy::Toy);
    norm::<f64, _>(&toy::Toy);
}
