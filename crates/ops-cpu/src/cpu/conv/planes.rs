//! The image of a convolution: each channel with its padding around it, so that no sum needs to know where the image ends.
use super::super::rows::{Scratch, gather, reserve, row_position, scratch};
use super::super::vectors::{TaskResult, report};
use super::super::threads;
use super::{Problem, Sum};
use crate::HostBuffer;
use crate::host::raw::Raw;
use ops_core::ops::ConvGeometry;
use ops_core::Result;

/// All channels of all images. Columns are in `phases` groups, of every `phases`th column each, so that those that a convolution
/// with this stride reads for neighbouring outputs are adjacent.
pub(super) struct Planes<'a, A: Sum> {
    memory: Memory<'a, A>,
    /// Elements between images, channels and rows.
    image: usize,
    channel: usize,
    row: usize,
    phases: usize,
    /// Columns of a phase.
    columns: usize,
}

enum Memory<'a, A: Sum> {
    /// The operand itself, from its first element on.
    Borrowed(&'a [A]),
    Copied(HostBuffer<A>),
}

/// Extents with padding: rows, and columns of each phase.
fn extents(g: &ConvGeometry) -> [usize; 2] {
    // The op's rule keeps these sums below `isize::MAX`.
    let with_padding = |at: usize| g.x[at] + 2 * g.axes[at].padding;
    [with_padding(0), with_padding(1).div_ceil(g.axes[1].stride)]
}

/// Whether `x` with its padding would be far larger than `x`.
pub(super) fn far_larger(g: &ConvGeometry, x: &Raw<'_>) -> bool {
    const ELEMENTS: usize = 1 << 20;
    let [rows, columns] = extents(g);
    let count = g.batch.saturating_mul(g.groups * g.inputs);
    // Phases of which the kernel reads nothing are copied too, so a stride beyond the columns costs memory.
    let padded = rows.saturating_mul(columns).saturating_mul(g.axes[1].stride).saturating_mul(count);
    padded > x.layout.len().saturating_mul(8).saturating_add(ELEMENTS)
}

/// Elements after the last one, so that whole vectors may be read.
const SLACK: usize = 64;

impl<'a, A: Sum> Planes<'a, A> {
    /// The image of a convolution.
    pub(super) fn padded(op: &'static str, p: &Problem<'a, A>) -> Result<Self> {
        let axes = &p.g.axes;
        if axes[0].padding == 0 && axes[1].padding == 0 && axes[1].stride == 1 {
            if let Some(planes) = Self::borrowed(&p.x, false) {
                return Ok(planes);
            }
        }
        let [rows, columns] = extents(p.g);
        Self::copied(op, &p.x, [rows, columns, axes[1].stride], [axes[0].padding, axes[1].padding])
    }

    /// The image of a transposed convolution: no padding, and the rows of a channel adjacent.
    pub(super) fn dense(op: &'static str, p: &Problem<'a, A>) -> Result<Self> {
        match Self::borrowed(&p.x, true) {
            Some(planes) => Ok(planes),
            None => Self::copied(op, &p.x, [p.g.x[0], p.g.x[1], 1], [0, 0]),
        }
    }

    /// The operand itself, if it has the type of the sums, contiguous rows and no negative strides.
    fn borrowed(x: &Raw<'a>, dense: bool) -> Option<Self> {
        let &[image, channel, row, column] = x.layout.strides() else { return None };
        let &[_, _, rows, columns] = x.dims() else { return None };
        let adjacent = columns <= 1 || column == 1;
        let dense = !dense || rows <= 1 || usize::try_from(row) == Ok(columns);
        if x.dtype != A::DTYPE || x.layout.is_empty() || !adjacent || !dense {
            return None;
        }
        let [image, channel, row] = [image, channel, row].map(|stride| usize::try_from(stride).ok());
        let memory = Memory::Borrowed(&x.slice::<A>()[x.layout.offset()..]);
        Some(Planes { memory, image: image?, channel: channel?, row: row?, phases: 1, columns })
    }

