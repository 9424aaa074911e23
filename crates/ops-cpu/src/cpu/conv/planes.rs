//! The image of a convolution: each channel with padding around it, so that no sum has to check where the
//! image ends.
use super::super::rows::{Scratch, gather, reserve, row_position, scratch};
use super::super::threads;
use super::super::vectors::{Fault, TaskResult, report};
use super::{Problem, Sum};
use crate::HostBuffer;
use crate::host::raw::Raw;
use ops_core::Result;
use ops_core::ops::ConvGeometry;

/// Where the elements of a channel are. Columns are in `phases` groups of every `phases`th column, so that
/// the columns that neighbouring outputs read are adjacent when this is the stride.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    /// Zeros before the first row and column.
    before: [usize; 2],
    rows: usize,
    phases: usize,
    /// Number of columns per phase.
    columns: usize,
    /// Elements from one row to the next.
    row: usize,
}

/// Extra elements after the last one, so that whole vectors may be read.
const SLACK: usize = 64;

impl Frame {
    /// Padding on all sides.
    pub(super) fn padded(g: &ConvGeometry) -> Self {
        // The op's rule keeps these sums below `isize::MAX`.
        let with_padding = |at: usize| g.x[at] + 2 * g.axes[at].padding;
        let phases = g.axes[1].stride;
        let columns = with_padding(1).div_ceil(phases);
        let before = [g.axes[0].padding, g.axes[1].padding];
        Frame { before, rows: with_padding(0), phases, columns, row: columns.saturating_mul(phases) }
    }

    /// No padding, and rows adjacent.
    fn dense(g: &ConvGeometry) -> Self {
        Frame { before: [0; 2], rows: g.x[0], phases: 1, columns: g.x[1], row: g.x[1] }
    }

    /// Number of elements in a channel, saturated.
    pub(super) fn len(&self) -> usize {
        self.row.saturating_mul(self.rows)
    }

    /// Whether all channels with padding would be far larger than `x`.
    pub(super) fn is_far_larger(&self, g: &ConvGeometry, x: &Raw<'_>) -> bool {
        const ELEMENTS: usize = 1 << 20;
        let all = self.len().saturating_mul(g.batch.saturating_mul(g.groups * g.inputs));
        all > x.layout.len().saturating_mul(8).saturating_add(ELEMENTS)
    }

    /// Distance in elements between the rows that neighbouring rows of `y` read.
    pub(super) fn step(&self, g: &ConvGeometry) -> usize {
        self.row.saturating_mul(g.axes[0].stride)
    }

    /// The offsets of the elements in each sum for the first element of `y`, relative to the first channel's
    /// start. Channels are `channel` elements apart.
    pub(super) fn taps(&self, g: &ConvGeometry, channels: usize, channel: usize) -> Result<Vec<usize>> {
        let mut taps = reserve(channels * g.kernel[0] * g.kernel[1])?;
        for c in 0..channels {
            for (t, u) in (0..g.kernel[0]).flat_map(|t| (0..g.kernel[1]).map(move |u| (t, u))) {
                let column = u * g.axes[1].dilation;
                let place = column % self.phases * self.columns + column / self.phases;
                taps.push(c * channel + t * g.axes[0].dilation * self.row + place);
            }
        }
        Ok(taps)
    }
}

/// All channels of all images.
pub(super) struct Planes<'a, A: Sum> {
    pub(super) frame: Frame,
    memory: Memory<'a, A>,
    /// Distances in elements between images and between channels.
    image: usize,
    pub(super) channel: usize,
}

enum Memory<'a, A: Sum> {
    /// The operand itself, from its first element on.
    Borrowed(&'a [A]),
    Copied(HostBuffer<A>),
}

impl<'a, A: Sum> Planes<'a, A> {
    /// The image of a convolution.
    pub(super) fn padded(op: &'static str, p: &Problem<'a, A>) -> Result<Self> {
        match Self::in_place(p) {
            Some(planes) => Ok(planes),
            None => Self::copied(op, p, Frame::padded(p.g)),
        }
    }

    /// The operand itself as the image of a convolution, if it has no padding and neighbouring outputs read neighbours.
    pub(super) fn in_place(p: &Problem<'a, A>) -> Option<Self> {
        let axes = &p.g.axes;
        let plain = axes[0].padding == 0 && axes[1].padding == 0 && axes[1].stride == 1;
        if plain { Self::borrowed(p, false) } else { None }
    }

    /// The image of a transposed convolution: no padding, and adjacent rows in each channel.
    pub(super) fn dense(op: &'static str, p: &Problem<'a, A>) -> Result<Self> {
        match Self::borrowed(p, true) {
            Some(planes) => Ok(planes),
            None => Self::copied(op, p, Frame::dense(p.g)),
        }
    }

    /// The operand itself, if it has the type of the sums, contiguous rows and no negative strides.
    fn borrowed(p: &Problem<'a, A>, dense: bool) -> Option<Self> {
        let (x, [rows, columns]) = (&p.x, p.g.x);
        let &[image, channel, row, column] = x.layout.strides() else { return None };
        let adjacent = columns <= 1 || column == 1;
        let dense = !dense || rows <= 1 || usize::try_from(row) == Ok(columns);
        if x.dtype != A::DTYPE || x.layout.is_empty() || !adjacent || !dense {
            return None;
        }
        let [image, channel, row] = [image, channel, row].map(|stride| usize::try_from(stride).ok());
        let memory = Memory::Borrowed(&x.slice::<A>()[x.layout.offset()..]);
        let frame = Frame { row: row?, ..Frame::dense(p.g) };
        Some(Planes { frame, memory, image: image?, channel: channel? })
    }

