//! Builds and names cases.
use super::data::{Distribution, Random, drawn};
use super::placement::Placement;
use crate::{Array, Case, Operand, Params};
use ops_core::{DType, Role};
use serde_json::Value;

/// A case under construction. Its operands are drawn and placed only when [`case`](Self::case) is called, because most runs
/// of the suite skip most cases.
pub(crate) struct CaseBuilder {
    case: Case,
    /// Operands that follow those in `case`.
    planned: Vec<Planned>,
    words: Vec<String>,
    random: Random,
}

/// An operand that is not drawn yet.
struct Planned {
    name: String,
    role: Role,
    dtype: DType,
    dims: Vec<usize>,
    how: Placement,
    values: Values,
}

enum Values {
    Drawn { seed: u64, numbers: Distribution },
    Given(Array),
    Unwritten,
}

impl Planned {
    fn operand(self) -> Operand {
        let Planned { name, role, dtype, dims, how, values } = self;
        let (array, layout) = match values {
            Values::Drawn { seed, numbers } => {
                how.input(&drawn(seed, dtype, dims.iter().product(), numbers), &dims)
            }
            Values::Given(values) if role == Role::In => how.input(&values, &dims),
            Values::Given(values) => how.inout(&values, &dims),
            Values::Unwritten => how.output(dtype, &dims),
        };
        Operand { name, role, array, layout }
    }
}

impl CaseBuilder {
    pub(crate) fn new(op: &str, dtype: DType) -> Self {
        let case = Case { op: op.into(), dtype, params: Params::default(), operands: Vec::new() };
        let (planned, words) = (Vec::new(), vec![format!("dtype={dtype}")]);
        CaseBuilder { case, planned, words, random: Random::of(op) }
    }

    /// The op.
    pub(crate) fn op(&self) -> &str {
        &self.case.op
    }

    /// The type that the op runs in.
    pub(crate) fn dtype(&self) -> DType {
        self.case.dtype
    }

    /// The case, with all operands that were added.
    pub(crate) fn case(&mut self) -> &mut Case {
        self.case.operands.extend(self.planned.drain(..).map(Planned::operand));
        &mut self.case
    }

    /// Selects different numbers for the same op and shape.
    pub(crate) fn seed(mut self, seed: usize) -> Self {
        self.words.push(format!("seed={seed}"));
        self.random = Random::of(&format!("{} {seed}", self.case.op));
        self
    }

    /// Sets an option.
    pub(crate) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.words.push(format!("{name}={value}"));
        self.case.params.0.insert(name.into(), value);
        self
    }

    /// Adds a note to the case's name that says what is special about it.
    pub(crate) fn note(mut self, word: &str) -> Self {
        self.words.push(word.into());
        self
    }

    /// Adds an input of the case's type with random numbers.
    pub(crate) fn read(self, name: &str, dims: &[usize], how: Placement, numbers: Distribution) -> Self {
        let dtype = self.case.dtype;
        self.read_as(name, dtype, dims, how, numbers)
    }

    /// Adds an input of any scalar type with random numbers.
    pub(crate) fn read_as(
        mut self,
        name: &str,
        dtype: DType,
        dims: &[usize],
        how: Placement,
        numbers: Distribution,
    ) -> Self {
        // Every operand has its own numbers, and other shapes have another seed.
        let seed = self.random.next() ^ Random::of(&format!("{name}{dims:?}")).next();
        self.plan(name, Role::In, dtype, dims, how, Values::Drawn { seed, numbers })
    }

    /// Adds an input with these values, in row-major order.
    pub(crate) fn given(self, name: &str, values: &Array, dims: &[usize], how: Placement) -> Self {
        self.plan(name, Role::In, values.dtype(), dims, how, Values::Given(values.clone()))
    }

    /// Adds an output of the case's type.
    pub(crate) fn write(self, name: &str, dims: &[usize], how: Placement) -> Self {
        let dtype = self.case.dtype;
        self.write_as(name, dtype, dims, how)
    }

    /// Adds an output of any type.
    pub(crate) fn write_as(self, name: &str, dtype: DType, dims: &[usize], how: Placement) -> Self {
        self.plan(name, Role::Out, dtype, dims, how, Values::Unwritten)
    }

    /// Adds an operand that is read and written.
    pub(crate) fn inout(self, name: &str, values: &Array, dims: &[usize], how: Placement) -> Self {
        self.plan(name, Role::InOut, values.dtype(), dims, how, Values::Given(values.clone()))
    }

    fn plan(
        mut self,
        name: &str,
        role: Role,
        dtype: DType,
        dims: &[usize],
        how: Placement,
        values: Values,
    ) -> Self {
        let extents: Vec<String> = dims.iter().map(usize::to_string).collect();
        let dtype_word = if dtype == self.case.dtype { String::new() } else { format!(" {dtype}") };
        // Outputs appear in the name only if they are special.
        if role != Role::Out || how != Placement::Plain || dtype != self.case.dtype {
            self.words.push(format!("{name}=[{}]{dtype_word}{}", extents.join(","), how.word()));
        }
        self.planned.push(Planned { name: name.into(), role, dtype, dims: dims.to_vec(), how, values });
        self
    }

    /// The case's name: the op and everything that distinguishes the case.
    pub(crate) fn name(&self) -> String {
        format!("{}({})", self.case.op, self.words.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::NORMAL;
    use super::*;

    #[test]
    fn operands_are_drawn_once_and_only_for_a_case_that_runs() {
        let mut draft = CaseBuilder::new("add", DType::F32).read("x", &[3], Placement::Plain, NORMAL).write(
            "y",
            &[3],
            Placement::Plain,
        );
        assert_eq!(draft.name(), "add(dtype=f32, x=[3])");
        assert!(draft.case.operands.is_empty());
        assert_eq!(draft.case().operands.len(), 2);
        assert_eq!(draft.case().operands.len(), 2);
    }
}
