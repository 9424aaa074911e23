//! Options by name: what files and commands give, and how the options of an op are read from it.
use super::Axes;
use crate::option::{OptionValue, Window};
use crate::{DType, Wide};
use core::hash::{Hash, Hasher};

// In this module the caller chooses the error type, so the crate's `Result` does not fit.
use core::result::Result;

/// What is needed to make an op besides its name: options by name (`None` for the default) and the operand
/// types.
pub trait Options {
    /// The error for an option that cannot be read, or an op that does not exist.
    type Error: From<Refused>;
    /// The element type of an operand.
    ///
    /// # Errors
    /// There is no such operand.
    fn operand(&self, name: &'static str) -> Result<DType, Self::Error>;
    /// Reads a number.
    ///
    /// # Errors
    /// The option is not a number. The methods below have similar errors.
    fn number(&self, name: &'static str) -> Result<Option<f64>, Self::Error>;
    /// Reads a number without loss, even if it is a large integer.
    fn value(&self, name: &'static str) -> Result<Option<Wide>, Self::Error>;
    /// Reads a count.
    fn count(&self, name: &'static str) -> Result<Option<usize>, Self::Error>;
    /// Reads an axis; negative counts from the end.
    fn axis(&self, name: &'static str) -> Result<Option<isize>, Self::Error>;
    /// Reads a list of counts.
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Self::Error>;
    /// Reads a list of axes.
    fn axes(&self, name: &'static str) -> Result<Option<Axes>, Self::Error>;
    /// Reads a flag.
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Self::Error>;
    /// Reads the two sides of a window.
    fn window(&self, name: &'static str) -> Result<Option<Window>, Self::Error>;
    /// Reads an element type.
    fn dtype(&self, name: &'static str) -> Result<Option<DType>, Self::Error>;
    /// Reads one of these words, and returns its index.
    fn word(&self, name: &'static str, known: &[&'static str]) -> Result<Option<usize>, Self::Error>;
}

/// Why an op cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No op has this name.
    #[error("`{0}` is not an op of this build")]
    Name(String),
    /// The op does not exist in this type.
    #[error("`{op}` is not available in {dtype}")]
    Type {
        /// The op.
        op: &'static str,
        /// The type.
        dtype: DType,
    },
    /// The op does not take this operand in this type under this name.
    #[error("`{op}` takes no `{operand}` of {dtype}")]
    Operand {
        /// The op.
        op: &'static str,
        /// The operand.
        operand: &'static str,
        /// Its type.
        dtype: DType,
    },
    /// An option does not have one value for each axis.
    #[error("`{option}` has {got} values, expected one for each of {want} axes")]
    Counts {
        /// The option.
        option: &'static str,
        /// The number of its values.
        got: usize,
        /// The number of axes.
        want: usize,
    },
    /// An option without a default is missing.
    #[error("`{0}` is missing")]
    Missing(&'static str),
}

/// A type that options of ops have: how a field is listed, hashed and read by its name.
pub(super) trait OptionField: Copy {
    /// The value in a list of options; `None` if it may be left out.
    fn listed(self) -> Option<OptionValue>;
    /// Adds the option to a list. A field may stand for several options, with names of their own.
    fn list_as(self, name: &'static str, list: &mut Vec<(&'static str, OptionValue)>) {
        list.extend(self.listed().map(|value| (name, value)));
    }
    /// Hashes the value.
    fn hash_bits(self, state: &mut impl Hasher);
    /// Reads the option with this name, if it is given.
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error>;
    /// Reads the option with this name, which has no default.
    fn needed<O: Options>(options: &O, name: &'static str) -> Result<Self, O::Error> {
        Self::read(options, name)?.ok_or_else(|| Refused::Missing(name).into())
    }
}

/// `Type: Variant, how to read it`, for types that implement `Hash`.
macro_rules! fields {
    ($($Type:ty: $Value:ident, $read:ident;)+) => {$(
        impl OptionField for $Type {
            fn listed(self) -> Option<OptionValue> {
                Some(OptionValue::$Value(self))
            }
            fn hash_bits(self, state: &mut impl Hasher) {
                self.hash(state);
            }
            fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
                options.$read(name)
            }
        }
    )+};
}
fields! {
    usize: Count, count;
    isize: Axis, axis;
    bool: Flag, flag;
}

impl OptionField for f64 {
    fn listed(self) -> Option<OptionValue> {
        Some(OptionValue::Number(self))
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.to_bits().hash(state);
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        options.number(name)
    }
}
impl OptionField for Wide {
    fn listed(self) -> Option<OptionValue> {
        Some(OptionValue::Value(self))
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        match self {
            Wide::Int(v) => (0, v as u64).hash(state),
            Wide::Float(v) => (1, v.to_bits()).hash(state),
        }
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        options.value(name)
    }
}
impl OptionField for u64 {
    fn listed(self) -> Option<OptionValue> {
        (self as usize).listed()
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.hash(state);
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        Ok(options.count(name)?.map(|count| count as u64))
    }
}
/// An option that may be unset is left out of lists then.
impl<V: OptionField> OptionField for Option<V> {
    fn listed(self) -> Option<OptionValue> {
        self.and_then(V::listed)
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.is_some().hash(state);
        if let Some(value) = self {
            value.hash_bits(state);
        }
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        Ok(V::read(options, name)?.map(Some))
    }
}
impl OptionField for Window {
    fn listed(self) -> Option<OptionValue> {
        (self != (None, None)).then_some(OptionValue::Window(self))
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.hash(state);
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        options.window(name)
    }
}

/// The options `axes` and `keep_dims`.
impl OptionField for Axes {
    fn listed(self) -> Option<OptionValue> {
        Axes::list(&self).map(|_| OptionValue::Axes(self))
    }
    fn list_as(self, name: &'static str, list: &mut Vec<(&'static str, OptionValue)>) {
        list.extend(self.listed().map(|axes| (name, axes)));
        list.push(("keep_dims", self.keeps_dims().into()));
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.hash(state);
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        let axes = options.axes(name)?.unwrap_or(Axes::ALL);
        Ok(Some(if options.flag("keep_dims")?.unwrap_or(false) { axes.keep_dims() } else { axes }))
    }
}

/// An option whose values are words in files.
pub(super) trait Word: Copy + PartialEq + Hash + 'static {
    /// The words and their values.
    const WORDS: &'static [(&'static str, Self)];
}
impl<V: Word> OptionField for V {
    fn listed(self) -> Option<OptionValue> {
        let word = V::WORDS.iter().find(|(_, value)| *value == self)?.0;
        Some(OptionValue::Word(word))
    }
    fn hash_bits(self, state: &mut impl Hasher) {
        self.hash(state);
    }
    fn read<O: Options>(options: &O, name: &'static str) -> Result<Option<Self>, O::Error> {
        let words: Vec<_> = V::WORDS.iter().map(|(word, _)| *word).collect();
        Ok(options.word(name, &words)?.and_then(|at| V::WORDS.get(at)).map(|(_, value)| *value))
    }
}

/// `Word` for enums whose words are in `ALL`.
macro_rules! words {
    ($($Enum:ty),+) => {$(
        impl $crate::ops::options::Word for $Enum {
            const WORDS: &'static [(&'static str, Self)] = &Self::ALL;
        }
    )+};
}
pub(super) use words;

/// Reads an option with one value for each of `N` axes.
pub(super) fn per_axis<O: Options, const N: usize>(
    options: &O,
    option: &'static str,
) -> Result<Option<[usize; N]>, O::Error> {
    let Some(values) = options.counts(option)? else { return Ok(None) };
    let wrong = Refused::Counts { option, got: values.len(), want: N };
    Ok(Some(<[usize; N]>::try_from(values).map_err(|_| wrong)?))
}

/// `read` of an op without options and type parameter.
macro_rules! no_options {
    ($Op:ident) => {
        impl $Op {
            pub(super) fn read<O: super::options::Options>(
                _: &O,
                _: (),
            ) -> core::result::Result<Self, O::Error> {
                Ok($Op)
            }
        }
    };
}
pub(super) use no_options;
