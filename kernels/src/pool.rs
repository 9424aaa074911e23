//! max_pool2d and avg_pool2d.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::pool_upsample::{Extents, Planes, planes};
use crate::{Device, ElementType, Family, Launch, Refused};

const BLOCK: u32 = 256;

arguments! {
    /// Windows along one dimension. Mirrors `Windows` in the source.
    #[derive(PartialEq, Eq)]
    pub struct Windows {
        pub size: i64,
        pub stride: i64,
        pub padding: i64,
    }
}

impl Windows {
    /// Windows of this size and stride, with this padding.
    ///
    /// Sizes beyond 62 bits are larger than any tensor's extents.
    pub fn new(size: u64, stride: u64, padding: u64) -> Result<Self, Refused> {
        let fits = |n: u64| i64::try_from(n).ok().filter(|n| *n < 1 << 62).ok_or(Refused::Size);
        Ok(Windows { size: fits(size)?, stride: fits(stride)?, padding: fits(padding)? })
    }
}

arguments! {
    /// Arguments of both kernels.
    pub struct PoolArgs {
        pub planes: Planes,
        pub down: Windows,
        pub across: Windows,
        pub elements: f64,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut pool = table.of::<PoolArgs>(Family::Pool, BLOCK);
    for t in ElementType::FLOATS {
        pool.add("max_pool2d", &[t], "max_pool2d", &[]);
        pool.add("avg_pool2d", &[t], "avg_pool2d", &[]);
    }
}

/// Prepares `max_pool2d` or `avg_pool2d` with these windows along rows and columns.
pub fn prepare(
    op: &str,
    x: Extents<'_>,
    y: Extents<'_>,
    [down, across]: [Windows; 2],
    device: &Device,
) -> Result<(Launch, PoolArgs), Refused> {
    let instance = need(op, "", &[x.view.dtype])?;
    let planes = planes(x, y, 2)?;
    let args = PoolArgs { planes, down, across, elements: down.size as f64 * across.size as f64 };
    Ok((planes.launch(instance, device), args))
}
