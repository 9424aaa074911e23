//! What every op takes and returns, as data: from the registry alone, so that nothing has to be kept in step with it.
use crate::options::Fault;
use rocm_ops::backend::{OperandSlot, Role};
use rocm_ops::ops::Axes;
use rocm_ops::ops::registry::{self, Entry, Group, OptionValue, Options, Refused, Visit, Window};
use rocm_ops::{DType, EitherHost, Wide};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The element types that an operand may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The type that the op runs in.
    Runs,
    /// This type.
    Fixed(DType),
    /// A type of the group.
    Group(Group),
    /// A block format.
    Blocks,
    /// Any type that the op's rule accepts.
    Any,
}

/// An operand.
#[derive(Clone, Copy, Debug)]
pub struct OperandAbout {
    /// Its declaration. Its element type is one of several if `kind` says so.
    pub slot: &'static OperandSlot,
    /// The element types that it may have.
    pub kind: Kind,
}

/// An option.
#[derive(Clone, Debug, PartialEq)]
pub struct OptionAbout {
    /// Its name.
    pub name: &'static str,
    /// What it is: the name of the function of [`Options`] that reads it.
    pub kind: &'static str,
    /// The words that it may be, if it is a word.
    pub words: Vec<&'static str>,
    /// Whether a call must give it.
    pub needed: bool,
    /// The value if it is not given, unless the op then has none.
    pub default: Option<OptionValue>,
}

/// An op under one of its names.
#[derive(Debug)]
pub struct About {
    /// The registry's entry.
    pub entry: &'static Entry,
    /// The operands, in order of declaration.
    pub operands: Vec<OperandAbout>,
    /// The options, in the order in which the op reads them.
    pub options: Vec<OptionAbout>,
    /// Whether operands of different extents are broadcast together.
    pub broadcasts: bool,
    /// The option that names the element type of the outputs if the operands leave it open: its name, and its default.
    pub output_type: Option<(&'static str, Option<DType>)>,
}

/// Every name of every op.
pub static OPS: LazyLock<Vec<About>> = LazyLock::new(|| registry::entries().iter().map(about).collect());

/// The op of this name.
pub fn find(name: &str) -> Option<&'static About> {
    static BY_NAME: LazyLock<HashMap<&'static str, usize>> =
        LazyLock::new(|| OPS.iter().enumerate().map(|(at, about)| (about.entry.name, at)).collect());
    BY_NAME.get(name).map(|at| &OPS[*at])
}

fn about(entry: &'static Entry) -> About {
    let operands = operands(entry);
    let reads = || operands.iter().filter(|operand| operand.slot.role != Role::Out);
    let names: Vec<_> = reads().map(|operand| operand.slot.name).collect();
    let elementwise = reads().count() > 1 && reads().all(|operand| operand.slot.extents == Some(".."));
    let runs = reads().any(|operand| operand.kind == Kind::Runs);
    let output_type = match entry.name {
        "cast" | "quantize" => Some(("to", None)),
        _ if runs || !matches!(entry.runs_in, Group::Floats | Group::Integers | Group::Numbers) => None,
        _ => Some(("dtype", Some(DType::F32))),
    };
    let mut options = options(entry, &operands);
    options.retain(|option| Some(option.name) != output_type.map(|(name, _)| name));
    About {
        entry,
        broadcasts: elementwise || names == ["cond", "on_true", "on_false"],
        operands,
        options,
        output_type,
    }
}

/// An operand has the type that the op runs in if its declared type changes with it.
fn operands(entry: &Entry) -> Vec<OperandAbout> {
    let types = entry.runs_in.members();
    let (first, last) = (types[0], types[types.len() - 1]);
    let kind = |slot: &'static OperandSlot, other: &OperandSlot| match (slot.dtype, other.dtype, slot.types) {
        _ if entry.blocks == Some(slot.name) => Kind::Blocks,
        (Some(one), Some(two), _) if one == two => Kind::Fixed(one),
        (Some(_), ..) if entry.name != "cast" => Kind::Runs,
        (.., Some(group)) => Kind::Group(group),
        _ => Kind::Any,
    };
    let pairs = entry.slots(first).iter().zip(entry.slots(last));
    pairs.map(|(slot, other)| OperandAbout { slot, kind: kind(slot, other) }).collect()
}

