//! An op with types and shapes as values, from a command line or a benchmark.
use super::{Entry, Group, find, types};
use crate::exit::Failure;
use ops_core::DType;
use ops_core::ops::registry;
use std::collections::BTreeMap;

/// The element types of a problem.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Types {
    /// The element type that the op runs in.
    pub(crate) runs_in: DType,
    /// The types of operands that were given one, by name.
    given: Vec<(&'static str, DType)>,
}

/// A problem without a backend.
pub(crate) struct Spec {
    pub(crate) entry: &'static Entry,
    pub(crate) types: Types,
    /// The shapes of all inputs.
    pub(crate) shapes: Vec<(&'static str, Vec<usize>)>,
    /// Whether attention is causal.
    pub(crate) causal: bool,
}

/// Splits `OPERAND=VALUE`; a bare value has no operand.
fn split_operand(text: &str) -> (Option<&str>, &str) {
    text.split_once('=').map_or((None, text), |(name, value)| (Some(name.trim()), value.trim()))
}

impl Types {
    /// The types of an op that runs in `dtype`. A block format sets the type of the operand that consists of
    /// blocks.
    ///
    /// # Errors
    /// The op is not available in that type.
    pub(crate) fn of(entry: &Entry, dtype: DType) -> Result<Self, Failure> {
        if let (DType::Block(_), Some(block)) = (dtype, entry.block_operand()) {
            let members = entry.runs_in.members();
            let runs_in = members.iter().copied().find(|d| *d == DType::F32).unwrap_or(members[0]);
            return Ok(Types { runs_in, given: vec![(block.name, dtype)] });
        }
        if entry.runs_in.members().contains(&dtype) {
            return Ok(Types { runs_in: dtype, given: Vec::new() });
        }
        let offered = types::names(&entry.dtypes());
        Err(Failure::Usage(format!(
            "{} is not available in {dtype}; it is available in {offered}",
            entry.name
        )))
    }

    /// The types of a call of an op that runs in `dtype`, with operands of these types.
    pub(crate) fn of_call<'o>(
        entry: &Entry,
        runs_in: DType,
        operands: impl Iterator<Item = (&'o str, DType)>,
    ) -> Self {
        let typed = |name: &str| entry.typed.iter().find(|o| o.name == name);
        let given = operands.filter_map(|(name, dtype)| Some((typed(name)?.name, dtype))).collect();
        Types { runs_in, given }
    }

    /// Parses `--dtype` values: `f32` for the op, `weight=f16` for an operand.
    ///
    /// # Errors
    /// An unknown name, or a type that is not available.
    pub(crate) fn parse(entry: &Entry, texts: &[String]) -> Result<Self, Failure> {
        let parsed = texts.iter().flat_map(|t| t.split(',')).map(|text| {
            let (operand, name) = split_operand(text);
            Ok((operand, parse_dtype(name)?))
        });
        let (bare, given): (Vec<_>, Vec<_>) = parsed
            .collect::<Result<Vec<_>, Failure>>()?
            .into_iter()
            .partition(|(operand, _)| operand.is_none());
        let mut types = match bare[..] {
            [(_, dtype)] => Types::of(entry, dtype)?,
            [] => return Err(Failure::Usage(format!("{} requires --dtype: {}", entry.name, offered(entry)))),
            _ => return Err(Failure::Usage("--dtype without OPERAND= may be given once".into())),
        };
        for (operand, dtype) in given {
            types.set(entry, operand.unwrap_or_default(), dtype)?;
        }
        Ok(types)
    }

    fn set(&mut self, entry: &Entry, operand: &str, dtype: DType) -> Result<(), Failure> {
        let Some(other) = entry.typed.iter().find(|o| o.name == operand) else {
            let names: Vec<_> = entry.typed.iter().map(|o| o.name).collect();
            let known = if names.is_empty() {
                "none has".into()
            } else {
                format!("these have: {}", names.join(", "))
            };
            let op = entry.name;
            return Err(Failure::Usage(format!("{op}: the type of `{operand}` cannot be set; {known}")));
        };
        if !other.group.members().contains(&dtype) {
            let (op, offered) = (entry.name, types::names(other.group.members()));
            return Err(Failure::Usage(format!("{op}: {operand} may not be {dtype}; it may be {offered}")));
        }
        self.given.retain(|(name, _)| *name != other.name);
        self.given.push((other.name, dtype));
        Ok(())
    }

