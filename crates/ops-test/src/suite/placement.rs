//! Memory layouts of operands: every layout that a caller may use, in buffers with guards.
use super::data::zeroed;
use crate::Array;
use ops_core::{DType, Layout};

/// Guard elements on both sides of a view.
const GUARD: usize = 64;

/// The layout of a tensor in its buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Placement {
    /// Row-major, aligned.
    Plain,
    /// Row-major, offset by three elements, so never aligned to a vector.
    Offset,
    /// Contiguous rows with gaps between them.
    Gaps,
    /// Every second element.
    Strided,
    /// The first axis innermost.
    Transposed,
    /// The axes in this memory order, outermost first.
    Order(&'static [usize]),
    /// Reversed along every axis.
    Reversed,
    /// Broadcast along the first axis through stride 0; for inputs only.
    Repeated,
    /// Broadcast from a single element; for inputs only.
    Same,
}

/// The layouts of outputs.
pub(crate) const OUT: [Placement; 6] = [
    Placement::Plain,
    Placement::Offset,
    Placement::Gaps,
    Placement::Strided,
    Placement::Transposed,
    Placement::Reversed,
];
/// The layouts of inputs.
pub(crate) const IN: [Placement; 8] = [
    Placement::Plain,
    Placement::Offset,
    Placement::Gaps,
    Placement::Strided,
    Placement::Transposed,
    Placement::Reversed,
    Placement::Repeated,
    Placement::Same,
];

impl Placement {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Placement::Plain => "",
            Placement::Offset => " offset",
            Placement::Gaps => " with gaps",
            Placement::Strided => " strided",
            Placement::Transposed => " transposed",
            Placement::Order(_) => " permuted",
            Placement::Reversed => " reversed",
            Placement::Repeated => " repeated",
            Placement::Same => " broadcast",
        }
    }

    /// The layout, and the length of a buffer that ends with guards. `lead` elements come before the tensor.
    fn layout(self, dims: &[usize], lead: usize) -> (Layout, usize) {
        let rank = dims.len();
        let (mut strides, mut offset) = (vec![0isize; rank], lead);
        let order: Vec<usize> = match self {
            Placement::Transposed => (0..rank).rev().collect(),
            Placement::Order(order) => order.to_vec(),
            _ => (0..rank).collect(),
        };
        let (first, gap) = match self {
            Placement::Strided => (2, 3),
            Placement::Gaps => (1, 5),
            Placement::Transposed => (1, 2),
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
            Placement::Repeated => strides.iter_mut().take(1).for_each(|s| *s = 0),
            Placement::Same => strides.iter_mut().for_each(|s| *s = 0),
            Placement::Offset | Placement::Gaps => offset += 3,
            Placement::Reversed => {
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

    /// A buffer with `values` in row-major order; where elements repeat, the first value is used. All bits around them are
    /// ones, which is NaN in floats, so that reading too much is detected.
    pub(crate) fn input(self, values: &Array, dims: &[usize]) -> (Array, Layout) {
        let (layout, len) = self.layout(dims, 0);
        let mut buffer = zeroed(values.dtype(), len);
        buffer.bytes_mut().fill(0xff);
        // In reverse order, so that the first of repeated elements remains.
        let positions: Vec<usize> = layout.positions().collect();
        buffer.copy_elements(values, positions.into_iter().zip(0..layout.len()).rev());
        (buffer, layout)
    }

    /// A buffer for writing, filled with a pattern.
    pub(crate) fn output(self, dtype: DType, dims: &[usize]) -> (Array, Layout) {
        let (layout, len) = self.layout(dims, GUARD);
        let mut buffer = zeroed(dtype, len);
        buffer.fill_with_pattern();
        (buffer, layout)
    }

    /// A buffer for reading and writing: `values` surrounded by a pattern.
    pub(crate) fn inout(self, values: &Array, dims: &[usize]) -> (Array, Layout) {
        let (mut buffer, layout) = self.output(values.dtype(), dims);
        buffer.copy_elements(values, layout.positions().zip(0..layout.len()));
        (buffer, layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_can_be_written_and_have_guards_on_both_sides() {
        for how in OUT.into_iter().chain([Placement::Order(&[1, 0, 2])]) {
            let (buffer, layout) = how.output(DType::F32, &[3, 4, 5]);
            let extent = layout.extent();
            assert!(layout.is_injective(), "{how:?}");
            assert!(extent.start >= GUARD && extent.end + GUARD <= buffer.len(), "{how:?} {layout}");
        }
    }

    #[test]
    fn inputs_hold_the_values_in_logical_order() {
        let values = Array::from_slice(&(0..60).map(|v| v as f32).collect::<Vec<_>>()).unwrap();
        for how in [
            Placement::Plain,
            Placement::Offset,
            Placement::Gaps,
            Placement::Strided,
            Placement::Transposed,
            Placement::Reversed,
        ] {
            let (buffer, layout) = how.input(&values, &[3, 4, 5]);
            assert_eq!(buffer.gather(&layout).unwrap(), values, "{how:?}");
        }
        let (buffer, layout) = Placement::Repeated.input(&values, &[3, 4, 5]);
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
