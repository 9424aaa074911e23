// One byte that claims to be eight: a device would move eight of its buffer.
use ops_core::{Backend, DType, Element, ops::*, unsupported};
#[path = "toy/mod.rs"]
mod toy;

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Mine(u8);

impl Element for Mine {
    const DTYPE: DType = DType::F64;
}

unsupported!(toy::Toy: TensorCopy);
unsupported!(<T: Element> toy::Toy: Fill<T>);

fn main() {
    let b = toy::Toy;
    let x = b.tensor(&[2], &[Mine(1), Mine(2)]).unwrap();
    assert!(b.copy_of(x.as_ref()).is_err());
}
