//! One op call as data. Golden files contain such cases, the suite generates them, and any backend can
//! run them.
use crate::{Array, CallError};
use ops_core::ops::registry::{self, Refused, Window};
use ops_core::{DType, Error, Layout, Reason, Role, Wide};
use serde_json::{Map, Value};

/// One tensor of a case: a whole buffer, and the view of it that the op receives.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The operand's name in the op's contract.
    pub name: String,
    /// Whether it is read or written.
    pub role: Role,
    /// The buffer. For outputs, its contents before the call.
    pub array: Array,
    /// The view.
    pub layout: Layout,
}

/// One call: the op by its contract name, its options and its operands.
#[derive(Clone, Debug)]
pub struct Case {
    /// The op; in-place forms end in `_inplace`.
    pub op: String,
    /// The element type that the op runs in.
    pub dtype: DType,
    /// The options.
    pub params: Params,
    /// The operands that are present, including outputs.
    pub operands: Vec<Operand>,
}

impl Case {
    /// The operand of this name.
    pub fn operand(&self, name: &str) -> Option<&Operand> {
        self.operands.iter().find(|o| o.name == name)
    }
    pub(crate) fn operand_mut(&mut self, name: &str) -> Option<&mut Operand> {
        self.operands.iter_mut().find(|o| o.name == name)
    }
    pub(crate) fn expect(&self, name: &str) -> Result<&Operand, CallError> {
        let missing = || CallError::Malformed(format!("{} requires an operand `{name}`", self.op));
        self.operand(name).ok_or_else(missing)
    }
    /// The element type of an operand.
    pub(crate) fn dtype_of(&self, name: &str) -> Result<DType, CallError> {
        Ok(self.expect(name)?.array.dtype())
    }
    /// The operands that are written.
    pub fn outputs(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(|o| o.role != Role::In)
    }
    /// The operands that are read.
    pub fn inputs(&self) -> impl Iterator<Item = &Operand> {
        self.operands.iter().filter(|o| o.role != Role::Out)
    }
}

/// The result of running a case on a backend.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The backend's answer to `support`; `Ok` if the operands violate the shape rule, because it is then not
    /// asked.
    pub support: Result<(), Reason>,
    /// The result of the call, or of waiting for it.
    pub result: Result<(), Error>,
    /// Every buffer after the call, by operand.
    pub buffers: Vec<(&'static str, Array)>,
}

impl RunResult {
    /// The buffer of an operand after the call.
    pub fn buffer(&self, name: &str) -> Option<&Array> {
        self.buffers.iter().find(|(n, _)| *n == name).map(|(_, a)| a)
    }
}

/// The options of an op: a JSON object with the names in the contract.
///
/// The strings `"nan"`, `"inf"` and `"-inf"` represent numbers that JSON does not have. A missing or `null` option has the
/// contract's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Params(pub Map<String, Value>);