    /// The type of an operand.
    pub(crate) fn get(&self, entry: &Entry, operand: &str) -> DType {
        let named = |name| entry.typed.iter().any(|o| o.name == name);
        // `sin` has the type of `cos`, `lengths` that of `block_table`, and `bias` that of `weight`, unless the op lists them
        // separately.
        let operand = match operand {
            "sin" if named("cos") => "cos",
            "lengths" if named("block_table") => "block_table",
            "bias" if named("weight") && !named("bias") => "weight",
            operand => operand,
        };
        let given = self.given.iter().find(|(name, _)| *name == operand).map(|(_, dtype)| *dtype);
        let default = || match entry.typed.iter().find(|o| o.name == operand)?.default {
            // Casting to the same type would be a copy.
            Some(to) if entry.name == "cast" && to == self.runs_in => Some(DType::F16),
            default => default,
        };
        // An index that the op writes.
        let slots = entry.op.slots(self.runs_in);
        let fixed = || slots.iter().find(|slot| slot.name == operand)?.dtype;
        given.or_else(default).or_else(fixed).unwrap_or(self.runs_in)
    }

    /// The types in the notation of `--dtype`: the type the op runs in, then operands with other types.
    pub(crate) fn notation(&self, entry: &Entry) -> String {
        let others = entry.typed.iter().filter(|o| {
            let indices = o.group == Group::Indices;
            let dtype = self.get(entry, o.name);
            if indices { Some(dtype) != o.default } else { dtype != self.runs_in }
        });
        let others = others.map(|o| format!(",{}={}", o.name, self.get(entry, o.name)));
        format!("{}{}", self.runs_in, others.collect::<String>())
    }
}

impl Spec {
    /// A problem with these types and the shapes of some operands, from which the others follow.
    ///
    /// # Errors
    /// A shape has the wrong number of axes, or does not follow from those given.
    pub(crate) fn new(
        entry: &'static Entry,
        types: Types,
        given: &BTreeMap<String, Vec<usize>>,
    ) -> Result<Self, Failure> {
        let block = entry.block_operand().map_or(1, |o| types.get(entry, o.name).values());
        let shapes = entry.contract.shapes(given, block);
        let shapes = shapes.map_err(|why| {
            let (op, contract) = (entry.name, entry.contract.text());
            Failure::Usage(format!("{op}: {why}; its operands are {contract}"))
        })?;
        Ok(Spec { entry, types, shapes, causal: false })
    }

    /// Parses `--shape` values: `8,4096` for the first operand, `weight=4096` for another.
    ///
    /// # Errors
    /// A shape cannot be parsed, the op has no such operand, or as for [`Spec::new`].
    pub(crate) fn parse(entry: &'static Entry, types: Types, shapes: &[String]) -> Result<Self, Failure> {
        Spec::new(entry, types, &Spec::given(entry, shapes)?)
    }

    /// Shapes by operand, from the texts of `--shape`.
    ///
    /// # Errors
    /// None is given, one is given twice, or the op does not read such an operand.
    pub(crate) fn given(entry: &Entry, shapes: &[String]) -> Result<BTreeMap<String, Vec<usize>>, Failure> {
        let mut given = BTreeMap::new();
        for text in shapes {
            let (operand, dims) = split_operand(text);
            let operand = operand.unwrap_or(entry.first());
            if !entry.contract.inputs().any(|o| o.name == operand) {
                let (op, contract) = (entry.name, entry.contract.text());
                return Err(Failure::Usage(format!(
                    "{op} reads no operand `{operand}`; its operands are {contract}"
                )));
            }
            if given.insert(operand.to_owned(), parse_dims(dims)?).is_some() {
                return Err(Failure::Usage(format!("--shape of {operand} is given twice")));
            }
        }
        if given.is_empty() {
            let (op, contract) = (entry.name, entry.contract.text());
            let first = entry.first();
            return Err(Failure::Usage(format!(
                "{op} requires --shape, the extents of {first}; its operands are {contract}"
            )));
        }
        Ok(given)
    }

