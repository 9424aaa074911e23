// An element of another crate, one byte as it says.
use ops_core::{Backend, DType, Element, ops::*};
use ops_cpu::Cpu;

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Mine(u8);

impl Element for Mine {
    const DTYPE: DType = DType::U8;
    fn same(&self, other: &Self) -> bool {
        self.0 == other.0
    }
    fn as_f64(&self) -> Option<f64> {
        None
    }
}

fn main() {
    let b = Cpu::new();
    let x = b.tensor(&[2], &[Mine(1), Mine(2)]).unwrap();
    let mut y = b.zeros::<Mine>(&[2]).unwrap();
    b.copy_into(x.as_ref(), y.as_mut()).unwrap();
    assert_eq!(y.buffer()[1].0, 2);
}
