//! Putting a case together, and naming it.
use super::data::{Draw, Random, draw};
use super::place::How;
use crate::{Array, Case, Operand, Params};
use ops_core::{DType, Role};
use serde_json::Value;

/// A case under construction: operands are drawn and placed as they are named.
pub(crate) struct Draft {
    pub(crate) case: Case,
    words: Vec<String>,
    random: Random,
}

impl Draft {
    pub(crate) fn new(op: &str, dtype: DType) -> Self {
        let case = Case { op: op.into(), dtype, params: Params::default(), operands: Vec::new() };
        Draft { case, words: vec![format!("dtype={dtype}")], random: Random::of(op) }
    }

    /// Other numbers than those of the same op and shape without it.
    pub(crate) fn seed(mut self, seed: usize) -> Self {
        self.words.push(format!("seed={seed}"));
        self.random = Random::of(&format!("{} {seed}", self.case.op));
        self
    }

    /// An option.
    pub(crate) fn param(mut self, name: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.words.push(format!("{name}={value}"));
        self.case.params.0.insert(name.into(), value);
        self
    }

    /// A word in the name of what is special about the case.
    pub(crate) fn note(mut self, word: &str) -> Self {
        self.words.push(word.into());
        self
    }

    /// An input of the case's type, drawn.
    pub(crate) fn read(self, name: &str, dims: &[usize], how: How, numbers: Draw) -> Self {
        let dtype = self.case.dtype;
        self.read_as(name, dtype, dims, how, numbers)
    }

    /// An input of any scalar type, drawn.
    pub(crate) fn read_as(
        mut self,
        name: &str,
        dtype: DType,
        dims: &[usize],
        how: How,
        numbers: Draw,
    ) -> Self {
        // Every operand its own numbers, and another seed for other shapes.
        let seed = self.random.next() ^ Random::of(&format!("{name}{dims:?}")).next();
        let values = draw(&mut Random::of(&seed.to_string()), dtype, dims.iter().product(), numbers);
        self.given(name, &values, dims, how)
    }

    /// An input with these values, in row-major order.
    pub(crate) fn given(mut self, name: &str, values: &Array, dims: &[usize], how: How) -> Self {
        let (array, layout) = how.input(values, dims);
        self.push(name, Role::In, array, layout, how);
        self
    }

    /// An output of the case's type.
    pub(crate) fn write(self, name: &str, dims: &[usize], how: How) -> Self {
        let dtype = self.case.dtype;
        self.write_as(name, dtype, dims, how)
    }

    /// An output of any type.
    pub(crate) fn write_as(mut self, name: &str, dtype: DType, dims: &[usize], how: How) -> Self {
        let (array, layout) = how.output(dtype, dims);
        self.push(name, Role::Out, array, layout, how);
        self
    }

    /// An operand that is read and written.
    pub(crate) fn inout(mut self, name: &str, values: &Array, dims: &[usize], how: How) -> Self {
        let (array, layout) = how.inout(values, dims);
        self.push(name, Role::InOut, array, layout, how);
        self
    }

    fn push(&mut self, name: &str, role: Role, array: Array, layout: ops_core::Layout, how: How) {
        let dtype = array.dtype();
        let dims: Vec<String> = layout.dims().iter().map(usize::to_string).collect();
        let dtype_word = if dtype == self.case.dtype { String::new() } else { format!(" {dtype}") };
        // Outputs say nothing new unless they are special.
        if role != Role::Out || how != How::Plain || dtype != self.case.dtype {
            self.words.push(format!("{name}=[{}]{dtype_word}{}", dims.join(","), how.word()));
        }
        self.case.operands.push(Operand { name: name.into(), role, array, layout });
    }

    /// The name: the op, and everything that sets the case apart.
    pub(crate) fn name(&self) -> String {
        format!("{}({})", self.case.op, self.words.join(", "))
    }
}
