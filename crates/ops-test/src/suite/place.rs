//! Where operands lie in memory: every layout a caller may come with, in buffers with guards.
use super::data::zeroed;
use crate::Array;
use ops_core::{DType, Layout};

/// Elements on either side of what a view touches.
const GUARD: usize = 64;

/// How a tensor lies in its buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum How {
    /// In row-major order, aligned.
    Plain,
    /// In row-major order, three elements in: never aligned to a vector.
    Offset,
    /// Rows in one piece, gaps between them.
    Gaps,
    /// Every second element.
    Strided,
    /// The first axis innermost.
    Transposed,
    /// The axes in this order in memory, outermost first.
    Order(&'static [usize]),
    /// Backwards along every axis.
    Reversed,
    /// Repeated along the first axis through stride 0; for inputs.
    Repeated,
    /// The same number everywhere; for inputs.
    Same,
}

/// What outputs are written through.
pub(crate) const OUT: [How; 6] =
    [How::Plain, How::Offset, How::Gaps, How::Strided, How::Transposed, How::Reversed];
/// What inputs are read through.
pub(crate) const IN: [How; 8] = [
    How::Plain,
    How::Offset,
    How::Gaps,
    How::Strided,
    How::Transposed,
    How::Reversed,
    How::Repeated,
    How::Same,
];

impl How {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            How::Plain => "",
            How::Offset => " offset",
            How::Gaps => " with gaps",
            How::Strided => " strided",
            How::Transposed => " transposed",
            How::Order(_) => " permuted",
            How::Reversed => " reversed",
            How::Repeated => " repeated",
            How::Same => " broadcast",
        }
    }

    /// The layout, and the length of a buffer with guards after it. `lead` elements stand before.
    fn layout(self, dims: &[usize], lead: usize) -> (Layout, usize) {
        let rank = dims.len();
        let (mut strides, mut offset) = (vec![0isize; rank], lead);
        let order: Vec<usize> = match self {
            How::Transposed => (0..rank).rev().collect(),
            How::Order(order) => order.to_vec(),
            _ => (0..rank).collect(),
        };
        let (first, gap) = match self {
            How::Strided => (2, 3),
            How::Gaps => (1, 5),
            How::Transposed => (1, 2),
            _ => (1, 0),
        };
        let mut step = first;
        for (inner, &axis) in order.iter().rev().enumerate() {
            strides[axis] = step as isize;
            step *= dims[axis].max(1);
            if inner == 0 {
                step += gap;
            }
        }
        match self {
            How::Repeated => strides.iter_mut().take(1).for_each(|s| *s = 0),
            How::Same => strides.iter_mut().for_each(|s| *s = 0),
            How::Offset | How::Gaps => offset += 3,
            How::Reversed => {
                for (s, d) in strides.iter_mut().zip(dims) {
                    offset += *s as usize * d.saturating_sub(1);
                    *s = -*s;
                }
            }
            _ => {}
        }
        let layout = Layout::strided(dims, &strides, offset);
        let layout = layout.unwrap_or_else(|e| unreachable!("the suite's own layout: {e}"));
        (layout, layout.extent().end + GUARD)
    }

    /// A buffer that holds `values` (in row-major order; the first of them where elements repeat),
    /// and all ones around: NaN in floats, so that reading too much shows.
    pub(crate) fn input(self, values: &Array, dims: &[usize]) -> (Array, Layout) {
        let (layout, len) = self.layout(dims, 0);
        let mut buffer = zeroed(values.dtype(), len);
        buffer.bytes_mut().fill(0xff);
        // Backwards, so that of repeated elements the first remains.
        let positions: Vec<usize> = layout.positions().collect();
        for (from, to) in positions.into_iter().enumerate().rev() {
            buffer.element_mut(to).copy_from_slice(values.element(from));
        }
        (buffer, layout)
    }

    /// A buffer to be written, full of a pattern.
    pub(crate) fn output(self, dtype: DType, dims: &[usize]) -> (Array, Layout) {
        let (layout, len) = self.layout(dims, GUARD);
        let mut buffer = zeroed(dtype, len);
        buffer.fill_with_pattern();
        (buffer, layout)
    }

    /// A buffer to be read and written: `values` in a pattern.
    pub(crate) fn inout(self, values: &Array, dims: &[usize]) -> (Array, Layout) {
        let (mut buffer, layout) = self.output(values.dtype(), dims);
        for (from, to) in layout.positions().enumerate() {
            buffer.element_mut(to).copy_from_slice(values.element(from));
        }
        (buffer, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_can_be_written_and_have_guards_on_both_sides() {
        for how in OUT.into_iter().chain([How::Order(&[1, 0, 2])]) {
            let (buffer, layout) = how.output(DType::F32, &[3, 4, 5]);
            let extent = layout.extent();
            assert!(layout.is_injective(), "{how:?}");
            assert!(extent.start >= GUARD && extent.end + GUARD <= buffer.len(), "{how:?} {layout}");
        }
    }

    #[test]
    fn inputs_hold_the_values_in_logical_order() {
        let values = Array::from_slice(&(0..60).map(|v| v as f32).collect::<Vec<_>>()).unwrap();
        for how in [How::Plain, How::Offset, How::Gaps, How::Strided, How::Transposed, How::Reversed] {
            let (buffer, layout) = how.input(&values, &[3, 4, 5]);
            assert_eq!(buffer.gather(&layout).unwrap(), values, "{how:?}");
        }
        let (buffer, layout) = How::Repeated.input(&values, &[3, 4, 5]);
        let repeated = buffer.gather(&layout).unwrap().to_f64().unwrap();
        assert_eq!((repeated[7], repeated[27], repeated[47]), (7.0, 7.0, 7.0));
    }

    #[test]
    fn empty_and_scalar_tensors_have_places_too() {
        for dims in [&[][..], &[0], &[3, 0], &[0, 3]] {
            for how in OUT {
                let (buffer, layout) = how.output(DType::F16, dims);
                assert!(layout.fits(buffer.len()));
            }
        }
    }
}
