//! Convolutions and transposed convolutions over one or two axes.
use super::declare::{family, methods};
use super::extents;
use super::options::Options;
use crate::option::OptionValue;
use crate::{
    Backend, DType, Error, Execute, Float, Layout, Op, Operand, Operands, Result, Shape, Tolerance, operands,
};
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;

mod geometry;
mod params;

pub use geometry::ConvGeometry;
pub use params::{
    Conv1d, Conv2d, ConvAxis, ConvOptions, ConvTranspose1d, ConvTranspose2d, ConvTransposeOptions, PerAxis,
};

/// The direction of a convolution and the number of its axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvForm {
    /// `conv1d`
    Conv1d,
    /// `conv2d`
    Conv2d,
    /// `conv_transpose1d`
    Transpose1d,
    /// `conv_transpose2d`
    Transpose2d,
}

impl ConvForm {
    /// All forms.
    pub const ALL: [Self; 4] =
        [ConvForm::Conv1d, ConvForm::Conv2d, ConvForm::Transpose1d, ConvForm::Transpose2d];

    /// The op's name.
    pub const fn name(self) -> &'static str {
        match self {
            ConvForm::Conv1d => "conv1d",
            ConvForm::Conv2d => "conv2d",
            ConvForm::Transpose1d => "conv_transpose1d",
            ConvForm::Transpose2d => "conv_transpose2d",
        }
    }
    /// The number of axes that the kernel moves along.
    pub const fn axes(self) -> usize {
        match self {
            ConvForm::Conv1d | ConvForm::Transpose1d => 1,
            ConvForm::Conv2d | ConvForm::Transpose2d => 2,
        }
    }
    /// Whether the convolution is transposed.
    pub const fn is_transposed(self) -> bool {
        matches!(self, ConvForm::Transpose1d | ConvForm::Transpose2d)
    }
}

/// A convolution, or a transposed one, over one axis or two.
///
/// Operands: `x[b, c, w]` or `x[b, c, h, w]`; `weight`; optional `bias[o]` of any float type; `y[b, o, ..]`.
/// Channels are divided into `groups` groups: the output channels of a group read only its input channels.
/// `s`, `p` and `d` below are an axis's stride, padding and dilation, and `k` is the kernel's extent. With
/// two axes, `i`, `j` and `t` are pairs.
///
/// **Convolution**, with `weight[o, c / groups, k..]`:
///
/// `y[b, o, i] = bias[o] + Σ_c Σ_t x[b, c, i · s − p + t · d] · weight[o, c, t]`, where `x` is 0 outside its extents.
/// The extent of `y` is `⌊(n + 2p − d · (k − 1) − 1) / s⌋ + 1`. The kernel is not flipped.
///
/// **Transposed**, with `weight[c, o / groups, k..]`:
///
/// `y[b, o, j] = bias[o] + Σ_c Σ x[b, c, i] · weight[c, o, t]` over all `i` and `t` with `j = i · s − p + t · d`. The extent of
/// `y` is `(n − 1) · s − 2p + d · (k − 1) + output_padding + 1`.
///
/// Every extent of `x` may be 0; `y` then has the extents of these formulas, or 0 where they are negative. A kernel has at least
/// one element. A backend may multiply zeros around `x` by the weight or leave them out, so a sum near an edge may be NaN if a
/// weight is infinite.
///
/// LeCun et al., "Gradient-Based Learning Applied to Document Recognition", 1998; Dumoulin and Visin, "A guide to convolution
/// arithmetic for deep learning", 2016.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Conv<T> {
    /// Direction and number of axes.
    pub form: ConvForm,
    /// The options of each axis. For one axis they are the last entry; the first is that of an axis of extent
    /// 1.
    pub axes: [ConvAxis; 2],
    /// The number of groups of channels.
    pub groups: usize,
    types: PhantomData<T>,
}

impl<T> Conv<T> {
    /// A convolution of this form.
    pub fn new(form: ConvForm, axes: [ConvAxis; 2], groups: usize) -> Self {
        Conv { form, axes, groups, types: PhantomData }
    }
    pub(super) fn typed<U>(self) -> Conv<U> {
        Conv::new(self.form, self.axes, self.groups)
    }
}
impl Conv<()> {
    pub(super) fn read<O: Options>(options: &O, form: ConvForm) -> core::result::Result<Self, O::Error> {
        let axes = params::read(options, form)?;
        Ok(Conv::new(form, axes, options.count("groups")?.unwrap_or(1)))
    }
}