/// Makes the op without options, and again with those that it says are missing, until it is made.
fn options(entry: &'static Entry, operands: &[OperandAbout]) -> Vec<OptionAbout> {
    let mut needed = Vec::new();
    loop {
        let probe = Probe { entry, operands, needed: &needed, seen: RefCell::default() };
        let dtype = probe.runs_in();
        match registry::by_name::<EitherHost, _, _>(entry.name, dtype, &probe, Defaults) {
            Ok(defaults) => return with_defaults(probe.seen.into_inner(), &defaults),
            Err(Unmade(Refused::Missing(name))) if !needed.contains(&name) => needed.push(name),
            // The registry's own test makes every op, so this is a fault of the probe; such an op shows no options.
            Err(_) => return probe.seen.into_inner(),
        }
    }
}

fn with_defaults(mut seen: Vec<OptionAbout>, defaults: &[(&'static str, OptionValue)]) -> Vec<OptionAbout> {
    for option in seen.iter_mut().filter(|option| !option.needed) {
        option.default =
            defaults.iter().find(|(name, _)| *name == option.name).map(|(_, value)| value.clone());
    }
    seen
}

struct Defaults;

impl Visit<EitherHost> for Defaults {
    type Answer = Vec<(&'static str, OptionValue)>;
    fn visit<O: rocm_ops::backend::Op>(self, op: O) -> Self::Answer
    where
        EitherHost: rocm_ops::backend::Execute<O>,
    {
        op.options()
    }
}

struct Unmade(Refused);
impl From<Refused> for Unmade {
    fn from(refused: Refused) -> Self {
        Unmade(refused)
    }
}

/// Options that notes what is read, and gives values only to those without which the op is not made.
struct Probe<'p> {
    entry: &'static Entry,
    operands: &'p [OperandAbout],
    needed: &'p [&'static str],
    seen: RefCell<Vec<OptionAbout>>,
}

impl Probe<'_> {
    fn runs_in(&self) -> DType {
        match self.entry.name {
            "dequantize" | "quantize" => DType::F32,
            _ => self.entry.runs_in.members()[0],
        }
    }
    /// Notes an option; whether it has to be given.
    fn note(&self, name: &'static str, kind: &'static str, words: &[&'static str]) -> bool {
        let needed = self.needed.contains(&name);
        let mut seen = self.seen.borrow_mut();
        if seen.iter().all(|known| known.name != name) {
            seen.push(OptionAbout { name, kind, words: words.to_vec(), needed, default: None });
        }
        needed
    }
}

impl Options for Probe<'_> {
    type Error = Unmade;
    fn operand(&self, name: &'static str) -> Result<DType, Unmade> {
        let operand = self.operands.iter().find(|operand| operand.slot.name == name);
        let runs_in = self.runs_in();
        match operand.map(|operand| operand.kind) {
            Some(Kind::Blocks) => Ok(Group::Blocks.members()[0]),
            Some(Kind::Fixed(dtype)) => Ok(dtype),
            Some(_) => Ok(runs_in),
            None => Err(Unmade(Refused::Missing(name))),
        }
    }
    fn number(&self, name: &'static str) -> Result<Option<f64>, Unmade> {
        Ok(self.note(name, "number", &[]).then_some(1.0))
    }
    fn value(&self, name: &'static str) -> Result<Option<Wide>, Unmade> {
        Ok(self.note(name, "value", &[]).then_some(Wide::Int(1)))
    }
    fn count(&self, name: &'static str) -> Result<Option<usize>, Unmade> {
        Ok(self.note(name, "count", &[]).then_some(1))
    }
    fn axis(&self, name: &'static str) -> Result<Option<isize>, Unmade> {
        Ok(self.note(name, "axis", &[]).then_some(0))
    }
    fn counts(&self, name: &'static str) -> Result<Option<Vec<usize>>, Unmade> {
        let axes = if self.entry.name.ends_with("1d") { 1 } else { 2 };
        Ok(self.note(name, "counts", &[]).then(|| vec![1; axes]))
    }
    fn axes(&self, name: &'static str) -> Result<Option<Axes>, Unmade> {
        Ok(self.note(name, "axes", &[]).then_some(Axes::ALL))
    }
    fn flag(&self, name: &'static str) -> Result<Option<bool>, Unmade> {
        Ok(self.note(name, "flag", &[]).then_some(false))
    }
    fn window(&self, name: &'static str) -> Result<Option<Window>, Unmade> {
        Ok(self.note(name, "window", &[]).then_some((None, None)))
    }
    fn dtype(&self, name: &'static str) -> Result<Option<DType>, Unmade> {
        self.note(name, "dtype", &[]);
        Ok(Some(self.runs_in()))
    }
    fn word(&self, name: &'static str, known: &[&'static str]) -> Result<Option<usize>, Unmade> {
        Ok(self.note(name, "word", known).then_some(0))
    }
}

