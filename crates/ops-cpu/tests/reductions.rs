//! A row gives the same bits alone and among others, whatever the number of threads.
use ops_core::ops::*;
use ops_core::{Backend, Float, Result, bf16};
use ops_cpu::Cpu;

fn alike<T: Float>() -> Result<()> {
    for (rows, n) in [(1, 1), (129, 3), (70, 64), (65, 1000), (200, 4097), (3, 20_000)] {
        // Numbers whose sum depends on the order of additions.
        let number = |i: usize| {
            let bits = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            T::from_f64(((bits >> 40) as u16 as f64 - 32768.0) * f64::from((bits >> 60) as u32).exp2())
        };
        let data: Vec<T> = (0..rows * n).map(number).collect();
        for threads in [1, 3] {
            let cpu = Cpu::builder().threads(threads).build()?;
            let (x, all) = (cpu.tensor(&[rows, n], &data)?, |y: &[T]| bytemuck::cast_slice(y).to_vec());
            let [sums, means, largest]: [Vec<u8>; 3] = [
                all(&cpu.sum(&x, -1)?.to_vec(&cpu)?),
                all(&cpu.mean(&x, -1)?.to_vec(&cpu)?),
                all(&cpu.max(&x, -1)?.to_vec(&cpu)?),
            ];
            for (i, row) in data.chunks(n).enumerate() {
                let (x, at) = (cpu.tensor(&[n], row)?, i * size_of::<T>()..(i + 1) * size_of::<T>());
                let one =
                    |y: &[u8], one: Vec<T>| assert!(y[at.clone()] == all(&one), "row {i} of {rows} × {n}");
                one(&sums, cpu.sum(&x, -1)?.to_vec(&cpu)?);
                one(&means, cpu.mean(&x, -1)?.to_vec(&cpu)?);
                one(&largest, cpu.max(&x, -1)?.to_vec(&cpu)?);
            }
        }
    }
    Ok(())
}

#[test]
fn a_row_is_reduced_alone_and_among_others_to_the_same_bits() -> Result<()> {
    alike::<f32>()?;
    alike::<bf16>()
}
