// Extents are of type `usize`.
use ops_core::{Backend, Result};

fn f<B: Backend>(b: &B, extents: &Vec<i64>) -> Result<()> {
    b.zeros::<f32>(extents).map(drop)
}

fn main() {}
