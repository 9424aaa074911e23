//! Sums by index are added in f64, in the order of their indices, and rounded once: with any number of threads, and however many
//! columns are processed together.
use ops_core::ops::*;
use ops_core::{Backend, DType, Num, Result, TensorOf, bf16, f16};
use ops_cpu::{Cpu, Reference};

/// Numbers whose sum depends on the order of additions.
fn numbers<T: Num>(seed: usize, dims: &[usize]) -> Vec<T> {
    let number = |i: usize| {
        let bits = (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let size = if T::IS_FLOAT { (-f64::from((bits >> 58) as u32 % 30)).exp2() } else { 1.0 };
        T::from_f64(((bits >> 40) as u16 as f64 - 32768.0) * size)
    };
    (0..dims.iter().product()).map(number).collect()
}

/// Places below `bound`, some of which occur often, and one in five that is none.
fn places(count: usize, bound: usize) -> Vec<u32> {
    let place = |i: usize| match i.wrapping_mul(0x9e37_79b9) >> 7 {
        at if at % 5 == 0 => u32::MAX,
        at if at % 5 == 1 => (at / 5 % bound.min(3)) as u32,
        at => (at / 5 % bound) as u32,
    };
    (0..count).map(place).collect()
}

struct Case<T> {
    dst: Vec<T>,
    dims: Vec<usize>,
    axis: isize,
    /// Indices of `scatter_add`, with their extents; `index_add` takes the first ones.
    ids: (Vec<u32>, Vec<usize>),
    src: Vec<T>,
    of_src: Vec<usize>,
}

impl<T: Num> Case<T> {
    fn of(dims: &[usize], axis: usize, n: usize) -> Self {
        let mut of_src = dims.to_vec();
        of_src[axis] = n;
        let ids = places(of_src.iter().product(), dims[axis]);
        let (dst, src) = (numbers(1, dims), numbers(2, &of_src));
        Case { dst, dims: dims.to_vec(), axis: axis as isize, ids: (ids, of_src.clone()), src, of_src }
    }

    /// The bytes of the sums of `scatter_add` and of `index_add`.
    fn run<B>(&self, b: &B) -> Result<[Vec<u8>; 2]>
    where
        B: ScatterAddOps<T>,
    {
        let (src, n) = (b.tensor(&self.of_src, &self.src)?, self.of_src[self.axis as usize]);
        let ids: TensorOf<B, u32> = b.tensor(&self.ids.1, &self.ids.0)?;
        let mut scattered = b.tensor(&self.dims, &self.dst)?;
        b.scatter_add(&mut scattered, &ids, &src, ScatterAdd::axis(self.axis))?;
        let mut added = b.tensor(&self.dims, &self.dst)?;
        let ids: TensorOf<B, u32> = b.tensor(&[n], &self.ids.0[..n])?;
        b.index_add(&mut added, &ids, &src, IndexAdd::axis(self.axis))?;
        let bytes =
            |y: TensorOf<B, T>| -> Result<Vec<u8>> { Ok(bytemuck::cast_slice(&y.to_vec(b)?).to_vec()) };
        Ok([bytes(scattered)?, bytes(added)?])
    }
}

fn alike<T: Num>() -> Result<()> {
    // Whole and partial tiles of columns; a middle axis; few indices for many places; the last axis.
    let cases: [(&[usize], usize, usize); 6] = [
        (&[70, 300], 0, 200),
        (&[3, 40, 77], 1, 90),
        (&[40, 3, 130], 0, 55),
        (&[900, 65], 0, 30),
        (&[5000, 17], 0, 2000),
        (&[60, 90], 1, 400),
    ];
    for (dims, axis, n) in cases {
        let case = Case::<T>::of(dims, axis, n);
        let want = case.run(&Reference::new())?;
        for threads in [1, 2, 3, 7] {
            let got = case.run(&Cpu::builder().threads(threads).build()?)?;
            let op = if got[0] == want[0] { "index_add" } else { "scatter_add" };
            assert!(
                got == want,
                "{op} in {}: {dims:?} along {axis} with {n} indices on {threads} threads",
                DType::of::<T>()
            );
        }
    }
    Ok(())
}

#[test]
fn sums_of_f32_are_added_in_order() -> Result<()> {
    alike::<f32>()
}

#[test]
fn sums_of_other_types_are_added_in_order() -> Result<()> {
    alike::<f16>()?;
    alike::<bf16>()?;
    alike::<f64>()?;
    alike::<i8>()?;
    alike::<i64>()
}

#[test]
fn an_element_without_an_index_keeps_its_bits() -> Result<()> {
    let cpu = Cpu::new();
    let signalling = f32::from_bits(0x7f80_0001);
    for columns in [1, 8, 64] {
        let mut dst = cpu.tensor(&[4, columns], &vec![signalling; 4 * columns])?;
        let (ids, src) = (vec![2u32; 4 * columns], vec![1.0f32; 4 * columns]);
        let ids: TensorOf<Cpu, u32> = cpu.tensor(&[4, columns], &ids)?;
        cpu.scatter_add(&mut dst, &ids, &cpu.tensor(&[4, columns], &src)?, ScatterAdd::axis(0))?;
        for (i, v) in dst.to_vec(&cpu)?.into_iter().enumerate() {
            assert!(v.is_nan() && (i / columns == 2 || v.to_bits() == signalling.to_bits()), "element {i}");
        }
    }
    Ok(())
}

#[test]
fn the_last_of_several_values_wins() -> Result<()> {
    let (dims, n) = ([50, 150], 400);
    let ids = places(n * dims[1], dims[0]);
    let src: Vec<u32> = (0..n * dims[1]).map(|i| i as u32).collect();
    let mut want = vec![0; dims[0] * dims[1]];
    for (i, place) in ids.iter().enumerate().filter(|(_, place)| **place != u32::MAX) {
        want[*place as usize * dims[1] + i % dims[1]] = src[i];
    }
    for threads in [1, 2, 7] {
        let cpu = Cpu::builder().threads(threads).build()?;
        let mut dst: TensorOf<Cpu, u32> = cpu.zeros(&dims)?;
        let ids: TensorOf<Cpu, u32> = cpu.tensor(&[n, dims[1]], &ids)?;
        cpu.scatter(&mut dst, &ids, &cpu.tensor::<u32>(&[n, dims[1]], &src)?, Scatter::axis(0))?;
        assert_eq!(dst.to_vec(&cpu)?, want, "{threads} threads");
    }
    Ok(())
}
