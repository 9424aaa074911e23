//! The options of convolutions.
use super::{Conv, ConvForm};
use crate::ops::options::{Options, Refused};
use crate::{Error, Layout, Result};

/// One value for each of `N` axes. It is made from an array, or from one value for all axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PerAxis<const N: usize>(pub [usize; N]);

impl<const N: usize> From<usize> for PerAxis<N> {
    fn from(all: usize) -> Self {
        PerAxis([all; N])
    }
}
impl<const N: usize> From<[usize; N]> for PerAxis<N> {
    fn from(each: [usize; N]) -> Self {
        PerAxis(each)
    }
}

/// The options of a convolution over `N` axes, outermost first.
///
/// ```
/// use rocm_ops::ops::Conv2d;
///
/// assert_eq!(Conv2d::new().stride(2), Conv2d::new().stride([2, 2]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConvOptions<const N: usize> {
    /// Steps of `x` between neighbours in `y`.
    pub stride: [usize; N],
    /// Zeros on either side of `x`.
    pub padding: [usize; N],
    /// Steps of `x` between neighbours in the kernel.
    pub dilation: [usize; N],
    /// Groups of channels that are convolved separately.
    pub groups: usize,
}

/// The options of [`conv1d`](super::ConvMethods::conv1d).
pub type Conv1d = ConvOptions<1>;
/// The options of [`conv2d`](super::ConvMethods::conv2d).
pub type Conv2d = ConvOptions<2>;

impl<const N: usize> Default for ConvOptions<N> {
    fn default() -> Self {
        ConvOptions { stride: [1; N], padding: [0; N], dilation: [1; N], groups: 1 }
    }
}

impl<const N: usize> ConvOptions<N> {
    /// Stride 1, no padding, no dilation, one group.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the stride.
    pub fn stride(self, stride: impl Into<PerAxis<N>>) -> Self {
        ConvOptions { stride: stride.into().0, ..self }
    }
    /// Sets the padding.
    pub fn padding(self, padding: impl Into<PerAxis<N>>) -> Self {
        ConvOptions { padding: padding.into().0, ..self }
    }
    /// Sets the dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis<N>>) -> Self {
        ConvOptions { dilation: dilation.into().0, ..self }
    }
    /// Sets the number of groups.
    pub fn groups(self, groups: usize) -> Self {
        ConvOptions { groups, ..self }
    }
}

/// The options of a transposed convolution over `N` axes, outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ConvTransposeOptions<const N: usize> {
    /// Steps of `y` between neighbours in `x`.
    pub stride: [usize; N],
    /// Elements cut from `y` on either side.
    pub padding: [usize; N],
    /// Elements added to `y` at the end; less than stride or dilation.
    pub output_padding: [usize; N],
    /// Steps of `y` between neighbours in the kernel.
    pub dilation: [usize; N],
    /// Groups of channels that are convolved separately.
    pub groups: usize,
}

/// The options of [`conv_transpose1d`](super::ConvMethods::conv_transpose1d).
pub type ConvTranspose1d = ConvTransposeOptions<1>;
/// The options of [`conv_transpose2d`](super::ConvMethods::conv_transpose2d).
pub type ConvTranspose2d = ConvTransposeOptions<2>;

impl<const N: usize> Default for ConvTransposeOptions<N> {
    fn default() -> Self {
        let (ones, zeros) = ([1; N], [0; N]);
        ConvTransposeOptions {
            stride: ones,
            padding: zeros,
            output_padding: zeros,
            dilation: ones,
            groups: 1,
        }
    }
}

impl<const N: usize> ConvTransposeOptions<N> {
    /// Stride 1, no padding, no dilation, one group.
    pub fn new() -> Self {
        Self::default()
    }
    /// Sets the stride.
    pub fn stride(self, stride: impl Into<PerAxis<N>>) -> Self {
        ConvTransposeOptions { stride: stride.into().0, ..self }
    }
    /// Sets the padding.
    pub fn padding(self, padding: impl Into<PerAxis<N>>) -> Self {
        ConvTransposeOptions { padding: padding.into().0, ..self }
    }
    /// Sets the output padding.
    pub fn output_padding(self, output_padding: impl Into<PerAxis<N>>) -> Self {
        ConvTransposeOptions { output_padding: output_padding.into().0, ..self }
    }
    /// Sets the dilation.
    pub fn dilation(self, dilation: impl Into<PerAxis<N>>) -> Self {
        ConvTransposeOptions { dilation: dilation.into().0, ..self }
    }
    /// Sets the number of groups.
    pub fn groups(self, groups: usize) -> Self {
        ConvTransposeOptions { groups, ..self }
    }
}

/// The options of one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub struct ConvAxis {
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
    /// 0 unless the convolution is transposed.
    pub output_padding: usize,
}

