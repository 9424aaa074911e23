//! Convolutions as kernels see them: always over two axes.
use super::{Conv, ConvAxis};
use crate::{Layout, Result};

/// The extents of a convolution. One over a single axis has an outer axis of extent 1.
#[derive(Clone, Copy, Debug)]
pub struct ConvGeometry {
    /// Whether it is transposed.
    pub transposed: bool,
    /// The options of each axis.
    pub axes: [ConvAxis; 2],
    /// Groups of channels.
    pub groups: usize,
    /// Batch extent.
    pub batch: usize,
    /// Input channels of a group.
    pub inputs: usize,
    /// Output channels of a group.
    pub outputs: usize,
    /// The extents of `x` along the axes.
    pub x: [usize; 2],
    /// The extents of the kernel.
    pub kernel: [usize; 2],
    /// The extents of `y` along the axes.
    pub y: [usize; 2],
}

impl<T> Conv<T> {
    /// The extents of a call, and the layouts of `x`, `weight` and `y` with two inner axes.
    ///
    /// # Errors
    /// The layouts have too many axes. Those of a checked call never do.
    pub fn geometry(&self, x: &Layout, weight: &Layout, y: &Layout) -> Result<(ConvGeometry, [Layout; 3])> {
        let with_two = |layout: &Layout| match (layout.dims(), layout.strides()) {
            (&[b, c, w], &[by_b, by_c, by_w]) => {
                Layout::strided(&[b, c, 1, w], &[by_b, by_c, 0, by_w], layout.offset())
            }
            _ => Ok(*layout),
        };
        let layouts = [with_two(x)?, with_two(weight)?, with_two(y)?];
        let dims =
            layouts.each_ref().map(|layout| core::array::from_fn::<usize, 4, _>(|at| layout.dims()[at]));
        let [[batch, c, xs @ ..], [_, _, kernel @ ..], [_, o, ys @ ..]] = dims;
        let geometry = ConvGeometry {
            transposed: self.form.is_transposed(),
            axes: self.axes,
            groups: self.groups,
            batch,
            inputs: c / self.groups,
            outputs: o / self.groups,
            x: xs,
            kernel,
            y: ys,
        };
        Ok((geometry, layouts))
    }
}

