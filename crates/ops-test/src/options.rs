//! The options of a call as JSON: read to make the op, and written from an op.
use crate::{CallError, Params};
use ops_core::ops::Axes;
use ops_core::ops::registry::{OptionValue, Options, Window};
use ops_core::{DType, OperandSlot, Wide};
use serde_json::{Map, Value, json};
use std::cell::RefCell;

/// A call's options and the types of its operands. It notes which options the op reads, so that none can be ignored.
#[derive(Debug)]
pub struct CallOptions<'c> {
    op: &'c str,
    params: &'c Params,
    types: Vec<(&'c str, DType)>,
    read: RefCell<Vec<&'static str>>,
}

impl<'c> CallOptions<'c> {
    /// The options of a call of `op` on operands of these types.
    pub fn new(
        op: &'c str,
        params: &'c Params,
        operands: impl IntoIterator<Item = (&'c str, DType)>,
    ) -> Self {
        CallOptions { op, params, types: operands.into_iter().collect(), read: RefCell::default() }
    }

    /// Checks that an op with these operands knows everything in the call. The op must have been made.
    ///
    /// # Errors
    /// [`CallError::Unsupported`] with every operand and option that the op does not have.
    pub fn check_known(&self, slots: &[OperandSlot]) -> Result<(), CallError> {
        let CallOptions { op, params, types, read } = self;
        let unknown = types.iter().filter(|(name, _)| slots.iter().all(|slot| slot.name != *name));
        let read = read.borrow();
        let unread = params.0.keys().filter(|name| !read.contains(&name.as_str()));
        let left_over: Vec<String> = unknown
            .map(|(name, _)| format!("operand `{name}`"))
            .chain(unread.map(|name| format!("parameter `{name}`")))
            .collect();
        if left_over.is_empty() {
            return Ok(());
        }
        let left_over = left_over.join(", ");
        Err(CallError::Unsupported(format!("`{op}` of this build has no {left_over}")))
    }

    fn params(&self, name: &'static str) -> &'c Params {
        self.read.borrow_mut().push(name);
        self.params
    }
}

impl Options for CallOptions<'_> {
    type Error = CallError;
    fn operand(&self, name: &'static str) -> Result<DType, CallError> {
        let missing = || CallError::Malformed(format!("{} requires an operand `{name}`", self.op));
        self.types.iter().find(|(known, _)| *known == name).map(|(_, dtype)| *dtype).ok_or_else(missing)
    }
    fn number(&self, name: &'static str) -> Result<Option<f64>, CallError> {
        self.params(name).number(name)
    }
    fn value(&self, name: &'static str) -> Result<Option<Wide>, CallError> {
        self.params(name).wide(name)
    }
    fn count(&self, name: &'static str) -> Result<Option<usize>, CallError> {
        self.params(name).count(name)
    }
    fn axis(&self, name: &'static str) -> Result<Option<isize>, CallError> {
        self.params(name).axis(name)
    }
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, CallError> {
        self.params(name).counts(name)
    }
    fn axes(&self, name: &'static str) -> Result<Option<Axes>, CallError> {
        let axes = self.params(name).axes(name)?;
        Ok(axes.map(|axes| Axes::new(&axes)).transpose()?)
    }
    fn flag(&self, name: &'static str) -> Result<Option<bool>, CallError> {
        self.params(name).flag(name)
    }
    fn window(&self, name: &'static str) -> Result<Option<Window>, CallError> {
        self.params(name).window(name)
    }
    fn dtype(&self, name: &'static str) -> Result<Option<DType>, CallError> {
        self.params(name).dtype(name)
    }
    fn word(&self, name: &'static str, known: &[&'static str]) -> Result<Option<usize>, CallError> {
        self.params(name).word(name, |word| known.iter().position(|k| *k == word))
    }
}