pub(in crate::ops) mod args {
    use super::*;
    operands!(pub mod conv: Conv<T: Float> { x: in T, weight: in T, bias: opt any, y: out T });
}
impl<T: Float> Op for Conv<T> {
    fn name(&self) -> &'static str {
        self.form.name()
    }
    fn options(&self) -> Vec<(&'static str, OptionValue)> {
        let axes = &self.axes[2 - self.form.axes()..];
        let each = |value: fn(&ConvAxis) -> usize| OptionValue::Counts(axes.iter().map(value).collect());
        let mut options = vec![
            ("stride", each(|axis| axis.stride)),
            ("padding", each(|axis| axis.padding)),
            ("dilation", each(|axis| axis.dilation)),
            ("groups", self.groups.into()),
        ];
        if self.form.is_transposed() {
            options.push(("output_padding", each(|axis| axis.output_padding)));
        }
        options
    }
    fn hash_options<H: Hasher>(&self, state: &mut H) {
        let Conv { form, axes, groups, types: _ } = self;
        (form, axes, groups).hash(state);
    }
    fn infer(&self, on: &args::conv::Shapes<'_>) -> Result<[Shape; 1]> {
        infer(self.form, &self.axes, self.groups, on).map(|shape| [shape])
    }
    fn tolerance(&self, _: &'static str, dtype: DType, _: &dyn Operands) -> Tolerance {
        Tolerance::summed(dtype)
    }
}

/// The op's rule. It does not depend on the type, so it is compiled once.
fn infer(form: ConvForm, axes: &[ConvAxis; 2], groups: usize, on: &args::conv::Shapes<'_>) -> Result<Shape> {
    let op = form.name();
    let axes = &axes[2 - form.axes()..];
    params::check(op, form, axes, groups)?;
    let (want_x, want_weight) = match form {
        ConvForm::Conv1d => ("[b, c, w]", "[o, c / groups, k]"),
        ConvForm::Conv2d => ("[b, c, h, w]", "[o, c / groups, kh, kw]"),
        ConvForm::Transpose1d => ("[b, c, w]", "[c, o / groups, k]"),
        ConvForm::Transpose2d => ("[b, c, h, w]", "[c, o / groups, kh, kw]"),
    };
    let [b, c, inner @ ..] = on.x.dims() else { return Err(Error::shape(op, "x", on.x, want_x)) };
    if inner.len() != axes.len() {
        return Err(Error::shape(op, "x", on.x, want_x));
    }
    if !c.is_multiple_of(groups) {
        let want = format!("{want_x}: a number of channels that is a multiple of groups = {groups}");
        return Err(Error::shape(op, "x", on.x, want));
    }
    let o = channels(op, form, *c, groups, on.weight, want_weight)?;
    bias_of(op, on.bias, o)?;
    let mut dims = [*b, o, 1, 1];
    for (at, (n, axis)) in inner.iter().zip(axes).enumerate() {
        dims[2 + at] = axis.extent(op, form, on.x, *n, on.weight, at)?;
    }
    Shape::new(&dims[..2 + axes.len()])
}

/// The number of output channels, if the weight fits the input channels.
fn channels(
    op: &'static str,
    form: ConvForm,
    c: usize,
    groups: usize,
    weight: &Layout,
    want: &str,
) -> Result<usize> {
    let wrong = |why: String| Error::shape(op, "weight", weight, format!("{want}: {why}"));
    let &[first, second, ref kernel @ ..] = weight.dims() else {
        return Err(Error::shape(op, "weight", weight, want));
    };
    if kernel.len() != form.axes() {
        return Err(Error::shape(op, "weight", weight, want));
    }
    if kernel.contains(&0) {
        return Err(wrong("a kernel with at least one element".to_owned()));
    }
    if form.is_transposed() {
        if first != c {
            return Err(wrong(format!("c = {c}, the number of channels of x")));
        }
        return second.checked_mul(groups).ok_or_else(|| Error::TooLarge { dims: weight.dims().into() });
    }
    if second != c / groups {
        return Err(wrong(format!("c / groups = {}, with c = {c} channels of x", c / groups)));
    }
    if !first.is_multiple_of(groups) {
        return Err(wrong(format!("o, a multiple of groups = {groups}")));
    }
    Ok(first)
}