/// Whether a name is that of an op, as an error otherwise.
pub(crate) fn known(name: &str) -> Result<&'static About, Fault> {
    find(name).ok_or_else(|| Refused::Name(name.to_owned()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Makes;
    use crate::options::{Given, Value};

    fn value(option: &OptionAbout, about: &About) -> Value {
        match option.kind {
            "number" | "value" => Value::Float(1.0),
            "count" => Value::Int(1),
            "counts" if about.entry.name.ends_with("1d") => Value::Int(1),
            "counts" => Value::Ints(vec![Some(1), Some(1)]),
            "axis" | "axes" => Value::Int(0),
            "flag" => Value::Flag(false),
            "window" => Value::Ints(vec![None, None]),
            "word" => Value::Text(option.words[0].to_owned()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_op_is_made_from_what_is_said_about_it_and_reads_nothing_else() {
        assert_eq!(OPS.len(), registry::entries().len());
        for about in OPS.iter() {
            let runs_in = if about.entry.runs_in == Group::Single {
                DType::F32
            } else {
                about.entry.runs_in.members()[0]
            };
            let of = |operand: &OperandAbout| match operand.kind {
                Kind::Blocks => Group::Blocks.members()[0],
                Kind::Fixed(dtype) => dtype,
                _ => runs_in,
            };
            let types: Vec<_> =
                about.operands.iter().map(|operand| (operand.slot.name, of(operand))).collect();
            let given = |needed: bool| -> Vec<(String, Value)> {
                let wanted = about.options.iter().filter(|option| option.needed || !needed);
                wanted.map(|option| (option.name.to_owned(), value(option, about))).collect()
            };
            for values in [given(true), given(false)] {
                let options = Given::new(about.entry.name, &values, &types);
                let op = EitherHost::make(about.entry.name, runs_in, &options);
                assert!(op.is_ok(), "{}: {}", about.entry.name, op.err().unwrap());
                options.check_read().unwrap();
            }
        }
    }

    #[test]
    fn defaults_are_those_of_the_ops() {
        let softmax = find("softmax").unwrap();
        let axis = softmax.options.iter().find(|option| option.name == "axis").unwrap();
        assert_eq!((axis.needed, &axis.default), (false, &Some(OptionValue::Axis(-1))));
        let eps = &find("rms_norm").unwrap().options[0];
        assert_eq!((eps.name, eps.needed), ("eps", true));
        assert!(find("add").unwrap().broadcasts && find("where").unwrap().broadcasts);
        assert!(!find("matmul").unwrap().broadcasts);
    }
}