impl Params {
    /// From a JSON value.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn new(value: Value) -> Result<Self, CallError> {
        match value {
            Value::Object(map) => Ok(Params(map)),
            other => Err(CallError::Malformed(format!("params is {other}, wanted an object"))),
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|v| !v.is_null())
    }

    fn read<T>(
        &self,
        name: &str,
        want: &str,
        f: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<T>, CallError> {
        let wrong = |v| CallError::Malformed(format!("`{name}` is {v}, wanted {want}"));
        self.get(name).map(|v| f(v).ok_or_else(|| wrong(v))).transpose()
    }

    /// A number, if present.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, CallError> {
        self.read(name, "a number", |v| v.as_f64().or_else(|| v.as_str().and_then(special)))
    }
    /// A required number.
    pub(crate) fn f64(&self, name: &'static str) -> Result<f64, CallError> {
        Ok(self.number(name)?.ok_or(Refused::Missing(name))?)
    }
    /// A number, exact for integers.
    pub(crate) fn wide(&self, name: &str) -> Result<Option<Wide>, CallError> {
        match self.get(name).and_then(Value::as_i64) {
            Some(integer) => Ok(Some(Wide::Int(integer))),
            None => Ok(self.number(name)?.map(Wide::Float)),
        }
    }
    /// A count.
    pub(crate) fn count(&self, name: &str) -> Result<Option<usize>, CallError> {
        self.read(name, "a count", |v| v.as_u64().and_then(|n| usize::try_from(n).ok()))
    }
    /// An axis.
    pub(crate) fn axis(&self, name: &str) -> Result<Option<isize>, CallError> {
        self.read(name, "an axis", |v| v.as_i64().and_then(|n| isize::try_from(n).ok()))
    }
    /// A list of counts.
    pub(crate) fn counts(&self, name: &str) -> Result<Option<Vec<usize>>, CallError> {
        let count = |v: &Value| v.as_u64().and_then(|n| usize::try_from(n).ok());
        self.read(name, "a list of counts", |v| v.as_array()?.iter().map(count).collect())
    }
    /// A list of axes.
    pub(crate) fn axes(&self, name: &str) -> Result<Option<Vec<isize>>, CallError> {
        let axis = |v: &Value| v.as_i64().and_then(|n| isize::try_from(n).ok());
        self.read(name, "a list of axes", |v| v.as_array()?.iter().map(axis).collect())
    }
    /// A boolean.
    pub(crate) fn flag(&self, name: &str) -> Result<Option<bool>, CallError> {
        self.read(name, "true or false", Value::as_bool)
    }
    /// An element type or block format.
    pub(crate) fn dtype(&self, name: &str) -> Result<Option<DType>, CallError> {
        self.word(name, registry::dtype)
    }
    /// One of the words that `known` accepts. Later builds may know more, so unknown words do not make a case
    /// malformed.
    pub(crate) fn word<T>(
        &self,
        name: &str,
        known: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, CallError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let wanted = || CallError::Malformed(format!("`{name}` is {value}, wanted a word"));
        let word = value.as_str().ok_or_else(wanted)?;
        let unknown =
            || CallError::Unsupported(format!("`{name}` is `{word}`, which this build does not know"));
        known(word).ok_or_else(unknown).map(Some)
    }
    /// The two sides of a window, each a count or unbounded.
    pub(crate) fn window(&self, name: &str) -> Result<Option<Window>, CallError> {
        let side = |v: &Value| match v {
            Value::Null => Some(None),
            v => v.as_u64().and_then(|n| usize::try_from(n).ok()).map(Some),
        };
        let pair = |v: &Value| match v.as_array().map(Vec::as_slice) {
            Some([left, right]) => Some((side(left)?, side(right)?)),
            _ => None,
        };
        self.read(name, "[left or null, right or null]", pair)
    }
}

fn special(word: &str) -> Option<f64> {
    match word {
        "nan" => Some(f64::NAN),
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_are_typed_and_have_defaults() {
        let p = Params::new(json!({"eps": 1e-5, "window": [4, null], "value": "-inf", "start": -1})).unwrap();
        assert_eq!(p.f64("eps").unwrap(), 1e-5);
        assert_eq!(p.window("window").unwrap(), Some((Some(4), None)));
        assert_eq!(p.f64("value").unwrap(), f64::NEG_INFINITY);
        assert_eq!(p.axis("axis").unwrap(), None);
        assert_eq!(p.axis("start").unwrap(), Some(-1));
        assert!(p.count("start").is_err());
        assert!(p.f64("scale").is_err());
        assert!(Params::new(json!([1])).is_err());
    }

    #[test]
    fn words_are_known_or_not_offered() {
        let p = Params::new(json!({"to": "f16", "format": "q8_0", "type": "f4e2m1", "block": 32})).unwrap();
        assert_eq!(p.dtype("to").unwrap(), Some(DType::F16));
        assert_eq!(p.dtype("format").unwrap(), Some(DType::Block(&ops_core::quant::Q8_0)));
        assert_eq!(p.dtype("absent").unwrap(), None);
        assert!(matches!(p.dtype("type"), Err(CallError::Unsupported(_))));
        assert!(matches!(p.dtype("block"), Err(CallError::Malformed(_))));
    }

    #[test]
    fn large_integers_are_exact() {
        let p = Params::new(json!({"value": i64::MAX})).unwrap();
        assert_eq!(p.wide("value").unwrap(), Some(Wide::Int(i64::MAX)));
    }
}
