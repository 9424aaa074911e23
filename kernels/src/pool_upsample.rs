//! The last two dimensions of operands, for kernels that compute each plane of y from the same plane of x.
use crate::instances::arguments;
use crate::{Device, Divider, Instance, Launch, OperandView, Refused, Shape, StridedPointer, elementwise};

arguments! {
    /// Planes of x and y. Mirrors `Planes` in `ops_planes.h`.
    pub struct Planes {
        pub lead: Shape,
        pub x: StridedPointer,
        pub y: StridedPointer,
        pub x_row: i64,
        pub x_column: i64,
        pub y_row: i64,
        pub y_column: i64,
        pub height: u64,
        pub width: u64,
        pub rows: Divider,
        pub columns: Divider,
        pub count: u64,
    }
}

/// An operand with its dimensions.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Extents<'a> {
    pub dims: &'a [u64],
    pub view: OperandView<'a>,
}

/// The dimensions of an operand before the last two, with their strides, and the last two with theirs.
struct Split<'a> {
    lead: &'a [u64],
    view: OperandView<'a>,
    extents: [u64; 2],
    strides: [i64; 2],
}

impl<'a> Split<'a> {
    /// If `axes` is 1, a plane is one row.
    fn of(on: Extents<'a>, axes: usize) -> Result<Self, Refused> {
        let rank = || Refused::Rank(on.dims.len());
        let at = on.dims.len().checked_sub(axes).ok_or_else(rank)?;
        let (lead, inner) = on.dims.split_at(at);
        let (outer, steps) = on.view.strides.split_at_checked(at).ok_or_else(rank)?;
        let (extents, strides) = match (inner, steps) {
            (&[rows, columns], &[row, column]) => ([rows, columns], [row, column]),
            (&[columns], &[column]) => ([1, columns], [0, column]),
            _ => return Err(rank()),
        };
        Ok(Split { lead, view: OperandView { strides: outer, ..on.view }, extents, strides })
    }
}

/// Describes planes of `x` and `y`, whose dimensions agree except for the last `axes`, two or one.
pub(crate) fn planes(x: Extents<'_>, y: Extents<'_>, axes: usize) -> Result<Planes, Refused> {
    let (x, y) = (Split::of(x, axes)?, Split::of(y, axes)?);
    if x.lead != y.lead {
        return Err(Refused::Rank(x.lead.len()));
    }
    let (lead, [on_x, on_y]) = elementwise(y.lead, [x.view, y.view])?;
    let [rows, columns] = y.extents;
    let count = rows.checked_mul(columns).and_then(|n| n.checked_mul(lead.count()));
    Ok(Planes {
        lead: lead.unpacked(),
        x: on_x,
        y: on_y,
        x_row: x.strides[0],
        x_column: x.strides[1],
        y_row: y.strides[0],
        y_column: y.strides[1],
        height: x.extents[0],
        width: x.extents[1],
        rows: Divider::new(rows.max(1)),
        columns: Divider::new(columns.max(1)),
        count: count.filter(|n| *n < 1 << 63).ok_or(Refused::Size)?,
    })
}

impl Planes {
    /// The extents of a plane of y.
    pub(crate) fn extents(&self) -> [u64; 2] {
        [self.rows.by(), self.columns.by()]
    }

    /// A launch of one thread per element of y.
    pub(crate) fn launch(&self, instance: &'static Instance, device: &Device) -> Launch {
        let most = device.blocks(device.tuning.element_blocks());
        Launch::over(instance, self.count, u64::from(instance.block), most)
    }
}
