// An element type from another crate that truthfully declares one byte.
use ops_core::{Backend, DType, Element, ops::*, unsupported};
#[path = "../toy/mod.rs"]
mod toy;

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Mine(u8);

impl Element for Mine {
    const DTYPE: DType = DType::U8;
}

unsupported!(toy::Toy: TensorCopy);
unsupported!(<T: Element> toy::Toy: Fill<T>);

fn main() {
    let b = toy::Toy;
    let x = b.tensor(&[2], &[Mine(1), Mine(2)]).unwrap();
    assert!(b.copy_of(x.as_ref()).is_err());
}