impl ConvAxis {
    /// Stride 1, no padding, no dilation: the options of an axis of extent 1 under a kernel of extent 1.
    pub const PLAIN: Self = ConvAxis { stride: 1, padding: 0, dilation: 1, output_padding: 0 };

    /// The extent of `y` along this axis, if `x` has `n` elements along it. `at` is the axis's index among
    /// the kernel's axes of the weight.
    pub(super) fn extent(
        &self,
        op: &'static str,
        form: ConvForm,
        x: &Layout,
        n: usize,
        weight: &Layout,
        at: usize,
    ) -> Result<usize> {
        let kernel = weight.dims()[2 + at];
        // In 128 bits, products of two of these do not overflow; neither do their sums, which saturate.
        let [n, k, s, p, d] = [n, kernel, self.stride, self.padding, self.dilation].map(|v| v as i128);
        let reach = (d * (k - 1)).saturating_add(1);
        let (all, extent) = match form.is_transposed() {
            false if n + 2 * p < reach => (n + 2 * p, 0),
            false => (n + 2 * p, (n + 2 * p - reach) / s + 1),
            true => {
                let all = ((n - 1) * s).saturating_add(reach).saturating_add(self.output_padding as i128);
                (all.max(2 * p), all - 2 * p)
            }
        };
        if isize::try_from(all).is_err() || isize::try_from(reach).is_err() {
            return Err(Error::TooLarge { dims: x.dims().into() });
        }
        if extent < 1 && n > 0 {
            let axis = 2 + at;
            let want = match form.is_transposed() {
                false => format!(
                    "an axis {axis} of at least {reach} elements, the kernel's reach, including padding {p} on either side"
                ),
                true => format!("an axis {axis} from which padding {p} leaves at least one element"),
            };
            return Err(Error::shape(op, "x", x, want));
        }
        Ok(usize::try_from(extent).unwrap_or(0))
    }
}

/// Checks the options that do not depend on operands.
pub(super) fn check(op: &'static str, form: ConvForm, axes: &[ConvAxis], groups: usize) -> Result<()> {
    if groups == 0 {
        return Err(Error::param(op, "groups", 0, "one or more"));
    }
    for axis in axes {
        for (param, value) in [("stride", axis.stride), ("dilation", axis.dilation)] {
            if value == 0 {
                return Err(Error::param(op, param, 0, "one or more"));
            }
        }
        let most = if form.is_transposed() { axis.stride.max(axis.dilation) } else { 1 };
        if axis.output_padding >= most {
            let want = format!("less than {most}, the larger of stride and dilation");
            return Err(Error::param(op, "output_padding", axis.output_padding, want));
        }
    }
    Ok(())
}

/// The options of both axes; those of a single axis are the last.
fn axes<const N: usize>(of: impl Fn(usize) -> ConvAxis) -> [ConvAxis; 2] {
    const { assert!(N == 1 || N == 2, "convolutions are over one axis or two") }
    if N == 1 { [ConvAxis::PLAIN, of(0)] } else { [of(0), of(N - 1)] }
}

impl<const N: usize, T> From<ConvOptions<N>> for Conv<T> {
    fn from(o: ConvOptions<N>) -> Self {
        let axis = |at: usize| ConvAxis {
            stride: o.stride[at],
            padding: o.padding[at],
            dilation: o.dilation[at],
            output_padding: 0,
        };
        Conv::new(if N == 1 { ConvForm::Conv1d } else { ConvForm::Conv2d }, axes::<N>(axis), o.groups)
    }
}
impl<const N: usize, T> From<ConvTransposeOptions<N>> for Conv<T> {
    fn from(o: ConvTransposeOptions<N>) -> Self {
        let axis = |at: usize| ConvAxis {
            stride: o.stride[at],
            padding: o.padding[at],
            dilation: o.dilation[at],
            output_padding: o.output_padding[at],
        };
        let form = if N == 1 { ConvForm::Transpose1d } else { ConvForm::Transpose2d };
        Conv::new(form, axes::<N>(axis), o.groups)
    }
}

/// Reads the options of the axes.
pub(super) fn read<O: Options>(options: &O, form: ConvForm) -> core::result::Result<[ConvAxis; 2], O::Error> {
    let mut axes = [ConvAxis::PLAIN; 2];
    let mut read = |option, set: fn(&mut ConvAxis, usize)| {
        let Some(values) = options.counts(option)? else { return Ok(()) };
        if values.len() != form.axes() {
            return Err(Refused::Counts { option, got: values.len(), want: form.axes() }.into());
        }
        axes[2 - form.axes()..].iter_mut().zip(values).for_each(|(axis, value)| set(axis, value));
        Ok::<(), O::Error>(())
    };
    read("stride", |axis, v| axis.stride = v)?;
    read("padding", |axis, v| axis.padding = v)?;
    read("dilation", |axis, v| axis.dilation = v)?;
    if form.is_transposed() {
        read("output_padding", |axis, v| axis.output_padding = v)?;
    }
    Ok(axes)
}
