// A tensor in one backend's memory, passed to a backend with another.
use ops_core::{Ref, Result, ops::*};

fn f<Gpu: SoftmaxOps<f32>, Cpu: SoftmaxOps<f32>>(gpu: &Gpu, x: Ref<'_, Cpu, f32>) -> Result<()> {
    gpu.softmax(x, Softmax::axis(-1)).map(drop)
}

fn main() {}
