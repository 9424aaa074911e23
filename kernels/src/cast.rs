//! cast between any two scalar types.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::{Device, ElementType, Family, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

const BLOCK: u32 = 256;

arguments! {
    /// Arguments of every cast.
    pub struct CastArgs {
        pub shape: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut cast = table.of::<CastArgs>(Family::Cast, BLOCK);
    for from in ElementType::PLAIN {
        for to in ElementType::PLAIN {
            let part = if ElementType::INTS.contains(&to) { "int" } else { "" };
            cast.part(part).add("cast", &[from, to], "cast", &[]);
        }
    }
}

/// Prepares `y = x`, converted to the type of `y`.
pub fn prepare(
    dims: &[u64],
    x: OperandView<'_>,
    y: OperandView<'_>,
    device: &Device,
) -> Result<(Launch, CastArgs), Refused> {
    let instance = need("cast", "", &[x.dtype, y.dtype])?;
    let (shape, [x, y]) = elementwise(dims, [x, y])?;
    Ok((Launch::elementwise(instance, &shape, device), CastArgs { shape, x, y }))
}
