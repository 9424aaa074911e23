//! Options as values: what an op says about its options, and what [`Options`](crate::ops::registry::Options) reads to
//! recreate it.
use crate::Wide;
use crate::ops::Axes;

/// How far a window reaches to the left and to the right; `None` means no limit.
pub type Window = (Option<usize>, Option<usize>);

/// The value of an option. Each kind is read by the [`Options`](crate::ops::registry::Options) method of the same name.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionValue {
    /// A number.
    Number(f64),
    /// A number without loss, even if it is a large integer.
    Value(Wide),
    /// A count.
    Count(usize),
    /// An axis; negative counts from the end.
    Axis(isize),
    /// A list of counts.
    Counts(Vec<usize>),
    /// A list of axes.
    Axes(Axes),
    /// A flag.
    Flag(bool),
    /// The two sides of a window.
    Window(Window),
    /// One of the words that files use.
    Word(&'static str),
}

impl From<f64> for OptionValue {
    fn from(number: f64) -> Self {
        OptionValue::Number(number)
    }
}
impl From<usize> for OptionValue {
    fn from(count: usize) -> Self {
        OptionValue::Count(count)
    }
}
impl From<isize> for OptionValue {
    fn from(axis: isize) -> Self {
        OptionValue::Axis(axis)
    }
}
impl<const N: usize> From<[usize; N]> for OptionValue {
    fn from(counts: [usize; N]) -> Self {
        OptionValue::Counts(counts.to_vec())
    }
}
impl From<bool> for OptionValue {
    fn from(flag: bool) -> Self {
        OptionValue::Flag(flag)
    }
}
