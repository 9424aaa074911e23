//! Random operands, with the same elements and layout on both sides.
use candle_core::{D, Device, Tensor, WithDType};
use rocm_ops::{Backend, Cpu, Host, Layout, Scalar, TensorOf, TensorRef};

/// Numbers that are the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }
    pub(crate) fn normal(&mut self) -> f64 {
        let mut unit = || self.bits() as f64 / (1u64 << 48) as f64;
        (unit() + unit() + unit() + unit() - 2.0) * 1.7
    }
    /// One to four extents.
    pub(crate) fn dims(&mut self, least: usize) -> Vec<usize> {
        let rank = least + self.below(5 - least);
        (0..rank).map(|_| [1, 2, 3, 5, 8, 17, 33][self.below(7)]).collect()
    }
}

/// How the elements are laid out in memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    Plain,
    Transposed,
    Narrowed(usize),
    Broadcast(usize),
}

impl How {
    pub(crate) fn any(random: &mut Random, rank: usize) -> Self {
        match random.below(6) {
            0 if rank >= 2 => How::Transposed,
            1 => How::Narrowed(random.below(rank)),
            2 => How::Broadcast(random.below(rank)),
            _ => How::Plain,
        }
    }
}

/// The same tensor on both sides.
pub(crate) struct Operand<T: Scalar> {
    pub(crate) theirs: Tensor,
    base: TensorOf<Cpu, T>,
    layout: Layout,
    pub(crate) how: How,
}

impl<T: Scalar + WithDType> Operand<T> {
    pub(crate) fn new(
        random: &mut Random,
        dims: &[usize],
        how: How,
        draw: &mut dyn FnMut(&mut Random) -> f64,
    ) -> Self {
        let mut stored = dims.to_vec();
        match how {
            How::Plain => {}
            How::Transposed => stored.swap(dims.len() - 1, dims.len() - 2),
            How::Narrowed(axis) => stored[axis] += 3,
            How::Broadcast(axis) => stored[axis] = 1,
        }
        let values: Vec<T> =
            (0..stored.iter().product()).map(|_| <T as Scalar>::from_f64(draw(random))).collect();
        let whole = Tensor::from_slice(&values, stored.as_slice(), &Device::Cpu).expect("a tensor");
        let base = Cpu::new().tensor(&stored, &values).expect("a tensor");
        let (theirs, layout) = {
            let ours = base.as_ref();
            let (theirs, ours) = match how {
                How::Plain => (Ok(whole), Ok(ours)),
                How::Transposed => (whole.transpose(D::Minus1, D::Minus2), ours.transpose(-1, -2)),
                How::Narrowed(axis) => {
                    (whole.narrow(axis, 2, dims[axis]), ours.narrow(axis as isize, 2, dims[axis]))
                }
                How::Broadcast(_) => (whole.broadcast_as(dims), ours.broadcast(dims)),
            };
            (theirs.expect("a view"), *ours.expect("a view").layout())
        };
        Operand { theirs, base, layout, how }
    }
    pub(crate) fn ours(&self) -> TensorRef<'_, Host, T> {
        self.base.as_ref().with_layout(self.layout).expect("a view")
    }
    /// The exact elements, in row-major order.
    pub(crate) fn values(&self) -> Vec<f64> {
        let elements = self.ours().to_vec(&Cpu::new()).expect("elements");
        elements.into_iter().map(Scalar::to_f64).collect()
    }
    /// The largest magnitude.
    pub(crate) fn largest(&self) -> f64 {
        self.values().into_iter().map(f64::abs).fold(0.0, f64::max)
    }
    /// The same numbers in f64, without gaps.
    pub(crate) fn wide(&self) -> TensorOf<Cpu, f64> {
        Cpu::new().tensor(self.layout.dims(), &self.values()).expect("a tensor")
    }
    pub(crate) fn text(&self) -> String {
        format!("{:?} {:?}", self.layout.dims(), self.how)
    }
}