    /// The shape of an input.
    pub(crate) fn shape(&self, operand: &str) -> Option<&[usize]> {
        self.shapes.iter().find(|(name, _)| *name == operand).map(|(_, dims)| &dims[..])
    }
}

/// The op of this name.
///
/// # Errors
/// There is none; the message lists the valid names.
pub(crate) fn find_op(name: &str) -> Result<&'static Entry, Failure> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = super::entries().iter().map(|e| e.name).collect();
        Failure::Usage(format!("`{name}` is not an op of this build; known: {}", names.join(", ")))
    })
}

/// The element type of this name.
///
/// # Errors
/// There is none; the message lists the valid names.
pub(crate) fn parse_dtype(name: &str) -> Result<DType, Failure> {
    registry::dtype(name).ok_or_else(|| {
        let known = types::names(&types::columns().collect::<Vec<_>>());
        Failure::Usage(format!("`{name}` is not an element type; known: {known}"))
    })
}

fn offered(entry: &Entry) -> String {
    types::names(&entry.dtypes())
}

/// Extents in the notation of `--shape`.
pub(crate) fn notation(dims: &[usize]) -> String {
    dims.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Parses extents: `8,4096` or `8x4096`. The empty text is a scalar.
fn parse_dims(text: &str) -> Result<Vec<usize>, Failure> {
    let text = text.trim().trim_start_matches('[').trim_end_matches(']');
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let dims = text.split([',', 'x']).map(|d| d.trim().parse::<usize>());
    dims.collect::<Result<_, _>>().map_err(|_| {
        Failure::Usage(format!("`{text}` is not a shape: write extents with commas, such as 8,4096"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(op: &str, texts: &[&str]) -> Result<Types, Failure> {
        Types::parse(find_op(op).unwrap(), &texts.iter().map(|t| t.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn types_come_bare_and_by_operand() {
        let linear = find_op("linear").unwrap();
        let t = types("linear", &["f32", "weight=f16"]).unwrap();
        assert_eq!((t.get(linear, "weight"), t.get(linear, "bias")), (DType::F16, DType::F32));
        assert_eq!(t.notation(linear), "f32,weight=f16");
        assert_eq!(types("linear", &["f32,weight=f16"]).unwrap(), t);
        assert_eq!(types("linear", &["bf16"]).unwrap().notation(linear), "bf16");
        assert!(types("linear", &["u8"]).is_err() && types("linear", &["f32", "x=f16"]).is_err());
        assert!(types("linear", &["f32", "f16"]).is_err() && types("linear", &[]).is_err());
    }

    #[test]
    fn a_block_format_is_that_of_the_operand_of_blocks() {
        let t = types("qlinear", &["q4_0"]).unwrap();
        assert_eq!(t.notation(find_op("qlinear").unwrap()), "f32,weight=q4_0");
        let t = types("qlinear", &["f16"]).unwrap();
        assert_eq!(t.notation(find_op("qlinear").unwrap()), "f16,weight=q8_0");
        assert_eq!(types("copy", &["q4_0"]).unwrap().runs_in, DType::Block(&ops_core::quant::Q4_0));
    }

    #[test]
    fn shapes_come_bare_and_by_operand() {
        let attention = find_op("attention").unwrap();
        let spec = |shapes: &[&str]| {
            let texts: Vec<_> = shapes.iter().map(|t| t.to_string()).collect();
            Spec::parse(attention, types("attention", &["f32"]).unwrap(), &texts)
        };
        let s = spec(&["1,32,1,128", "k=1,8,4096,128"]).unwrap();
        assert_eq!(s.shape("v"), Some(&[1, 8, 4096, 128][..]));
        assert_eq!(spec(&["1x32x5x128"]).unwrap().shape("k"), Some(&[1, 32, 5, 128][..]));
        for bad in [&["1,2,3"][..], &["1,2,3,x"], &["1,2,3,4", "w=1"], &["1,2,3,4", "q=1,2,3,4"], &[]] {
            assert!(spec(bad).is_err(), "{bad:?}");
        }
    }
}
