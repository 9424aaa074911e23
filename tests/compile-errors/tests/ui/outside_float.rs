// A number type from another crate: backends list the number types that they have kernels for.
use ops_core::{DType, Element, Scalar, Wide};

#[derive(Clone, Copy, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
struct Mine(f32);

impl Element for Mine {
    const DTYPE: DType = DType::F32;
}
impl Scalar for Mine {
    fn to_wide(self) -> Wide {
        Wide::Float(self.0.into())
    }
    fn from_wide(_: Wide) -> Self {
        Mine(0.0)
    }
}

fn main() {}