impl ConvGeometry {
    /// The element of `x` along axis `at` that is multiplied by the kernel's element `t` for element `i` of
    /// `y`, if there is one.
    pub fn source(&self, at: usize, i: usize, t: usize) -> Option<usize> {
        let ConvAxis { stride, padding, dilation, .. } = self.axes[at];
        // The op's rule keeps these products and sums below `isize::MAX`.
        let source = if self.transposed {
            let from = (i + padding).checked_sub(t * dilation)?;
            from.is_multiple_of(stride).then_some(from / stride)?
        } else {
            (i * stride + t * dilation).checked_sub(padding)?
        };
        (source < self.x[at]).then_some(source)
    }
    /// Number of elements of `y` per channel.
    pub fn pixels(&self) -> usize {
        self.y[0] * self.y[1]
    }
    /// Number of products in a sum.
    pub fn terms(&self) -> usize {
        self.inputs * self.kernel[0] * self.kernel[1]
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use crate::{Error, Layout, Result};

    fn shape(op: Conv<f32>, x: &[usize], weight: &[usize]) -> Result<Vec<usize>> {
        let (x, weight) = (Layout::contiguous(x)?, Layout::contiguous(weight)?);
        let on = args::conv::Shapes { x: &x, weight: &weight, bias: None, y: crate::Written };
        op.infer(&on).map(|[y]| y.dims().to_vec())
    }

    #[test]
    fn extents_follow_the_formulas() {
        let strided = Conv2d::new().stride([2, 1]).padding([1, 2]).dilation([1, 2]);
        assert_eq!(shape(strided.into(), &[1, 3, 9, 11], &[4, 3, 3, 2]).unwrap(), [1, 4, 5, 13]);
        let up = ConvTranspose2d::new().stride([2, 3]).padding([1, 0]).output_padding([1, 2]);
        let up = up.dilation([1, 2]).groups(2);
        assert_eq!(shape(up.into(), &[1, 4, 5, 6], &[4, 3, 3, 2]).unwrap(), [1, 6, 10, 20]);
        assert_eq!(shape(Conv1d::new().into(), &[0, 2, 5], &[3, 2, 5]).unwrap(), [0, 3, 1]);
        assert_eq!(shape(Conv1d::new().into(), &[2, 2, 0], &[3, 2, 5]).unwrap(), [2, 3, 0]);
        assert_eq!(shape(Conv1d::new().padding(3).into(), &[2, 2, 0], &[3, 2, 5]).unwrap(), [2, 3, 2]);
        assert_eq!(shape(ConvTranspose1d::new().into(), &[2, 2, 0], &[2, 3, 5]).unwrap(), [2, 3, 4]);
        assert_eq!(
            shape(ConvTranspose1d::new().padding(4).into(), &[2, 2, 0], &[2, 3, 5]).unwrap(),
            [2, 3, 0]
        );
    }

    #[test]
    fn wrong_shapes_and_options_are_errors() {
        let message = |op, x: &[usize], weight: &[usize]| shape(op, x, weight).unwrap_err().to_string();
        let conv = |options: Conv1d| options.into();
        assert_eq!(
            message(conv(Conv1d::new()), &[1, 2, 4], &[3, 2, 5]),
            "conv1d: x has shape [1, 2, 4], expected an axis 2 of at least 5 \
             elements, the kernel's reach, including padding 0 on either side"
        );
        assert!(message(conv(Conv1d::new()), &[2, 4], &[3, 2, 5]).contains("expected [b, c, w]"));
        assert!(message(conv(Conv1d::new()), &[1, 4, 9], &[3, 2, 5]).contains("c / groups = 4"));
        assert!(
            message(conv(Conv1d::new().groups(2)), &[1, 4, 9], &[3, 2, 5]).contains("multiple of groups = 2")
        );
        assert!(
            message(conv(Conv1d::new().groups(3)), &[1, 4, 9], &[3, 2, 5]).contains("multiple of groups = 3")
        );
        assert!(message(conv(Conv1d::new()), &[1, 4, 9], &[3, 4, 0]).contains("at least one element"));
        for (options, param) in [
            (Conv1d::new().stride(0), "stride"),
            (Conv1d::new().dilation(0), "dilation"),
            (Conv1d::new().groups(0), "groups"),
        ] {
            let error = shape(options.into(), &[1, 4, 9], &[3, 4, 3]).unwrap_err();
            assert!(matches!(error, Error::Param { param: p, .. } if p == param), "{error}");
        }
        let up = |options: ConvTranspose1d| shape(options.into(), &[1, 4, 2], &[4, 3, 3]);
        assert!(matches!(up(ConvTranspose1d::new().output_padding(1)), Err(Error::Param { .. })));
        assert!(matches!(up(ConvTranspose1d::new().padding(2)), Err(Error::Shape { .. })));
        assert!(matches!(
            shape(ConvTranspose1d::new().into(), &[1, 5, 2], &[4, 3, 3]),
            Err(Error::Shape { operand: "weight", .. })
        ));
    }

    #[test]
    fn absurd_options_are_errors_or_have_exact_extents() {
        const MAX: usize = usize::MAX;
        let x: (&[usize], &[usize]) = (&[1, 1, 4], &[1, 1, 2]);
        for options in [
            Conv1d::new().padding(MAX),
            Conv1d::new().padding(MAX / 2),
            Conv1d::new().dilation(MAX),
            Conv1d::new().padding(MAX / 2).dilation(MAX),
        ] {
            assert!(shape(options.into(), x.0, x.1).is_err(), "{options:?}");
        }
        assert_eq!(shape(Conv1d::new().stride(MAX).into(), x.0, x.1).unwrap(), [1, 1, 1]);
        let far = Conv1d::new().padding(1 << 40).stride(1 << 40);
        assert_eq!(shape(far.into(), x.0, x.1).unwrap(), [1, 1, 3]);
        for options in [
            ConvTranspose1d::new().stride(MAX),
            ConvTranspose1d::new().dilation(MAX),
            ConvTranspose1d::new().padding(MAX),
            ConvTranspose1d::new().stride(MAX).output_padding(MAX - 1),
        ] {
            assert!(shape(options.into(), x.0, x.1).is_err(), "{options:?}");
            assert!(
                shape(options.into(), &[1, 1, 0], x.1).is_ok() == (options.stride[0] == MAX),
                "{options:?}"
            );
        }
    }

    #[test]
    fn sources_are_those_of_the_definition() {
        let op: Conv<f32> = Conv1d::new().stride(2).padding(1).into();
        let layouts = [[1, 1, 5], [1, 1, 3], [1, 1, 3]].map(|dims| Layout::contiguous(&dims).unwrap());
        let (g, _) = op.geometry(&layouts[0], &layouts[1], &layouts[2]).unwrap();
        assert_eq!((g.x, g.kernel, g.y, g.terms(), g.pixels()), ([1, 5], [1, 3], [1, 3], 3, 3));
        let row = |i| (0..3).map(|t| g.source(1, i, t)).collect::<Vec<_>>();
        assert_eq!((row(0), row(2)), (vec![None, Some(0), Some(1)], vec![Some(3), Some(4), None]));
        let up: Conv<f32> = ConvTranspose1d::new().stride(2).padding(1).into();
        let (g, _) = up.geometry(&layouts[2], &layouts[1], &layouts[0]).unwrap();
        let row = |j| (0..3).map(|t| g.source(1, j, t)).collect::<Vec<_>>();
        assert_eq!((row(0), row(3)), (vec![None, Some(0), None], vec![Some(2), None, Some(1)]));
    }
}
