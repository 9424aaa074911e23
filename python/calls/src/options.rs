//! Options of a call as values.
use rocm_ops::ops::Axes;
use rocm_ops::ops::registry::{self, Options, Refused, Window};
use rocm_ops::{DType, Error, Wide};
use std::cell::RefCell;
use std::fmt;

/// The value of an option, before it is known what the op expects.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// True or false.
    Flag(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// Several integers; `None` where one is left out, as for a window without a limit.
    Ints(Vec<Option<i64>>),
    /// A word, or the name of an element type.
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => flag.fmt(f),
            Value::Int(int) => int.fmt(f),
            Value::Float(float) => float.fmt(f),
            Value::Ints(ints) => {
                let shown = |int: &Option<i64>| int.map_or_else(|| "None".to_owned(), |int| int.to_string());
                write!(f, "({})", ints.iter().map(shown).collect::<Vec<_>>().join(", "))
            }
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

/// Why a call cannot be made.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Its name, options or types are wrong.
    Wrong(String),
    /// The op or the backend failed.
    Op(Error),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Wrong(message) => f.write_str(message),
            Fault::Op(error) => error.fmt(f),
        }
    }
}
impl std::error::Error for Fault {}
impl From<Refused> for Fault {
    fn from(refused: Refused) -> Self {
        Fault::Wrong(refused.to_string())
    }
}
impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Fault::Op(error)
    }
}

/// The options and the types of the operands of a call. It notes which options the op reads.
#[derive(Debug)]
pub struct Given<'c> {
    op: &'c str,
    values: &'c [(String, Value)],
    types: &'c [(&'static str, DType)],
    read: RefCell<Vec<&'static str>>,
}

impl<'c> Given<'c> {
    /// The options of a call of `op` on operands of these types.
    pub fn new(op: &'c str, values: &'c [(String, Value)], types: &'c [(&'static str, DType)]) -> Self {
        Given { op, values, types, read: RefCell::default() }
    }

    /// Checks that the op has read every option; it must have been made.
    ///
    /// # Errors
    /// The options that it does not have.
    pub fn check_read(&self) -> Result<(), Fault> {
        let read = self.read.borrow();
        match self.values.iter().find(|(name, _)| !read.contains(&name.as_str())) {
            Some((name, _)) => Err(Fault::Wrong(format!("{}: there is no option `{name}`", self.op))),
            None => Ok(()),
        }
    }

    fn value_of(&self, name: &'static str) -> Option<&'c Value> {
        self.read.borrow_mut().push(name);
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// Reads an option; `convert` returns `None` if the value is of another kind.
    fn convert<R>(
        &self,
        name: &'static str,
        want: &str,
        convert: impl FnOnce(&Value) -> Option<R>,
    ) -> Result<Option<R>, Fault> {
        let Some(value) = self.value_of(name) else { return Ok(None) };
        match convert(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Fault::Wrong(format!("{}: {name} is {value}, expected {want}", self.op))),
        }
    }
}

fn count(int: i64) -> Option<usize> {
    usize::try_from(int).ok()
}

impl Options for Given<'_> {
    type Error = Fault;
    fn operand(&self, name: &'static str) -> Result<DType, Fault> {
        let of = |(known, dtype): &(&'static str, DType)| (*known == name).then_some(*dtype);
        let missing = || Fault::Wrong(format!("{}: {name} is missing, expected a tensor", self.op));
        self.types.iter().find_map(of).ok_or_else(missing)
    }
    fn number(&self, name: &'static str) -> Result<Option<f64>, Fault> {
        self.convert(name, "a number", |value| match value {
            Value::Float(float) => Some(*float),
            Value::Int(int) => Some(*int as f64),
            _ => None,
        })
    }
    fn value(&self, name: &'static str) -> Result<Option<Wide>, Fault> {
        self.convert(name, "a number", |value| match value {
            Value::Float(float) => Some(Wide::Float(*float)),
            Value::Int(int) => Some(Wide::Int(*int)),
            _ => None,
        })
    }
    fn count(&self, name: &'static str) -> Result<Option<usize>, Fault> {
        self.convert(name, "an integer, 0 or more", |value| match value {
            Value::Int(int) => count(*int),
            _ => None,
        })
    }
    fn axis(&self, name: &'static str) -> Result<Option<isize>, Fault> {
        self.convert(name, "an axis", |value| match value {
            Value::Int(int) => isize::try_from(*int).ok(),
            _ => None,
        })
    }
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Fault> {
        self.convert(name, "integers, 0 or more", |value| match value {
            Value::Int(int) => count(*int).map(|one| vec![one]),
            Value::Ints(ints) => ints.iter().map(|int| int.and_then(count)).collect(),
            _ => None,
        })
    }
    fn axes(&self, name: &'static str) -> Result<Option<Axes>, Fault> {
        let axis = |int: i64| isize::try_from(int).ok();
        let list: Option<Vec<isize>> = self.convert(name, "an axis or several", |value| match value {
            Value::Int(int) => axis(*int).map(|one| vec![one]),
            Value::Ints(ints) => ints.iter().map(|int| int.and_then(axis)).collect(),
            _ => None,
        })?;
        Ok(list.map(|list| Axes::new(&list)).transpose()?)
    }
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Fault> {
        self.convert(name, "True or False", |value| match value {
            Value::Flag(flag) => Some(*flag),
            _ => None,
        })
    }
    fn window(&self, name: &'static str) -> Result<Option<Window>, Fault> {
        self.convert(name, "two integers, 0 or more, or None for no limit", |value| match value {
            Value::Ints(ints) => match ints[..] {
                [left, right] => {
                    let side = |int: Option<i64>| int.map_or(Some(None), |int| count(int).map(Some));
                    Some((side(left)?, side(right)?))
                }
                _ => None,
            },
            _ => None,
        })
    }
    fn dtype(&self, name: &'static str) -> Result<Option<DType>, Fault> {
        self.convert(name, "the name of an element type, such as \"f32\"", |value| match value {
            Value::Text(text) => registry::dtype(text),
            _ => None,
        })
    }
    fn word(&self, name: &'static str, known: &[&'static str]) -> Result<Option<usize>, Fault> {
        self.convert(name, &format!("one of {}", known.join(", ")), |value| match value {
            Value::Text(text) => known.iter().position(|word| word == text),
            _ => None,
        })
    }
}