fn bias_of(op: &'static str, bias: Option<Operand<'_>>, o: usize) -> Result<()> {
    let Some(bias) = bias else { return Ok(()) };
    bias.require(op, DType::is_computed, "f16, bf16, f32 or f64")?;
    extents(op, "bias", bias.layout, &[o])
}

family! {
    /// Convolutions of `T`.
    pub trait ConvOps<T: Float>: Execute<Conv<T>>;
    methods ConvMethods;
}

/// The methods of [`ConvOps`].
pub trait ConvMethods: Backend {
    methods! {
        ConvOps<T: Float>;
        /// [`Conv`] over one axis: `x[b, c, w]` with `weight[o, c / groups, k]` and, if given, `bias[o]`, to `y[b, o, w']`.
        example
        /// let x = b.tensor(&[1, 1, 5], &[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
        /// let weight = b.tensor(&[1, 1, 3], &[1.0f32, 10.0, 100.0])?;
        /// let y = b.conv1d(&x, &weight, None, Conv1d::new().stride(2).padding(1))?;
        /// assert_eq!((y.dims(), y.to_vec(&b)?), (&[1, 1, 3][..], vec![210.0, 432.0, 54.0]));
        fn conv1d, conv1d_into(
            x: in T, weight: in T, bias: opt any; y: T; options: Conv1d
        ) = conv(Conv::<T>::from(options));

        /// [`Conv`] over two axes: `x[b, c, h, w]` with `weight[o, c / groups, kh, kw]` and, if given, `bias[o]`, to
        /// `y[b, o, h', w']`.
        example
        /// let x = b.tensor(&[1, 1, 2, 3], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
        /// let weight = b.tensor(&[1, 1, 2, 2], &[1.0f32, 1.0, 1.0, 1.0])?;
        /// let y = b.conv2d(&x, &weight, None, Conv2d::new().padding([0, 1]))?;
        /// assert_eq!((y.dims(), y.to_vec(&b)?), (&[1, 1, 1, 4][..], vec![5.0, 12.0, 16.0, 9.0]));
        fn conv2d, conv2d_into(
            x: in T, weight: in T, bias: opt any; y: T; options: Conv2d
        ) = conv(Conv::<T>::from(options));

        /// [`Conv`], transposed, over one axis: `x[b, c, w]` with `weight[c, o / groups, k]` and, if given, `bias[o]`, to
        /// `y[b, o, w']`.
        example
        /// let x = b.tensor(&[1, 1, 2], &[1.0f32, 2.0])?;
        /// let weight = b.tensor(&[1, 1, 3], &[1.0f32, 10.0, 100.0])?;
        /// let y = b.conv_transpose1d(&x, &weight, None, ConvTranspose1d::new().stride(2))?;
        /// assert_eq!(y.to_vec(&b)?, [1.0, 10.0, 102.0, 20.0, 200.0]);
        fn conv_transpose1d, conv_transpose1d_into(
            x: in T, weight: in T, bias: opt any; y: T; options: ConvTranspose1d
        ) = conv(Conv::<T>::from(options));

        /// [`Conv`], transposed, over two axes: `x[b, c, h, w]` with `weight[c, o / groups, kh, kw]` and, if given, `bias[o]`, to
        /// `y[b, o, h', w']`.
        example
        /// let x = b.tensor(&[1, 1, 1, 2], &[1.0f32, 2.0])?;
        /// let weight = b.tensor(&[1, 1, 2, 1], &[1.0f32, 10.0])?;
        /// let options = ConvTranspose2d::new().stride([1, 2]).output_padding([0, 1]);
        /// let y = b.conv_transpose2d(&x, &weight, None, options)?;
        /// assert_eq!((y.dims(), y.to_vec(&b)?), (&[1, 1, 2, 4][..], vec![1.0, 0.0, 2.0, 0.0, 10.0, 0.0, 20.0, 0.0]));
        fn conv_transpose2d, conv_transpose2d_into(
            x: in T, weight: in T, bias: opt any; y: T; options: ConvTranspose2d
        ) = conv(Conv::<T>::from(options));
    }
}