impl Params {
    /// The options of an op, as [`Op::options`](ops_core::Op::options) lists them.
    ///
    /// ```
    /// # use ops_core::{Op, ops::RmsNorm};
    /// # use ops_test::Params;
    /// let params = Params::of(&RmsNorm::<f32>::eps(0.5).options());
    /// assert_eq!(serde_json::Value::Object(params.0).to_string(), r#"{"eps":0.5}"#);
    /// ```
    pub fn of(options: &[(&'static str, OptionValue)]) -> Self {
        let named = |(name, value): &(&'static str, OptionValue)| ((*name).to_owned(), json_value(value));
        Params(options.iter().map(named).collect::<Map<_, _>>())
    }
}

fn json_value(value: &OptionValue) -> Value {
    match value {
        OptionValue::Number(number) | OptionValue::Value(Wide::Float(number)) => json_number(*number),
        OptionValue::Value(Wide::Int(number)) => json!(number),
        OptionValue::Count(count) => json!(count),
        OptionValue::Axis(axis) => json!(axis),
        OptionValue::Counts(counts) => json!(counts),
        OptionValue::Axes(axes) => json!(axes.list()),
        OptionValue::Flag(flag) => json!(flag),
        OptionValue::Window((left, right)) => json!([left, right]),
        OptionValue::Word(word) => json!(word),
        // An unknown kind would be read as an option of the wrong kind, which is an error.
        other => json!(format!("{other:?}")),
    }
}

/// A number, or the word for one that JSON does not have.
fn json_number(number: f64) -> Value {
    match number {
        n if n.is_nan() => json!("nan"),
        f64::INFINITY => json!("inf"),
        f64::NEG_INFINITY => json!("-inf"),
        n => json!(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops_core::ops::registry::{self, Entry, Refused, Visit};
    use ops_core::{Execute, Op, Operand, Operands, Shape};
    use ops_cpu::Reference;

    /// Options that have no default value, for an op of any name.
    struct Unusual {
        entry: &'static Entry,
        dtype: DType,
    }
    impl Options for Unusual {
        type Error = Refused;
        fn operand(&self, name: &'static str) -> Result<DType, Refused> {
            if self.entry.slots(self.dtype).iter().all(|slot| slot.name != name) {
                return Err(Refused::Missing(name));
            }
            let blocks = self.entry.blocks == Some(name);
            Ok(if blocks { registry::Group::Blocks.members()[0] } else { self.dtype })
        }
        fn number(&self, _: &'static str) -> Result<Option<f64>, Refused> {
            Ok(Some(0.375))
        }
        fn value(&self, _: &'static str) -> Result<Option<Wide>, Refused> {
            Ok(Some(Wide::Int(3)))
        }
        fn count(&self, _: &'static str) -> Result<Option<usize>, Refused> {
            Ok(Some(3))
        }
        fn axis(&self, _: &'static str) -> Result<Option<isize>, Refused> {
            Ok(Some(-2))
        }
        fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Refused> {
            // All options differ.
            let two = [name.len(), name.len() + 1];
            Ok(Some(two[usize::from(self.entry.name.ends_with("1d"))..].to_vec()))
        }
        fn axes(&self, _: &'static str) -> Result<Option<Axes>, Refused> {
            Ok(Some(Axes::from([1, -1])))
        }
        fn flag(&self, _: &'static str) -> Result<Option<bool>, Refused> {
            Ok(Some(true))
        }
        fn window(&self, _: &'static str) -> Result<Option<Window>, Refused> {
            Ok(Some((Some(5), None)))
        }
        fn dtype(&self, _: &'static str) -> Result<Option<DType>, Refused> {
            Ok(None)
        }
        fn word(&self, _: &'static str, known: &[&'static str]) -> Result<Option<usize>, Refused> {
            Ok(Some(known.len() - 1))
        }
    }

    /// An op as text, its options, and its operands in their types or `dtype`.
    struct Describe(DType);
    impl Visit<Reference> for Describe {
        type Answer = (String, Params, Option<DType>);
        fn visit<O: Op>(self, op: O) -> Self::Answer
        where
            Reference: Execute<O>,
        {
            let types = O::SLOTS.iter().map(|slot| slot.dtype.unwrap_or(self.0)).collect();
            let on = Typed { slots: O::SLOTS, types, layout: ops_core::Layout::of(Shape::new(&[]).unwrap()) };
            let runs_in = registry::runs_in(op.name(), O::SLOTS, &on);
            (format!("{op:?}"), Params::of(&op.options()), runs_in)
        }
    }
    struct Typed {
        slots: &'static [OperandSlot],
        types: Vec<DType>,
        layout: ops_core::Layout,
    }
    impl Operands for Typed {
        fn count(&self) -> usize {
            self.slots.len()
        }
        fn operand(&self, index: usize) -> Option<Operand<'_>> {
            let OperandSlot { name, role, .. } = *self.slots.get(index)?;
            Some(Operand { name, role, dtype: self.types[index], layout: &self.layout, packing: None })
        }
    }

    #[test]
    fn every_op_is_made_again_from_what_it_says_about_itself() {
        for entry in registry::entries() {
            for dtype in entry.runs_in.members().iter().copied() {
                let name = entry.name;
                let unusual = Unusual { entry, dtype };
                let made = registry::by_name(name, dtype, &unusual, Describe(dtype)).unwrap();
                let (text, params, runs_in) = made;
                assert_eq!(runs_in, Some(dtype), "{name}");
                let slots = entry.slots(dtype).iter();
                let types = slots.map(|slot| (slot.name, unusual.operand(slot.name).unwrap()));
                let options = CallOptions::new(name, &params, types);
                let (again, ..) = registry::by_name(name, dtype, &options, Describe(dtype)).unwrap();
                assert_eq!(again, text, "{name}: `Op::options` does not list every option");
                options.check_known(entry.slots(dtype)).unwrap();
            }
        }
    }

    #[test]
    fn a_lookup_in_a_table_of_floats_is_told_from_one_in_a_tensor() {
        let params = Params::default();
        let made = |first| {
            let types = [(first, DType::F16), ("ids", DType::U32), ("y", DType::F32)];
            let options = CallOptions::new("index_select", &params, types);
            registry::by_name("index_select", DType::F32, &options, Describe(DType::F32)).unwrap().0
        };
        assert!(made("table").starts_with("Embedding") && made("x").starts_with("IndexSelect"));
    }

    #[test]
    fn numbers_that_json_lacks_are_words() {
        let params = Params::of(&[("scale", f64::NEG_INFINITY.into()), ("eps", f64::NAN.into())]);
        assert_eq!(params.number("scale").unwrap(), Some(f64::NEG_INFINITY));
        assert!(params.number("eps").unwrap().unwrap().is_nan());
    }
}