    fn copied(op: &'static str, x: &Raw<'a>, [rows, columns, phases]: [usize; 3], before: [usize; 2]) -> Result<Self> {
        let row = columns.saturating_mul(phases);
        let channel = row.saturating_mul(rows);
        let (channels, images) = (x.dims()[1], x.dims()[0]);
        let all = channel.saturating_mul(channels).saturating_mul(images);
        let mut memory = scratch::<A>(all.saturating_add(SLACK))?;
        let (planes, slack) = memory.as_mut_slice().split_at_mut(all);
        slack.fill(A::default());
        let count = channels * images;
        let some = count.div_ceil(threads::tasks()).max(1);
        let tasks = planes.chunks_mut((some * channel).max(1)).enumerate();
        let copy = |(task, planes): (usize, &mut [A])| -> TaskResult {
            let mut copier = Copier { x, before, row, columns, phases, gathered: Scratch::default(), wide: Vec::new() };
            planes.chunks_mut(channel.max(1)).enumerate().try_for_each(|(i, plane)| copier.plane(task * some + i, plane))
        };
        match all <= threads::MAX_SERIAL_ELEMENTS {
            true => report(op, tasks.into_iter().try_for_each(copy))?,
            false => report(op, threads::for_each_part(tasks.collect(), &copy))?,
        }
        Ok(Planes { memory: Memory::Copied(memory), image: channel * channels, channel, row, phases, columns })
    }

    /// The data from a channel on.
    pub(super) fn from(&self, image: usize, channel: usize) -> &[A] {
        let data = match &self.memory {
            Memory::Borrowed(data) => data,
            Memory::Copied(data) => &data[..],
        };
        &data[image * self.image + channel * self.channel..]
    }

    /// Elements between channels.
    pub(super) fn channel(&self) -> usize {
        self.channel
    }

    /// Elements between the rows that neighbouring rows of `y` read.
    pub(super) fn step(&self, g: &ConvGeometry) -> usize {
        self.row.saturating_mul(g.axes[0].stride)
    }

    /// Where the element of each term of a sum is, from that of the first channel on, for the first element of `y`.
    pub(super) fn taps(&self, g: &ConvGeometry, channels: usize) -> Result<Vec<usize>> {
        let mut taps = reserve(channels * g.kernel[0] * g.kernel[1])?;
        for c in 0..channels {
            for (t, u) in (0..g.kernel[0]).flat_map(|t| (0..g.kernel[1]).map(move |u| (t, u))) {
                let column = u * g.axes[1].dilation;
                let place = column % self.phases * self.columns + column / self.phases;
                taps.push(c * self.channel + t * g.axes[0].dilation * self.row + place);
            }
        }
        Ok(taps)
    }
}

/// Copies channels and puts zeros around them.
struct Copier<'a, 'x, A> {
    x: &'x Raw<'a>,
    /// Zeros before the first row and column.
    before: [usize; 2],
    row: usize,
    columns: usize,
    phases: usize,
    gathered: Scratch,
    wide: Vec<A>,
}

impl<A: Sum> Copier<'_, '_, A> {
    fn plane(&mut self, index: usize, plane: &mut [A]) -> TaskResult {
        let (rows, n) = (self.x.dims()[2], self.x.dims()[3]);
        let (start, end) = (self.before[0] * self.row, (self.before[0] + rows) * self.row);
        plane[..start].fill(A::default());
        plane[end..].fill(A::default());
        if self.row == 0 {
            return Ok(());
        }
        for (i, to) in plane[start..end].chunks_exact_mut(self.row).enumerate() {
            let first = row_position(&self.x.layout, index * rows + i);
            self.copy(first, n, to)?;
        }
        Ok(())
    }

    /// Copies the `n` elements of a row from position `first` on.
    fn copy(&mut self, first: usize, n: usize, to: &mut [A]) -> TaskResult {
        let from = gather(self.x, first, n, self.x.layout.last_stride(), &mut self.gathered);
        let before = self.before[1];
        if self.phases == 1 {
            to[..before].fill(A::default());
            to[before + n..].fill(A::default());
            return A::convert(self.x.dtype, from, &mut to[before..before + n]);
        }
        self.wide.resize(n, A::default());
        A::convert(self.x.dtype, from, &mut self.wide)?;
        to.fill(A::default());
        // Column `before + j` of the padded row, for each phase in turn.
        for phase in 0..self.phases {
            let skip = (phase + self.phases - before % self.phases) % self.phases;
            let first = (before + skip) / self.phases;
            let to = &mut to[phase * self.columns..][..self.columns];
            for (to, from) in to.iter_mut().skip(first).zip(self.wide.iter().skip(skip).step_by(self.phases)) {
                *to = *from;
            }
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
            let padded: Vec<f32> = [vec![0.0; padding], x.clone(), vec![0.0; padding]].concat();
            for (column, want) in padded.iter().enumerate() {
                let place = column % planes.phases * planes.columns + column / planes.phases;
                assert_eq!(planes.from(0, 0)[planes.row + place], *want, "{stride} {padding} {column}");
                assert!(planes.from(0, 0)[place] == 0.0 && planes.from(0, 0)[2 * planes.row + place] == 0.0);
            }
        }
    }
}
