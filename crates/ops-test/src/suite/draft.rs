//! Builds and names cases.
use super::data::{Distribution, Random, draw};
use super::placement::Placement;
use crate::{Array, Case, Operand, Params};
use ops_core::{DType, Role};
use serde_json::Value;

/// A case under construction: operands are drawn and placed as they are added.
pub(crate) struct CaseBuilder {
    pub(crate) case: Case,
    words: Vec<String>,
    random: Random,
}

impl CaseBuilder {
    pub(crate) fn new(op: &str, dtype: DType) -> Self {
        let case = Case { op: op.into(), dtype, params: Params::default(), operands: Vec::new() };
        CaseBuilder { case, words: vec![format!("dtype={dtype}")], random: Random::of(op) }
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
        let values = draw(&mut Random::of(&seed.to_string()), dtype, dims.iter().product(), numbers);
        self.given(name, &values, dims, how)
    }

    /// Adds an input with these values, in row-major order.
    pub(crate) fn given(mut self, name: &str, values: &Array, dims: &[usize], how: Placement) -> Self {
        let (array, layout) = how.input(values, dims);
        self.push(name, Role::In, array, layout, how);
        self
    }

    /// Adds an output of the case's type.
    pub(crate) fn write(self, name: &str, dims: &[usize], how: Placement) -> Self {
        let dtype = self.case.dtype;
        self.write_as(name, dtype, dims, how)
    }

    /// Adds an output of any type.
    pub(crate) fn write_as(mut self, name: &str, dtype: DType, dims: &[usize], how: Placement) -> Self {
        let (array, layout) = how.output(dtype, dims);
        self.push(name, Role::Out, array, layout, how);
        self
    }

    /// Adds an operand that is read and written.
    pub(crate) fn inout(mut self, name: &str, values: &Array, dims: &[usize], how: Placement) -> Self {
        let (array, layout) = how.inout(values, dims);
        self.push(name, Role::InOut, array, layout, how);
        self
    }

    fn push(&mut self, name: &str, role: Role, array: Array, layout: ops_core::Layout, how: Placement) {
        let dtype = array.dtype();
        let dims: Vec<String> = layout.dims().iter().map(usize::to_string).collect();
        let dtype_word = if dtype == self.case.dtype { String::new() } else { format!(" {dtype}") };
        // Outputs appear in the name only if they are special.
        if role != Role::Out || how != Placement::Plain || dtype != self.case.dtype {
            self.words.push(format!("{name}=[{}]{dtype_word}{}", dims.join(","), how.word()));
        }
        self.case.operands.push(Operand { name: name.into(), role, array, layout });
    }

    /// The case's name: the op and everything that distinguishes the case.
    pub(crate) fn name(&self) -> String {
        format!("{}({})", self.case.op, self.words.join(", "))
    }
}