    fn copied(op: &'static str, p: &Problem<'a, A>, frame: Frame) -> Result<Self> {
        let channel = frame.len();
        let (channels, images) = (p.x.dims()[1], p.x.dims()[0]);
        let all = channel.saturating_mul(channels).saturating_mul(images);
        let mut memory = scratch::<A>(all.saturating_add(SLACK))?;
        let (planes, slack) = memory.as_mut_slice().split_at_mut(all);
        slack.fill(A::default());
        let some = (channels * images).div_ceil(threads::tasks()).max(1);
        let tasks = planes.chunks_mut((some * channel).max(1)).enumerate();
        let copy = |(task, planes): (usize, &mut [A])| -> TaskResult {
            let mut copier = Copier::new(&p.x, frame);
            let mut planes = planes.chunks_mut(channel.max(1)).enumerate();
            planes.try_for_each(|(i, plane)| copier.plane(task * some + i, plane))
        };
        match all <= threads::MAX_SERIAL_ELEMENTS {
            true => report(op, tasks.into_iter().try_for_each(copy))?,
            false => report(op, threads::for_each_part(tasks.collect(), &copy))?,
        }
        Ok(Planes { frame, memory: Memory::Copied(memory), image: channel * channels, channel })
    }

    /// The data from a channel on.
    pub(super) fn from(&self, image: usize, channel: usize) -> &[A] {
        let data = match &self.memory {
            Memory::Borrowed(data) => data,
            Memory::Copied(data) => &data[..],
        };
        &data[image * self.image + channel * self.channel..]
    }
}

/// Copies channels and puts zeros around them.
pub(super) struct Copier<'a, 'x, A> {
    x: &'x Raw<'a>,
    frame: Frame,
    gathered: Scratch,
    wide: Vec<A>,
    plane: Vec<A>,
}

impl<'a, 'x, A: Sum> Copier<'a, 'x, A> {
    pub(super) fn new(x: &'x Raw<'a>, frame: Frame) -> Self {
        Copier { x, frame, gathered: Scratch::default(), wide: Vec::new(), plane: Vec::new() }
    }

    /// One channel in separate memory, with room for a vector after it; `index` counts the channels of all
    /// images.
    pub(super) fn alone(&mut self, index: usize) -> core::result::Result<&[A], Fault> {
        let mut plane = core::mem::take(&mut self.plane);
        plane.resize(self.frame.len() + SLACK, A::default());
        let done = self.plane(index, &mut plane[..self.frame.len()]);
        self.plane = plane;
        done.map(|()| &self.plane[..])
    }

    fn plane(&mut self, index: usize, plane: &mut [A]) -> TaskResult {
        let (rows, n, row) = (self.x.dims()[2], self.x.dims()[3], self.frame.row);
        let (start, end) = (self.frame.before[0] * row, (self.frame.before[0] + rows) * row);
        plane[..start].fill(A::default());
        plane[end..].fill(A::default());
        if row == 0 {
            return Ok(());
        }
        for (i, to) in plane[start..end].chunks_exact_mut(row).enumerate() {
            self.row(row_position(&self.x.layout, index * rows + i), n, to)?;
        }
        Ok(())
    }

    /// Copies the `n` elements of a row from position `first` on.
    fn row(&mut self, first: usize, n: usize, to: &mut [A]) -> TaskResult {
        let from = gather(self.x, first, n, self.x.layout.last_stride(), &mut self.gathered);
        let Frame { before: [_, before], phases, columns, .. } = self.frame;
        if phases == 1 {
            to[..before].fill(A::default());
            to[before + n..].fill(A::default());
            return A::convert(self.x.dtype, from, &mut to[before..before + n]);
        }
        self.wide.resize(n, A::default());
        A::convert(self.x.dtype, from, &mut self.wide)?;
        to.fill(A::default());
        for (phase, to) in to.chunks_exact_mut(columns).enumerate() {
            // The first column of this phase in the row without padding.
            let skip = (phase + phases - before % phases) % phases;
            let to = to.iter_mut().skip((before + skip) / phases);
            to.zip(self.wide.iter().skip(skip).step_by(phases)).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::Layout;
    use ops_core::ops::{Conv, Conv2d};
    use std::borrow::Cow;

    #[test]
    fn phases_hold_every_column_with_its_padding() {
        let x: Vec<f32> = (1..=5).map(|v| v as f32).collect();
        for (stride, padding) in [(1, 0), (1, 2), (2, 0), (2, 1), (3, 2), (3, 4), (7, 1)] {
            let op: Conv<f32> = Conv2d::new().stride([1, stride]).padding([1, padding]).into();
            let layout = Layout::contiguous(&[1, 1, 1, 5]).unwrap();
            let raw = Raw::row(&x).unwrap().with_layout(layout);
            let (g, _) = op.geometry(&layout, &layout, &layout).unwrap();
            let p = Problem { g: &g, x: raw, weight: Cow::Borrowed(&[]), bias: None };
            let planes = Planes::<f32>::padded("conv2d", &p).unwrap();
            let Frame { phases, columns, row, .. } = planes.frame;
            let padded: Vec<f32> = [vec![0.0; padding], x.clone(), vec![0.0; padding]].concat();
            for (column, want) in padded.iter().enumerate() {
                let at = |i: usize| planes.from(0, 0)[i * row + column % phases * columns + column / phases];
                assert_eq!([at(0), at(1), at(2)], [0.0, *want, 0.0], "{stride} {padding} {column}");
            }
            assert_eq!(
                Copier::<f32>::new(&raw, planes.frame).alone(0).unwrap()[..3 * row],
                planes.from(0, 0)[..3 * row]
            );
        }
    }
}
