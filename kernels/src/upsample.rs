//! upsample_nearest1d, upsample_nearest2d and upsample_bilinear2d.
use crate::instances::{Table, arguments};
use crate::launch::need;
use crate::pool_upsample::{Extents, Planes, planes};
use crate::{Device, Divider, ElementType, Family, Launch, Refused};

const BLOCK: u32 = 256;

arguments! {
    /// Positions of elements along a dimension. Mirrors `Source` in the source.
    #[derive(PartialEq)]
    pub struct Source {
        pub step: u64,
        pub start: i64,
        pub by: Divider,
        pub inverse: f64,
        pub last: u64,
    }
}

/// Positions as fractions: element `i` is at `(i · step + start) / by`, or at 0 if that is negative.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Places {
    pub step: i128,
    pub start: i128,
    pub by: i128,
}

impl Places {
    /// The positions for a dimension with `len` elements of x and `size` of y.
    fn source(self, len: u64, size: u64) -> Result<Source, Refused> {
        // In the kernel every numerator must fit 62 bits.
        let most = |n: i128| n.checked_mul(i128::from(size)).and_then(|n| n.checked_add(self.start.abs()));
        let got = most(self.step).unwrap_or(i128::MAX).max(self.by);
        if got >= 1 << 62 {
            let got = u64::try_from(got).unwrap_or(u64::MAX);
            return Err(Refused::Limit { what: "product of the extents along an axis", got, max: 1 << 62 });
        }
        Ok(Source {
            step: self.step as u64,
            start: self.start as i64,
            by: Divider::new(self.by.max(1) as u64),
            inverse: 1.0 / self.by.max(1) as f64,
            last: len.saturating_sub(1),
        })
    }
}

arguments! {
    /// Arguments of both kernels.
    pub struct UpsampleArgs {
        pub planes: Planes,
        pub down: Source,
        pub across: Source,
    }
}

pub(crate) fn declare(table: &mut Table) {
    let mut upsample = table.of::<UpsampleArgs>(Family::Upsample, BLOCK);
    for t in [ElementType::B16, ElementType::B32, ElementType::B64] {
        upsample.part("nearest").add("upsample_nearest", &[t], "upsample_nearest", &[]);
    }
    for t in ElementType::FLOATS {
        upsample.part("bilinear").add("upsample_bilinear", &[t], "upsample_bilinear", &[]);
    }
}

/// How many dimensions change, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The last dimension, to the nearest element.
    Nearest1d,
    /// The last two, to the nearest elements.
    Nearest2d,
    /// The last two, bilinear.
    Bilinear2d,
}

/// Prepares upsampling with these positions along rows and columns. Along one dimension, the positions of
/// rows are not used.
pub fn prepare(
    mode: Mode,
    x: Extents<'_>,
    y: Extents<'_>,
    [down, across]: [Places; 2],
    device: &Device,
) -> Result<(Launch, UpsampleArgs), Refused> {
    let t = x.view.dtype;
    let instance = match (mode, t.bits()) {
        (Mode::Bilinear2d, _) => need("upsample_bilinear", "", &[t])?,
        (_, Some(bits)) => need("upsample_nearest", "", &[bits])?,
        (_, None) => return Err(Refused::NoKernel { op: "upsample_nearest".into(), types: vec![t] }),
    };
    let planes = planes(x, y, if mode == Mode::Nearest1d { 1 } else { 2 })?;
    let down = if mode == Mode::Nearest1d { Places { step: 0, start: 0, by: 1 } } else { down };
    let [rows, columns] = planes.extents();
    let args = UpsampleArgs {
        planes,
        down: down.source(planes.height, rows)?,
        across: across.source(planes.width, columns)?,
    };
    Ok((planes.launch(instance, device), args))
}
